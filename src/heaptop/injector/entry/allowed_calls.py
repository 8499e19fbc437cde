"""Which system calls a hijacked thread may make while its seccomp filter is suspended: the boundary against a target
that wants to do what its filter forbids.

The code that runs then is the target's own, its libc included, and nothing about that is trusted. So each call is
looked at where it enters the kernel. Only calls whose meaning is in registers are let through: what a pointer leads
to can be changed by another thread between the look and the call. Memory that the kernel only writes, or reads as a
time-out, a signal mask or a handler, decides nothing outside the process. Pure rules;
:mod:`heaptop.injector.entry.ptrace` applies them.

What a pthread_create calls: of glibc, nptl/allocatestack.c, pthread_create.c, malloc/arena.c, 2.17 to 2.42; of musl,
src/thread/pthread_create.c, membarrier.c, 1.2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from heaptop.injector.entry import seccomp
from heaptop.injector.entry.seccomp import Call, Program
from heaptop.injector.inspect.memory import PAGE, Mapping
from heaptop.injector.machine import MACHINE

CLOSE, FSTAT, MMAP, MPROTECT, MUNMAP, BRK, SIGACTION, SIGPROCMASK, SIGRETURN = MACHINE.numbers(
    *("close", "fstat", "mmap", "mprotect", "munmap", "brk", "rt_sigaction", "rt_sigprocmask", "rt_sigreturn")
)
MADVISE, GETPID, SOCKET, SOCKETPAIR, CLONE, FCNTL, PRCTL, GETTID, FUTEX, CLONE3 = MACHINE.numbers(
    *("madvise", "getpid", "socket", "socketpair", "clone", "fcntl", "prctl", "gettid", "futex", "clone3")
)
MEMBARRIER: Final = MACHINE.calls["membarrier"]
THREAD_FLAGS: Final = 0x3D0F00
MUSL_THREAD_FLAGS: Final = THREAD_FLAGS | 0x400000
"""Exactly what glibc and musl give clone(2) for a thread. CLONE_PTRACE, above all, would have the suspension inherited;
CLONE_DETACHED, which musl adds, means nothing to any Linux that heaptop runs on."""
READ_WRITE: Final = 3
PRIVATE_ANONYMOUS: Final = 0x22
STACK_OR_UNRESERVED: Final = 0x20000 | 0x4000
HINTS: Final = (14, 15, 102)  # MADV_HUGEPAGE, MADV_NOHUGEPAGE, MADV_GUARD_INSTALL
FUTEX_COMMANDS: Final = (0, 1, 9, 10)  # WAIT and WAKE, with and without a set of bits
FUTEX_FLAGS: Final = 0x180
AF_UNIX, STREAM_CLOEXEC, F_DUPFD_CLOEXEC, LOWEST_FD = 1, 0x80001, 1030, 60
REGISTER_MEMBARRIER: Final = 16
"""MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED: by musl, at a process's first thread. Where it fails, a dlopen sends each
thread a signal."""
WITH_ANOTHER_WAY: Final = (CLONE3, PRCTL)
"""clone3 has its flags in memory; prctl only names a mapping, where a tunable of glibc's asks for it."""
NEVER_RUN: Final = Call("a call that is held back", -1)
SUSPENDABLE: Final = frozenset({CLOSE, MMAP, MPROTECT, MUNMAP, SOCKETPAIR, SOCKET, FCNTL})
"""Of the calls that heaptop itself makes in a thread, those without a pointer to what the kernel acts on."""

Arguments = Sequence[int]
Maps = Callable[[], Sequence[Mapping]]


