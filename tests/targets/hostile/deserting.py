"""Maps a ``libc.so.evil`` during whose pthread_create the process becomes another one, ends, or changes its filters.

Arguments: that library, the way it goes (see deserting.c), a folder for the library, and the program to become.
"""

import ctypes
import os
import shutil
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from steady import ready

library, way, folder, program = sys.argv[1:]
evil = ctypes.CDLL(shutil.copy(library, os.path.join(folder, "libc.so.evil")))
evil.prepare(way.encode(), program.encode())
ready()
while True:  # asleep for long, so that it is this thread that starts the agent
    time.sleep(1)
