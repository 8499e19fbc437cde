"""Processes that answer nothing, or too much, while heaptop waits: the command ends, and they go on as before."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from heaptop.cli.counting import take_census
from heaptop.cli.terminal import ProgressLine
from heaptop.errors import UnresponsiveTarget
from heaptop.injector.api import AttachOptions, attach_source
from heaptop.injector.inspect.threads import agent_thread
from heaptop.protocol.source import Attached, Behind, Deliver, Event, Source, never_behind
from heaptop.watching.snapshot_watch import SnapshotWatch
from tests.interpreters import Interpreter
from tests.support.attaching import resting
from tests.support.processes import EXIT_CODE, Facts, difference, eventually, running

TIMEOUT = 2.0


class Stopping:
    """A source whose process is stopped as soon as the agent answers: before it has counted anything."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def __getattr__(self, name: str) -> object:
        return getattr(self._source, name)

    def open(self, deliver: Deliver, behind: Behind = never_behind) -> None:
        def watched(event: Event) -> None:
            if isinstance(event, Attached):
                os.kill(event.target.pid, signal.SIGSTOP)
            deliver(event)

        self._source.open(watched, behind)


@pytest.mark.pythons("3.8", "3.12")
def test_a_process_that_is_stopped_after_the_attach_ends_the_census(interpreter: Interpreter) -> None:
    with running(interpreter, "sleeper") as target:
        before = Facts.of(target.pid)
        source = Stopping(attach_source(target.pid, AttachOptions()))
        with pytest.raises(UnresponsiveTarget, match="did not take a census within 2 s"):
            take_census(source, ProgressLine(), timeout=TIMEOUT)  # type: ignore[arg-type]  # the others are the source's
        target.signal(signal.SIGCONT)
        assert eventually(lambda: agent_thread(target.pid) is None), "what was put in is taken out once it runs"
        assert difference(before, resting(target.pid)) == []
        assert target.terminate() == EXIT_CODE


@pytest.mark.pythons("3.12")
def test_a_process_that_is_stopped_while_a_snapshot_is_wanted_ends_the_wait(interpreter: Interpreter) -> None:
    with running(interpreter, "sleeper") as target:
        source = attach_source(target.pid, AttachOptions(interval=3600.0))
        with SnapshotWatch(source, ProgressLine(), "again", timeout=TIMEOUT) as watch:
            watch.ready()
            target.stop()
            with pytest.raises(UnresponsiveTarget, match="within 2 s"):
                watch.freeze()
        target.signal(signal.SIGCONT)
        assert eventually(lambda: agent_thread(target.pid) is None)
        assert target.terminate() == EXIT_CODE


@pytest.mark.pythons("3.12")
@pytest.mark.parametrize(
    ("delay", "command"),
    [
        ("0", ["census", "--by", "producer", "--for", "2", "--timeout", "5"]),
        ("0.5", ["leaks", "--for", "2", "--timeout", "5", "--marks", "2"]),
        ("1", ["record", "--for", "2", "--timeout", "5", "--marks", "0"]),
    ],
)
def test_a_process_that_floods_holds_no_command_past_its_time(
    interpreter: Interpreter, delay: str, command: list[str], tmp_path: os.PathLike[str]
) -> None:
    with running(interpreter, "hostile/flooding", delay) as target:
        name, *options = command
        ended = subprocess.run(
            [sys.executable, "-m", "heaptop", name, str(target.pid), *options],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert "Traceback" not in ended.stderr, ended.stderr
        assert ended.returncode in (0, 25, 32, 34, 40, 43, 45), ended.stderr  # 32: it wrote before the agent could
        assert target.alive
