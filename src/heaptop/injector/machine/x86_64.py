"""x86-64: its registers, and the frame that the kernel reads at an rt_sigreturn.

::

    frame   +0    restorer            what the final ret jumps to; then rsp = frame + 8, as rt_sigreturn wants it
            +8    struct ucontext     flags, link, stack_t, struct sigcontext_64, signal mask
            ...   to 64 bytes
    vectors       struct _xstate      what PTRACE_GETREGSET gave, with the kernel's own words about its size

Sources: Linux arch/x86/include/uapi/asm/{sigcontext,ucontext}.h, arch/x86/kernel/{signal_64,fpu/signal}.c (6.12).
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from heaptop.injector.machine.base import NO_ALTERNATE_STACK, WORD, GetSet, Machine, Read, Registers, SetSet, signed

NT_PRSTATUS: Final = 1
NT_XSTATE: Final = 0x202

NAMES: Final = (
    *("r15", "r14", "r13", "r12", "rbp", "rbx", "r11", "r10", "r9", "r8", "rax", "rcx", "rdx", "rsi", "rdi"),
    *("orig_rax", "rip", "cs", "eflags", "rsp", "ss", "fs_base", "gs_base", "ds", "es", "fs", "gs"),
)
"""``struct user_regs_struct`` (``<sys/user.h>``)."""
_SET: Final = struct.Struct(f"<{len(NAMES)}Q")
DIRECTION_FLAG: Final = 0x400

RESTARTED_WITHOUT_HANDLER: Final = -514
RESTARTED: Final = frozenset({-512, -513, RESTARTED_WITHOUT_HANDLER})
"""ERESTARTSYS, ERESTARTNOINTR, ERESTARTNOHAND: the call is made again, as if there had been no signal."""
RESTARTED_BY_BLOCK: Final = -516
"""ERESTART_RESTARTBLOCK, of a sleep or a wait with a time-out: it goes on by another call, restart_syscall."""
EINTR: Final = -errno.EINTR & WORD

UCONTEXT_SIZE: Final = 304
FRAME_SIZE: Final = 8 + UCONTEXT_SIZE
FLAGS: Final = 1 | 2 | 4
"""UC_FP_XSTATE, UC_SIGCONTEXT_SS, UC_STRICT_RESTORE_SS."""
SOFTWARE_BYTES: Final = 464
"""Offset of ``struct _fpx_sw_bytes``; PTRACE_GETREGSET leaves the mask of XCR0 in its first word there."""
FEATURES_IN_USE: Final = 512
"""Offset of XSTATE_BV."""
MAGIC1, MAGIC2 = 0x46505853, 0x46505845
SIZE_BEFORE_TILES: Final = 2696
"""Of the standard layout up to PKRU. A thread that never asked for AMX may not name a larger one."""
TILES: Final = 3 << 17

_ORDER: Final = (
    *("r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "rdi", "rsi", "rbp", "rbx", "rdx", "rax", "rcx"),
    *("rsp", "rip", "eflags"),
)


class X86Registers(Registers):
    def copy(self) -> X86Registers:
        return X86Registers(dict(self.values))

    @property
    def instruction(self) -> int:
        return self.values["rip"]

    @instruction.setter
    def instruction(self, address: int) -> None:
        self.values["rip"] = address

    @property
    def stack(self) -> int:
        return self.values["rsp"]

    @property
    def thread_pointer(self) -> int:
        return self.values["fs_base"]

    @property
    def call(self) -> int:
        return signed(self.values["orig_rax"])

    def forget_call(self) -> None:
        self.values["orig_rax"] = WORD

    def choose_call(self, number: int) -> None:
        self.values["orig_rax"] = number

    def refuse_call(self) -> None:
        self.forget_call()  # the kernel has put ENOSYS there already

    @property
    def result(self) -> int:
        return signed(self.values["rax"])

    @property
    def returned(self) -> int:
        return self.values["rdi"]

    def put_frame(self, frame: int, restorer: int) -> None:
        self.values["rsp"] = frame  # whose first word is the restorer's address

    def is_at_end(self, frame: int) -> bool:
        return self.call == CALLS["rt_sigreturn"] and self.stack == frame + 8

    def put_call(self, instruction: int, number: int, arguments: Sequence[int]) -> None:
        padded = [*arguments, *(0,) * (6 - len(arguments))]
        for name, value in zip(("rdi", "rsi", "rdx", "r10", "r8", "r9"), padded, strict=True):
            self.values[name] = value & WORD
        self.values["rax"], self.values["rip"] = number, instruction

    def put_function(self, function: int, arguments: Sequence[int]) -> None:
        for name, value in zip(("rdi", "rsi", "rdx", "rcx", "r8", "r9"), arguments, strict=False):
            self.values[name] = value & WORD
        self.values["rax"], self.values["rip"] = 0, function
        self.values["eflags"] &= ~DIRECTION_FLAG

    def interrupted(self, read: Read) -> int | None:
        return self.call if self.call >= 0 else None

    def is_resumed(self, read: Read) -> bool:
        return self.call >= 0 and self.result == RESTARTED_BY_BLOCK

    def end_wait(self) -> None:
        self.values["rax"] = EINTR

    def wait_again(self) -> bool:
        is_endless = _IS_ENDLESS.get(self.call)
        if is_endless is None or self.values["rax"] != EINTR or not is_endless(self.values):
            return False
        self.values["rax"] = RESTARTED_WITHOUT_HANDLER & WORD
        return True


CALLS: Final = {
    "read": 0, "write": 1, "open": 2, "close": 3, "stat": 4, "fstat": 5, "poll": 7, "lseek": 8, "mmap": 9,
    "mprotect": 10, "munmap": 11, "brk": 12, "rt_sigaction": 13, "rt_sigprocmask": 14, "rt_sigreturn": 15,
    "ioctl": 16, "pread64": 17, "select": 23, "mremap": 25, "madvise": 28, "pause": 34, "nanosleep": 35,
    "setitimer": 38, "getpid": 39, "socket": 41, "connect": 42, "accept": 43, "recvfrom": 45, "recvmsg": 47,
    "socketpair": 53, "clone": 56, "exit": 60, "wait4": 61, "kill": 62, "semop": 65, "fcntl": 72, "getppid": 110,
    "rt_sigtimedwait": 128, "getpriority": 140, "setpriority": 141, "sched_setscheduler": 144,
    "sched_getscheduler": 145, "prctl": 157, "setrlimit": 160, "gettid": 186, "futex": 202, "io_getevents": 208,
    "restart_syscall": 219, "semtimedop": 220, "clock_gettime": 228, "clock_nanosleep": 230, "exit_group": 231,
    "epoll_wait": 232, "tgkill": 234, "waitid": 247, "openat": 257, "newfstatat": 262, "pselect6": 270,
    "ppoll": 271, "set_robust_list": 273, "get_robust_list": 274, "epoll_pwait": 281, "accept4": 288,
    "getrandom": 318, "memfd_create": 319, "membarrier": 324, "rseq": 334, "clone3": 435, "close_range": 436,
    "epoll_pwait2": 441,
}


_IS_ENDLESS: Final[Mapping[int, Callable[[Mapping[str, int]], bool]]] = {
    CALLS["epoll_wait"]: lambda values: bool(values["r10"] >> 31 & 1),  # an int below 0
    CALLS["epoll_pwait"]: lambda values: bool(values["r10"] >> 31 & 1),
    CALLS["epoll_pwait2"]: lambda values: not values["r10"],
    CALLS["rt_sigtimedwait"]: lambda values: not values["rdx"],
    CALLS["semop"]: lambda values: True,
    CALLS["semtimedop"]: lambda values: not values["r10"],
    CALLS["io_getevents"]: lambda values: not values["r8"],
}
"""Waits that end with EINTR after any stop (signal(7)): whether one has no time limit. It has done nothing by then."""


class X86(Machine):
    """64-bit x86."""

    name = "x86_64"
    is_whole = True
    elf_machine = 62
    audit_arch = 0xC000003E
    calls = CALLS
    syscall_instruction = b"\x0f\x05"
    syscall_and_return = b"\x0f\x05\xc3"
    alignment = 1
    restorer = b"\x48\xc7\xc0\x0f\x00\x00\x00\x0f\x05"
    # ``mov rax, 15; syscall``: __restore_rt of glibc (sysdeps/unix/sysv/linux/x86_64/libc_sigaction.c) and musl
    # (src/signal/x86_64/restore.s), in every version.
    restorer_in = ""
    red_zone = 128  # System V ABI
    frame_room = 0x4000  # AMX tiles alone need 11 KiB
    descriptor_is_below = False
    resolves_late = False

    def registers(self, get: GetSet) -> X86Registers:
        return X86Registers(dict(zip(NAMES, _SET.unpack(get(NT_PRSTATUS)), strict=True)))

    def put_registers(self, registers: Registers, put: SetSet) -> None:
        put(NT_PRSTATUS, _SET.pack(*(registers.values[name] for name in NAMES)))

    def vectors(self, get: GetSet) -> dict[int, bytes]:
        return {NT_XSTATE: get(NT_XSTATE)}

    def frame(
        self, top: int, restorer: int, registers: Registers, vectors: Mapping[int, bytes], mask: int, read: Read
    ) -> tuple[int, bytes]:
        return build(top, restorer, registers.values, vectors[NT_XSTATE], mask)


def resumed(registers: Mapping[str, int]) -> dict[str, int]:
    """``registers`` with an interrupted system call set up to be made again, as the kernel does on the way out.

    One that goes on by restart_syscall says EINTR instead: after an rt_sigreturn that is all the kernel would say.
    """
    result, call = dict(registers), signed(registers["orig_rax"])
    code = signed(registers["rax"])
    if call >= 0 and code in RESTARTED:
        result |= {"rax": call, "rip": registers["rip"] - 2}
    elif call >= 0 and code == RESTARTED_BY_BLOCK:
        result["rax"] = EINTR
    return result


def build(top: int, restorer: int, registers: Mapping[str, int], xstate: bytes, mask: int) -> tuple[int, bytes]:
    """The frame that ends at or below ``top``: its address, 8 modulo 16, and its bytes.

    ``registers`` by their names in ``struct user_regs_struct``, ``xstate`` as PTRACE_GETREGSET(NT_X86_XSTATE) gave it.
    """
    vectors = _vectors(xstate)
    # Where a page is not there at once, the kernel asks for as much as a frame of its own would have (fpu/signal.c:
    # fault_in_readable), and kills the program where that crosses into memory that is not mapped.
    at = (top - max(len(vectors), len(xstate))) & ~63
    frame = ((at - FRAME_SIZE) & ~15) - 8
    values = resumed(registers)
    context = struct.pack(
        "<QQQiiQ18Q4H5Q64xQ",
        *(FLAGS, 0),
        *(0, NO_ALTERNATE_STACK, 0, 0),
        *(values[name] for name in _ORDER),
        *(values[name] & 0xFFFF for name in ("cs", "gs", "fs", "ss")),
        *(0, 0, 0, 0, at),
        mask,
    )
    head = struct.pack("<Q", restorer) + context
    return frame, head + bytes(at - frame - len(head)) + vectors


def _vectors(xstate: bytes) -> bytes:
    """``xstate`` as a frame has it: its size and features in the software bytes, a magic word behind it."""
    (in_use,) = struct.unpack_from("<Q", xstate, FEATURES_IN_USE)
    size = len(xstate) if in_use & TILES else min(len(xstate), SIZE_BEFORE_TILES)
    (features,) = struct.unpack_from("<Q", xstate, SOFTWARE_BYTES)
    result = bytearray(xstate[:size])
    struct.pack_into("<IIQI28x", result, SOFTWARE_BYTES, MAGIC1, size + 4, features, size)
    return bytes(result) + struct.pack("<I", MAGIC2)
