"""ptrace(2) on one thread: stop it, run system calls and functions in it, give it back as it was.

Nothing here knows Python, or the processor (:mod:`heaptop.injector.machine`). It is used by processes made for it
(:func:`become_tracer`): waiting relies on SIGCHLD being blocked there.

A tracer that is killed lets its thread run on from wherever that is. So the thread's stack pointer is at a signal frame
(:mod:`heaptop.injector.machine`) before its registers are touched, and every order of steps below leaves
it there until the last. That is also why nothing is single-stepped and no int3 is put in the way: their SIGTRAP would
be delivered, and kill. Stops at system calls are marked with bit 7 instead, which the kernel drops as no signal.

Why a blocking wait: a tracer that spins on WNOHANG starves the tracee on its own CPU (2.7 ms against 0.2 ms a stop).
Why not SIGALRM: an alarm that fires between waitpid's return and its disarming loses a status for good.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import signal
import struct
import time
from pathlib import Path
from typing import ClassVar, Final

from heaptop.injector.entry import seccomp
from heaptop.injector.entry.allowed_calls import AllowedCalls
from heaptop.injector.inspect import privileges
from heaptop.injector.inspect.memory import RemoteFault, RemoteMemory
from heaptop.injector.machine import MACHINE
from heaptop.injector.machine.base import WORD, Registers, UnsafeThread, signed

SEIZE, INTERRUPT, CONT, DETACH, SYSCALL = 0x4206, 0x4207, 7, 17, 24
GETREGSET, SETREGSET = 0x4204, 0x4205
GETSIGMASK, SETSIGMASK = 0x420A, 0x420B
SETOPTIONS, GET_SYSCALL_INFO, GET_FILTER, GET_RSEQ = 0x4200, 0x420E, 0x420C, 0x420F
POKEDATA: Final = 5
O_TRACESYSGOOD: Final = 1
O_TRACEEXEC: Final = 1 << 4
O_SUSPEND_SECCOMP: Final = 1 << 21
OPTIONS: Final = O_TRACESYSGOOD | O_TRACEEXEC
SYSCALL_STOP: Final = signal.SIGTRAP | 0x80
ENTRY, EXIT = 1, 2
"""PTRACE_SYSCALL_INFO_ENTRY and _EXIT."""
REFUSALS_MOST: Final = 100
"""Refused system calls after which a remote call is no more waited for."""
SET_ROOM: Final = 0x10000
"""Bytes of a set of registers: AMX tiles need 11 KiB; the kernel reports how much it used."""
WALL: Final = 0x40000000
EVENT_EXEC, EVENT_STOP = 4, 128
HANDLER_STEPS, STEP_TIME = 100, 0.05
"""Stops at system calls until a thread is out of glibc's handler, which makes a few, and seconds for each."""
HANDLED_MOST: Final = 20
"""Signals of glibc's own during one call: who calls setuid without a pause keeps it from ever coming to its end."""
BLOCKED: Final = 1.0
"""Seconds without a stop at a system call after which a thread is taken to wait for something."""
RELEASE_TIMEOUT: Final = 5.0
IGNORED: Final = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGPIPE, signal.SIGTERM, signal.SIGTSTP)
LOOK_AGAIN: Final = 0.1
"""Seconds between two looks at whether a thread is still there."""

SYNCHRONOUS: Final = (signal.SIGTRAP, signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGSYS)
"""Blocking these makes the kernel reset their handlers when they strike. SIGSYS is what a program gets that has its
system calls dispatched to itself (PR_SET_SYSCALL_USER_DISPATCH, SECCOMP_RET_TRAP)."""
LIBC_INTERNAL: Final = (32, 33, 34)
"""glibc's own: blocking 33 hangs a setuid broadcast, 34 is left as a neighbour some runtimes take."""

QUIET_MASK: Final = WORD & ~sum(1 << (number - 1) for number in SYNCHRONOUS)
"""The signal mask of a hijacked thread. A handler that a step enters would be taken for the end of the system call,
and never run to its own end, which the thread that broadcasts a setuid then waits for, forever."""

