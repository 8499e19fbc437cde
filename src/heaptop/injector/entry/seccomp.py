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

MAX_INSTRUCTIONS: Final = 4096
AUDIT_ARCH_X86_64: Final = 0xC000003E
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
STATUS_LIMIT: Final = 1 << 16

Program = bytes
"""A filter's instructions, as the kernel has them."""


@dataclass(frozen=True, slots=True)
class Call:
    """A system call of x86-64 as a filter sees it; the arguments are typical ones."""

    name: str
    number: int
    arguments: tuple[int, ...] = ()

    def data(self) -> bytes:
        """``struct seccomp_data``: number, architecture, instruction pointer, six arguments; 64 bytes."""
        return struct.pack("<iIQ6Q", self.number, AUDIT_ARCH_X86_64, 0, *self.padded)

    @property
    def padded(self) -> tuple[int, ...]:
        """All six arguments, as registers hold them."""
        return tuple(value & WORD64 for value in (*self.arguments, *(0,) * (6 - len(self.arguments))))


AGENT_CALLS: Final = (
    Call("read", 0, (3,)),
    Call("write", 1, (3,)),
    Call("close", 3, (3,)),
    Call("newfstatat", 262, (3,)),
    Call("mmap", 9, (0, 1 << 20, 3, 0x22)),
    Call("mprotect", 10, (0, 1 << 16, 3)),
    Call("munmap", 11),
    Call("madvise", 28, (0, 1 << 16, 4)),
    Call("rt_sigprocmask", 14),
    Call("rt_sigtimedwait", 128),
    Call("ioctl", 16, (3, 0x5421)),
    Call("getpid", 39),
    Call("gettid", 186),
    Call("prctl", 157, (15,)),
    Call("futex", 202, (0, 0x80)),
    Call("clock_gettime", 228, (1,)),
    Call("clock_gettime of a thread", 228, (3,)),
    Call("openat", 257),
    Call("set_robust_list", 273),
    Call("rseq", 334),
    Call("exit", 60),
    Call("lseek", 8, (3, 0, 1)),
    Call("fcntl", 72, (3, 1030)),
)
"""What the agent's thread calls in its life, as strace shows it on 3.8 and 3.13, and what glibc calls for a thread.

The last two: 3.12 and later show the line that forks, if it forks before the agent's warnings filter is in place."""

MUSL_AGENT_CALLS: Final = (
    *(call for call in AGENT_CALLS if call.name not in ("newfstatat", "openat", "set_robust_list", "rseq")),
    Call("open", 2),
    Call("stat", 4),
    Call("fstat", 5, (3,)),
    Call("brk", 12),
    Call("mremap", 25),
    Call("fcntl for FD_CLOEXEC", 72, (3, 2, 1)),
)
"""The same on musl: its stat and open use the older calls, its open with O_CLOEXEC sets that again, and its malloc uses
the heap."""

CLONE_FLAGS: Final = 0x00800400
"""CLONE_FILES and CLONE_UNTRACED, without a signal at the end."""

CORE_CALLS: Final = (
    Call("memfd_create", 319, (0, 0x11)),
    Call("mmap of the native core", 9, (0, 1 << 16, 5, 0x802, 3)),
    Call("pread64", 17, (3,)),
    Call("fstat", 5, (3,)),
    Call("clone", 56, (CLONE_FLAGS,)),
    Call("close_range", 436, (0, 0xFFFFFFFF, 2)),
    Call("waitid", 247, (1,)),
    Call("wait4", 61),
    Call("ppoll", 271),
    Call("kill", 62),
    Call("rt_sigaction", 13, (11,)),
    Call("rt_sigreturn", 15),
    Call("setitimer", 38),
    Call("setrlimit", 160, (4,)),
    Call("getpriority", 140),
    Call("setpriority", 141),
    Call("sched_getscheduler", 145),
    Call("sched_setscheduler", 144),
    Call("getppid", 110),
    Call("tgkill", 234),
    Call("open", 2),
    Call("openat", 257),
    Call("mremap", 25),
    Call("mmap of sparse memory", 9, (0, 1 << 20, 3, 0x4022, 0xFFFFFFFF)),
    Call("madvise for small pages", 28, (0, 1 << 20, 15)),
    Call("madvise for zeros", 28, (0, 1 << 20, 4)),
    Call("mprotect for reading", 10, (0, 1 << 12, 1)),
    Call("getrandom", 318),
    Call("mmap of shared memory", 9, (0, 1 << 20, 0, 0x4021, 0xFFFFFFFF)),
    Call("futex in shared memory", 202, (0, 0)),
    Call("exit_group", 231),
)
"""What the native core calls beyond that, in the agent's thread and in its clone: where one of these is deadly, the
heap is counted in Python mode."""

MUSL_LOAD: Final = Call("membarrier", 324, (8,))
"""What musl's dlopen calls for a library with thread variables."""

RESTART: Final = Call("restart_syscall", 219)
"""What a thread calls next that was stopped in a sleep or in a wait with a time-out."""

MUSL_START_CALLS: Final = (
    Call("mmap for a stack", 9, (0, 8 << 20, 0, 0x22)),
    Call("membarrier", 324, (16,)),
    Call("clone", 56, (0x7D0F00,)),
    Call("nanosleep", 35),
)
START_CALLS: Final = (
    Call("mmap for a stack", 9, (0, 8 << 20, 0, 0x20022)),
    Call("clone3", 435),
    Call("clone", 56, (0x3D0F00,)),
    Call("nanosleep", 35),
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
