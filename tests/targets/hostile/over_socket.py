"""Bind-mounts a file over every socket and script of heaptop's as soon as it is there, in a mount namespace of its own.

Arguments: the file, and ``drop`` where the program is to become nobody while its child, which mounts, stays as it is.
"""

import ctypes
import os
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from steady import ready

FOLDERS = ("/tmp", "/dev/shm", "/run", "/var/tmp")
MS_BIND = 4096
libc = ctypes.CDLL(None, use_errno=True)


def mount_over(victim):
    done = set()
    while os.getppid() != 1:
        for folder in filter(os.path.isdir, FOLDERS):
            for name in os.listdir(folder):
                path = folder + "/" + name
                is_new = name.startswith("heaptop-") and name.endswith((".sock", ".py")) and path not in done
                if is_new and libc.mount(victim.encode(), path.encode(), None, MS_BIND, None) == 0:
                    done.add(path)
        time.sleep(0.001)


if os.fork() == 0:
    try:
        mount_over(sys.argv[1])
    finally:
        os._exit(0)
if sys.argv[2:] == ["drop"]:
    os.setgid(65534)
    os.setuid(65534)
ready()
while True:
    threading.Event().wait(0.05)
