"""What an attach or a session must not do to a target that behaves unusually, and must not suffer from it."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from heaptop.errors import (
    AgentLost,
    InjectionDenied,
    InjectionFailed,
    InterpreterBusy,
    ProcessNotFound,
    StoppedTarget,
    TargetExited,
    TransportFailed,
)
from heaptop.injector.api import AttachOptions, attach_source, diagnose
from heaptop.injector.entry import helper_client
from heaptop.injector.entry.hijack import socket_inode
from heaptop.injector.entry.ptrace import BLOCKED
from heaptop.injector.inspect.threads import agent_thread, blocked_threads
from heaptop.injector.session import limits
from heaptop.protocol.messages import Core, GcEvents, Sampler
from heaptop.protocol.source import Attached
from tests.interpreters import MUSL, SAMPLE, SUPPORTED, Interpreter, since
from tests.support import building
from tests.support.attaching import Attachment, Silent, attach_once, attached, is_held, opened, resting
from tests.support.control_groups import joining, leave_room, memory_group, pids_group
from tests.support.processes import EXIT_CODE, Target, difference, eventually, running, with_proc

CLOSED = "closed"

HASTY: Final = """\
import sys
sys.path.append(sys.argv[1])
from heaptop.injector.entry import ptrace
call = ptrace.StoppedThread.call
def hasty(self, *arguments, timeout, starts_thread=False, **others):
    limit = {seconds} if starts_thread else timeout
    return call(self, *arguments, timeout=limit, starts_thread=starts_thread, **others)
ptrace.StoppedThread.call, ptrace.HANDLED_MOST = hasty, {handled}
from heaptop.injector.entry.helper import main; main(int(sys.argv[2]))
"""
"""A helper of other limits."""


def tell(target: Target) -> list[str]:
    """What it says of its files when it is asked now."""
    before = target.said()
    target.signal(signal.SIGUSR2)
    assert eventually(lambda: target.said().count("told") > before.count("told"))
    return target.said()[len(before) : -1]


def called(target: Target) -> int:
    """How often it has called setuid, and been asked."""
    lines = len(target.said())
    target.signal(signal.SIGUSR1)
    assert eventually(lambda: len(target.said()) > lines), "the target hangs"
    return int(target.said()[-1].split()[1])


def moves(target: Target) -> bool:
    """Whether it went on calling between two askings."""
    return called(target) + 1 < called(target)


def check_goes_on(interpreter: Interpreter, program: str, mode: str, is_over: Callable[[Target, int], bool]) -> None:
    """A thread of the program has the dynamic linker's lock from SIGUSR1 on, and waits for the GIL: nobody with the GIL
    may wait for that lock. ``is_over``: of the target, and how often it was counted since."""
    with running(interpreter, program, wrapper=with_proc(interpreter)) as target:
        with attached(target.pid, interval=0.1, mode=mode, sample_interval=4096) as attachment:
            assert attachment.message(Core).loaded
            assert attachment.census().rows
            target.signal(signal.SIGUSR1)
            assert eventually(lambda: "main goes on" in target.said())
            censuses = 0
            while not is_over(target, censuses):
                attachment.tick()
                assert attachment.census().rows
                censuses += 1
            moments = target.said().count("main goes on")
            assert eventually(lambda: target.said().count("main goes on") > moments)
        assert target.terminate() == EXIT_CODE


@pytest.mark.parametrize("mode", ["clone", "stop"])
@pytest.mark.pythons("3.8", "3.12", "3.13")
def test_libraries_are_listed_by_python_code_in_a_session(interpreter: Interpreter, mode: str) -> None:
    check_goes_on(interpreter, "libraries_listed", mode, lambda _, censuses: censuses == 10)


@pytest.mark.parametrize("mode", ["clone", "stop"])
@pytest.mark.pythons(*SAMPLE, *since("3.12"))
def test_a_library_whose_beginning_waits_for_the_gil_is_loaded_in_a_session(
    interpreter: Interpreter, mode: str
) -> None:
    check_goes_on(interpreter, "loading_plugin", mode, lambda target, _: "loaded" in target.said() or not target.alive)


@pytest.mark.pythons(*SAMPLE, *MUSL, stress=(*SUPPORTED, *MUSL))
def test_what_a_signal_handler_raises_reaches_the_program(interpreter: Interpreter) -> None:
    """Also where the signal comes in the middle of a collection: no Python code of ours runs there."""
    with running(interpreter, "alarmed", wrapper=with_proc(interpreter)) as target:
        with attached(target.pid, interval=0.2) as attachment:
            assert attachment.message(Core).loaded
            begin = len(target.said())
            assert eventually(lambda: len(target.said()) >= begin + 5)
            assert attachment.message(GcEvents).events
        assert target.terminate() == EXIT_CODE
        assert "LOST" not in target.said()
        assert target.stderr() == ""


@pytest.mark.pythons(*since("3.12"), "3.13-musl")
@pytest.mark.parametrize("tool", ["monitoring", "setprofile", "settrace"])
def test_a_tool_that_watches_all_threads_is_not_called_on_the_agents(interpreter: Interpreter, tool: str) -> None:
    with running(interpreter, "traced_threads", tool, wrapper=with_proc(interpreter)) as target:
        for _ in range(2):  # the second session finds the core of the first
            with attached(target.pid, interval=0.1, sample_interval=4096) as attachment:
                assert attachment.message(Core).loaded
                for _ in range(3):
                    assert attachment.census().rows
        target.signal(signal.SIGUSR1)
        assert eventually(target.said)
        assert target.said() == ["threads 1"]
        assert target.terminate() == EXIT_CODE
        assert target.stderr() == ""


@pytest.mark.pythons(*SAMPLE, "3.12", *MUSL)
@pytest.mark.parametrize("mode", ["stop", "python"])
def test_an_object_that_is_half_made_is_not_traversed_in_the_process(interpreter: Interpreter, mode: str) -> None:
    """No collection would: the collector does not track it. In a clone, the census fails."""
    library = interpreter.place(building.extension("half_made.c"))
    with running(interpreter, "half_made", library, wrapper=with_proc(interpreter)) as target:
        with attached(target.pid, mode=mode) as attachment:
            census = attachment.census()
            assert "refer to that the collector does not track" in census.cut
            assert not census.complete
        assert target.terminate() == EXIT_CODE
        assert target.stderr() == ""


@pytest.mark.pythons("3.8", "3.11", *since("3.12"))
@pytest.mark.parametrize("mode", ["stop", "python"])
def test_what_a_module_keeps_to_use_again_is_left_alone(interpreter: Interpreter, mode: str) -> None:
    """asyncio's own traversal visits freed iterators on 3.12 and 3.13: a reference to one that ends frees it twice."""
    with running(interpreter, "awaiting", environment={"PYTHONMALLOC": "debug"}) as target:
        for _ in range(3):
            with attached(target.pid, mode=mode) as attachment:
                assert attachment.census().rows
        assert target.terminate() == EXIT_CODE
        assert target.said() == []
        assert target.stderr() == ""


