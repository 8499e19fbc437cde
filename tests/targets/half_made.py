"""Keeps an object of a C extension (the argument) that is half made, where its collector passes it by: in a list and in
a dict. Collects garbage all the time, to show that this is allowed."""

import gc
import sys
import time
from importlib import machinery, util

from steady import ready

loader = machinery.ExtensionFileLoader("half_made", sys.argv[1])
module = util.module_from_spec(util.spec_from_loader("half_made", loader))
part = module.make()
kept = [part, {"part": part}]
ready()
while True:
    gc.collect()
    time.sleep(0.01)
