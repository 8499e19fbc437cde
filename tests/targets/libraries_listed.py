"""After SIGUSR1 a thread lists the libraries with a callback in Python again and again, as threadpoolctl up to 3.5 and
ctypes.util.dllist do: the C library has a lock meanwhile, and the callback gives the GIL up. Its main thread says again
and again that it goes on. NumPy seems to be imported."""

import array
import ctypes
import signal
import sys
import threading
import time

from steady import ready, say

sys.modules["numpy.core._multiarray_umath"] = sys
ARRAYS = [array.array("i", [1])]  # measured by a method in C
this = ctypes.CDLL(None)
asked = threading.Event()
signal.signal(signal.SIGUSR1, lambda *_: asked.set())


@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)
def look(info, size, data):
    time.sleep(0.001)
    return 0


def work():
    asked.wait()
    while True:
        this.dl_iterate_phdr(look, None)


threading.Thread(target=work, daemon=True).start()
ready()
asked.wait()
while True:
    time.sleep(0.2)
    say("main goes on")
