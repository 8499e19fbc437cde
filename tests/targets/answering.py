"""Answers made-up requests, and keeps the last hundred: its first argument is how many a second."""

import collections
import json
import sys
import time

from steady import ready


class Answer:
    def __init__(self, number):
        self.rows = [{"number": number + i, "text": str(i) * 20} for i in range(50)]
        self.text = json.dumps(self.rows)


def answer(number):
    last.append(Answer(number % 1000))


last = collections.deque(maxlen=100)
pause = 1 / float(sys.argv[1])
for first in range(100):
    answer(first)
ready()
number = 0
while True:
    time.sleep(pause)
    answer(number)
    number += 1
