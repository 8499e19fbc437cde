"""One call into C after another, each as long as argument 1 says, in seconds; says ``called`` after each.

Argument 2: the GIL is ``kept`` meanwhile, or ``given back``.
"""

import ctypes
import sys

from steady import ready, say

library = ctypes.PyDLL if sys.argv[2] == "kept" else ctypes.CDLL
usleep = library(None).usleep
length = int(float(sys.argv[1]) * 1e6)
ready()
while True:
    usleep(length)
    say("called")
