"""Maps a piece of memory where, and as large as, malloc has a heap of a thread's arena; writes to 8 MiB of it."""

import ctypes
import time

from steady import ready

SIZE = 64 << 20
FIXED_NOREPLACE, ANONYMOUS, PRIVATE = 0x100000, 0x20, 2

libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
place = libc.mmap(0x2000_0000_0000, SIZE, 3, FIXED_NOREPLACE | ANONYMOUS | PRIVATE, -1, 0)
assert place == 0x2000_0000_0000
ctypes.memset(place, 1, 8 << 20)

if __name__ == "__main__":
    ready()
    while True:
        time.sleep(0.1)
