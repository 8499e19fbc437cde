"""Eight threads that allocate and fight for the GIL, main being one of them.

The others end before it does: daemons that run while the interpreter is taken down crash it now and then, up to 3.11
(pylifecycle.c, Py_FinalizeEx), with or without heaptop.

They take turns ten times as often as by default: more moments for an attach to meet, and its own turn comes in a tenth
of the time.
"""

import sys
import threading

from steady import ready

over = []
sys.setswitchinterval(0.0005)


def work():
    kept = {}
    while not over:
        for i in range(1000):
            kept[i % 17] = [i] * (i % 50)


threads = [threading.Thread(target=work, daemon=True) for _ in range(7)]
for thread in threads:
    thread.start()
ready()
try:
    work()
finally:
    over.append(True)
    for thread in threads:
        thread.join()
