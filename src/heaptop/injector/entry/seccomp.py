"""What a target's seccomp filters would do to the agent's thread: runs them here, and never in the target.

PTRACE_O_SUSPEND_SECCOMP protects the hijacked thread only while it is hijacked. The thread it starts inherits the
filters, and lives under them: one that answers a call of the agent's by killing would kill the target. So the
programs are read out (:func:`heaptop.injector.entry.ptrace.read_filters`) and asked about each call beforehand.

Classic BPF as the kernel restricts it for seccomp: ``kernel/seccomp.c`` (seccomp_check_filter), Linux 6.1; its
instructions are those of ``linux/bpf_common.h``. Nothing here touches the target.
"""

from __future__ import annotations

import errno
import functools
import operator
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from heaptop.injector.machine import MACHINE

MAX_INSTRUCTIONS: Final = 4096
WORD32: Final = 0xFFFFFFFF
WORD64: Final = (1 << 64) - 1

KILL_PROCESS: Final = 0x80000000
KILL_THREAD: Final = 0x00000000
TRAP: Final = 0x00030000
ERRNO: Final = 0x00050000
LOG: Final = 0x7FFC0000
ALLOW: Final = 0x7FFF0000
ACTION: Final = 0xFFFF0000
DEADLY: Final = (KILL_PROCESS, KILL_THREAD, TRAP)
"""Actions that end a process: TRAP raises SIGSYS, which does unless it is handled."""

INSTRUCTION: Final = struct.Struct("<HBBI")
ENOSYS: Final = errno.ENOSYS
ABSENT: Final = -1
STATUS_LIMIT: Final = 1 << 16

Program = bytes
"""A filter's instructions, as the kernel has them."""


@dataclass(frozen=True, slots=True)
class Call:
    """A system call as a filter sees it; the arguments are typical ones."""

    name: str
    number: int
    arguments: tuple[int, ...] = ()

    def data(self) -> bytes:
        """``struct seccomp_data``: number, architecture, instruction pointer, six arguments; 64 bytes."""
        return struct.pack("<iIQ6Q", self.number, MACHINE.audit_arch, 0, *self.padded)

    @property
    def padded(self) -> tuple[int, ...]:
        """All six arguments, as registers hold them."""
        return tuple(value & WORD64 for value in (*self.arguments, *(0,) * (6 - len(self.arguments))))


def _call(name: str, *arguments: int) -> Call:
    """A call of this machine; the first word of ``name`` is the kernel's name for it."""
    return Call(name, MACHINE.calls.get(name.split(maxsplit=1)[0], ABSENT), arguments)


def _there(*calls: Call) -> tuple[Call, ...]:
    """Without those that this machine does not have."""
    return tuple(call for call in calls if call.number != ABSENT)


AGENT_CALLS: Final = (
    _call("read", 3),
    _call("write", 3),
    _call("close", 3),
    _call("newfstatat", 3),
    _call("mmap", 0, 1 << 20, 3, 0x22),
    _call("mprotect", 0, 1 << 16, 3),
    _call("munmap"),
    _call("madvise", 0, 1 << 16, 4),
    _call("rt_sigprocmask"),
    _call("rt_sigtimedwait"),
    _call("ioctl", 3, 0x5421),
    _call("getpid"),
    _call("gettid"),
    _call("prctl", 15),
    _call("futex", 0, 0x80),
    _call("clock_gettime", 1),
    _call("clock_gettime of a thread", 3),
    _call("openat"),
    _call("set_robust_list"),
    _call("rseq"),
    _call("exit"),
    _call("lseek", 3, 0, 1),
    _call("fcntl", 3, 1030),
)
"""What the agent's thread calls in its life, as strace shows it on 3.8 and 3.13, and what glibc calls for a thread.

The last two: 3.12 and later show the line that forks, if it forks before the agent's warnings filter is in place."""

