"""Sleeps until SIGUSR1, then ends as the statement that is its argument says (``sys.exit(7)``)."""

import os  # noqa: F401
import signal
import sys
import time

from steady import ready

asked = []
signal.signal(signal.SIGUSR1, lambda _number, _frame: asked.append(True))
ready()
while not asked:
    time.sleep(0.1)
exec(sys.argv[1])
