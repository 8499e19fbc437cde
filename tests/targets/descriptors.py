"""Does to descriptors what daemons do: SIGUSR1 closes all from 3 on and opens a hundred files of its own, SIGUSR2 says
which of those are lost or were written to, SIGHUP forks a child that stays and never collects.

With the argument ``closed`` it has closed 0 and 1 beforehand, and SIGUSR2 says what a write to 1 comes to.
"""

import gc
import os
import signal
import sys
import time

from steady import ready, say

mine = []


def close_all(_number, _frame):
    os.closerange(3, 256)
    mine.extend(os.memfd_create("mine") for _ in range(100))


def tell(_number, _frame):
    if "closed" in sys.argv:
        try:
            os.write(1, b"mine")
            os.write(2, b"written\n")
        except OSError as error:
            os.write(2, b"refused %d\n" % error.errno)
        return
    for number in mine:
        try:
            if os.fstat(number).st_size:
                say(f"dirty {number}")
        except OSError:
            say(f"lost {number}")
    say("told")


def fork(_number, _frame):
    if os.fork() == 0:
        gc.disable()
        while True:
            signal.pause()


signal.signal(signal.SIGUSR1, close_all)
signal.signal(signal.SIGUSR2, tell)
signal.signal(signal.SIGHUP, fork)
ready()
if "closed" in sys.argv:
    os.close(0)
    os.close(1)
while True:
    time.sleep(0.05)
