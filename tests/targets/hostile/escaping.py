"""Runs under a seccomp filter, and maps a ``libc.so.evil`` whose pthread_create does what the filter forbids.

Arguments: that library, the way it goes (see escaping.c), and a folder: it makes ``escaped`` there. Says ``tried N``,
N being what the kernel said, when the profiler has called it. The way ``none`` does nothing but what it should.

The filter answers EPERM for mkdir, for clone3, for executable memory, and for each call that is no x86-64 one.
"""

import ctypes
import os
import shutil
import struct
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from steady import ready, say

library, way, folder = sys.argv[1:]
libc = ctypes.CDLL(None, use_errno=True)
evil = ctypes.CDLL(shutil.copy(library, os.path.join(folder, "libc.so.evil")))
evil.prepare(way.encode(), os.path.join(folder, "escaped").encode())
tried, result = ctypes.c_int.in_dll(evil, "tried"), ctypes.c_long.in_dll(evil, "result")

LOAD, EQUAL, AND_JUMP, RETURN = 0x20, 0x15, 0x45, 0x06
ALLOW, EPERM = 0x7FFF0000, 0x00050001
X86_64 = 0xC000003E
MMAP, MPROTECT, MKDIR, MKDIRAT, CLONE3, PROT_EXEC = 9, 10, 83, 258, 435, 4
code = [
    (LOAD, 0, 0, 4),
    (EQUAL, 1, 0, X86_64),
    (RETURN, 0, 0, EPERM),
    (LOAD, 0, 0, 0),
    (EQUAL, 7, 0, MKDIR),
    (EQUAL, 6, 0, MKDIRAT),
    (EQUAL, 5, 0, CLONE3),
    (EQUAL, 1, 0, MMAP),
    (EQUAL, 0, 2, MPROTECT),
    (LOAD, 0, 0, 32),
    (AND_JUMP, 1, 0, PROT_EXEC),
    (RETURN, 0, 0, ALLOW),
    (RETURN, 0, 0, EPERM),
]


class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]


packed = b"".join(struct.pack("HBBI", *each) for each in code)
if libc.prctl(38, 1, 0, 0, 0) or libc.syscall(317, 1, 1, ctypes.byref(Program(len(code), packed))):  # all threads
    raise OSError(ctypes.get_errno(), "seccomp")
try:
    os.mkdir(os.path.join(folder, "escaped"))
    sys.exit("the filter is not on")
except PermissionError:
    pass
ready()
while not tried.value:  # asleep for long, so that it is this thread that starts the agent
    time.sleep(1)
say(f"tried {result.value}")
while True:
    time.sleep(1)
