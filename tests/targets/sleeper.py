"""Main sleeps half a second at a time, and says EARLY if the kernel let it return before that."""

import time

from steady import ready, say

ready()
while True:
    begin = time.monotonic()
    time.sleep(0.5)
    slept = time.monotonic() - begin
    if slept < 0.4999:
        say(f"EARLY {slept:.6f}")