@pytest.mark.pythons(*SAMPLE, "3.12", *MUSL)
@pytest.mark.parametrize("mode", ["clone", "python"])
def test_no_import_hook_of_the_program_runs(interpreter: Interpreter, mode: str) -> None:
    with running(interpreter, "import_watching", wrapper=with_proc(interpreter)) as target:
        for _ in range(2):  # the second session finds the core of the first
            with attached(target.pid, mode=mode, sample_interval=4096) as attachment:
                assert attachment.census().rows
                attachment.tick()
        assert target.terminate() == EXIT_CODE
        assert target.said() == []
        assert target.stderr() == ""


@pytest.mark.pythons("3.8", "3.11", "3.12", "3.13", "3.14", *MUSL)
def test_files_that_took_the_agents_descriptor_are_left_alone(interpreter: Interpreter) -> None:
    with running(interpreter, "descriptors") as target:
        with attached(target.pid, interval=0.1) as attachment:
            attachment.census()
            target.signal(signal.SIGUSR1)
            assert isinstance(attachment.error(), AgentLost)
        assert eventually(lambda: agent_thread(target.pid) is None)
        assert tell(target) == []
        attach_once(target.pid, census=True)
        assert tell(target) == []
        assert target.terminate() == EXIT_CODE


@pytest.mark.pythons("3.8", "3.12", "3.13", "3.14")
def test_a_module_in_the_middle_of_its_import_is_not_in_the_way(interpreter: Interpreter) -> None:
    """A fork that warns imports ``warnings``, perhaps just when the agent begins: there are no filters in it yet."""
    with running(interpreter, "unfinished") as target:
        before = resting(target.pid)
        attach_once(target.pid, census=True)
        assert difference(before, resting(target.pid)) == []
        assert target.terminate() == EXIT_CODE


