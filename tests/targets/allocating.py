"""Holds blocks of malloc's and frees some of them, or allocates in threads beside forks.

Arguments: ``SIZE EVERY`` for 80 MB of blocks of this size, of which every EVERYth stays and the last one; ``threads``:
eight threads give out as much together and keep one block each, and wait; or ``churn``.
SIGUSR1: returns what is free to the kernel, as the allocator's documentation says.
"""

import ctypes
import os
import signal
import sys
import threading
import time

from steady import fork_and_wait, ready, say

TOTAL = 80_000_000


def give_back(_number, _frame):
    program = ctypes.CDLL(None)
    if hasattr(program, "MallocExtension_ReleaseFreeMemory"):
        program.MallocExtension_ReleaseFreeMemory()
    else:
        program.malloc_trim(0)
    say("RETURNED")


def churn():
    number = 0
    while True:
        number += 1
        kept = [bytes(600 + (number * 37 + i * 911) % 40_000) for i in range(300)]
        del kept[::2]


def child():
    kept = [bytes(3000 + i) for i in range(200)]
    os._exit(0 if len(kept) == 200 else 9)


def burst(everyone, kept):
    everyone.wait()
    blocks = [bytes(4000) for _ in range(TOTAL // 4000 // 8)]
    kept.append(blocks[-1])
    del blocks
    everyone.wait()
    everyone.wait()  # the arena of a thread that ends is another's


if sys.argv[1] == "threads":
    everyone = threading.Barrier(9)
    last_of_each = []
    for _ in range(8):
        threading.Thread(target=burst, args=(everyone, last_of_each), daemon=True).start()
    everyone.wait()
    everyone.wait()
    ready()
    while True:
        time.sleep(0.05)

if sys.argv[1] == "churn":
    for _ in range(3):
        threading.Thread(target=churn, daemon=True).start()
    ready()
    while True:
        fork_and_wait(child)
        time.sleep(0.01)

size, every = int(sys.argv[1]), int(sys.argv[2])
blocks = [bytes(size) for _ in range(TOTAL // size)]
last = blocks[-1]  # malloc's heap ends with it
blocks = blocks[::every] if every else []
signal.signal(signal.SIGUSR1, give_back)
ready()
while True:
    time.sleep(0.05)
