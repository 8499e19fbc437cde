"""Sleeps; on SIGUSR1 allocates 20 MB in one place, and 2 MB in a lambda, and keeps them. Arguments are ignored."""

import signal
import time

from steady import ready

kept = []
(large,) = [lambda: bytearray(2_000_000)]


def keep(_number, _frame):
    for _ in range(20000):
        kept.append(bytearray(1000))
    kept.append(large())


signal.signal(signal.SIGUSR1, keep)
ready()
while True:
    time.sleep(0.5)
