"""What is attached to: ends with 7 at SIGUSR1, and with something else where it has been harmed."""

import os
import signal
import sys
import threading
import time

ended = []


class Thing:
    def __init__(self):
        self.data = [1, 2, 3]


def fail(text):
    os.write(2, text.encode())
    os._exit(3)


def compute():
    """Registers of floating point that are not put back would show."""
    while not ended:
        if sum(floats) != expected:
            fail("a wrong sum\n")


def sleep():
    while not ended:
        began = time.monotonic()
        time.sleep(0.3)
        if not ended and time.monotonic() - began < 0.29:
            fail("woken early\n")


def leak():
    while not ended:
        keep.append(bytearray(5000))
        time.sleep(0.0005)


signal.signal(signal.SIGUSR1, lambda *_: ended.append(True))
floats = [index * 1.1 for index in range(1000)]
expected = sum(floats)
keep = [Thing() for _ in range(5000)]
if sys.argv[1] == "threads":
    for _ in range(8):
        threading.Thread(target=compute).start()
print("ready", flush=True)
{"sleep": sleep, "leak": leak}.get(sys.argv[1], compute)()
sys.exit(7)
