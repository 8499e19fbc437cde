"""While a filter is suspended, nothing of the target's runs a system call that it could not run under the filter."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from heaptop.errors import HeaptopError, InterpreterBusy
from heaptop.injector.entry import helper_client
from heaptop.injector.inspect.process import read_facts
from heaptop.injector.inspect.threads import agent_thread
from tests.interpreters import Interpreter
from tests.support.attaching import attach_once, attached, is_held, resting
from tests.support.processes import EXIT_CODE, PATIENCE, Facts, difference, eventually, running

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root suspends filters")

ENOSYS, EPERM = -38, -1
SOURCES: Final = str(Path(__file__).parents[2] / "src")


def outcome(pid: int) -> str:
    """What an attach ends with; empty when it gets in."""
    try:
        attach_once(pid)
    except HeaptopError as error:
        return error.message
    return ""


@pytest.mark.sample(3, least=3)
@pytest.mark.pythons("3.8", "3.12")
@pytest.mark.parametrize("way", ["direct", "int80", "executable", "handler32", "handler33", "handler34"])
def test_no_code_of_the_target_escapes_its_filter(interpreter: Interpreter, way: str, tmp_path: Path) -> None:
    """Of its libc, or of handlers of its own for glibc's signals, which are let through in the call."""
    with running(interpreter, "hostile/escaping", way, str(tmp_path)) as target:
        before = Facts.of(target.pid)
        message = outcome(target.pid)
        assert eventually(target.said), "the attack was not tried"
        assert not (tmp_path / "escaped").exists()
        if target.said() == [f"tried {EPERM}"]:
            # The thread was awake for a moment: a pending call has started the agent, and the filter was in force.
            assert "could not start one more thread" in message
        else:
            assert target.said() == [f"tried {ENOSYS}"]
            assert "seccomp filter was suspended" in message
        assert difference(before, resting(target.pid)) == []
        assert target.terminate() == EXIT_CODE, target.stderr()


@pytest.mark.pythons("3.8", "3.12")
def test_flags_that_another_thread_swaps_never_reach_the_kernel(interpreter: Interpreter, tmp_path: Path) -> None:
    """clone3 has them in memory: it is never made, and glibc does with clone."""
    with running(interpreter, "hostile/escaping", "clone3", str(tmp_path)) as target:
        assert outcome(target.pid) == ""
        assert eventually(target.said), "the attack was not tried"
        assert target.said() == [f"tried {ENOSYS}"]
        assert target.terminate() == EXIT_CODE, target.stderr()


