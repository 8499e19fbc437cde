"""Starts three children on SIGUSR1 and says the pid of each, one a line; they sleep until it ends."""

import os
import signal
import time

from steady import ready, say

asked = []
children = []


def end_children(number, frame):
    for child in children:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    ended(number, frame)


def rest():
    while True:
        time.sleep(0.1)


signal.signal(signal.SIGUSR1, lambda _number, _frame: asked.append(True))
ready()
ended = signal.signal(signal.SIGTERM, end_children)
while not asked:
    time.sleep(0.05)
for _ in range(3):
    child = os.fork()
    if child == 0:
        rest()
    children.append(child)
    say(str(child))
rest()
