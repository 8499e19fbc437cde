"""Runs a program of the folder ``leaks`` for so many requests, after which it stands still in the middle of the next
one. Arguments: the program's file, and how many. ``gc`` is imported, as an attach does that."""

import gc
import os
import runpy
import sys
import time

from steady import ready

sys.path.insert(0, os.path.dirname(sys.argv[1]))

import backdrop


def requests(_rate):
    yield from range(int(sys.argv[2]))
    gc.collect()
    ready()
    while True:
        time.sleep(1)


backdrop.requests = requests
runpy.run_path(sys.argv[1], run_name="__main__")
