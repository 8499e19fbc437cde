"""Loads a library in a thread without the GIL after SIGUSR1, as programs in C load plugins. Its main thread says again
and again that it goes on."""

import ctypes
import signal
import sys
import threading
import time

from steady import ready, say

this = ctypes.CDLL(None)
asked = threading.Event()
signal.signal(signal.SIGUSR1, lambda *_: asked.set())


def load():
    asked.wait()
    this.dlopen(sys.argv[1].encode(), 2)


threading.Thread(target=load, daemon=True).start()
ready()
asked.wait()
while True:
    time.sleep(0.2)
    say("main goes on")
