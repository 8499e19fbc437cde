"""A program that has not imported gc, as it says after ``ready``: on SIGUSR1 it says what a full collection finds."""

import signal
import sys
import time

from steady import ready, say


def tell(_number, _frame):
    import gc  # noqa: PLC0415

    say(str(gc.collect()))


signal.signal(signal.SIGUSR1, tell)
ready("" if "gc" in sys.modules else "lacks gc")
while True:
    time.sleep(0.05)
