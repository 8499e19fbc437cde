"""A deque without maxlen: measurements of the last minute, it says, but nothing limits it."""

import time
from collections import deque, namedtuple

from backdrop import requests, serve

Measurement = namedtuple("Measurement", "name seconds tags")


class Recorder:
    def __init__(self):
        self.last_minute = deque()  # the leak: no maxlen

    def observe(self, name, seconds):
        tags = [f"{name}:{seconds:.9f}", "host:web-1", f"path:/products/{seconds}" + "/page" * 30]
        self.last_minute.append(Measurement(name, seconds, tags))

    def slowest(self):
        return max(each.seconds for each in list(self.last_minute)[-60:])


recorder = Recorder()
for number in requests(100):
    begin = time.perf_counter()
    serve(number)
    for name in ("total", "query", "render", "send"):
        recorder.observe(name, time.perf_counter() - begin)
    recorder.slowest()
