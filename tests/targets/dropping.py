"""Gives up root: before it is ready (argument ``before``), or when SIGUSR1 comes (argument ``later``).

It has a second thread, so that glibc must make every thread change its ids, and says ``dropped`` when it has.
"""

import os
import signal
import sys
import threading
import time

from steady import ready, say

NOBODY = 65534


def drop(_number=None, _frame=None):
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)
    say("dropped")


threading.Thread(target=threading.Event().wait, daemon=True).start()
if sys.argv[1] == "before":
    drop()
else:
    signal.signal(signal.SIGUSR1, drop)
ready()
while True:
    time.sleep(0.2)
