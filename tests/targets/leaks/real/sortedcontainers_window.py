"""Harmless: a window of the latest orders by time; those older than five seconds are taken out."""

import time

from busy_backdrop import requests, serve
from sortedcontainers import SortedDict


class Order:
    def __init__(self, number):
        self.number = number
        self.parts = [f"part {i} of order {number}" for i in range(5)]


window = SortedDict()
for number in requests(60):
    now = time.monotonic()
    window[now] = Order(number)
    for moment in list(window.irange(maximum=now - 5)):
        del window[moment]
    serve(number)
