"""One call into C after another, each as long as nobody writes a byte to its stdin; says ``called`` after each.

Argument: the GIL is ``kept`` meanwhile, or ``given back``.
"""

import ctypes
import sys

from steady import ready, say

library = ctypes.PyDLL if sys.argv[1] == "kept" else ctypes.CDLL
read = library(None).read
byte = ctypes.create_string_buffer(1)
ready()
while True:
    read(0, byte, 1)
    say("called")
