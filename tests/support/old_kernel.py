"""Runs a command as on a kernel that lacks some system calls. Arguments: their numbers, with commas; the command.

A seccomp filter answers ENOSYS, as a kernel does that does not know a call, and ENOTTY to an ioctl(2) that it does not
know (16:REQUEST). The command's children have it too.
"""

import ctypes
import os
import struct
import sys

LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06  # BPF_LD+W+ABS, BPF_JMP+JEQ, BPF_RET
ALLOW, ERRNO_ENOSYS, ERRNO_ENOTTY = 0x7FFF0000, 0x00050026, 0x00050019
REQUEST = 24  # Where the filter finds the lower half of the second argument
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2

NUMBERS = {
    "process_vm_readv": 310,
    "memfd_create": 319,
    "membarrier": 324,
    "pidfd_open": 434,
    "clone3": 435,
    "close_range": 436,
    "openat2": 437,
    "pidfd_getfd": 438,
}
REQUESTS = {"PAGEMAP_SCAN": 0xC0606610}


class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]


def wrapper(*calls: str) -> tuple[str, str, str]:
    """What goes before a command."""
    numbers = (f"16:{REQUESTS[call]}" if call in REQUESTS else str(NUMBERS[call]) for call in calls)
    return (sys.executable, __file__, ",".join(numbers))


def main() -> None:
    instructions = [(LOAD, 0, 0, 0)]
    for each in sys.argv[1].split(","):
        number, _, request = each.partition(":")
        refusal = [(RETURN, 0, 0, ERRNO_ENOSYS)]
        if request:
            refusal = [(LOAD, 0, 0, REQUEST), (EQUAL, 0, 1, int(request)), (RETURN, 0, 0, ERRNO_ENOTTY)]
            refusal.append((RETURN, 0, 0, ALLOW))
        instructions += [(EQUAL, 0, len(refusal), int(number)), *refusal]
    instructions.append((RETURN, 0, 0, ALLOW))
    code = b"".join(struct.pack("HBBI", *instruction) for instruction in instructions)
    libc = ctypes.CDLL(None, use_errno=True)
    program = Program(len(instructions), code)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(
        PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0
    ):
        raise OSError(ctypes.get_errno(), "prctl")
    os.execvp(sys.argv[2], sys.argv[2:])


if __name__ == "__main__":
    main()
