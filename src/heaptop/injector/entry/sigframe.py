"""A signal frame, as the kernel would write it: what gives a hijacked thread back when nobody is there to do it.

While a thread is hijacked, its stack pointer is at such a frame. Whatever it runs ends with a ``ret``, which takes
the frame's first word, the address of an ``rt_sigreturn``; and that puts back every register, the vector state and
the signal mask at once. So a thread whose tracer was killed at any moment finishes the system call or the function
it is in, and continues where it had been. Builds bytes only.

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
from collections.abc import Mapping
from typing import Final

UCONTEXT_SIZE: Final = 304
FRAME_SIZE: Final = 8 + UCONTEXT_SIZE
ROOM: Final = 0x4000
"""Bytes below an address in which any frame fits: AMX tiles alone need 11 KiB."""

FLAGS: Final = 1 | 2 | 4
"""UC_FP_XSTATE, UC_SIGCONTEXT_SS, UC_STRICT_RESTORE_SS."""
NO_ALTERNATE_STACK: Final = 0x7FFFFFF0
"""Flags of a stack_t that sigaltstack(2) refuses, and rt_sigreturn ignores: the thread keeps the one it has."""

SOFTWARE_BYTES: Final = 464
"""Offset of ``struct _fpx_sw_bytes``; PTRACE_GETREGSET leaves the mask of XCR0 in its first word there."""
FEATURES_IN_USE: Final = 512
"""Offset of XSTATE_BV."""
MAGIC1, MAGIC2 = 0x46505853, 0x46505845
SIZE_BEFORE_TILES: Final = 2696
"""Of the standard layout up to PKRU. A thread that never asked for AMX may not name a larger one."""
TILES: Final = 3 << 17

RESTARTED: Final = frozenset({-512, -513, -514})
"""ERESTARTSYS, ERESTARTNOINTR, ERESTARTNOHAND: the call is made again, as if there had been no signal."""
RESTARTED_BY_BLOCK: Final = -516
"""ERESTART_RESTARTBLOCK, of a sleep or a wait with a time-out: it goes on by another call, restart_syscall."""
EINTR: Final = -errno.EINTR & (1 << 64) - 1

_ORDER: Final = (
    *("r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "rdi", "rsi", "rbp", "rbx", "rdx", "rax", "rcx"),
    *("rsp", "rip", "eflags"),
)


def signed(value: int) -> int:
    """A 64-bit register as the kernel's long."""
    return value - (1 << 64) if value >> 63 else value


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
