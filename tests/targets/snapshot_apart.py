"""Is jealous of its children: says ODD when a wait or a signal comes for one that it did not start, or a fork is seen.

A thread has snapshots made meanwhile, every fifth of them crashing, with faulthandler on. Arguments: the library of
snapshots.c, and how many snapshots. Its last line is ``over``, with how many were as they should be.
"""

import contextlib
import ctypes
import faulthandler
import os
import signal
import sys
import threading

from steady import ready, say

FINISH, CRASH = 0, 2
OK, CRASHED = 2, 4
locked, free = ctypes.PyDLL(sys.argv[1]), ctypes.CDLL(sys.argv[1])
locked.begin.argtypes = [ctypes.c_int, ctypes.c_long, ctypes.c_long, ctypes.c_ulong]
number = int(sys.argv[2])
good = []
signals = []


def snapshots(count):
    for i in range(count):
        crashes = i % 5 == 4
        error = locked.begin(CRASH if crashes else FINISH, 8, 60000, 1 << 16)
        if error:
            say(f"ODD begin {error}")
        elif free.end() == (CRASHED if crashes else OK):
            good.append(i)
        locked.release()


def childless():
    """No child may be there, whichever way one asks."""
    for options in (0, os.WNOHANG):
        with contextlib.suppress(ChildProcessError):
            say(f"ODD child {os.waitpid(-1, options)}")


faulthandler.enable()
signal.signal(signal.SIGCHLD, lambda number, frame: signals.append(number))
if locked.watch_forks():
    say("ODD watch")
ready()

thread = threading.Thread(target=snapshots, args=(number,))
thread.start()
while thread.is_alive():
    childless()
if signals:
    say(f"ODD signals {len(signals)}")

thread = threading.Thread(target=snapshots, args=(number,))
thread.start()
children = 0
while thread.is_alive():
    child = os.posix_spawn(sys.executable, [sys.executable, "-IS", "-c", "import os; os._exit(5)"], os.environ)
    got, status = os.waitpid(-1, 0)
    if got != child or status >> 8 != 5:
        say(f"ODD child {got} {status}")
    childless()
    children += 1
if len(signals) > children:
    say(f"ODD signals {len(signals)} for {children}")
if locked.forks_seen():
    say(f"ODD forks {locked.forks_seen()}")
say(f"over {len(good)}")
signal.pause()
