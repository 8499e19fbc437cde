"""Forks all the time; says BADCHILD when a child has a thread that is not its own, or ends badly.

Argument: milliseconds that a child lives, 10 without it.
"""

import os
import sys
import time

from steady import fork_and_wait, ready

# Without /proc (a chroot) a child still shows by its exit status that it can run and end.
TASKS = "/proc/self/task"
PAUSE = (int(sys.argv[1]) if len(sys.argv) > 1 else 10) / 1000


def child():
    time.sleep(PAUSE)
    threads = len(os.listdir(TASKS)) if os.path.isdir(TASKS) else 1
    os._exit(0 if threads == 1 else 9)


ready()
while True:
    fork_and_wait(child)
