"""Holds musl's lock of its list of threads, as one that starts or ends a thread does, until a line comes on stdin; then
forks, and says ``forked``.

The kernel unlocks it where a thread has ended, so it knows the address (PR_GET_TID_ADDRESS).
"""

import ctypes
import os
import select
import sys
import threading

from steady import ready, say

GET_TID_ADDRESS, FUTEX, WAKE, EVERYBODY = 40, 202, 1, 1 << 30

libc = ctypes.CDLL(None)
address = ctypes.c_void_p()
if libc.prctl(GET_TID_ADDRESS, ctypes.byref(address), 0, 0, 0):
    raise OSError("no PR_GET_TID_ADDRESS")
lock = ctypes.c_int.from_address(address.value)
reading, writing = os.pipe()


def unlock():
    sys.stdin.readline()
    lock.value = 0
    libc.syscall(FUTEX, address, WAKE, EVERYBODY, None, None, 0)
    os.write(writing, b"x")


threading.Thread(target=unlock, daemon=True).start()
lock.value = 1
ready()
select.select([reading], [], [])
os.read(reading, 1)
child = os.fork()
if child == 0:
    os._exit(0)
os.waitpid(child, 0)
say("forked")
while True:
    select.select([reading], [], [])
