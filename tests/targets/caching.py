"""Reads the file that its argument names three times, so that its pages are in use (the active list), and waits."""

import sys
import time

from steady import ready

for _ in range(3):
    with open(sys.argv[1], "rb") as file:
        while file.read(1 << 20):
            pass
ready()
while True:
    time.sleep(0.01)
