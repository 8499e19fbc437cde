"""Harmless: a cache of cachetools with a bound that it reaches after some seconds, and turns over from then on."""

from busy_backdrop import requests, serve
from cachetools import LRUCache, cached


class Quote:
    def __init__(self, number):
        self.number = number
        self.lines = [f"line {i} of {number}" for i in range(6)]


@cached(cache=LRUCache(maxsize=500))
def quote(number):
    return Quote(number)


for number in requests(60):
    quote(number)
    serve(number)
