"""Reserves as many TiB of addresses as its argument says, as sanitizers and other languages' collectors do, and touches
one page of them."""

import ctypes
import sys
import time

from steady import ready

HINT = 0x100000000000
PRIVATE, ANONYMOUS, NO_RESERVE = 0x02, 0x20, 0x4000
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
size = int(sys.argv[1]) << 40
place = libc.mmap(
    ctypes.c_void_p(HINT), ctypes.c_size_t(size), 3, PRIVATE | ANONYMOUS | NO_RESERVE, -1, ctypes.c_long(0)
)
ctypes.memset(place + (size >> 1), 1, 1)
ready()
while True:
    time.sleep(1)
