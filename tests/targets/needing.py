"""Takes up to four threads, files or pieces of memory at a time, again and again, and says LACKS when it gets none."""

import os
import sys
import threading
import time

from steady import ready, say

kind = sys.argv[1]
ready()
while True:
    end = threading.Event()
    taken = []
    try:
        for _ in range(4):
            if kind == "threads":
                taken.append(threading.Thread(target=end.wait, daemon=True))
                taken[-1].start()
            elif kind == "files":
                taken.append(os.open("/dev/null", os.O_RDONLY))
            else:
                taken.append(bytearray(8 << 20))
        time.sleep(0.01)
    except (MemoryError, OSError, RuntimeError) as error:
        say(f"LACKS {kind}: {error}")
    end.set()
    for each in taken:
        if kind == "threads" and each.ident:
            each.join()
        elif kind == "files":
            os.close(each)
    time.sleep(0.002)
