"""Gives the name of heaptop's agent to a thread of its own. Argument: what the descriptor is that the name points at,
``first``, for the first thread in place of another, or ``later``, for one that takes the name at SIGUSR1. Says
``broken`` where that is not in order any more."""

import os
import signal
import socket
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from steady import end, ready, say

what = sys.argv[1]
ours, theirs = socket.socketpair()
number = ours.fileno()
if what == "inet":
    server = socket.socket()
    number = server.fileno()
elif what == "file":
    number = os.open("/dev/null", os.O_RDONLY)
elif what == "closed":
    number = 999


def rename():
    with open("/proc/thread-self/comm", "w") as comm:
        comm.write("heaptop fd=" + str(number))


def fake():
    if what == "later":
        say("ready")
        told.wait()
    rename()
    if what != "later":
        say("ready")
    while True:
        ours.send(b".")
        if theirs.recv(1) != b".":
            say("broken")
            break
        time.sleep(0.01)


told = threading.Event()
signal.signal(signal.SIGTERM, end)
signal.signal(signal.SIGUSR1, lambda *_: told.set())
if what == "first":
    rename()
    ready()
else:
    threading.Thread(target=fake, daemon=True).start()
while True:
    threading.Event().wait(0.05)
