"""Sleeps with a module in sys.modules that has not all it should: ``warnings`` as in the middle of its import, or, with
the argument ``posix``, one in which there is nothing to write with."""

import sys
import time
import types

from steady import ready

name = sys.argv[1] if len(sys.argv) > 1 else "warnings"
unfinished = types.ModuleType(name)
if name == "posix":
    unfinished.__dict__.update(vars(sys.modules[name]))
    del unfinished.write
sys.modules[name] = unfinished
ready()
while True:
    time.sleep(0.2)
