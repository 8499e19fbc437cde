"""Traces the process whose pid is its argument, without stopping it, until it is killed itself."""

import ctypes
import os
import sys
import time

from steady import ready

PTRACE_SEIZE = 0x4206

libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
libc.ptrace.restype = ctypes.c_long
pid = int(sys.argv[1])
if libc.ptrace(PTRACE_SEIZE, pid, None, None):
    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
ready()
while True:
    time.sleep(0.2)
