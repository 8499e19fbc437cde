"""Passes for an interpreter that this machine lacks. Argument: ``musl`` and a path, or ``free-threaded``.

On musl, a file whose name says so is mapped; here a fresh one at the given path is. A free-threaded build says so in
the table of offsets at the start of ``_PyRuntime``, 3.13 and later (Include/internal/pycore_debug_offsets.h: cookie,
version, free_threaded, 8 bytes each); that word is set here, and the interpreter itself never reads it.
"""

import ctypes
import mmap
import sys
import time

from steady import ready


def map_file(path):
    with open(path, "w+b") as stream:
        stream.truncate(mmap.PAGESIZE)
        return mmap.mmap(stream.fileno(), mmap.PAGESIZE)


def set_free_threaded():
    table = (ctypes.c_uint64 * 3).in_dll(ctypes.pythonapi, "_PyRuntime")
    assert bytes(table)[:8] == b"xdebugpy"
    table[2] = 1


mapping = map_file(sys.argv[2]) if sys.argv[1] == "musl" else set_free_threaded()
ready()
while True:
    time.sleep(0.2)
