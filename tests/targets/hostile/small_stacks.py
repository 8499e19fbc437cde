"""New threads get a stack of so many KiB (the first argument) unless they ask for more; ``python`` behind it has
Python ask for the least that it takes as well.
"""

import _thread
import ctypes
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from steady import ready

libc = ctypes.CDLL(None)
attributes = ctypes.create_string_buffer(64)
assert libc.pthread_attr_init(attributes) == 0
assert libc.pthread_attr_setstacksize(attributes, ctypes.c_size_t(int(sys.argv[1]) << 10)) == 0
assert libc.pthread_setattr_default_np(attributes) == 0
if "python" in sys.argv:
    _thread.stack_size(53248)
ready(_thread.stack_size())
while True:
    time.sleep(0.2)
