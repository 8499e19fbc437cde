"""Cycles that nobody holds, with the collector off: their finalizers ask for the current thread, log, and start threads
that stay.

On SIGUSR1 says the names that ``threading`` has for threads it did not start.
"""

import _thread
import gc
import logging
import signal
import threading
import time

from steady import ready, say


class Cycle:
    def __init__(self, end):
        self.itself, self.end = self, end

    def __del__(self):
        self.end()


def stay():
    time.sleep(3600)


def stay_with_another():
    _thread.start_new_thread(stay, ())
    stay()


def start():
    threading.Thread(target=stay, daemon=True).start()


def tell(_number, _frame):
    dummies = [each.name for each in list(threading._active.values()) if type(each) is threading._DummyThread]
    say(f"dummies {dummies}")


def main():
    gc.collect()
    gc.disable()
    Cycle(threading.current_thread)
    Cycle(lambda: logging.warning("a finalizer that logs"))
    Cycle(start)
    Cycle(lambda: _thread.start_new_thread(stay_with_another, ()))
    signal.signal(signal.SIGUSR1, tell)
    ready()
    while True:
        time.sleep(0.05)


if __name__ == "__main__":
    main()