@pytest.mark.pythons("3.8", "3.12", "3.13")
def test_an_agent_that_cannot_say_a_word_is_told_as_such(interpreter: Interpreter) -> None:
    with running(interpreter, "unfinished", "posix") as target:
        before = resting(target.pid)
        for _ in range(5):
            with pytest.raises(InjectionFailed, match=r"in process \d+ exited before it answered"):
                attach_once(target.pid)
            assert difference(before, resting(target.pid)) == []
        assert target.terminate() == EXIT_CODE


@pytest.mark.pythons("3.8", "3.11", "3.13", "3.14")
@pytest.mark.parametrize("backend", ["ptrace", "pep768"])
def test_a_program_without_its_modules_keeps_its_signal_handlers(interpreter: Interpreter, backend: str) -> None:
    """From 3.10 on, a new ``_signal`` forgets which handlers there are."""
    if backend == "pep768" and interpreter.version < (3, 14):
        pytest.skip("PEP 768 came with 3.14")
    with running(interpreter, "modules_cleared") as target:
        time.sleep(0.2)  # until they are removed
        with pytest.raises((InjectionFailed, InterpreterBusy, TransportFailed)):
            attach_once(target.pid, backend=backend, wait=3.0)
        assert target.terminate() == EXIT_CODE
        assert target.stderr() == ""


@pytest.mark.pythons("3.8", "3.13", "3.14")
@pytest.mark.parametrize("backend", ["ptrace", "pep768"])
def test_a_closed_stdout_is_not_the_agents_socket(interpreter: Interpreter, backend: str) -> None:
    if backend == "pep768" and interpreter.version < (3, 14):
        pytest.skip("PEP 768 came with 3.14")
    with running(interpreter, "descriptors", CLOSED) as target:
        assert eventually(lambda: not os.path.exists(f"/proc/{target.pid}/fd/1"))
        with attached(target.pid, backend=backend) as attachment:
            attachment.census()
            target.signal(signal.SIGUSR2)
            assert eventually(lambda: target.stderr() == f"refused {errno.EBADF}\n"), target.stderr()
            attachment.census()


@pytest.mark.pythons("3.8", "3.13")
@pytest.mark.parametrize("ends", [True, False])
def test_a_child_that_keeps_the_socket_open_holds_nobody_up(interpreter: Interpreter, ends: bool) -> None:
    with running(interpreter, "descriptors") as target:
        children = Path(f"/proc/{target.pid}/task/{target.pid}/children")
        with attached(target.pid) as attachment:
            attachment.census()
            target.signal(signal.SIGHUP)
            agent = agent_thread(target.pid)
            assert agent is not None
            inode = socket_inode(target.pid, agent[1])
            assert eventually(children.read_text)
            (child,) = map(int, children.read_text().split())
            try:
                if ends:
                    os.kill(target.pid, signal.SIGKILL)
                    target.process.wait()
                    assert isinstance(attachment.error(), TargetExited)
                else:
                    assert attachment.close() is None
                    assert eventually(lambda: agent_thread(target.pid) is None)
                assert f"socket:[{inode}]" in (os.readlink(each) for each in Path(f"/proc/{child}/fd").iterdir())
            finally:
                os.kill(child, signal.SIGKILL)


@pytest.mark.sample(2, least=3)
@pytest.mark.pythons("3.8", "3.11-debian", "3.13", *MUSL)
def test_a_setuid_in_all_threads_gets_through_an_attach(interpreter: Interpreter, cycles: int) -> None:
    with running(interpreter, "setuid_storm") as target:
        for _ in range(cycles):
            attach_once(target.pid)
            assert eventually(lambda: moves(target)), "setuid hangs"
        assert target.terminate() == EXIT_CODE


