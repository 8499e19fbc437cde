"""Main sleeps. Beside it waits a thread that a library made without the C library; with an argument ``shared`` it has
main's thread pointer."""

import ctypes
import sys
import time

from steady import ready

assert ctypes.CDLL(sys.argv[1]).start("shared" in sys.argv)
ready()
while True:
    time.sleep(0.5)
