"""A heap of N objects (argument 1, default a million) in the proportions of a web service, standing still.

stdin: 4 bytes of length, a bootstrap, and then ``a`` to start it, ``q`` to quit. Runs on every Python from 3.8 on.
"""

import _thread
import gc
import os
import sys


class Session:
    def __init__(self, i):
        self.user = "user%d" % i
        self.pair = (i, float(i))
        self.data = {"id": i, "tags": ["a", "tag%d" % i]}


def enter():
    exec(compile(SOURCE, "bootstrap", "exec"), {})


def main():
    while True:
        command = os.read(0, 1)
        if command == b"a":
            _thread.start_new_thread(enter, ())
        else:
            return


SOURCE = os.read(0, int.from_bytes(os.read(0, 4), "big")).decode()
HEAP = [Session(i) for i in range(int(sys.argv[1] if len(sys.argv) > 1 else 1_000_000) // 9)]
gc.collect()
os.write(1, b"ready\n")
main()
