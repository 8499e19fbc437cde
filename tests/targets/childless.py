"""Has no child and never gets one: says ODD when a wait for any child tells of one, or SIGCHLD comes.

Argument 1: how many objects its heap holds besides (none by default).
"""

import contextlib
import os
import signal
import sys
import time

from steady import ready, say

HEAP = [(number + 0.5, [number]) for number in range(int(sys.argv[1]) // 3 if len(sys.argv) > 1 else 0)]

signal.signal(signal.SIGCHLD, lambda number, frame: say("ODD SIGCHLD"))
ready()
while True:
    with contextlib.suppress(ChildProcessError):
        say("ODD child " + str(os.waitpid(-1, os.WNOHANG)))
    time.sleep(0.001)
