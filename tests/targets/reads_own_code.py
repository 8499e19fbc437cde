"""Main sleeps, and keeps the files that it runs mapped as data: ``ready`` has how many, the C library among them."""

import mmap
import os
import re
import time

from steady import ready

LIBRARIES = re.compile(r"libc[.-]|ld-musl-|libpython|python3|libpthread")

with open("/proc/self/maps") as file:
    running = {line.split(None, 5)[5].strip() for line in file if " r-xp " in line and "/" in line}
kept = []
for path in running:
    if LIBRARIES.match(os.path.basename(path)):
        with open(path, "rb") as file:
            kept.append(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ))

ready(len(kept))
while True:
    time.sleep(0.5)
