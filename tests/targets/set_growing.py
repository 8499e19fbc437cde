"""Has sets that are as one is while it grows: the new table is there, and some of its items are not in it yet."""

import ctypes
import time

from steady import ready

USED = 24
"""Of setobject.h: where ``used`` is."""
kept = [{f"item {number}" for number in range(100)}, frozenset(range(1000))]
for each in kept:
    used = ctypes.c_ssize_t.from_address(id(each) + USED)
    used.value += 3
ready()
while True:
    time.sleep(1)
