"""Has its main thread sleep where musl's fork or dlopen may: with ``futex`` in a lock of the C library's, with ``read``
in a file, which is a FIFO here. Another thread sleeps where it may be taken.

The kernel unlocks the list of threads where one has ended, so it knows an address in libc (PR_GET_TID_ADDRESS).
"""

import ctypes
import os
import select
import sys
import tempfile
import threading

from steady import ready

GET_TID_ADDRESS, FUTEX, WAIT = 40, 202, 0

libc = ctypes.CDLL(None)
threading.Thread(target=select.select, args=([os.pipe()[0]], [], []), daemon=True).start()
if sys.argv[1] == "futex":
    address = ctypes.c_void_p()
    if libc.prctl(GET_TID_ADDRESS, ctypes.byref(address), 0, 0, 0):
        raise OSError("no PR_GET_TID_ADDRESS")
    ready()
    while True:  # the end of each thread wakes it
        libc.syscall(FUTEX, address, WAIT, 0, None, None, 0)
else:
    with tempfile.TemporaryDirectory() as folder:
        os.mkfifo(folder + "/library")
        file = os.open(folder + "/library", os.O_RDWR)
    ready()
    os.read(file, 1)
