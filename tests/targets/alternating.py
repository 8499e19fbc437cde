"""Main sleeps and runs in turn, each for a few milliseconds: the hardest for a choice of thread.

What it computes is checked every time, so that a register or a stack slot given back wrong shows as WRONG.
"""

import time

from steady import ready, say


def work(n):
    table = {i: str(i) * 3 for i in range(n)}
    return sum(map(len, table.values())) + sum(i * 0.5 for i in range(n))


expected = work(2000)
ready()
while True:
    for pause in (0.001, 0.004, 0.012):
        begin = time.monotonic()
        time.sleep(pause)
        if time.monotonic() - begin < pause - 0.0001:
            say("EARLY")
        if work(2000) != expected:
            say("WRONG")