LIBC_SIGNALS: Final = sum(1 << (number - 1) for number in LIBC_INTERNAL)
"""Let through in a pthread_create, which may wait for a lock that the broadcasting thread holds. Never while the
thread is in such a handler: glibc runs it on the alternate stack, and a second one would overwrite the first."""

GLIBC_HANDLERS: Final = 1 << 31 | 1 << 32
"""What is blocked within glibc's own handlers, of 32 and 33; a program cannot block them by glibc. 34 it can."""

RESTART_CALL: Final = MACHINE.numbers("restart_syscall")
ENDED_BY_HANDLERS: Final = MACHINE.numbers(
    *("restart_syscall", "nanosleep", "clock_nanosleep", "pselect6", "ppoll", "rt_sigsuspend")
)
ENDED_BY_SOME_HANDLERS: Final = MACHINE.numbers(
    *("futex", "wait4", "waitid", "accept", "accept4", "read", "recvfrom", "recvmsg", "connect")
)
"""System calls that return EINTR after any handler of a signal, and after one without SA_RESTART."""

_libc = ctypes.CDLL(None, use_errno=True)
_ptrace = _libc.ptrace
_ptrace.restype = ctypes.c_long
_ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]


class StopTimeout(Exception):
    """The thread did not stop, or a remote call did not return, in time."""


class CallStillRunning(Exception):
    """A remote call has not returned yet, and goes on by itself: its frame gives the thread back when it does."""


class ThreadDied(Exception):
    """The thread ended, or executed another program, while it was traced."""


class GroupStopped(Exception):
    """The whole process stands still (SIGSTOP, ctrl+Z); nothing was changed."""


class ForbiddenCall(Exception):
    """While its filter was suspended the thread wanted a system call that is not for it. The kernel did not run it."""


class RemoteSignal(Exception):
    """A remote call raised a signal such as SIGSEGV; the thread was restored and released."""


class _IoVector(ctypes.Structure):
    _fields_: ClassVar = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]


