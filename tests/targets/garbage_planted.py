"""Cycles that nobody holds, with the collector off: finalizers that raise, one that waits for SIGUSR2.

After ``ready`` come the numbers of cycles, of objects in ``gc.garbage``, and of callbacks at exit. Says ``waiting`` in
the finalizer that waits, and on SIGUSR1 how many were finalized, and how many of them in the main thread.
"""

import atexit
import gc
import signal
import threading
import time

from steady import ready, say

CYCLES, RAISING, SET_ASIDE, EXITS = 500, 3, 4, 6
DONE = []
GO = threading.Event()


class Cycle:
    def __init__(self, end=None):
        self.itself, self.end = self, end

    def __del__(self):
        DONE.append(threading.get_ident() == threading.main_thread().ident)
        if self.end is not None:
            self.end()


def fail():
    raise ValueError("a finalizer that raises")


def wait():
    say("waiting")
    GO.wait(60)


def tell(_number, _frame):
    say(f"finalized {len(DONE)}, in the main thread {sum(DONE)}")


def main():
    gc.collect()
    gc.disable()
    gc.garbage.extend([object() for _ in range(SET_ASIDE)])
    exits = EXITS + atexit._ncallbacks()  # what site imports may have registered some
    for _ in range(EXITS):
        atexit.register(DONE.clear)
    for each in range(CYCLES):
        Cycle(fail if each < RAISING else wait if each == RAISING else None)
    signal.signal(signal.SIGUSR1, tell)
    signal.signal(signal.SIGUSR2, lambda _number, _frame: GO.set())
    ready(f"{CYCLES} {SET_ASIDE} {exits}")
    while True:
        time.sleep(0.05)


if __name__ == "__main__":
    main()
