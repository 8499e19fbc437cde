"""A configuration of gunicorn in which the master and every worker have snapshots made of them all the time.

Each says ``snapshots PID``, every tenth time; and ODD when one is not as it should be. The library of snapshots.c is
named by the environment variable SNAPSHOTS.
"""

import ctypes
import os
import threading

OK, FINISH = 2, 0


def say(text):
    os.write(1, (text + "\n").encode())


def snapshots():
    locked, free = ctypes.PyDLL(os.environ["SNAPSHOTS"]), ctypes.CDLL(os.environ["SNAPSHOTS"])
    locked.begin.argtypes = [ctypes.c_int, ctypes.c_long, ctypes.c_long, ctypes.c_ulong]
    made = 0
    while True:
        error = locked.begin(FINISH, 0, 60000, 1 << 16)
        status = free.end()
        locked.release()
        made += 1
        if error or status != OK:
            say(f"ODD {error} {status}")
        elif made % 10 == 0:
            say(f"snapshots {os.getpid()}")


def when_ready(_server):
    threading.Thread(target=snapshots, daemon=True).start()


def post_worker_init(_worker):
    threading.Thread(target=snapshots, daemon=True).start()
