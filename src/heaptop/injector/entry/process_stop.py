"""Stops all threads of a process for a moment by ptrace, and lets them continue. Nothing runs in it.

A tracer that is killed releases its threads: the kernel resumes each where it was stopped, and has it continue the
system call that the stop interrupted. Nothing is changed that would have to be put back, but for one case: a filter may
kill the program for restart_syscall, by which the kernel continues a sleep. There the sleep ends as after a signal.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import time
from typing import Final

from heaptop.errors import HeaptopError, PtraceDenied, StoppedTarget, TracedTarget, UnresponsiveTarget
from heaptop.injector.entry import seccomp
from heaptop.injector.entry.ptrace import (
    CONT,
    DETACH,
    EVENT_STOP,
    INTERRUPT,
    SEIZE,
    StopTimeout,
    ThreadDied,
    get_registers,
    put_registers,
    read_filters,
    request,
    wait_again,
    wait_status,
)
from heaptop.injector.inspect.process import stat_fields
from heaptop.injector.inspect.threads import thread_ids, tracers
from heaptop.injector.machine.base import Registers

ENDED: Final = "ZX"
"""States of a thread that is only waited for by somebody."""


class ProcessStop:
    """The threads that are stopped. SIGCHLD must be blocked in the calling thread, which alone can release them."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._seized: set[int] = set()
        self._stopped: set[int] = set()
        self._ended: set[int] = set()
        self.running = 0
        """Threads that were in no system call when they stopped."""

    def stop(self, seconds: float) -> None:
        """Stop all threads, until no new one is there. Raises TracedTarget, PtraceDenied, StoppedTarget where it stands
        still already, UnresponsiveTarget where it does not stop in time; :meth:`release` is due then, too."""
        end = time.monotonic() + seconds
        while new := [tid for tid in thread_ids(self._pid) if tid not in self._ended and tid not in self._seized]:
            seized = [tid for tid in new if self._seize(tid)]
            for tid in seized:
                self._await(tid, end)

    def release(self) -> None:
        """Let all threads continue. One that did not stop is released by the end of this process: a signal on its way
        would be lost here."""
        for tid in self._stopped:
            with contextlib.suppress(OSError):  # it has ended
                request(DETACH, tid)
        self._stopped.clear()

    def _seize(self, tid: int) -> bool:
        try:
            request(SEIZE, tid)
            self._seized.add(tid)
            request(INTERRUPT, tid)
        except OSError as error:
            if error.errno not in (errno.ESRCH, errno.EPERM):
                raise
            if error.errno == errno.EPERM and not self._has_ended(tid):
                raise self._denied() from None
            self._drop(tid)
            return False
        return True

    def _has_ended(self, tid: int) -> bool:
        try:
            return stat_fields(f"/proc/{self._pid}/task/{tid}/stat")[0] in ENDED
        except OSError:
            return True

    def _denied(self) -> HeaptopError:
        others = tracers(self._pid) - {os.getpid()}
        if others:
            return TracedTarget(f"Process {self._pid} is traced by process {min(others)}.")
        return PtraceDenied(f"Process {self._pid} can be read but not traced.").about(self._pid)

    def _drop(self, tid: int) -> None:
        self._ended.add(tid)
        self._seized.discard(tid)
        self._stopped.discard(tid)

    def _await(self, tid: int, end: float) -> None:
        """Until a thread that was interrupted has stopped, or ended."""
        try:
            while True:
                status = wait_status(tid, max(0.0, end - time.monotonic()))
                if os.WIFEXITED(status) or os.WIFSIGNALED(status):
                    self._drop(tid)
                    return
                number = os.WSTOPSIG(status)
                if status >> 16 == EVENT_STOP:
                    self._stopped.add(tid)
                    break
                # A signal was on its way: deliver it as if nobody watched. Any stop does away with one that is to come.
                request(INTERRUPT, tid)
                request(CONT, tid, 0, number)
            if number != signal.SIGTRAP:
                raise StoppedTarget(f"Process {self._pid} is stopped (state T).").about(self._pid)
            registers = get_registers(tid)
            self.running += registers.call < 0
            wait_again(tid, registers)
            _forbid_restart(tid, registers)
        except ThreadDied:
            self._drop(tid)
        except StopTimeout:
            raise UnresponsiveTarget(f"Thread {tid} of process {self._pid} did not stop in time.") from None
        except OSError as error:
            if error.errno != errno.ESRCH:
                raise
            self._drop(tid)


def _unread(address: int, size: int) -> bytes:
    """No memory is needed where a thread's first stop shows all (``Machine.resolves_late``): nothing else is copied."""
    return b""


def _forbid_restart(tid: int, registers: Registers) -> None:
    """Have a sleep or a wait with a time-out return EINTR, as after a signal, unless the thread's filters are known to
    allow restart_syscall. At once: this process may be killed, and the thread continues then."""
    if not registers.is_resumed(_unread) or seccomp.mode(tid) == seccomp.OFF:
        return
    try:
        allowed = seccomp.allows(read_filters(tid), seccomp.RESTART)
    except OSError:
        allowed = False
    if not allowed:
        registers.end_wait()
        put_registers(tid, registers)
