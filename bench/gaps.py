"""The bench's target: a busy loop that knows how long it was kept from running.

It answers each line on stdin with the longest gap between two of its rounds since the line before, in milliseconds.
"""

import os
import select
import sys
import time

LOOK_EVERY = 2000

print("ready", flush=True)
poller = select.poll()
poller.register(0, select.POLLIN)
longest, last, rounds = 0.0, time.perf_counter(), 0
while True:
    now = time.perf_counter()
    longest, last = max(longest, now - last), now
    rounds += 1
    if rounds % LOOK_EVERY == 0 and poller.poll(0):
        if not os.read(0, 1024):
            sys.exit(0)
        print(f"{longest * 1e3:.3f}", flush=True)
        longest, last = 0.0, time.perf_counter()
