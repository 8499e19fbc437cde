"""One call into C after another, each as long as nobody writes a byte to its stdin; says ``called`` after each.

Argument: the GIL is ``kept`` meanwhile, or ``given back``. The byte ``.`` ends a call, ``q`` ends the calling.
"""

import ctypes
import sys
import time

from steady import ready, say

library = ctypes.PyDLL if sys.argv[1] == "kept" else ctypes.CDLL
read = library(None).read
byte = ctypes.create_string_buffer(1)
ready()
while byte.raw != b"q":
    read(0, byte, 1)
    say("called")
while True:
    time.sleep(0.2)
