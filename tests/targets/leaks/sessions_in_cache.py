"""A cache that is full, as a reader of its maxsize would say; but what it keeps grows."""

import functools

from backdrop import requests, serve


class Click:
    def __init__(self, number):
        self.number = number
        self.where = bytearray(1500)


class Visitor:
    def __init__(self, number):
        self.number = number
        self.clicks = []

    def click(self, number):
        self.clicks.append(Click(number))  # the leak: nobody reads them


@functools.lru_cache(maxsize=64)
def visitor(number):
    return Visitor(number)


for number in requests(100):
    visitor(number % 64).click(number)
    serve(number)
