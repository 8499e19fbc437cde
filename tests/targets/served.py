"""Sleeps; on SIGUSR1 allocates 20 MB in one place and keeps them. Arguments are ignored."""

import signal
import time

from steady import ready

kept = []


def keep(_number, _frame):
    for _ in range(20000):
        kept.append(bytearray(1000))


signal.signal(signal.SIGUSR1, keep)
ready()
while True:
    time.sleep(0.5)
