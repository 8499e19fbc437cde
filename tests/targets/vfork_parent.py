"""Main is in vfork, uninterruptible, until something is written to stdin; then says ``released`` and sleeps.

Argument: the library of vfork.c.
"""

import ctypes
import os
import sys
import time

from steady import ready, say

vfork_until = ctypes.PyDLL(sys.argv[1]).vfork_until
ready()
vfork_until(0)
os.waitpid(-1, 0)
say("released")
while True:
    time.sleep(0.2)
