"""Harmless: a deque with maxlen, the last thousand requests for a page of statistics; all are new before long."""

import time
from collections import deque

from backdrop import requests, serve

LATEST = deque(maxlen=1000)


def remember(number):
    LATEST.append({"number": number, "time": time.time(), "agent": f"agent {number} " + "a" * 1000})


for number in range(1000):
    remember(number)
for number in requests(150):
    remember(number)
    serve(number)
