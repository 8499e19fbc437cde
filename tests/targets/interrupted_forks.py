"""Forks again and again beside three threads that compute; says CAUGHT for each SIGUSR1 whose exception arrives."""

import os
import signal
import threading

from steady import ready, say


class Interrupted(Exception):
    pass


def interrupt(_number, _frame):
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])  # until it was caught
    raise Interrupted


def compute():
    while True:
        sum(range(1000))


def reap(options):
    try:
        while os.waitpid(-1, options)[0]:
            pass
    except ChildProcessError:
        pass


signal.signal(signal.SIGUSR1, interrupt)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])  # in the other threads for good
for _ in range(3):
    threading.Thread(target=compute, daemon=True).start()
ready()
while True:
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGUSR1])
        while True:
            if os.fork() == 0:
                os._exit(0)
            reap(0)
    except Interrupted:
        say("CAUGHT")
