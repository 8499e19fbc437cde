"""A store that calls itself a cache with a bound: by its class's name, and by numbers that are none."""

from backdrop import requests, serve


class Job:
    def __init__(self, number):
        self.number = number
        self.data = bytearray(1500)


class _lru_cache_wrapper:
    def __init__(self):
        self.maxsize = 10**40
        self.capacity = 1e9
        self.max_items = True
        self.maxlen = "1000000"
        self._kept = []

    def keep(self, number):
        self._kept.append(Job(number))  # the leak: nothing is ever taken out


_lru_cache_wrapper.__module__ = "functools"
store = _lru_cache_wrapper()
for number in requests(100):
    store.keep(number)
    serve(number)
