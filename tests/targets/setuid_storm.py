"""One thread calls setuid again and again, which glibc does in all, by signal 33; SIGUSR1: says ``called N``.

Main waits in a lock, two more threads too: all of them take part in each call.
"""

import ctypes
import itertools
import os
import signal
import threading

from steady import ready, say

libc = ctypes.CDLL(None)
calls = itertools.count()


def storm():
    uid = os.geteuid()
    while True:
        libc.setuid(uid)
        next(calls)


def wait():
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


for work in (wait, wait, storm):
    threading.Thread(target=work, daemon=True).start()
signal.signal(signal.SIGUSR1, lambda *_: say(f"called {next(calls)}"))
ready()
lock = threading.Lock()
lock.acquire()
while True:
    lock.acquire(timeout=1000)