@dataclass(slots=True)
class AllowedCalls:
    """The calls that one remote call may make; ``maps`` reads the target's mappings."""

    numbers: frozenset[int]
    maps: Maps
    exactly: tuple[int, ...] | None = None  # The one call's arguments, where heaptop itself set the registers
    cloned: bool = False
    refused: list[str] = field(default_factory=list)  # The first call that was not let through, if there was one
    denials: int = 0

    def lets_through(self, native: bool, number: int, arguments: Arguments) -> bool:
        """Whether a call may be made, at its entry; ``native`` is whether it came in as one of the machine's
        own. The others are answered with ENOSYS, and noted in ``refused`` unless libc has another way then."""
        if native and number in self.numbers and self._allows(number, arguments):
            self.cloned = self.cloned or number == CLONE
            return True
        self.denials += 1
        if not self.refused and (not native or number not in WITH_ANOTHER_WAY):
            self.refused.append(f"{number}" if native else f"{number} by a 32-bit entry, such as int 0x80")
        return False

    def _allows(self, number: int, arguments: Arguments) -> bool:
        if self.exactly is not None:
            return tuple(arguments) == self.exactly
        if number == CLONE:
            # Once, and not after something was refused: the attach will be cancelled.
            return arguments[0] in (THREAD_FLAGS, MUSL_THREAD_FLAGS) and not self.cloned and not self.refused
        if number in (MPROTECT, MUNMAP):
            only_data = number == MUNMAP or arguments[2] in (0, READ_WRITE)
            return only_data and is_plain_data(self.maps(), arguments[0], arguments[1])
        rule = RULES.get(number)
        return rule is None or rule(arguments)


def _is_fresh_memory(arguments: Arguments) -> bool:
    return arguments[2] in (0, READ_WRITE) and arguments[3] & ~STACK_OR_UNRESERVED == PRIVATE_ANONYMOUS


RULES: Final[dict[int, Callable[[Arguments], bool]]] = {
    MMAP: _is_fresh_memory,
    MADVISE: lambda arguments: arguments[2] in HINTS,
    SIGACTION: lambda arguments: arguments[0] in (32, 33),  # glibc's own, at the first thread of a process
    MEMBARRIER: lambda arguments: arguments[0] == REGISTER_MEMBARRIER,
    FUTEX: lambda arguments: arguments[1] & 0xFFFFFFFF & ~FUTEX_FLAGS in FUTEX_COMMANDS,
    SOCKETPAIR: lambda arguments: tuple(arguments[:3]) == (AF_UNIX, STREAM_CLOEXEC, 0),
    FCNTL: lambda arguments: tuple(arguments[1:3]) == (F_DUPFD_CLOEXEC, LOWEST_FD),
}


