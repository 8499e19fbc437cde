"""Three threads malloc in one arena without the GIL, three change a pair under it; snapshots are made meanwhile.

In each snapshot the pair must be equal. Arguments: the libraries of churn.c and snapshots.c, and how many snapshots.
Its last line is ``over``: how many were equal, were not, and failed.
"""

import ctypes
import signal
import struct
import sys
import threading

from steady import ready, say

COMPARE, OK = 9, 2
churn = ctypes.CDLL(sys.argv[1]).churn
locked, free = ctypes.PyDLL(sys.argv[2]), ctypes.CDLL(sys.argv[2])
locked.begin.argtypes = [ctypes.c_int, ctypes.c_long, ctypes.c_long, ctypes.c_ulong]
locked.data.restype = ctypes.c_void_p
free.reason.restype = ctypes.c_char_p
number = int(sys.argv[3])
over = threading.Event()


def allocate(seed):
    while not over.is_set():
        churn(5, seed)


def change():
    while not over.is_set():
        locked.add_to_both(1000)


def snapshots():
    equal = unequal = failed = 0
    for _ in range(number):
        if locked.begin(COMPARE, 0, 60000, 1 << 16):
            failed += 1
            continue
        if free.end() == OK:
            left, right = struct.unpack("ll", ctypes.string_at(locked.data(), 16))
            equal += left == right
            unequal += left != right
        else:
            say(free.reason().decode())
            failed += 1
        locked.release()
    over.set()
    say(f"over {equal} {unequal} {failed}")


sys.setswitchinterval(1e-4)
for seed in range(1, 4):
    threading.Thread(target=allocate, args=(seed,)).start()
    threading.Thread(target=change).start()
threading.Thread(target=snapshots).start()
ready()
signal.pause()
