"""Takes memory and gives it back: what was seen of it a moment before is not there any more.

It rests for less than a look takes.

Each of the blocks has a mapping of its own, of the size of an interpreter's state, where the threshold of malloc is
fixed (MALLOC_MMAP_THRESHOLD_=131072). Runs on every Python from 3.8 on.
"""

import time

from steady import ready

SIZE, BLOCKS = 300_000, 60

ready()
while True:
    [b"x" * SIZE for _ in range(BLOCKS)]
    time.sleep(0.005)
