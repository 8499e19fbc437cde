"""Reserves as many TiB of addresses as its argument says, as sanitizers and other languages' collectors do, and touches
one page of them; with another argument, so many pages, 160 KiB from one to the next."""

import ctypes
import sys
import time

from steady import ready

HINT = 0x100000000000
PRIVATE, ANONYMOUS, NO_RESERVE, NO_HUGE_PAGES = 0x02, 0x20, 0x4000, 15
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
size = int(float(sys.argv[1]) * (1 << 40))
place = libc.mmap(
    ctypes.c_void_p(HINT), ctypes.c_size_t(size), 3, PRIVATE | ANONYMOUS | NO_RESERVE, -1, ctypes.c_long(0)
)
libc.madvise(ctypes.c_void_p(place), ctypes.c_size_t(size), NO_HUGE_PAGES)
for number in range(int((sys.argv[2:] or ["1"])[0])):
    ctypes.memset(place + (size >> 1) + number * (160 << 10), 1, 1)
ready()
while True:
    time.sleep(1)
