"""Runs under a seccomp filter. Arguments: ``errno`` or ``kill``; the call it is for; and for how many seconds to
compute at first (0 where it is left out). With ``fork`` as the fourth it forks all the time, with ``poll`` or
``lock`` it waits for a long time in a call with a time-out, with ``masked`` while signal 34
is blocked.
For ``only=0,1,…`` in place of a call it is for all but these numbers, and the few that this program makes by itself.

``mmap`` and ``mprotect`` are filtered where they ask for executable memory, the others always.

The filter is a classic BPF program over ``struct seccomp_data`` (linux/seccomp.h): nr at 0, args[2] at 32.
"""

import ctypes
import linecache  # noqa: F401
import os
import select
import signal
import struct
import sys
import threading
import time
import tokenize  # noqa: F401
import traceback  # noqa: F401
import tracemalloc  # noqa: F401

from steady import ready

# linecache to tracemalloc: else a fork that warns imports them, and lists folders for that (docs/known-issues.md)

LOAD, AND_JUMP, EQUAL, RETURN = 0x20, 0x45, 0x15, 0x06  # BPF_LD+W+ABS, BPF_JMP+JSET, +JEQ, BPF_RET
ALLOW, ERRNO_EPERM, KILL_PROCESS = 0x7FFF0000, 0x00050001, 0x80000000
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
CALLS = {
    "lseek": 8,
    "mmap": 9,
    "mprotect": 10,
    "nanosleep": 35,
    "socket": 41,
    "socketpair": 53,
    "clone": 56,
    "readlink": 89,
    "rt_sigtimedwait": 128,
    "getdents64": 217,
    "restart_syscall": 219,
    "memfd_create": 319,
    "clone3": 435,
    "close_range": 436,
}
PROT_EXEC = 4
OWN = {8, 12, 13, 15, 19, 23, 24, 56, 57, 61, 131, 228, 230, 231, 270, 273, 334, 435}
"""brk, signals and their stack, select, clocks, fork and wait, thread starts, the end; lseek and readv: from 3.12 on a
fork reads /proc/self/stat, on musl by these."""


def program(action, call):
    if call.startswith("only="):
        numbers = sorted(OWN | {int(number) for number in call[len("only=") :].split(",")})
        checks = [(EQUAL, len(numbers) - place, 0, number) for place, number in enumerate(numbers)]
        return [(LOAD, 0, 0, 0), *checks, (RETURN, 0, 0, action), (RETURN, 0, 0, ALLOW)]
    if call in ("mmap", "mprotect"):
        return [
            (LOAD, 0, 0, 0),
            (EQUAL, 0, 3, CALLS[call]),
            (LOAD, 0, 0, 32),
            (AND_JUMP, 0, 1, PROT_EXEC),
            (RETURN, 0, 0, action),
            (RETURN, 0, 0, ALLOW),
        ]
    return [
        (LOAD, 0, 0, 0),
        (EQUAL, 0, 1, CALLS[call]),
        (RETURN, 0, 0, action),
        (RETURN, 0, 0, ALLOW),
    ]


class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]


action = {"errno": ERRNO_EPERM, "kill": KILL_PROCESS}[sys.argv[1]]
instructions = program(action, sys.argv[2])
code = b"".join(struct.pack("HBBI", *instruction) for instruction in instructions)
libc = ctypes.CDLL(None, use_errno=True)
if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(
    PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(Program(len(instructions), code)), 0, 0
):
    raise OSError(ctypes.get_errno(), "prctl")
if sys.argv[4:] == ["masked"]:
    signal.pthread_sigmask(signal.SIG_BLOCK, [34])
computing_until = time.monotonic() + float((sys.argv[3:] or ["0"])[0])
ready()
while time.monotonic() < computing_until:
    pass
while True:
    if sys.argv[4:] in (["poll"], ["masked"]):
        select.poll().poll(1000000)
    elif sys.argv[4:] == ["lock"]:
        threading.Event().wait(1000)
    if sys.argv[4:] == ["fork"]:
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
    time.sleep(0.2)