@pytest.mark.pythons("3.8", "3.12")
def test_executable_memory_is_never_writable(
    interpreter: Interpreter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The filter forbids executable memory: what another thread writes into the page before it is code would run."""
    monkeypatch.setattr(helper_client, "LAUNCHER", LOOKING)
    with running(interpreter, "hostile/escaping", "none", str(tmp_path)) as target:
        assert outcome(target.pid) == "mapped r-xp, then r-xp"
        monkeypatch.undo()
        assert outcome(target.pid) == ""
        assert target.terminate() == EXIT_CODE, target.stderr()


LOOKING: Final = """\
import sys
sys.path.append(sys.argv[1])
from heaptop.errors import InjectionFailed
from heaptop.injector.entry import allowed_calls, hijack
from heaptop.injector.inspect.memory import read_mappings
checked, seen = hijack.HijackedThread.checked, []
def look(inside, what, number, *arguments):
    result = checked(inside, what, number, *arguments)
    base = result if not seen else base_of[0]
    base_of[:] = [base]
    seen.append(next(each.permissions for each in read_mappings(inside.plan.pid) if each.start <= base < each.end))
    if len(seen) == 2:
        inside.syscall(allowed_calls.MUNMAP, base, hijack.stub.TOTAL_SIZE)
        raise InjectionFailed("mapped " + ", then ".join(seen))
    return result
base_of = []
hijack.HijackedThread.checked = look
from heaptop.injector.entry.helper import main; main(int(sys.argv[2]))
"""
"""Looks at the first page after each of the two calls that map heaptop's."""


@pytest.mark.pythons("3.8", "3.12")
@pytest.mark.parametrize(("way", "state"), [("stop", "T"), ("stop, then go on", "S")])
def test_a_stop_that_comes_while_a_thread_is_held_is_not_lost(
    interpreter: Interpreter, way: str, state: str, tmp_path: Path
) -> None:
    with running(interpreter, "hostile/escaping", way, str(tmp_path)) as target:
        try:
            attach_once(target.pid, wait=5.0 if state == "T" else PATIENCE)
        except InterpreterBusy:
            assert state == "T"
        assert eventually(lambda: read_facts(target.pid).state == state)
        target.signal(signal.SIGCONT)
        assert eventually(target.said), "the attack was not tried"
        assert outcome(target.pid) == ""
        assert target.terminate() == EXIT_CODE, target.stderr()


@pytest.mark.pythons("3.12")
@pytest.mark.parametrize("filtered", ["", ", filtered"])
@pytest.mark.parametrize(
    ("way", "comm", "ends"),
    [
        ("executes", "sleep", -15),
        ("a worker executes", "sleep", -15),
        ("another executes", "sleep", -15),
        ("ends", "", 0),
        ("another ends all", "", 7),
    ],
)
def test_a_program_that_takes_the_place_of_a_held_one_is_left_alone(
    interpreter: Interpreter, way: str, comm: str, ends: int, filtered: str, tmp_path: Path
) -> None:
    """It may be setuid root: neither registers nor a signal mask of the old one are put into it."""
    with running(interpreter, "hostile/deserting", way + filtered, str(tmp_path), "/bin/sleep") as target:
        message = outcome(target.pid)
        if filtered and not way.startswith("another"):
            assert "seccomp filter was suspended" in message
            comm, ends = "python", EXIT_CODE
        else:
            assert ("another program" if comm else "exited") in message
        assert target.alive == bool(comm)
        if comm:
            assert Path(f"/proc/{target.pid}/comm").read_text().startswith(comm)
            assert not is_held(target.pid)
        assert target.terminate() == ends, target.stderr()


@pytest.mark.pythons("3.12")
def test_a_filter_that_comes_for_all_threads_during_the_call(interpreter: Interpreter, tmp_path: Path) -> None:
    way = "another filters all, filtered"
    with running(interpreter, "hostile/deserting", way, str(tmp_path), "") as target:
        assert outcome(target.pid) == ""
        assert read_facts(target.pid).seccomp == 2
        assert not is_held(target.pid)
        assert target.terminate() == EXIT_CODE, target.stderr()


TRACER: Final = """\
import os, signal, sys
sys.path.append(sys.argv[1])
from types import SimpleNamespace
from heaptop.injector.entry import hijack
from heaptop.injector.entry import ptrace
from heaptop.injector.inspect.memory import RemoteMemory, read_mappings
from heaptop.injector.machine import MACHINE
pid, path, way = int(sys.argv[2]), sys.argv[3], sys.argv[4]
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
class Everything:
    refused = ()
    def lets_through(self, native, number, arguments):
        return True
with RemoteMemory(pid, writable=True) as memory:
    libc = next(each for each in read_mappings(pid) if "libc.so.6" in each.path and "x" in each.permissions)
    code = memory.read(libc.start, libc.end - libc.start)
    thread = ptrace.StoppedThread(pid, memory)
    thread.stop(30)
    assert hijack.is_own_stack(SimpleNamespace(pid=pid, live_tid=pid), thread)
    top = thread.registers.stack - MACHINE.red_zone - 512
    memory.write(top, path.encode() + bytes(1))
    thread.shelter(top - 64, libc.start + code.index(MACHINE.restorer))
    registers = thread.registers.copy()
    registers.put_call(libc.start + code.index(MACHINE.syscall_and_return), 83, [top, 0o755])
    thread._hijack(registers, ptrace.QUIET_MASK, Everything())
    thread._run(30)  # it stands at the entry of mkdir
    if way == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if way == "detached":
        ptrace.request(ptrace.DETACH, pid)
        os._exit(0)
    if way == "run":
        thread._run(30)
    thread.release()
"""
"""Suspends the filter of a thread, has it enter a mkdir, and goes one way or another from there."""


@pytest.mark.pythons("3.12")
@pytest.mark.parametrize("way", ["run", "killed", "detached", "released"])
def test_a_call_that_was_entered_is_made_only_under_the_suspension(
    interpreter: Interpreter, way: str, tmp_path: Path
) -> None:
    """Detached, or left by a tracer that is killed, the thread is under its filter before the kernel makes the call."""
    with running(interpreter, "hostile/escaping", "none", str(tmp_path)) as target:
        before = Facts.of(target.pid)
        command = [sys.executable, "-c", TRACER, SOURCES, str(target.pid), str(tmp_path / "escaped"), way]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=2 * PATIENCE)
        assert done.returncode == (-signal.SIGKILL if way == "killed" else 0), done.stderr
        assert eventually(lambda: Facts.of(target.pid).tracer == 0)
        assert outcome(target.pid) == ""  # it goes on, and is as it was
        assert (tmp_path / "escaped").exists() == (way == "run")
        assert difference(before, resting(target.pid)) == []
        assert target.terminate() == EXIT_CODE, target.stderr()