MUSL_AGENT_CALLS: Final = _there(
    *(call for call in AGENT_CALLS if call.name not in ("newfstatat", "openat", "set_robust_list", "rseq")),
    _call("open"),
    _call("stat"),
    _call("fstat", 3),
    _call("brk"),
    _call("mremap"),
    _call("fcntl for FD_CLOEXEC", 3, 2, 1),
)
"""The same on musl: its stat and open use the older calls, its open with O_CLOEXEC sets that again, and its malloc uses
the heap."""

CLONE_FLAGS: Final = 0x00800400
"""CLONE_FILES and CLONE_UNTRACED, without a signal at the end."""

CORE_CALLS: Final = _there(
    _call("memfd_create", 0, 0x11),
    _call("mmap of the native core", 0, 1 << 16, 5, 0x802, 3),
    _call("pread64", 3),
    _call("fstat", 3),
    _call("clone", CLONE_FLAGS),
    _call("close_range", 0, 0xFFFFFFFF, 2),
    _call("waitid", 1),
    _call("wait4"),
    _call("ppoll"),
    _call("kill"),
    _call("rt_sigaction", 11),
    _call("rt_sigreturn"),
    _call("setitimer"),
    _call("setrlimit", 4),
    _call("getpriority"),
    _call("setpriority"),
    _call("sched_getscheduler"),
    _call("sched_setscheduler"),
    _call("getppid"),
    _call("tgkill"),
    _call("open"),
    _call("openat"),
    _call("mremap"),
    _call("mmap of sparse memory", 0, 1 << 20, 3, 0x4022, 0xFFFFFFFF),
    _call("madvise for small pages", 0, 1 << 20, 15),
    _call("madvise for zeros", 0, 1 << 20, 4),
    _call("mprotect for reading", 0, 1 << 12, 1),
    _call("getrandom"),
    _call("mmap of shared memory", 0, 1 << 20, 0, 0x4021, 0xFFFFFFFF),
    _call("futex in shared memory", 0, 0),
    _call("exit_group"),
)
"""What the native core calls beyond that, in the agent's thread and in its clone: where one of these is deadly, the
heap is counted in Python mode."""

MUSL_LOAD: Final = _call("membarrier", 8)
"""What musl's dlopen calls for a library with thread variables."""

RESTART: Final = _call("restart_syscall")
"""What a thread calls next that was stopped in a sleep or in a wait with a time-out."""

MUSL_START_CALLS: Final = (
    _call("mmap for a stack", 0, 8 << 20, 0, 0x22),
    _call("membarrier", 16),
    _call("clone", 0x7D0F00),
    _call("nanosleep"),
)
START_CALLS: Final = (
    _call("mmap for a stack", 0, 8 << 20, 0, 0x20022),
    _call("clone3"),
    _call("clone", 0x3D0F00),
    _call("nanosleep"),
)
"""What the main thread calls when it starts the agent's thread by a pending call and waits for it (stub.S), which no
suspension covers."""


def evaluate(program: Program, data: bytes) -> int:
    """What one filter returns for a call. Raises ValueError for a program the kernel would not have taken."""
    instructions = list(INSTRUCTION.iter_unpack(program))
    accumulator = index = 0
    scratch = [0] * 16
    at = 0
    while at < len(instructions):
        code, if_true, if_false, k = instructions[at]
        at += 1
        kind = code & 7
        if kind == 6:  # RET
            return accumulator if code & 0x18 == 0x10 else k
        if kind == 0:  # LD
            accumulator = _load(code, k, data, scratch)
        elif kind == 1:  # LDX
            index = _load(code, k, data, scratch)
        elif kind == 2:  # ST
            scratch[k] = accumulator
        elif kind == 3:  # STX
            scratch[k] = index
        elif kind == 7:  # MISC: TAX, TXA
            index, accumulator = (index, index) if code & 0xF8 else (accumulator, accumulator)
        elif kind == 4:
            accumulator = _arithmetic(code & 0xF0, accumulator, index if code & 8 else k)
        elif code & 0xF0 == 0:  # JA
            at += k
        else:
            other = index if code & 8 else k
            at += if_true if _JUMPS[code & 0xF0](accumulator, other) else if_false
    raise ValueError("a filter that does not return")


