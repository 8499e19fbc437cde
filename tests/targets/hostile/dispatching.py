"""Has its system calls dispatched to a handler of its own for SIGSYS, as emulators do, and counts them; see
dispatching.c, of which the library is the argument. Exits with 7 on SIGTERM, as all do."""

import ctypes
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from steady import ready, say

library = ctypes.PyDLL(sys.argv[1])  # which keeps the GIL: nothing else is called while calls are dispatched
if library.begin():
    sys.exit("this kernel dispatches no system calls")
ready()
while True:
    before = ctypes.c_int.in_dll(library, "dispatched").value
    library.rest()
    if ctypes.c_int.in_dll(library, "dispatched").value == before:
        say("a call was not dispatched")