@pytest.mark.pythons("3.8", "3.12")
@pytest.mark.parametrize("call", ["mprotect", "clone3"])
def test_the_agents_thread_is_under_the_filter_and_not_traced(interpreter: Interpreter, call: str) -> None:
    with running(interpreter, "seccomp", "kill", call) as target, attached(target.pid):
        agent = agent_thread(target.pid)
        assert agent is not None
        lines = Path(f"/proc/{target.pid}/task/{agent[0]}/status").read_text().splitlines()
        status = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
        assert (status["Seccomp"], status["TracerPid"]) == ("2", "0")


@pytest.mark.pythons("3.8", "3.12")
@pytest.mark.parametrize(("call", "suspends"), [("close_range", False), ("socketpair", True)])
def test_a_filter_that_allows_the_way_in_is_not_suspended(
    interpreter: Interpreter, call: str, suspends: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The helper of this test may not suspend: it gets in where it need not."""
    monkeypatch.setattr(helper_client, "LAUNCHER", UNABLE)
    with running(interpreter, "seccomp", "errno", call) as target:
        before = Facts.of(target.pid)
        assert ("suspends a filter" in outcome(target.pid)) == suspends
        assert difference(before, resting(target.pid)) == []
        assert target.terminate() == EXIT_CODE, target.stderr()


UNABLE: Final = """\
import sys
sys.path.append(sys.argv[1])
from heaptop.errors import InjectionFailed
from heaptop.injector.entry import ptrace
def refuse(tid, on):
    if on:
        raise InjectionFailed("The helper suspends a filter.")
ptrace.suspend_filters = refuse
from heaptop.injector.entry.helper import main; main(int(sys.argv[2]))
"""


@pytest.mark.pythons("3.12")
def test_filters_are_not_run_over_known_calls_while_a_thread_is_stopped(
    interpreter: Interpreter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """32,768 instructions, which a thread may have, took 3.5 seconds for all calls."""
    monkeypatch.setattr(helper_client, "LAUNCHER", COUNTING)
    with running(interpreter, "seccomp", "errno", "clone3") as target:
        words = outcome(target.pid).split()
        while_stopped, otherwise = int(words[0]), int(words[1])
        assert otherwise > 50
        assert while_stopped < 10, "only for calls whose arguments were not known before"
        assert target.terminate() == EXIT_CODE, target.stderr()


COUNTING: Final = """\
import sys
sys.path.append(sys.argv[1])
from heaptop.errors import InjectionFailed
from heaptop.injector.entry import hijack
from heaptop.injector.entry import ptrace
from heaptop.injector.entry import seccomp
counts, held, evaluate, trigger = [0, 0], [], seccomp.evaluate, hijack.trigger
def stop(thread, *arguments, really=ptrace.StoppedThread.stop):
    really(thread, *arguments)
    held.append(thread)
def release(thread, really=ptrace.StoppedThread.release):
    really(thread)
    held.clear()
def count(*arguments):
    counts[not held] += 1
    return evaluate(*arguments)
def end(*arguments):
    trigger(*arguments)
    raise InjectionFailed("{} {}".format(*counts))
ptrace.StoppedThread.stop, ptrace.StoppedThread.release = stop, release
seccomp.evaluate, hijack.trigger = count, end
from heaptop.injector.entry.helper import main; main(int(sys.argv[2]))
"""
"""Says how often a filter was run while a thread was stopped, and else, up to the start of the agent's."""


@pytest.mark.pythons("3.8", "3.12")
def test_a_filter_that_only_one_thread_has_is_found(interpreter: Interpreter) -> None:
    with running(interpreter, "hostile/filtered_thread") as target:
        before = Facts.of(target.pid)
        for _ in range(3):
            attach_once(target.pid)
        assert difference(before, resting(target.pid)) == []
        assert target.terminate() == EXIT_CODE, target.stderr()
