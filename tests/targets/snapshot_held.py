"""A thread with an agent's name has a snapshot child that stays: it says its pid, and locks a file by record lock.

SIGUSR1: it starts itself anew in the same process, says ``ready`` again, and then whether it has a child. SIGUSR2: it
forks, and the child says what it sees of the snapshot. Arguments: the library of snapshots.c, and the file to lock.
"""

import ctypes
import errno
import fcntl
import os
import signal
import sys
import threading
import time

from steady import ready, say

WAIT, FOREVER = 6, 3600000


def rest():
    while True:
        time.sleep(0.05)


def again(_number, _frame):
    os.set_inheritable(lock.fileno(), True)
    os.execv(sys.executable, [sys.executable, *sys.argv, "again"])


def fork(_number, _frame):
    child = os.fork()
    if child == 0:
        with open("/proc/self/maps") as maps:
            mapped = f"{mapping:x}-" in maps.read()
        status = library.end()
        library.release()
        is_open = os.path.exists(f"/proc/self/fd/{descriptor}")
        say(f"mapped {mapped} status {status} open {is_open}")
        os._exit(0)
    os.waitpid(child, 0)
    say("forked")


if "again" in sys.argv:
    ready()
    try:
        say(f"child {os.waitpid(-1, os.WNOHANG)}")
    except OSError as error:
        say(errno.errorcode[error.errno])
    rest()

lock = open(sys.argv[2], "w")  # noqa: SIM115, kept as long as the program runs
fcntl.lockf(lock, fcntl.LOCK_EX)
library = ctypes.PyDLL(sys.argv[1])
library.begin.argtypes = [ctypes.c_int, ctypes.c_long, ctypes.c_long, ctypes.c_ulong]
library.mapping.restype = ctypes.c_void_p
began = threading.Event()


def agent():
    with open("/proc/thread-self/comm", "w") as name:
        name.write("heaptop fd=3")
    library.describe(1)
    if library.begin(WAIT, FOREVER, FOREVER, 1 << 16):
        say("ODD begin")
    began.set()
    rest()


threading.Thread(target=agent, daemon=True).start()
began.wait()
mapping, descriptor = library.mapping(), library.fd()
signal.signal(signal.SIGUSR1, again)
signal.signal(signal.SIGUSR2, fork)
ready(library.pid())
rest()
