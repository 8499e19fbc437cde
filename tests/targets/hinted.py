"""Takes 64 MiB of glibc's malloc and advises huge pages for all but the page it begins in, as NumPy does for large
arrays: the kernel parts the mapping there. Then the same again by NumPy itself, where it is installed."""

import ctypes
import time

from steady import ready

SIZE = 64 << 20
PAGE = 4096
MADV_HUGEPAGE = 14

libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.malloc.argtypes = [ctypes.c_size_t]
libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
libc.memset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]

block = libc.malloc(SIZE)
offset = PAGE - block % PAGE
libc.madvise(block + offset, SIZE - offset, MADV_HUGEPAGE)
libc.memset(block, 1, SIZE)
total = SIZE
try:
    import numpy
except ImportError:
    pass
else:
    array = numpy.ones(SIZE // 8)
    total += SIZE
ready(total)
while True:
    time.sleep(1)
