"""Main sleeps. Beside it waits a thread that a library made without the C library."""

import ctypes
import sys
import time

from steady import ready

assert ctypes.CDLL(sys.argv[1]).start()
ready()
while True:
    time.sleep(0.5)
