"""aarch64: its registers, and the frame that the kernel reads at an rt_sigreturn.

::

    frame   +0    siginfo             128 bytes, not read
            +128  struct ucontext     flags, link, stack_t, signal mask, to 1024 bits
            +304  struct sigcontext   fault address, 31 registers, sp, pc, pstate
            +592  its records         fpsimd_context, sve_context where the thread has such state, an empty one

What runs with that frame returns to x30, the address of an rt_sigreturn; the stack pointer is at the frame then.

At a stop the kernel has set up an interrupted call to be made again already: the program counter is at its ``svc``, the
registers have its arguments. Only when the thread leaves that stop does the kernel decide whether a sleep continues by
restart_syscall, and puts that number into x8, also where a tracer has put the program counter back there meanwhile. So
a thread first goes on to the entry of that call, and is stopped once more (``resolves_late``). A handler that runs
after that does not end the call: the kernel makes it again, and the tracer has to end it.

Sources: Linux arch/arm64/include/uapi/asm/{sigcontext,ucontext,ptrace}.h, arch/arm64/kernel/{signal,ptrace,syscall}.c
(6.12).
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Mapping, Sequence
from typing import Final

from heaptop.injector.machine.base import (
    NO_ALTERNATE_STACK,
    WORD,
    GetSet,
    Machine,
    Read,
    Registers,
    SetSet,
    UnsafeThread,
    signed,
)

NT_PRSTATUS, NT_FPREGS = 1, 2
NT_TLS, NT_CALL, NT_SVE = 0x401, 0x404, 0x405
NT_STREAMING, NT_ZA, NT_GCS = 0x40B, 0x40C, 0x410

NAMES: Final = (*(f"x{number}" for number in range(31)), "sp", "pc", "pstate")
"""``struct user_pt_regs``."""
_SET: Final = struct.Struct(f"<{len(NAMES)}Q")
BRANCH_TYPE: Final = 3 << 10
"""Of pstate, between an indirect branch and where it leads (BTI)."""

CALL_AGAIN: Final = b"\x01\x00\x00\xd4"
"""``svc #0``"""
EINTR: Final = -errno.EINTR & WORD
ENOSYS: Final = -errno.ENOSYS & WORD

CONTEXT_AT: Final = 304
RECORDS_AT: Final = 592
RECORDS_ROOM: Final = 4096
FRAME_SIZE: Final = RECORDS_AT + RECORDS_ROOM
FPSIMD_MAGIC, FPSIMD_SIZE = 0x46508001, 528
SVE_MAGIC: Final = 0x53564501
HEADER: Final = struct.Struct("<IIHHHH")
"""``struct user_sve_header``: size, largest size, vector length, largest one, flags. So begins the set of ZA, too."""
HAS_VECTORS: Final = 1
"""Of its flags: what follows is in the format of SVE."""


class ArmRegisters(Registers):
    def copy(self) -> ArmRegisters:
        return ArmRegisters(dict(self.values))

    @property
    def instruction(self) -> int:
        return self.values["pc"]

    @instruction.setter
    def instruction(self, address: int) -> None:
        self.values["pc"] = address

    @property
    def stack(self) -> int:
        return self.values["sp"]

    @property
    def thread_pointer(self) -> int:
        return self.values["tls"]

    @property
    def call(self) -> int:
        return self.values["call"]

    def forget_call(self) -> None:
        self.values["call"] = -1

    def choose_call(self, number: int) -> None:
        self.values["call"] = number

    def refuse_call(self) -> None:
        self.values["x0"] = ENOSYS
        self.forget_call()

    @property
    def result(self) -> int:
        return signed(self.values["x0"])

    @property
    def returned(self) -> int:
        return self.values["x0"]

    def put_frame(self, frame: int, restorer: int) -> None:
        self.values["sp"], self.values["x30"] = frame, restorer

    def is_at_end(self, frame: int) -> bool:
        return self.call == CALLS["rt_sigreturn"] and self.stack == frame

    def put_call(self, instruction: int, number: int, arguments: Sequence[int]) -> None:
        self._put([*arguments, *(0,) * (6 - len(arguments))], instruction)
        self.values["x8"] = number

    def put_function(self, function: int, arguments: Sequence[int]) -> None:
        self._put(arguments, function)

    def _put(self, arguments: Sequence[int], instruction: int) -> None:
        for number, value in enumerate(arguments):
            self.values[f"x{number}"] = value & WORD
        self.values["pc"] = instruction
        self.values["pstate"] &= ~BRANCH_TYPE

    def interrupted(self, read: Read) -> int | None:
        return self.values["x8"] if read(self.instruction, 4) == CALL_AGAIN else None

    def is_resumed(self, read: Read) -> bool:
        return self.interrupted(read) == CALLS["restart_syscall"]

    def end_wait(self) -> None:
        self.values["x0"] = EINTR
        self.values["pc"] += 4


