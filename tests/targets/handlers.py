"""Has handlers of its own for SIGINT, SIGCHLD and SIGUSR1, and says the name of each signal that comes."""

import signal
import time

from steady import ready, say


def handle(number, _frame):
    say(signal.Signals(number).name)


for number in (signal.SIGINT, signal.SIGCHLD, signal.SIGUSR1):
    signal.signal(number, handle)
ready()
while True:
    time.sleep(0.2)
