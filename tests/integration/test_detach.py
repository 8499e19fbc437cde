"""``heaptop detach``: an agent that a hanging heaptop left behind goes, by whichever backend it came."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from heaptop.errors import AgentLost, NoAgent, TransportFailed
from heaptop.injector.api import AttachOptions, attach_source, diagnose, remove_agent
from heaptop.injector.entry import hijack
from heaptop.injector.inspect.threads import agent_thread
from heaptop.protocol.source import Attached, Ended, Event, Source
from heaptop.recordings.recordable_source import RecordableSource
from tests.interpreters import MUSL, SAMPLE, Interpreter, since
from tests.support.attaching import attach_once, attached, is_whole, resting
from tests.support.processes import EXIT_CODE, PATIENCE, Facts, difference, eventually, running

HOLDER = """\
import sys, time
from heaptop.injector.api import AttachOptions, attach_source
source = attach_source(int(sys.argv[1]), AttachOptions(wait=60.0, backend=sys.argv[2]))
source.open(lambda event: print(event, flush=True))
time.sleep(600)
"""


@contextmanager
def stopped_heaptop(pid: int, backend: str, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A heaptop that is attached and then stopped, so that it neither answers nor closes anything."""
    said = folder / "holder"
    with said.open("wb") as output:
        holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(pid), backend], stdout=output, stderr=output)
    try:
        assert eventually(lambda: "Census(" in said.read_text() or holder.poll() is not None), said.read_text()
        holder.send_signal(signal.SIGSTOP)
        assert eventually(lambda: agent_thread(pid))
        yield holder
    finally:
        holder.kill()
        holder.wait(PATIENCE)


def check_removal(pid: int, backend: str, folder: Path) -> None:
    before = resting(pid)
    with stopped_heaptop(pid, backend, folder) as holder:
        said = remove_agent(pid)
        assert str(pid) in said
        assert agent_thread(pid) is None
        assert difference(before, Facts.of(pid)) == []
        assert holder.poll() is None
        attach_once(pid, census=True)
    with pytest.raises(NoAgent, match=str(pid)):
        remove_agent(pid)


@pytest.mark.sample(2, least=3)
@pytest.mark.pythons(*SAMPLE, *MUSL)
@pytest.mark.parametrize("name", ["sleeper", "busy"])
def test_the_agent_of_a_heaptop_that_is_stopped(interpreter: Interpreter, name: str, tmp_path: Path) -> None:
    with running(interpreter, name) as target:
        check_removal(target.pid, "ptrace", tmp_path)
        assert target.terminate() == EXIT_CODE
        assert target.said() == []
        assert target.stderr() == ""


@pytest.mark.pythons(*since("3.14"))
def test_an_agent_that_came_by_pep_768(interpreter: Interpreter, tmp_path: Path) -> None:
    with running(interpreter, "sleeper") as target:
        check_removal(target.pid, "pep768", tmp_path)
        assert target.terminate() == EXIT_CODE


@pytest.mark.pythons("3.13")
def test_the_session_says_that_its_agent_was_lost(interpreter: Interpreter) -> None:
    with running(interpreter, "sleeper") as target, attached(target.pid) as attachment:
        remove_agent(target.pid)
        error = attachment.error()
        assert isinstance(error, AgentLost)
        assert f"heaptop doctor {target.pid}" in error.fix
        assert diagnose(target.pid).attachable


@pytest.mark.pythons("3.8", "3.13")
def test_a_first_thread_that_is_gone(interpreter: Interpreter, tmp_path: Path) -> None:
    with running(interpreter, "leader_gone") as target:
        check_removal(target.pid, "ptrace", tmp_path)


def test_no_agent_in_this_process() -> None:
    with pytest.raises(NoAgent) as caught:
        remove_agent(os.getpid())
    assert str(os.getpid()) in caught.value.message


@pytest.mark.pythons("3.13")
def test_a_kernel_that_gives_no_copy_of_a_descriptor(interpreter: Interpreter, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*arguments: object) -> int:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    with running(interpreter, "sleeper") as target, attached(target.pid) as attachment:
        with monkeypatch.context() as patch:
            patch.setattr(hijack, "take_descriptor", missing)
            with pytest.raises(TransportFailed) as caught:
                remove_agent(target.pid)
        assert "Linux 5.6" in caught.value.why
        assert "Quit the heaptop" in caught.value.fix
        assert is_whole(attachment.census())


class Reader:
    """Keeps the events that it takes."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def take(self, event: Event) -> None:
        self.events.append(event)


@pytest.mark.pythons("3.12")
def test_who_took_the_events_of_a_session_is_kept_no_longer_than_it_goes_on(interpreter: Interpreter) -> None:
    """A source is in a reference cycle: all that was received would be."""
    with running(interpreter, "sleeper") as target:
        for is_recorded in (False, True):
            source: Source = attach_source(target.pid, AttachOptions())
            source = RecordableSource(source) if is_recorded else source
            reader = Reader()
            source.open(reader.take)
            events = reader.events
            assert eventually(lambda events=events: any(isinstance(event, Attached) for event in events))  # type: ignore[misc]
            source.close()
            assert isinstance(reader.events[-1], Ended)
            kept = weakref.ref(reader)
            del reader
            assert kept() is None