CALLS: Final = {
    "epoll_pwait": 22, "fcntl": 25, "ioctl": 29, "openat": 56, "close": 57, "lseek": 62, "read": 63, "write": 64,
    "pread64": 67, "pselect6": 72, "ppoll": 73, "newfstatat": 79, "fstat": 80, "exit": 93, "exit_group": 94,
    "waitid": 95, "futex": 98, "set_robust_list": 99, "get_robust_list": 100, "nanosleep": 101, "setitimer": 103,
    "clock_gettime": 113, "clock_nanosleep": 115, "sched_setscheduler": 119, "sched_getscheduler": 120,
    "restart_syscall": 128, "kill": 129, "tgkill": 131, "rt_sigsuspend": 133, "rt_sigaction": 134,
    "rt_sigprocmask": 135, "rt_sigtimedwait": 137, "rt_sigreturn": 139, "setpriority": 140, "getpriority": 141,
    "setrlimit": 164,
    "prctl": 167, "getpid": 172, "getppid": 173, "gettid": 178, "socket": 198, "socketpair": 199, "accept": 202,
    "connect": 203, "recvfrom": 207, "recvmsg": 212, "brk": 214, "munmap": 215, "mremap": 216, "clone": 220,
    "mmap": 222, "mprotect": 226, "madvise": 233, "accept4": 242, "wait4": 260, "getrandom": 278,
    "memfd_create": 279, "membarrier": 283, "rseq": 293, "clone3": 435, "close_range": 436, "epoll_pwait2": 441,
}


class Arm(Machine):
    """64-bit ARM, little-endian."""

    name = "aarch64"
    is_whole = False
    elf_machine = 183
    audit_arch = 0xC00000B7
    calls = CALLS
    syscall_instruction = CALL_AGAIN
    syscall_and_return = CALL_AGAIN + b"\xc0\x03\x5f\xd6"
    alignment = 4
    restorer = b"\x68\x11\x80\xd2\x01\x00\x00\xd4"  # mov x8, #139; svc #0
    restorer_in = "[vdso]"
    red_zone = 0
    frame_room = 0x2000
    descriptor_is_below = True
    resolves_late = True

    def registers(self, get: GetSet) -> ArmRegisters:
        values = dict(zip(NAMES, _SET.unpack(get(NT_PRSTATUS)), strict=True))
        (call,) = struct.unpack("<i", get(NT_CALL))
        (tls,) = struct.unpack_from("<Q", get(NT_TLS))
        return ArmRegisters({**values, "call": call, "tls": tls})

    def put_registers(self, registers: Registers, put: SetSet) -> None:
        put(NT_PRSTATUS, _SET.pack(*(registers.values[name] for name in NAMES)))
        put(NT_CALL, struct.pack("<i", registers.values["call"]))

    def vectors(self, get: GetSet) -> dict[int, bytes]:
        for kind in (NT_STREAMING, NT_ZA):
            data = _optional(get, kind)
            if len(data) >= HEADER.size and _has_content(kind, data):
                raise UnsafeThread("it uses the matrix unit (SME)")
        if _optional(get, NT_GCS)[:1] not in (b"", b"\0"):
            raise UnsafeThread("it has a shadow stack (GCS)")
        vectors = _optional(get, NT_SVE)
        if vectors and len(_records(get(NT_FPREGS), vectors)) > RECORDS_ROOM:
            raise UnsafeThread("its vectors are too long for a signal frame")
        return {NT_FPREGS: get(NT_FPREGS), **({NT_SVE: vectors} if vectors else {})}

    def frame(
        self, top: int, restorer: int, registers: Registers, vectors: Mapping[int, bytes], mask: int, read: Read
    ) -> tuple[int, bytes]:
        back = registers.copy()
        if back.is_resumed(read):
            back.end_wait()  # after an rt_sigreturn that is all the kernel would say
        frame = (top - FRAME_SIZE) & ~15
        context = struct.pack("<128xQQQii8xQ", 0, 0, 0, NO_ALTERNATE_STACK, 0, mask)
        context += bytes(CONTEXT_AT - len(context))
        context += struct.pack("<Q", 0) + _SET.pack(*(back.values[name] for name in NAMES))
        context += bytes(RECORDS_AT - len(context))
        records = _records(vectors[NT_FPREGS], vectors.get(NT_SVE, b""))
        return frame, context + records + bytes(RECORDS_ROOM - len(records))


def _optional(get: GetSet, kind: int) -> bytes:
    """A set that not every processor and kernel has."""
    try:
        return get(kind)
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.ENODEV, errno.EIO):
            return b""
        raise


def _has_content(kind: int, data: bytes) -> bool:
    """Whether the set of the streaming mode, or of ZA, is in use; else it has a header alone, or no vectors."""
    size, _, _, _, flags, _ = HEADER.unpack_from(data)
    return size > HEADER.size and (kind == NT_ZA or bool(flags & HAS_VECTORS))


def _records(fpregs: bytes, sve: bytes) -> bytes:
    """What a signal frame says of floating point and vectors, and an empty record at the end."""
    fpsr, fpcr = struct.unpack_from("<II", fpregs, 512)
    records = struct.pack("<IIII", FPSIMD_MAGIC, FPSIMD_SIZE, fpsr, fpcr) + fpregs[:512]
    if len(sve) > HEADER.size:
        _, _, length, _, flags, _ = HEADER.unpack_from(sve)
        if flags & HAS_VECTORS:
            size = 32 * length + 17 * (length // 8)  # vectors, predicates and FFR, which are an eighth as long
            data = sve[HEADER.size : HEADER.size + size]
            whole = -(-(16 + size) // 16) * 16
            records += struct.pack("<IIHHHH", SVE_MAGIC, whole, length, 0, 0, 0) + data.ljust(whole - 16, b"\0")
    return records + bytes(16)
