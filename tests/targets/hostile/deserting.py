"""Maps a ``libc.so.evil`` during whose pthread_create the process becomes another one, ends, or changes its filters.

That is the main thread's pthread_create, or a worker's, while the main thread keeps the GIL. Arguments: that
library, the way it goes (see deserting.c), a folder for the library, and the program to become.
"""

import ctypes
import os
import shutil
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from steady import ready

library, way, folder, program = sys.argv[1:]
evil = ctypes.CDLL(shutil.copy(library, os.path.join(folder, "libc.so.evil")))


def serve():
    evil.prepare(way.encode(), program.encode())
    begun.set()
    time.sleep(1000)  # asleep, so that it is this thread that starts the agent; it would not get the GIL back


begun = threading.Event()
if way.startswith("a worker"):
    threading.Thread(target=serve, daemon=True).start()
    begun.wait()
    ready()
    ctypes.PyDLL(evil._name).keep_the_gil()
evil.prepare(way.encode(), program.encode())
ready()
while True:
    time.sleep(1)
