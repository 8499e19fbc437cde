"""Main sleeps, with the C library loaded a second time: ``ready`` has how often its code is mapped."""

import ctypes
import time

from steady import ready

NEW_NAMESPACE, NOW = -1, 2
load = ctypes.CDLL("libdl.so.2").dlmopen
load.restype, load.argtypes = ctypes.c_void_p, [ctypes.c_long, ctypes.c_char_p, ctypes.c_int]
assert load(NEW_NAMESPACE, b"libc.so.6", NOW)
with open("/proc/self/maps") as file:
    ready(sum(" r-xp " in line and "libc.so.6" in line for line in file))
while True:
    time.sleep(0.5)
