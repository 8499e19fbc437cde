"""Much memory in few objects. Arguments: MiB of arrays in small pages, lists beside them, and references to one object
in one list (millions of them are few objects too, and take their time)."""

import ctypes
import signal
import sys

import steady

SMALL_PAGES_ONLY = 41  # PR_SET_THP_DISABLE
MIB = 1 << 20

megabytes, lists, references = map(int, sys.argv[1:])
ctypes.CDLL(None).prctl(SMALL_PAGES_ONLY, 1, 0, 0, 0)
arrays = [bytearray(b"x") * MIB for _ in range(megabytes)]
others = [[i] for i in range(lists)]
same = [None] * references
steady.ready()
while True:
    signal.pause()
