"""A clock that knows for how long it was kept from running: ``spinning_clock.py [OBJECTS [main|thread]]``.

It reads the clock in a loop and keeps its gaps, on the main thread or on another one beside a main thread that
sleeps. Each line on stdin is answered with the gaps since the line before, as JSON: ``[begin, length, waited]``,
nanoseconds of CLOCK_MONOTONIC. ``waited`` is the part for which the thread could have run and no processor was free:
the machine's load, by the kernel's own count. At a line ``fork`` it forks once, in another thread, and answers
nothing: what a bare copy of this process costs it.
"""

import json
import os
import select
import sys
import threading
import time
import warnings

warnings.simplefilter("ignore", DeprecationWarning)  # 3.12 and later: of a fork beside other threads

LEAST = 200_000
"""Nanoseconds: shorter gaps are not kept."""
LOOK_EVERY = 200_000
"""Rounds: a look gives the GIL back, and who does that many times in a switch interval starves who waits for it."""


def waited():
    """Nanoseconds for which this thread has waited for a processor; 0 where there is no /proc, or the kernel does not
    count them: then the machine's load is in the gaps."""
    try:
        with open("/proc/thread-self/schedstat", "rb", 0) as file:
            return int(file.read(100).split()[1])
    except OSError:
        return 0


def fork():
    child = os.fork()
    if not child:
        time.sleep(0.05)
        os._exit(0)
    os.waitpid(child, 0)


def spin():
    clock = time.monotonic_ns
    gaps, rounds = [], 0
    asked = select.poll()
    asked.register(0, select.POLLIN)
    before, last = waited(), clock()
    while True:
        now = clock()
        if now - last > LEAST:
            after = waited()  # gives the GIL back: what is lost meanwhile is in the next gap
            gaps.append((last, now - last, after - before))
            before = after
        last = now
        rounds += 1
        if rounds % LOOK_EVERY == 0 and asked.poll(0):
            line = os.read(0, 1024)
            if not line:
                os._exit(0)
            if line == b"fork\n":
                threading.Thread(target=fork, daemon=True).start()
                continue
            said, gaps = gaps, []
            print(json.dumps(said), flush=True)


objects = [[] for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)]
print("ready", flush=True)
if sys.argv[2:] == ["thread"]:
    threading.Thread(target=spin, daemon=True).start()
    while True:
        time.sleep(1000)
spin()
