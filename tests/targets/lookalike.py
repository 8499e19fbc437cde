"""Passes for a free-threaded build, which this machine lacks.

It says so in the table of offsets at the start of ``_PyRuntime``, 3.13 and later (pycore_debug_offsets.h: cookie,
version, free_threaded, 8 bytes each); that word is set here, and the interpreter itself never reads it.
"""

import ctypes
import time

from steady import ready

table = (ctypes.c_uint64 * 3).in_dll(ctypes.pythonapi, "_PyRuntime")
assert bytes(table)[:8] == b"xdebugpy"
table[2] = 1
ready()
while True:
    time.sleep(0.2)
