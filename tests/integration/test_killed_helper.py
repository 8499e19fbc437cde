"""kill -9 of the process that holds a thread of the target, after each single step it takes, harms no target.

The steps are its ptrace requests: between two of them nothing about the thread changes. What the dying leave behind
is checked as well, and that the next attach clears it away.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from heaptop.errors import InjectionFailed
from heaptop.injector.entry import helper_client
from tests.interpreters import MUSL, Interpreter
from tests.support.attaching import attach_once, is_held, resting
from tests.support.building import program
from tests.support.processes import EXIT_CODE, Facts, Target, difference, eventually, running, starting

pytestmark = pytest.mark.timeout(3600)

SOURCES: Final = str(Path(__file__).parents[2] / "src")

HELPER: Final = """\
import os, sys
sys.path.append(sys.argv[1])
from heaptop.injector.entry import ptrace
made, request = 0, ptrace.request
def counted(*arguments):
    global made
    result = request(*arguments)
    made += 1
    if made == {step}:
        os.kill(os.getpid(), 9)
    return result
ptrace.request = counted
from heaptop.injector.entry.helper import main; main(int(sys.argv[2]))
"""
"""A helper that dies by SIGKILL right after so many ptrace requests."""

TRACER: Final = """\
import os, signal, sys
sys.path.append(sys.argv[1])
from types import SimpleNamespace
from heaptop.injector.entry import hijack, ptrace
from heaptop.injector.inspect.memory import RemoteMemory, read_mappings
from heaptop.injector.machine import MACHINE
pid, request = int(sys.argv[2]), ptrace.request

def trace(last):
    made = 0
    def counted(*arguments):
        nonlocal made
        result = request(*arguments)
        made += 1
        if made == last:
            os.kill(os.getpid(), 9)
        return result
    ptrace.request = counted
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
    with RemoteMemory(pid, writable=True) as memory:
        (libc,) = (each for each in read_mappings(pid) if "libc" in each.path and "x" in each.permissions)
        code = memory.read(libc.start, libc.end - libc.start)
        thread = ptrace.StoppedThread(pid, memory)
        thread.stop(2)
        os.write(1, hex(thread.registers.instruction).encode() + b" ")
        assert hijack.is_own_stack(SimpleNamespace(pid=pid, live_tid=pid), thread)
        thread.shelter(thread.registers.stack - MACHINE.red_zone, libc.start + code.index(MACHINE.restorer))
        for _ in range(2):
            assert thread.syscall(libc.start + code.index(MACHINE.syscall_and_return), MACHINE.calls["getpid"]) == pid
        thread.release()

for line in sys.stdin:
    child = os.fork()
    if child == 0:
        trace(int(line))
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
"""For each number that it reads, a child of it makes two system calls in the target, as the helper makes them before it
has pages there, and dies by SIGKILL right after so many ptrace requests. It prints where the thread stopped and how the
child ended."""


@contextlib.contextmanager
def tracing(target: Target) -> Iterator[Callable[[int], list[str]]]:
    """Trace the target by processes that die after so many steps; what is printed of each."""
    command = [sys.executable, "-c", TRACER, SOURCES, str(target.pid)]
    with starting(command, pipe=True) as tracer:
        made = 0

        def trace(step: int) -> list[str]:
            nonlocal made
            made += 1
            tracer.write(f"{step}\n".encode())
            assert eventually(lambda: tracer.stdout().count("\n") == made), tracer.stderr()
            said = tracer.stdout().splitlines()[-1].split()
            assert int(said[-1]) in (0, -signal.SIGKILL), tracer.stderr()
            return said

        yield trace


@pytest.mark.parametrize("what", ["spin", "sleep", "read"])
def test_every_register_comes_back(what: str) -> None:
    with starting([program("registers.c"), what], pipe=True) as target, tracing(target) as trace:
        assert eventually(lambda: "ready" in target.stdout())
        before = Facts.of(target.pid)
        step = 1
        while trace(step)[-1] != "0":
            assert target.alive, (step, target.stderr())
            count = target.stdout().count(".")
            if what == "read":
                target.write(b"x")
            assert eventually(lambda: target.stdout().count(".") > count + (what == "spin")), (step, target.stderr())  # noqa: B023
            assert difference(before, Facts.of(target.pid)) == [], step
            step += 1
        assert step > 20
        assert target.terminate() == EXIT_CODE, target.stderr()


def test_a_restartable_sequence_that_a_stop_interrupts_is_aborted() -> None:
    """As the kernel would at any other stop: it forgets the sequence when the thread runs anything else."""
    with starting([program("restartable.c")], pipe=True) as target, tracing(target) as trace:
        assert eventually(lambda: "ready" in target.stdout())
        begin, end, abort = (int(each, 16) for each in target.stdout().split()[1:4])
        places = {int(trace(0)[0], 16) for _ in range(9)}
        assert abort in places
        assert not [each for each in places if begin <= each < end]
        assert target.terminate() == EXIT_CODE, target.stderr()


def got_in(target: Target) -> bool:
    """Attach and detach by a helper that may die; whether it did not."""
    try:
        attach_once(target.pid)
    except InjectionFailed as error:
        return "The helper process exited" not in error.message
    return True


@pytest.mark.sample(2, least=3)
@pytest.mark.pythons("3.8", "3.12", "3.14", *MUSL)
@pytest.mark.parametrize("name", ["sleeper", "busy", "threads8"])
def test_an_attach_may_die_at_any_step(
    interpreter: Interpreter, name: str, is_whole: bool, cycles: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With pages of an earlier attach there, and without: every step of both under --stress, else a share."""
    stride = 1 if cycles > 100 else 13 if is_whole else 23
    launcher = helper_client.LAUNCHER
    died = 0
    for first in (True, False):
        with running(interpreter, name) as target:
            monkeypatch.setattr(helper_client, "LAUNCHER", launcher)
            if not first:
                attach_once(target.pid)
            before = resting(target.pid)
            step = 1 + int(time.time()) % min(stride, 5)
            while True:
                monkeypatch.setattr(helper_client, "LAUNCHER", HELPER.format(step=step))
                if got_in(target):
                    break
                died += 1
                assert target.alive, step
                assert eventually(lambda: not is_held(target.pid)), step
                monkeypatch.setattr(helper_client, "LAUNCHER", launcher)
                attach_once(target.pid)
                assert target.alive, step
                assert difference(before, resting(target.pid)) == [], step
                step += stride
            assert target.terminate() == EXIT_CODE, step
            assert target.said() == []
            assert target.stderr() == ""
    assert died > 3
