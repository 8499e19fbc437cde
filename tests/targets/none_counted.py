"""Says how many references to None there are, whenever SIGUSR1 comes.

The interpreter's cache of attributes has one in each of its 4,096 places that is free; it is emptied first.
"""

import signal
import sys
import time

from steady import ready, say


def count(number, frame):
    sys._clear_type_cache()
    say(str(sys.getrefcount(None)))


signal.signal(signal.SIGUSR1, count)
ready()
while True:
    time.sleep(0.05)
