"""On SIGUSR1 a child is forked that drops all Boxes, collects, and says how many of a sample still live."""

import gc
import os
import signal
import time
import weakref

from steady import ready, say


class Box:
    def __init__(self, number):
        self.number = number


boxes = [Box(number) for number in range(300_000)]
sample = [weakref.ref(box) for box in boxes[::1000]]
asked = []
signal.signal(signal.SIGUSR1, lambda _number, _frame: asked.append(True))
ready()
while True:
    time.sleep(0.01)
    if asked:
        asked.clear()
        child = os.fork()
        if child == 0:
            boxes.clear()
            gc.collect()  # the agent's callback notices that it is in a child
            gc.collect()
            say("living " + str(sum(each() is not None for each in sample)))
            os._exit(0)
        os.waitpid(child, 0)