def become_tracer(oom_score_adj: int) -> None:
    """What a process does first that is made to stop others: nobody interrupts it, and it gets on quickly. The score is
    set where it may be (proc(5))."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(str(oom_score_adj))
    with contextlib.suppress(OSError):  # the target stands still while others run in its place; needs CAP_SYS_NICE
        os.setpriority(os.PRIO_PROCESS, 0, -20)
    privileges.drop(also=1 << privileges.SYS_ADMIN)  # which reads and suspends seccomp filters
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # whoever ignores it, as a parent of heaptop may, sees no stop
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])


def request(number: int, tid: int, address: int = 0, data: int = 0) -> int:
    """One ptrace(2) call; what it returns. Raises OSError."""
    ctypes.set_errno(0)
    result = int(_ptrace(number, tid, address, data))
    code = ctypes.get_errno()
    if result == -1 and code:
        raise OSError(code, os.strerror(code))
    return result


def read_filters(tid: int) -> tuple[seccomp.Program, ...]:
    """The filters of a thread that this process has stopped (PTRACE_SECCOMP_GET_FILTER, needs CAP_SYS_ADMIN).

    Raises OSError (EACCES, EINVAL).
    """
    filters: list[seccomp.Program] = []
    room = ctypes.create_string_buffer(seccomp.MAX_INSTRUCTIONS * seccomp.INSTRUCTION.size)
    while True:
        try:
            with privileges.raised(privileges.SYS_ADMIN):
                count = request(GET_FILTER, tid, len(filters), ctypes.addressof(room))
        except OSError as error:
            if error.errno == errno.ENOENT:
                return tuple(filters)
            raise
        filters.append(room.raw[: count * seccomp.INSTRUCTION.size])


class _SyscallInfo(ctypes.Structure):
    """``struct ptrace_syscall_info`` (``<linux/ptrace.h>``), as it is at an entry."""

    _fields_: ClassVar = [
        *(("op", ctypes.c_uint8), ("pad", ctypes.c_uint8 * 3), ("arch", ctypes.c_uint32)),
        *(("ip", ctypes.c_uint64), ("sp", ctypes.c_uint64)),
        *(("number", ctypes.c_uint64), ("arguments", ctypes.c_uint64 * 6)),
    ]


def _syscall_info(tid: int) -> _SyscallInfo:
    """Of a stop at a system call (Linux 5.3). Raises OSError."""
    info = _SyscallInfo()
    request(GET_SYSCALL_INFO, tid, ctypes.sizeof(info), ctypes.addressof(info))
    return info


_RSEQ_CONFIGURATION: Final = struct.Struct("<QIIII")
"""``struct ptrace_rseq_configuration``: address and size of the area, signature, flags."""
_RSEQ_SEQUENCE: Final = struct.Struct("<IIQQQ")
"""``struct rseq_cs`` (linux/rseq.h): version, flags, begin, length, where to go on when it is aborted."""


def _abort_address(tid: int, address: int, memory: RemoteMemory) -> int | None:
    """Where a stopped thread at ``address`` goes on if that is in a restartable sequence; else None. Raises OSError."""
    room = ctypes.create_string_buffer(_RSEQ_CONFIGURATION.size)
    try:
        request(GET_RSEQ, tid, len(room), ctypes.addressof(room))
        area = _RSEQ_CONFIGURATION.unpack(room.raw)[0]
        sequence = memory.u64(area + 8) if area else 0
        if not sequence:
            return None
        _, flags, begin, length, abort = _RSEQ_SEQUENCE.unpack(memory.read(sequence, _RSEQ_SEQUENCE.size))
    except RemoteFault:
        return None
    except OSError as error:
        if error.errno in (errno.EIO, errno.EINVAL):  # before Linux 5.13
            return None
        raise
    return int(abort) if not flags and begin <= address < begin + length else None


def get_set(tid: int, kind: int) -> bytes:
    """A set of registers of a stopped thread. Raises OSError."""
    room = ctypes.create_string_buffer(SET_ROOM)
    vector = _IoVector(ctypes.addressof(room), SET_ROOM)
    request(GETREGSET, tid, kind, ctypes.addressof(vector))
    return room.raw[: vector.length]


def put_set(tid: int, kind: int, data: bytes) -> None:
    """Raises OSError."""
    room = ctypes.create_string_buffer(data, len(data))
    vector = _IoVector(ctypes.addressof(room), len(data))
    request(SETREGSET, tid, kind, ctypes.addressof(vector))


def get_registers(tid: int) -> Registers:
    """Of a stopped thread. Raises OSError."""
    return MACHINE.registers(lambda kind: get_set(tid, kind))


def put_registers(tid: int, registers: Registers) -> None:
    """Raises OSError."""
    MACHINE.put_registers(registers, lambda kind, data: put_set(tid, kind, data))


def wait_again(tid: int, registers: Registers) -> None:
    """Have a wait without a time limit that the stop has ended go on: at once, for this process may be killed. Not at
    the exit of a system call, where the kernel may look no more at how it goes on. Raises OSError."""
    if registers.wait_again():
        put_registers(tid, registers)


def suspend_filters(tid: int, on: bool) -> None:
    """Suspend the seccomp filters of a stopped thread, or end that. The one place where that is done; to suspend them
    takes CAP_SYS_ADMIN. Raises OSError.

    It covers this thread alone: what it clones is not traced, so runs under the filters. They are on again at once
    when the thread is detached or this process is killed, also in the middle of a system call's entry.
    """
    with privileges.raised(privileges.SYS_ADMIN) if on else contextlib.nullcontext():
        request(SETOPTIONS, tid, 0, OPTIONS | (O_SUSPEND_SECCOMP if on else 0))


def wait_status(tid: int, timeout: float) -> int:
    """The next status of ``tid``; raises StopTimeout. SIGCHLD must be blocked in the calling thread."""
    end = time.monotonic() + timeout
    while True:
        try:
            pid, status = os.waitpid(tid, WALL | os.WNOHANG)
        except ChildProcessError:
            # Not ours any more: another thread's exec or the exit of the whole process took it.
            raise ThreadDied(f"thread {tid} has exited") from None
        if pid:
            return status
        left = end - time.monotonic()
        if left <= 0:
            raise StopTimeout(f"thread {tid} did not stop within {timeout:g} s")
        # Nothing is sent for a first thread that ends because another one executes a program.
        signal.sigtimedwait([signal.SIGCHLD], min(left, LOOK_AGAIN))


class StoppedThread:
    """One thread under ptrace, stopped, with everything saved that :meth:`release` puts back.

    ``memory`` must be writable: :meth:`shelter` puts a signal frame there.
    """

    def __init__(self, tid: int, memory: RemoteMemory) -> None:
        self.tid = tid
        self._memory = memory
        self._attached = False
        self._gate: AllowedCalls | None = None
        """What is let through while the thread's filters are suspended; None when they are not."""
        self._handled = 0
        """Signals of glibc's own that came during a call."""
        self._frame: int | None = None
        self._restorer = 0
        self._at_syscall = False
        """Whether it is at a system call; else at a signal, or at what INTERRUPT brought about."""
        self.stopped_ns = 0

    def stop(self, timeout: float) -> None:
        """Seize, interrupt and save. Raises OSError (ESRCH, EPERM), StopTimeout, ThreadDied, GroupStopped or
        UnsafeThread.

        After StopTimeout the thread is seized but runs: nothing was changed, and the exit of this process is what
        lets go of it (a running thread cannot be detached).
        """
        request(SEIZE, self.tid, 0, OPTIONS)  # no suspension: it runs on, and nobody looks
        request(INTERRUPT, self.tid)
        steps, is_stepping, is_resolved = HANDLER_STEPS, False, not MACHINE.resolves_late
        while True:
            try:
                status = wait_status(self.tid, STEP_TIME if is_stepping else timeout)
            except StopTimeout:
                if not is_stepping:
                    raise
                # No handler: it blocks these signals for long, while it waits for something.
                steps, is_stepping = 0, False
                request(INTERRUPT, self.tid)
                continue
            self._check_alive(status)
            number = os.WSTOPSIG(status)
            if status >> 16 == EVENT_STOP and number != signal.SIGTRAP:
                request(DETACH, self.tid)
                raise GroupStopped(f"thread {self.tid} is stopped by {signal.Signals(number).name}")
            if status >> 16 != EVENT_STOP and number != SYSCALL_STOP:
                # A signal was on its way: deliver it as if nobody watched, and wait for our stop.
                if not is_stepping:
                    is_resolved = not MACHINE.resolves_late
                    request(INTERRUPT, self.tid)  # again: any stop does away with one that is to come
                request(SYSCALL if is_stepping else CONT, self.tid, 0, number)
            elif not is_resolved and number != SYSCALL_STOP and self._is_in_call():
                # The kernel decides on the way out how the call continues: see it at the entry. The next stop comes
                # before it has done anything. Until the entry the thread waits for nothing but a processor.
                is_stepping, is_resolved = False, True
                request(SYSCALL, self.tid)
            elif steps and self._get_mask() & GLIBC_HANDLERS and not self._get_registers().is_resumed(self._read):
                # In glibc's handler, which the thread that broadcasts a setuid waits for: let it end first. One that
                # waits with a time-out is in no such handler, and a filter may forbid to resume it.
                if number != SYSCALL_STOP:
                    wait_again(self.tid, self._get_registers())
                steps, is_stepping, is_resolved = steps - 1, True, not MACHINE.resolves_late
                request(SYSCALL, self.tid)
            elif number == SYSCALL_STOP:
                # Just out of it. The next stop comes before anything else does, a signal that waits included.
                is_stepping = False
                request(INTERRUPT, self.tid)
                request(CONT, self.tid)
            else:
                break
        self._began = time.monotonic_ns()
        self._save()
        self._attached = True

    def _is_in_call(self) -> bool:
        return self._get_registers().interrupted(self._read) is not None

    def _check_alive(self, status: int) -> None:
        if os.WIFEXITED(status) or os.WIFSIGNALED(status):
            self._attached = False
            raise ThreadDied(f"thread {self.tid} ended")
        if status >> 16 == EVENT_EXEC:
            # The registers of the program that called execve are not for the one that runs now: it may be setuid root.
            if self._attached:
                self._attached = False
                self._set_mask(self._mask)  # an execve keeps the one there is
            request(DETACH, self.tid)
            raise ThreadDied(f"thread {self.tid} executes another program")

    def follow(self, leader: int) -> None:
        """After ThreadDied: a thread that executes a program continues under the first one's id, still traced."""
        if self.tid != leader and self._attached:
            self.tid = leader
            with contextlib.suppress(ThreadDied, StopTimeout):
                self._check_alive(wait_status(leader, RELEASE_TIMEOUT))
            self._attached = False

    def _save(self) -> None:
        self.registers = self._get_registers()
        if self.interrupted_syscall is None:
            # The kernel forgets a restartable sequence when the thread runs anything else; so it is aborted here.
            aborted = _abort_address(self.tid, self.registers.instruction, self._memory)
            self.registers.instruction = self.registers.instruction if aborted is None else aborted
        else:
            wait_again(self.tid, self.registers)
        try:
            self._vectors = MACHINE.vectors(lambda kind: get_set(self.tid, kind))
        except UnsafeThread:
            request(DETACH, self.tid)
            raise
        self._mask = self._get_mask()

    def _read(self, address: int, size: int) -> bytes:
        try:
            return self._memory.read(address, size)
        except RemoteFault:
            return b""

    def _get_mask(self) -> int:
        mask = ctypes.c_uint64()
        request(GETSIGMASK, self.tid, 8, ctypes.addressof(mask))
        return mask.value

    def _set_mask(self, bits: int) -> None:
        mask = ctypes.c_uint64(bits)
        request(SETSIGMASK, self.tid, 8, ctypes.addressof(mask))

    def _get_registers(self) -> Registers:
        return get_registers(self.tid)

    def _set_registers(self, registers: Registers) -> None:
        put_registers(self.tid, registers)

    def poke(self, address: int, data: bytes) -> None:
        """Write where the target itself may not: into its code. Raises OSError."""
        padded = data + bytes(-len(data) % 8)
        for at in range(0, len(padded), 8):
            request(POKEDATA, self.tid, address + at, int.from_bytes(padded[at : at + 8], "little"))

    @property
    def interrupted_syscall(self) -> int | None:
        """The number of the system call the thread was in; None when it was running."""
        return self.registers.interrupted(self._read)

    def forbid_restart(self) -> None:
        """Have a sleep or a wait with a time-out that the stop interrupted return EINTR, as after a signal.

        For a filter that does not allow restart_syscall, by which the kernel makes it go on. Raises OSError.
        """
        if self.registers.is_resumed(self._read):
            self.registers.end_wait()
            self._set_registers(self.registers)  # at once: this process may be killed

    def _is_ended_by_a_signal(self) -> bool:
        """Whether a handler is about to run, for a signal that came while the thread was stopped, after which the
        interrupted call must return EINTR. Where the kernel decided earlier that it makes the call again, it would: a
        program that waits for that signal would not notice it (signal(7)).

        A handler with SA_RESTART lets some calls continue. Python's has no such flag and runs for the first thread, so
        these calls are ended there alone.
        """
        call = self.interrupted_syscall
        if call not in ENDED_BY_HANDLERS and call not in ENDED_BY_SOME_HANDLERS:
            return False
        try:
            lines = Path(f"/proc/{self.tid}/status").read_bytes().split(b"\n")
        except OSError:  # it was killed
            return False
        facts = dict(line.split(b":\t", 1) for line in lines if b":\t" in line)
        pending, own, handled = (int(facts[name], 16) for name in (b"ShdPnd", b"SigPnd", b"SigCgt"))
        is_first = int(facts[b"Tgid"]) == self.tid
        return bool((pending | own) & handled & ~self._mask) and (is_first or call in ENDED_BY_HANDLERS)

    def shelter(self, top: int, restorer: int) -> None:
        """Write a signal frame below ``top``, in memory that is free there: what follows ends in it when this process
        is killed. ``restorer`` is the address of an rt_sigreturn. Raises RemoteFault.

        For :meth:`call` it must be the stub's ``give_back``.
        """
        frame, data = MACHINE.frame(top, restorer, self.registers, self._vectors, self._mask, self._read)
        self._memory.write(frame, data)
        self._frame, self._restorer = frame, restorer

    def _hijack(self, registers: Registers, mask: int, gate: AllowedCalls | None) -> None:
        """Registers first: a frame puts the mask back, but nothing else would."""
        self._set_gate(gate)
        registers.forget_call()
        if self._frame is not None:
            registers.put_frame(self._frame, self._restorer)
        self._set_registers(registers)
        self._set_mask(mask)

    def _set_gate(self, gate: AllowedCalls | None) -> None:
        """Suspend the filters for what ``gate`` lets through, or have them on."""
        if (gate is None) != (self._gate is None):
            suspend_filters(self.tid, gate is not None)
        self._gate = gate

    def syscall(
        self, instruction: int, number: int, *arguments: int, timeout: float = 2.0, gate: AllowedCalls | None = None
    ) -> int:
        """Run one system call by libc's own instruction, at best one before a ``ret``. What the kernel returned.

        With a ``gate`` the filters are suspended for it. Raises ForbiddenCall when it turns out to be another.
        """
        registers = self.registers.copy()
        registers.put_call(instruction, number, arguments)
        self._hijack(registers, QUIET_MASK, gate)
        self._run(timeout)  # to its entry
        if gate is None and self._get_registers().call != number:
            self._choose_call(instruction, number)
        self._run(timeout)  # to its exit
        self._check_gate()
        self._set_gate(None)
        return self._get_registers().result

    def _choose_call(self, instruction: int, number: int) -> None:
        """At an entry: have that call made. Where the interrupted one is made by the same instruction, the kernel has
        put restart_syscall in its place. Raises RemoteSignal for any other, whose result would be the target's word."""
        registers = self._get_registers()
        if not (MACHINE.resolves_late and self.registers.instruction == instruction and registers.call in RESTART_CALL):
            raise RemoteSignal(f"no system call {number} at {instruction:#x}")
        registers.choose_call(number)
        self._set_registers(registers)

    def _check_gate(self) -> None:
        if self._gate is not None and self._gate.refused:
            raise ForbiddenCall(f"system call {self._gate.refused[0]}")

    def call(
        self,
        function: int,
        *arguments: int,
        timeout: float,
        starts_thread: bool = False,
        locked_from: int | None = None,
        gate: AllowedCalls | None = None,
    ) -> int:
        """Call ``function`` on the stack below the shelter, to which it returns. The full register of the result,
        unsigned.

        Raises StopTimeout when it waits for something until the time is over, RemoteSignal when it crashes. One that
        starts a thread is detached, with CallStillRunning, where it is just slow, or kept in handlers of glibc's: it
        may hold a lock, and a handler that is not run to its end is waited for by a setuid forever. So is one that has
        made the system call ``locked_from``: it does hold a lock. Nothing may be done in the memory of
        :meth:`shelter` until it has returned.

        With a ``gate`` the filters are suspended for it. Raises ForbiddenCall when something was not let through: at
        its end, because what is in the middle of libc may hold a lock.
        """
        assert self._frame is not None
        if starts_thread and self._mask & GLIBC_HANDLERS:
            # The new thread would inherit the mask, and never take part in a setuid.
            raise StopTimeout(f"thread {self.tid} did not leave a signal handler of glibc's")
        registers = self.registers.copy()
        registers.put_function(function, arguments)
        self._hijack(registers, QUIET_MASK & ~LIBC_SIGNALS if starts_thread else QUIET_MASK, gate)
        end, self._handled, locked = time.monotonic() + timeout, 0, False
        while True:
            began = time.monotonic()
            try:
                self._run(max(0.0, end - began))
            except StopTimeout:  # of which the last part was waited for in vain
                if not self._attached:
                    raise
                self._check_gate()
                slow = time.monotonic() - began < BLOCKED
                if starts_thread and (slow or locked or self._get_mask() & LIBC_SIGNALS):
                    self._release()
                raise StopTimeout(f"the call in thread {self.tid} did not return within {timeout:g} s") from None
            if gate is not None and gate.denials > REFUSALS_MOST and _syscall_info(self.tid).op == EXIT:
                self._check_gate()
            if self._handled > HANDLED_MOST:
                self._release()
            after = self._get_registers()
            locked = locked or after.call == locked_from
            # A handler of glibc's returns in the same way, but to a frame of its own.
            if after.is_at_end(self._frame):
                break
        result = after.returned
        after.forget_call()  # not to be made by us; if we are killed, the stub makes it again
        self._set_registers(after)
        self._run(timeout)
        self._check_gate()
        self._set_gate(None)
        return result

    def _release(self) -> None:
        self._attached = False
        request(DETACH, self.tid)
        self.stopped_ns += time.monotonic_ns() - self._began
        raise CallStillRunning(f"thread {self.tid} continues by itself")

    def _run(self, timeout: float) -> None:
        """Let the thread run until the next entry or exit of a system call."""
        request(SYSCALL, self.tid)
        while True:
            self._at_syscall = False
            try:
                status = wait_status(self.tid, timeout)
            except StopTimeout:
                # It must be stopped again before its registers can be put back.
                request(INTERRUPT, self.tid)
                self._await_interrupt()
                raise
            self._check_alive(status)
            number = os.WSTOPSIG(status)
            if number == SYSCALL_STOP:
                self._at_syscall = True
                self._admit()
                return
            if status >> 16 == 0 and number in SYNCHRONOUS:
                raise RemoteSignal(f"{signal.Signals(number).name} at {self._get_registers().instruction:#x}")
            if status >> 16 == 0 and number in LIBC_INTERNAL:
                self._handled += 1
                request(SYSCALL, self.tid, 0, number)  # in a pthread_create only; else blocked
                continue
            # Only SIGSTOP can come here (all else is blocked). It is delivered at once, and this thread alone runs on:
            # from the release on it stands still with the others, unless a SIGCONT came meanwhile.
            request(SYSCALL, self.tid, 0, number if status >> 16 == 0 else 0)

    def _admit(self) -> None:
        """With the filters suspended, at a system call's entry: have the kernel skip it unless the gate allows it."""
        if self._gate is None:
            return
        info = _syscall_info(self.tid)
        if info.op == EXIT:
            return
        native = info.op == ENTRY and info.arch == MACHINE.audit_arch
        if not self._gate.lets_through(native, signed(info.number), list(info.arguments)):
            self._hold_back()

    def _hold_back(self) -> None:
        """The kernel answers ENOSYS to the call at whose entry the thread is."""
        registers = self._get_registers()
        registers.refuse_call()
        self._set_registers(registers)

    def _await_interrupt(self) -> None:
        """Until the stop that INTERRUPT asks for, or another one that no system call brought about.

        Raises StopTimeout: it runs then, and the exit of this process is what lets go of it.
        """
        try:
            self._find_interrupt()
        except StopTimeout:
            self._attached = False
            raise

    def _find_interrupt(self) -> None:
        while True:
            status = wait_status(self.tid, RELEASE_TIMEOUT)
            self._check_alive(status)
            number = os.WSTOPSIG(status)
            if status >> 16 == EVENT_STOP or number in SYNCHRONOUS:
                return
            if number == SYSCALL_STOP and self._gate is not None and _syscall_info(self.tid).op != EXIT:
                self._hold_back()
            # Of glibc's, whose sender waits for the handler; or SIGSTOP.
            deliver = number if number != SYSCALL_STOP else 0
            request(INTERRUPT, self.tid)  # again: any stop does away with one that is to come
            request(CONT, self.tid, 0, deliver)

    def release(self) -> None:
        """Restore registers, vector state and mask, and detach. Safe to call twice and after the thread's end."""
        if not self._attached:
            return
        self._attached = False
        try:
            if self._at_syscall:
                if self._gate is not None and _syscall_info(self.tid).op != EXIT:
                    self._hold_back()
                # The kernel looks at a call to restart on the way out of a signal's stop only.
                request(INTERRUPT, self.tid)
                request(CONT, self.tid)
                self._await_interrupt()
            for kind, data in self._vectors.items():
                put_set(self.tid, kind, data)
            self._set_mask(self._mask)
            if MACHINE.resolves_late and self._is_ended_by_a_signal():
                self.registers.end_wait()
            self._set_registers(self.registers)  # last: until then the frame would do all of it
            request(DETACH, self.tid)
        except ThreadDied:
            pass
        except OSError as error:
            if error.errno != errno.ESRCH:
                raise
        self.stopped_ns += time.monotonic_ns() - self._began