def is_plain_data(mappings: Sequence[Mapping], start: int, length: int) -> bool:
    """Whether all from ``start`` on is private anonymous memory, for data or reserved: no code, no file, no constant
    that somebody has protected."""
    end = start + -(-length // PAGE) * PAGE
    at = start
    for mapping in mappings:
        if mapping.end <= at or mapping.start >= end:
            continue
        named = mapping.path and mapping.path != "[heap]" and not mapping.path.startswith("[anon:")
        if mapping.start > at or named or mapping.inode or mapping.permissions not in ("rw-p", "---p"):
            return False
        at = mapping.end
    return at >= end > start


_CLONE: Final = Call("clone", CLONE, (THREAD_FLAGS,))
_MUSL_CLONE: Final = Call("clone", CLONE, (MUSL_THREAD_FLAGS,))
_CLONE3: Final = Call("clone3", CLONE3)


def would_forget_clone3(filters: Sequence[Program]) -> bool:
    """Whether the ENOSYS that clone3 is answered with, while the filters are suspended, would leave a target behind
    that dies at its next thread: newer glibc remembers it, and calls clone from then on."""
    forgets = START.gate(filters, tuple) is not None and seccomp.allows(filters, _CLONE3)
    return forgets and bool(seccomp.deadly(filters, [_CLONE]))


@dataclass(frozen=True, slots=True)
class Routine:
    """What a remote call needs the filter to allow, and what it may call while the filter is suspended."""

    needs: tuple[Call, ...]
    numbers: frozenset[int]
    starts_thread: bool = False
    locked_from: int | None = None
    """The system call from which on it holds a lock of libc that it releases at its end only."""
    tries_clone3: bool = True  # As glibc from 2.34 on; an older one goes on to clone at once

    def gate(self, filters: Sequence[Program], maps: Maps) -> AllowedCalls | None:
        """None where the filters allow all of it: then nothing is suspended."""
        if all(seccomp.allows(filters, call) for call in self.needs) and not self._held_up(filters):
            return None
        return AllowedCalls(self.numbers, maps)

    def _held_up(self, filters: Sequence[Program]) -> bool:
        # The tracer holds back the last rt_sigreturn, which a filter sees as call -1: an error will do for that.
        if not seccomp.allows(filters, NEVER_RUN) and not seccomp.answers_error(filters, NEVER_RUN):
            return True
        if not (self.starts_thread and self.tries_clone3):
            return False
        if seccomp.answers_error(filters, _CLONE3, seccomp.ENOSYS):
            return not seccomp.allows(filters, _CLONE)
        return not seccomp.allows(filters, _CLONE3)


_RETURN: Final = Call("rt_sigreturn", SIGRETURN)

OPEN_PAIR: Final = Routine(
    needs=(
        Call("socketpair", SOCKETPAIR, (AF_UNIX, STREAM_CLOEXEC, 0)),
        Call("fstat", FSTAT, (60,)),
        Call("fcntl", FCNTL, (60, F_DUPFD_CLOEXEC, LOWEST_FD)),
        _RETURN,
    ),
    numbers=frozenset({SOCKETPAIR, FSTAT, FCNTL, SIGRETURN}),
)
CANCEL: Final = Routine(needs=(Call("close", CLOSE, (60,)), _RETURN), numbers=frozenset({CLOSE, SIGRETURN}))
ADD_PENDING: Final = Routine(
    needs=(Call("futex", FUTEX, (0, 0x80)), Call("futex", FUTEX, (0, 0x81)), _RETURN),
    numbers=frozenset({FUTEX, SIGRETURN}),
)
START: Final = Routine(
    needs=(
        Call("getpid", GETPID),
        Call("mmap", MMAP, (0, 8 << 20, 0, 0x20022, (1 << 64) - 1)),
        Call("mmap", MMAP, (0, 8 << 20, 3, 0x20022, (1 << 64) - 1)),
        Call("mprotect", MPROTECT, (0, 8 << 20, 3)),
        Call("mprotect", MPROTECT, (0, 1 << 12, 0)),
        Call("futex", FUTEX, (0, 0x80)),
        Call("futex", FUTEX, (0, 0x81)),
        Call("rt_sigprocmask", SIGPROCMASK),
        Call("rt_sigaction", SIGACTION, (33,)),
        Call("close", CLOSE, (60,)),
        _RETURN,
    ),
    numbers=frozenset({
        *(CLOSE, MMAP, MPROTECT, MUNMAP, BRK, SIGACTION, SIGPROCMASK, SIGRETURN, MADVISE, GETPID, GETTID),
        *(CLONE, FUTEX),
    }),
    starts_thread=True,
)  # fmt: skip


MUSL_START: Final = replace(
    START,
    needs=(*START.needs, Call("membarrier", MEMBARRIER, (REGISTER_MEMBARRIER,)), _MUSL_CLONE),
    numbers=START.numbers | {MEMBARRIER},
    locked_from=MMAP,  # of the stack; a fork and a dlopen wait for that lock (__acquire_ptc)
    tries_clone3=False,
)


def judge(filters: Sequence[Program]) -> None:
    """Have the filters run over every call that is known beforehand: their answers are remembered."""
    routines = (OPEN_PAIR, CANCEL, ADD_PENDING, START, MUSL_START)
    calls = [call for routine in routines for call in routine.needs]
    seccomp.deadly(filters, [*calls, _CLONE, _CLONE3, NEVER_RUN])
    seccomp.deadly(filters, [*seccomp.AGENT_CALLS, *seccomp.MUSL_AGENT_CALLS, *seccomp.CORE_CALLS])
    seccomp.deadly(filters, [*seccomp.START_CALLS, *seccomp.MUSL_START_CALLS, seccomp.MUSL_LOAD])


def gate_of_one(filters: Sequence[Program], number: int, arguments: Arguments) -> AllowedCalls | None:
    """For one system call that heaptop makes in the thread. Raises ValueError for one that a filter would kill for,
    and that must not be made without it."""
    call = Call(str(number), number, tuple(arguments))
    if seccomp.allows(filters, call):
        return None
    if number in SUSPENDABLE:
        return AllowedCalls(frozenset({number}), tuple, exactly=call.padded)
    if seccomp.deadly(filters, [call]):
        raise ValueError(f"system call {number} may not be made without the filter")
    return None
