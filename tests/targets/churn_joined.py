"""Six threads malloc without the GIL; main waits for them in a join. Argument: the library of churn.c."""

import ctypes
import sys
import threading

from steady import ready, say

churn = ctypes.CDLL(sys.argv[1]).churn


def work(seed):
    while True:
        churn(20, seed)


threads = [threading.Thread(target=work, args=(seed,), daemon=True) for seed in range(1, 7)]
for thread in threads:
    thread.start()
ready()
threads[0].join()
say("EARLY")
