"""A second thread, which waits in a lock, has a seccomp filter that kills for executable memory; the first has none."""

import ctypes
import os
import struct
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from steady import ready

code = [
    (0x20, 0, 0, 0),
    (0x15, 1, 0, 9),
    (0x15, 0, 3, 10),
    (0x20, 0, 0, 32),
    (0x45, 0, 1, 4),
    (0x06, 0, 0, 0x80000000),
    (0x06, 0, 0, 0x7FFF0000),
]


class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]


def work():
    libc = ctypes.CDLL(None)
    packed = b"".join(struct.pack("HBBI", *each) for each in code)
    assert libc.prctl(38, 1, 0, 0, 0) == 0
    assert libc.prctl(22, 2, ctypes.byref(Program(len(code), packed)), 0, 0) == 0
    on.set()
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


on = threading.Event()
threading.Thread(target=work, daemon=True).start()
on.wait()
ready()
while True:
    time.sleep(0.5)
