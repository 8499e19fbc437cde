"""Opens the native core while a thread loads a library whose beginning waits for the GIL: that thread has the dynamic
linker's lock.

Arguments: the core's library, and the other one. Prints what the self-check says, and so that nobody waits for ever.
"""

import ctypes
import gc
import io
import sys
import threading
import time

import core_breaks


def main():
    this = ctypes.CDLL(None)
    core = core_breaks.load(sys.argv[1])
    sys.stdout = io.StringIO()  # the library says something
    thread = threading.Thread(target=lambda: this.dlopen(sys.argv[2].encode(), 2))
    thread.start()
    time.sleep(0.2)
    core.open(sys.hexversion)
    said = core.check(gc)
    core.sample_start({"interval": 4096, "depth": 8, "seed": 1})
    core.sample_stop()
    thread.join()
    print(ascii(said), file=sys.__stdout__)


if __name__ == "__main__":
    main()
