"""A prefork server: three workers that keep what they make, each another amount. One that ends is not started anew.

Says the pid of each worker behind ``ready``. On SIGUSR1 it starts one more; on SIGTERM all of them end.
"""

import os
import signal
import sys
import time

from steady import EXIT_CODE, ready, say


class Session:
    """What workers keep."""

    def __init__(self, number):
        self.number = number


shared = [Session(number) for number in range(1000)]
workers = []
wanted = []


def work(number, up):
    signal.signal(signal.SIGTERM, lambda _number, _frame: os._exit(0))
    signal.signal(signal.SIGUSR1, signal.SIG_DFL)
    os.close(up)
    kept = []
    while True:
        kept.extend(Session(each) for each in range(100 * number if len(kept) < 100_000 else 0))
        time.sleep(0.1)


def start():
    """Once it says so, by the end of a pipe, a worker is as it will stay."""
    number = len(workers) + 1
    down, up = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(down)
        work(number, up)
    os.close(up)
    os.read(down, 1)
    os.close(down)
    workers.append(pid)
    return pid


def end(_number, _frame):
    for pid in workers:
        try:
            os.kill(pid, signal.SIGTERM)
            os.waitpid(pid, 0)
        except OSError:
            pass
    sys.exit(EXIT_CODE)


for _ in range(3):
    start()
signal.signal(signal.SIGUSR1, lambda _number, _frame: wanted.append(True))
ready(" ".join(map(str, workers)))
signal.signal(signal.SIGTERM, end)
while True:
    time.sleep(0.05)
    if wanted:
        wanted.pop()
        say(str(start()))
