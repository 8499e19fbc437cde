"""Forks processes that come and end: a fork takes a tenth of the time of starting a Python.

Arguments: how many a second, seconds that each lives, seconds in all, and the word ``forks``. In the command line of a
child, ``churn`` is in place of that, so that a rule can tell it from its parent. Says at the end how many came, and how
many of these did not exit with 0.
"""

import os
import sys
import time

from steady import ready, say

PARENT, CHILD = b"forks", b"churn"


def rename():
    with open("/proc/self/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
    begin, end = int(fields[45]), int(fields[46])  # arg_start and arg_end, proc(5)
    with open("/proc/self/mem", "r+b", buffering=0) as memory:
        memory.seek(begin)
        place = memory.read(end - begin).rindex(PARENT)
        memory.seek(begin + place)
        memory.write(CHILD)


def live():
    try:
        rename()
        time.sleep(seconds)
        os._exit(0)
    finally:
        os._exit(1)


def reap(options):
    while alive:
        pid, status = os.waitpid(-1, options)
        if not pid:
            return
        alive.remove(pid)
        if status:
            failed.append(pid)


rate, seconds, whole = map(float, sys.argv[1:4])
ready()
came, alive, failed = 0, set(), []
began = time.monotonic()
while time.monotonic() - began < whole:
    if came <= (time.monotonic() - began) * rate:
        pid = os.fork()
        if not pid:
            live()
        alive.add(pid)
        came += 1
    else:
        time.sleep(0.01)
    reap(os.WNOHANG)
reap(0)
say(str(came) + " came, " + str(len(failed)) + " failed")
