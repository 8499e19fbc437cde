"""Has one of everything that heap_zoo makes, and stands still."""

import gc
import time

import heap_zoo
from steady import ready

KEPT = heap_zoo.everything()
gc.collect()
ready()
while True:
    time.sleep(1)