@pytest.mark.sample(4, least=3)
@pytest.mark.pythons("3.8", "3.13", *MUSL, stress=("3.8", "3.11-debian", "3.13", *MUSL))
@pytest.mark.parametrize(("seconds", "handled"), [(0, 20), (0.0005, 20), (5, 0)])
@pytest.mark.parametrize("name", ["setuid_storm", "sleeper"])
def test_who_is_too_slow_in_starting_a_thread_goes_on_alone(
    interpreter: Interpreter, name: str, seconds: float, handled: int, cycles: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also in glibc's handler of a setuid, which its sender would wait for, for ever, if it was not run to its end."""
    with running(interpreter, name) as target:
        before = resting(target.pid) if name == "sleeper" else None
        monkeypatch.setattr(helper_client, "LAUNCHER", HASTY.format(seconds=seconds, handled=handled))
        for _ in range(cycles):
            attach_once(target.pid, census=True)
            assert before is None or difference(before, resting(target.pid)) == []
            assert before is not None or eventually(lambda: moves(target)), "setuid hangs"
        assert target.terminate() == EXIT_CODE
        assert target.stderr() == ""


@pytest.mark.pythons(*MUSL)
def test_a_thread_that_waits_for_musls_list_of_threads_goes_on_alone(
    interpreter: Interpreter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It holds a lock by then, for which the next fork or dlopen would wait for ever."""
    monkeypatch.setattr(helper_client, "LAUNCHER", HASTY.format(seconds=2 * BLOCKED, handled=20))
    with running(interpreter, "list_locked") as target, opened(target.pid) as attachment:
        call = Path(f"/proc/{target.pid}/syscall")
        assert eventually(lambda: call.read_text().startswith("202 ") and not is_held(target.pid), 10 * BLOCKED)
        target.write(b"\n")
        attachment.event(Attached)
        assert eventually(lambda: "forked" in target.said()), "the fork hangs"
        assert attachment.close() is None
        assert target.terminate() == EXIT_CODE
        assert target.stderr() == ""


@pytest.mark.pythons(*MUSL)
@pytest.mark.parametrize("where", ["futex", "read"])
def test_a_thread_that_may_be_within_musls_fork_or_dlopen_is_not_taken(interpreter: Interpreter, where: str) -> None:
    with running(interpreter, "in_libc", where) as target:
        assert eventually(lambda: len(blocked_threads(target.pid)) == 2)
        assert target.pid not in blocked_threads(target.pid, musl=True)
        assert eventually(lambda: len(blocked_threads(target.pid, musl=True)) == 1)
        attach_once(target.pid)
        assert target.alive


@pytest.mark.pythons("3.8", "3.13", *MUSL)
def test_stops_and_continues_during_attaches_disturb_nothing(interpreter: Interpreter, cycles: int) -> None:
    with running(interpreter, "sleeper") as target:
        for _ in range(cycles):
            target.stop()
            with pytest.raises(StoppedTarget):
                attach_once(target.pid)
            target.signal(signal.SIGCONT)
            attach_once(target.pid)
        assert not is_held(target.pid)
        attach_once(target.pid, census=True)
        assert target.terminate() == EXIT_CODE
        assert not [line for line in target.said() if not line.startswith("EARLY")]


@pytest.mark.pythons("3.8", "3.11-debian", "3.13")
def test_a_program_that_took_the_place_of_the_one_looked_at_is_not_entered(interpreter: Interpreter) -> None:
    with running(interpreter, "execing") as target, opened_late(target) as attachment:
        with pytest.raises(ProcessNotFound, match="exec"):
            attachment.event(Attached)
        attach_once(target.pid, census=True)
        assert target.terminate() == EXIT_CODE
        assert target.stderr() == ""


@contextlib.contextmanager
def opened_late(target: Target) -> Iterator[Attachment]:
    """An attach that begins when the program that it was meant for has been replaced."""
    source = attach_source(target.pid, AttachOptions(backend="ptrace"))
    target.signal(signal.SIGUSR1)
    assert eventually(lambda: target.said() == ["ready"])
    attachment = Attachment(source)
    try:
        yield attachment
    finally:
        attachment.close()


@pytest.mark.pythons("3.8", "3.12", "3.13")
@pytest.mark.parametrize("limit", ["as", "nofile"])
def test_a_target_at_its_limits_loses_nothing(interpreter: Interpreter, limit: str) -> None:
    with running(interpreter, "sleeper") as target:
        attach_once(target.pid)
        before = resting(target.pid)
        size = int(Path(f"/proc/{target.pid}/statm").read_text().split()[0]) * resource.getpagesize()
        number = {"as": resource.RLIMIT_AS, "nofile": resource.RLIMIT_NOFILE}[limit]
        soft, hard = resource.prlimit(target.pid, number)
        resource.prlimit(target.pid, number, (size if limit == "as" else len(before.fds) + 1, hard))
        with contextlib.suppress(InjectionDenied, InjectionFailed, Silent):
            attach_once(target.pid, census=True)
        assert resting(target.pid).fds == before.fds
        resource.prlimit(target.pid, number, (soft, hard))
        attach_once(target.pid, census=True)
        assert target.terminate() == EXIT_CODE
        assert target.stderr() == ""


@pytest.mark.pythons("3.8", "3.12", *MUSL)
@pytest.mark.parametrize("kind", ["threads", "files", "memory"])
@pytest.mark.parametrize("room", [1, 2])
def test_a_program_gets_the_last_that_its_limits_allow(interpreter: Interpreter, kind: str, room: int) -> None:
    """It takes four at a time. With room 1 that is all that is left, so heaptop takes none."""
    with pids_group() as group, running(interpreter, "needing", kind, wrapper=joining(group)) as target:
        if kind == "threads":
            (group / "pids.max").write_text(str(5 if room == 1 else 1 + 8 + 4))
        elif kind == "files":
            resource.prlimit(target.pid, resource.RLIMIT_NOFILE, (3 + 4 if room == 1 else 3 + 4 + 16, 1024))
        else:
            size = limits.status_size(target.pid, "VmSize")
            left = (0 if room == 1 else limits.SPACE_LEAST) + (40 << 20)
            resource.prlimit(target.pid, resource.RLIMIT_AS, (size + left, resource.RLIM_INFINITY))
        if room == 1:
            with pytest.raises(InjectionDenied, match=r"too (few|little) .* left for an attach"):
                attach_once(target.pid)
            assert isinstance(diagnose(target.pid).error, InjectionDenied)
        else:
            attach_once(target.pid, census=True)
        assert target.said() == []
        assert target.terminate() == EXIT_CODE
        assert target.stderr() == ""


@pytest.mark.pythons("3.8", "3.12")
def test_a_program_gets_the_last_process_of_its_group_in_a_session(interpreter: Interpreter) -> None:
    """A clone would be one of them: the program is stopped for the census, and there is no snapshot."""
    with pids_group() as group, running(interpreter, "needing", "threads", wrapper=joining(group)) as target:
        with attached(target.pid, interval=0.2) as attachment:
            assert attachment.census().mode == "clone"
            (group / "pids.max").write_text(str(1 + 4 + 1))  # the agent's thread is the last
            attachment.census()
            for _ in range(5):
                census = attachment.census()
                assert census.mode == "stop"
                assert "pids.max" in census.mode_reason
        assert target.said() == []
        assert target.terminate() == EXIT_CODE
        assert target.stderr() == ""


@pytest.mark.pythons("3.8", "3.12")
@pytest.mark.parametrize("left", [4, 12, 48])
def test_a_target_near_its_memory_limit_is_not_ended(interpreter: Interpreter, left: int) -> None:
    with memory_group() as group, running(interpreter, "reallocating", wrapper=joining(group)) as target:
        leave_room(group, left << 20, without_files=True)
        if left < 8:
            with pytest.raises(InjectionDenied, match="too little memory left"):
                attach_once(target.pid)
            assert isinstance(diagnose(target.pid).error, InjectionDenied)
        else:
            with attached(target.pid, interval=0.1, sample_interval=512) as attachment:
                sampler = attachment.message(Sampler)
                assert sampler.on == (left == 48)
                assert sampler.on or "half of the memory left" in sampler.text
                for _ in range(5):
                    attachment.tick()
                    assert attachment.census().rows
        assert "oom_kill 0" in (group / "memory.oom_control").read_text()
        assert target.terminate() == EXIT_CODE
        assert target.stderr() == ""


@pytest.mark.pythons("3.8", "3.12")
def test_a_target_whose_memory_limit_is_full_of_file_pages_in_use_is_attached_to(
    interpreter: Interpreter, tmp_path: Path
) -> None:
    file = tmp_path / "file"
    file.write_bytes(bytes(60 << 20))
    os.sync()
    with open(file, "rb") as cached:  # whose pages this process's group has: the target is to have them
        os.posix_fadvise(cached.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    with memory_group() as group, running(interpreter, "caching", str(file), wrapper=joining(group)) as target:
        figures = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        if int(figures["active_file"]) < 30 << 20:
            pytest.skip("the file's pages are not on the list of those in use")
        leave_room(group, 2 << 20)
        with attached(target.pid, interval=0.1) as attachment:
            for _ in range(5):
                assert attachment.census().rows
        assert "oom_kill 0" in (group / "memory.oom_control").read_text()
        assert target.terminate() == EXIT_CODE
        assert target.stderr() == ""


@pytest.mark.pythons("3.8", "3.12")
def test_system_calls_that_are_dispatched_to_the_target(interpreter: Interpreter) -> None:
    """Their signal is kept from it, and its handler stays: with the signal blocked the kernel would reset that."""
    with running(interpreter, "hostile/dispatching") as target:
        for _ in range(3):
            with contextlib.suppress(InjectionFailed):  # unless it was between two rests
                attach_once(target.pid)
        assert target.alive
        assert target.said() == []
        assert target.terminate() == EXIT_CODE, target.stderr()
