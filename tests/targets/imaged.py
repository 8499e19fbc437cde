"""Holds planted objects, does at each SIGUSR1 what the statement says that is its argument, and says each SIGCHLD.

Arguments: the statement (``pass``), and how many Boxes there are besides (none).
"""

import ctypes
import errno
import gc
import os
import signal
import sys
import time

from steady import ready, say


class Planted:
    def __init__(self, text):
        self.text = text


class Box:
    def __init__(self, number):
        self.content = [number]


MEGABYTES = 48


def children():
    """Who a program finds that waits for any child."""
    try:
        return f"child {os.waitpid(-1, os.WNOHANG)[0]}"
    except OSError as error:
        return errno.errorcode[error.errno]


def keep_the_lock(seconds):
    ctypes.PyDLL(None).sleep(seconds)
    say("held")


def change():
    """All of a large block, and what was planted; without any memory for that."""
    for place in range(0, len(block), 1 << 12):
        block[place] = 0
    registry["first"][0].text = "another text"
    registry["second"] = registry.pop("first")
    boxes.clear()
    say("changed")


def fork():
    """A child says what it has of the snapshot, and stays until its parent ends it."""
    child = os.fork()
    if child == 0:
        gc.collect()  # the agent's callback notices that it is in a child
        with open("/proc/self/maps") as maps:
            shared = "/dev/zero" in maps.read()
        say(f"forked {os.getpid()} {shared} {children()}")
        while True:
            time.sleep(0.05)
    registry["child"] = child


def bury():
    os.kill(registry["child"], signal.SIGKILL)
    say(f"buried {os.waitpid(-1, 0)[0] == registry['child']}")


def again():
    os.execv(sys.executable, [sys.executable, "-c", "import time; print('again', flush=True); time.sleep(60)"])


asked = []
block = bytearray(b"x") * (MEGABYTES << 20)
registry = {"first": [Planted(" ".join(("planted", "text")))]}
boxes = [Box(number) for number in range(int((sys.argv[2:] or "0")[0]))]
signal.signal(signal.SIGUSR1, lambda _number, _frame: asked.append(True))
signal.signal(signal.SIGCHLD, lambda _number, _frame: say("SIGCHLD"))
ready()
while True:
    time.sleep(0.02)
    if asked:
        asked.pop()
        exec((sys.argv[1:] or ["pass"])[0])
