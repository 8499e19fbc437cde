"""Has an object of each of as many types as its argument says."""

import sys
import time

from steady import ready

kept = [type(f"Type{number}", (), {"__slots__": ()})() for number in range(int(sys.argv[1]))]
ready()
while True:
    time.sleep(1)