def _load(code: int, k: int, data: bytes, scratch: list[int]) -> int:
    mode = code & 0xE0
    if mode == 0x20:  # ABS
        return int(struct.unpack_from("<I", data, k)[0])
    if mode == 0x60:  # MEM
        return scratch[k]
    if mode == 0x80:  # LEN
        return len(data)
    return k  # IMM


_JUMPS: Final[Mapping[int, Callable[[int, int], bool]]] = {
    0x10: lambda a, b: a == b,
    0x20: lambda a, b: a > b,
    0x30: lambda a, b: a >= b,
    0x40: lambda a, b: bool(a & b),
}


def _arithmetic(operation: int, a: int, b: int) -> int:
    """Unsigned 32-bit; a division by zero ends the filter with 0 in the kernel, which is KILL_THREAD."""
    if operation in (0x30, 0x90) and b == 0:
        raise ValueError("a filter that divides by zero")
    return _OPERATIONS[operation](a, b) & WORD32


_OPERATIONS: Final[Mapping[int, Callable[[int, int], int]]] = {
    0x00: operator.add,
    0x10: operator.sub,
    0x20: operator.mul,
    0x30: operator.floordiv,
    0x40: operator.or_,
    0x50: operator.and_,
    0x60: lambda a, b: a << b if b < 32 else 0,
    0x70: lambda a, b: a >> b if b < 32 else 0,
    0x80: lambda a, b: -a,
    0x90: operator.mod,
    0xA0: operator.xor,
}


def answer(programs: Sequence[Program], call: Call) -> int:
    """What all filters together return: the first of the most severe, which is the smallest as a signed number."""
    return _answer(tuple(programs), call)


@functools.lru_cache(maxsize=1024)
def _answer(programs: tuple[Program, ...], call: Call) -> int:
    """Remembered: 32,768 instructions, which a thread may have, take 20 ms, and it may be stopped meanwhile."""
    # The last filter that was installed is run first (kernel/seccomp.c, seccomp_run_filters); so is number 0 here.
    answers = [evaluate(program, call.data()) for program in programs]
    return min(answers, key=lambda each: (each & ACTION) - (1 << 32 if each >> 31 else 0), default=ALLOW)


def verdict(programs: Sequence[Program], call: Call) -> int:
    """The action of all filters together."""
    return answer(programs, call) & ACTION


def allows(programs: Sequence[Program], call: Call) -> bool:
    """Whether the call is made as if there were no filter."""
    return verdict(programs, call) in (ALLOW, LOG)


def answers_error(programs: Sequence[Program], call: Call, code: int | None = None) -> bool:
    """Whether the call fails with an error, that one if one is named."""
    found = answer(programs, call)
    return found & ACTION == ERRNO and (code is None or found & 0xFFFF == code)


def deadly(programs: Sequence[Program], calls: Sequence[Call]) -> list[str]:
    """The names of the calls that would end the target."""
    return [call.name for call in calls if verdict(programs, call) in DEADLY]


OFF, STRICT = 0, 1


def mode(tid: int) -> int:
    """OFF, STRICT or 2 for filters: what ``/proc`` reports for a thread. Raises ProcessLookupError when it is gone."""
    try:
        with open(f"/proc/{tid}/status", "rb") as file:
            found = re.search(rb"^Seccomp:\s*(\d+)$", file.read(STATUS_LIMIT), re.MULTILINE)
    except FileNotFoundError:
        raise ProcessLookupError(errno.ESRCH, f"thread {tid} has exited") from None
    return int(found[1]) if found else OFF  # a kernel without seccomp has no such line
