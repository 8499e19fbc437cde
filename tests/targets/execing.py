"""SIGUSR1 makes it start itself anew in the same process: it says ``ready`` again then."""

import os
import signal
import sys
import time

from steady import ready


def again(_number, _frame):
    os.execv(sys.executable, [sys.executable, *sys.argv])


signal.signal(signal.SIGUSR1, again)
ready()
while True:
    time.sleep(0.05)
