"""A call that a stop interrupts on aarch64, where the kernel decides early that it makes the call again."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import cast

import pytest

from heaptop.injector.entry import ptrace
from heaptop.injector.inspect.memory import RemoteMemory
from heaptop.injector.machine import aarch64
from tests.support.processes import eventually

PROGRAM = """
import os, signal, sys
signal.signal(signal.SIGUSR1, lambda *_: None)
signal.signal(signal.SIGUSR2, signal.SIG_IGN)
print("ready", flush=True)
while True:
    signal.pause()
"""
PPOLL, FUTEX, MMAP = (aarch64.CALLS[name] for name in ("ppoll", "futex", "mmap"))


@pytest.fixture
def stopped(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A process that stands still: what is sent to it stays pending."""
    for name in ("ENDED_BY_HANDLERS", "ENDED_BY_SOME_HANDLERS"):
        there = {"ENDED_BY_HANDLERS": ["ppoll"], "ENDED_BY_SOME_HANDLERS": ["futex"]}[name]
        monkeypatch.setattr(ptrace, name, tuple(aarch64.CALLS[each] for each in there))
    with subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGSTOP)
        os.waitpid(process.pid, os.WUNTRACED)
        yield process.pid
        process.kill()


def thread_in(tid: int, call: int, blocked: int = 0) -> ptrace.StoppedThread:
    memory = SimpleNamespace(read=lambda address, size: aarch64.CALL_AGAIN)
    thread = ptrace.StoppedThread(tid, cast(RemoteMemory, memory))
    thread.registers = aarch64.ArmRegisters({**dict.fromkeys(aarch64.NAMES, 0), "x8": call, "call": -1, "tls": 0})
    thread._mask = blocked
    return thread


def test_a_wait_is_ended_by_a_signal_that_has_a_handler_and_is_not_blocked(stopped: int) -> None:
    assert not thread_in(stopped, PPOLL)._is_ended_by_a_signal()
    os.kill(stopped, signal.SIGUSR1)
    assert eventually(lambda: thread_in(stopped, PPOLL)._is_ended_by_a_signal())
    assert thread_in(stopped, FUTEX)._is_ended_by_a_signal()
    assert not thread_in(stopped, PPOLL, blocked=1 << (signal.SIGUSR1 - 1))._is_ended_by_a_signal()


def test_a_call_that_no_signal_ends_is_not_ended(stopped: int) -> None:
    os.kill(stopped, signal.SIGUSR1)
    assert eventually(lambda: thread_in(stopped, PPOLL)._is_ended_by_a_signal())
    assert not thread_in(stopped, MMAP)._is_ended_by_a_signal()


def test_an_ignored_signal_ends_nothing(stopped: int) -> None:
    os.kill(stopped, signal.SIGUSR2)
    assert not thread_in(stopped, PPOLL)._is_ended_by_a_signal()


def choosing(monkeypatch: pytest.MonkeyPatch, at: int, found: int) -> list[int]:
    """What call is made where a thread that was interrupted at 0x1000 comes to ``found`` by the instruction there."""
    made: list[int] = []
    thread = thread_in(1, PPOLL)
    thread.registers.instruction = 0x1000
    monkeypatch.setattr(ptrace, "MACHINE", aarch64.Arm())
    monkeypatch.setattr(ptrace, "RESTART_CALL", (aarch64.CALLS["restart_syscall"],))
    monkeypatch.setattr(thread, "_get_registers", lambda: aarch64.ArmRegisters({"call": found}))
    monkeypatch.setattr(thread, "_set_registers", lambda registers: made.append(registers.call))
    thread._choose_call(at, MMAP)
    return made


def test_a_call_by_the_instruction_of_the_interrupted_one_is_not_taken_for_that(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert choosing(monkeypatch, 0x1000, aarch64.CALLS["restart_syscall"]) == [MMAP]


@pytest.mark.parametrize(("at", "found"), [(0x2000, aarch64.CALLS["restart_syscall"]), (0x1000, FUTEX)])
def test_another_call_than_the_one_set_is_not_made(monkeypatch: pytest.MonkeyPatch, at: int, found: int) -> None:
    with pytest.raises(ptrace.RemoteSignal):
        choosing(monkeypatch, at, found)


NANOSLEEP, RESTART = (aarch64.CALLS[name] for name in ("nanosleep", "restart_syscall"))
AT_INTERRUPT = ptrace.EVENT_STOP << 16 | signal.SIGTRAP << 8 | 0x7F
AT_CALL = ptrace.SYSCALL_STOP << 8 | 0x7F


class InterruptedSleep:
    """What Linux does on aarch64 with a thread in a relative sleep: it decides how the sleep continues on the way out
    of the stop. ``slow``: seconds until it gets there. ``signals``: what the thread stops for on that way, first."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, slow: float = 0, signals: tuple[int, ...] = ()) -> None:
        self.call, self.signals, self.way_out, self.slow = NANOSLEEP, [*signals], slow, slow
        self.interrupting = self.traced = False
        monkeypatch.setattr(ptrace, "MACHINE", aarch64.Arm())
        monkeypatch.setattr(ptrace, "request", self.request)
        monkeypatch.setattr(ptrace, "wait_status", self.wait)
        self.thread = thread_in(1, NANOSLEEP)
        for name, answer in (("_get_registers", self.registers), ("_get_mask", lambda: 0), ("_save", self.save)):
            monkeypatch.setattr(self.thread, name, answer)

    def registers(self) -> aarch64.ArmRegisters:
        return aarch64.ArmRegisters({**dict.fromkeys(aarch64.NAMES, 0), "x8": self.call, "call": -1, "tls": 0})

    def save(self) -> None:
        self.thread.registers = self.registers()

    def request(self, number: int, tid: int, address: int = 0, data: int = 0) -> int:
        self.interrupting |= number == ptrace.INTERRUPT
        self.traced = number == ptrace.SYSCALL if number in (ptrace.SYSCALL, ptrace.CONT) else self.traced
        return 0

    def wait(self, tid: int, timeout: float) -> int:
        if self.interrupting:  # before anything else
            self.interrupting, self.way_out = False, self.slow
            return AT_INTERRUPT
        self.way_out -= timeout
        if self.way_out > 0:
            raise ptrace.StopTimeout
        if self.signals:
            return self.signals.pop(0) << 8 | 0x7F
        self.call = RESTART
        assert self.traced
        return AT_CALL


def test_a_relative_sleep_is_seen_to_continue(monkeypatch: pytest.MonkeyPatch) -> None:
    sleep = InterruptedSleep(monkeypatch)
    sleep.thread.stop(2.0)
    assert sleep.thread.registers.call == -1
    assert sleep.thread.interrupted_syscall == RESTART


def test_a_relative_sleep_is_seen_to_continue_without_a_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    sleep = InterruptedSleep(monkeypatch, slow=10 * ptrace.STEP_TIME)
    sleep.thread.stop(2.0)
    assert sleep.thread.interrupted_syscall == RESTART


def test_a_thread_that_gets_no_processor_for_long_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    sleep = InterruptedSleep(monkeypatch, slow=3.0)
    with pytest.raises(ptrace.StopTimeout):
        sleep.thread.stop(2.0)


def test_a_signal_on_the_way_leaves_no_sleep_undecided(monkeypatch: pytest.MonkeyPatch) -> None:
    """One without a handler: the kernel looks for the next, and stops again before it has decided."""
    sleep = InterruptedSleep(monkeypatch, signals=(signal.SIGUSR2, signal.SIGUSR2))
    sleep.thread.stop(2.0)
    assert sleep.thread.interrupted_syscall == RESTART
