"""Takes memory and gives it back all the time: what was seen of it a moment before is not there any more.

Each of the blocks has a mapping of its own, of the size of an interpreter's state, where the threshold of malloc is
fixed (MALLOC_MMAP_THRESHOLD_=131072). Runs on every Python from 3.8 on.
"""

from steady import ready

SIZE, BLOCKS = 300_000, 60

ready()
while True:
    [b"x" * SIZE for _ in range(BLOCKS)]
