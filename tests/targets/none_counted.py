"""Says how many references to None there are, whenever SIGUSR1 comes."""

import signal
import sys
import time

from steady import ready, say

signal.signal(signal.SIGUSR1, lambda number, frame: say(str(sys.getrefcount(None))))
ready()
while True:
    time.sleep(0.05)
