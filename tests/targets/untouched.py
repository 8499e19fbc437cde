"""Asks for so many MiB and touches none of it; with ``guarded`` it also maps 3 GiB of which 64 MiB are guard pages."""

import ctypes
import sys
import time

from steady import ready

GUARD_INSTALL, GUARDED = 102, 64 << 20
PRIVATE, ANONYMOUS, NO_RESERVE = 0x02, 0x20, 0x4000
untouched, reason = bytes(int(sys.argv[1]) << 20), ""
if sys.argv[2:]:
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    flags = PRIVATE | ANONYMOUS | NO_RESERVE
    place = libc.mmap(None, ctypes.c_size_t(3 << 30), 3, flags, -1, ctypes.c_long(0))
    if libc.madvise(ctypes.c_void_p(place + (1 << 20)), ctypes.c_size_t(GUARDED), GUARD_INSTALL) != 0:
        reason = "the kernel makes no guard pages"
ready(reason)
while True:
    time.sleep(1)
