"""Main and five threads malloc, now without the GIL and now as Python. Argument: the library of churn.c."""

import ctypes
import sys
import threading

from steady import ready

churn = ctypes.CDLL(sys.argv[1]).churn


def work(seed):
    while True:
        churn(20, seed)
        [bytes(1000 + i) for i in range(200)]


for seed in range(1, 6):
    threading.Thread(target=work, args=(seed,), daemon=True).start()
ready()
work(99)
