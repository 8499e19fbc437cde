"""Main sleeps in C and keeps the GIL, ten seconds at a time; no other thread can run Python."""

import ctypes

from steady import ready

ready()
while True:
    ctypes.PyDLL(None).sleep(10)
