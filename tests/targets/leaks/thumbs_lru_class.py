"""Harmless: a cache of a class of the program's own, which fills until the capacity that it has as an attribute."""

from collections import OrderedDict

from backdrop import requests, serve


class Thumb:
    def __init__(self, number, pixels):
        self.number = number
        self.pixels = pixels


class Thumbs:
    def __init__(self, capacity):
        self.capacity = capacity
        self._kept = OrderedDict()

    def get(self, number):
        if number not in self._kept:
            self._kept[number] = Thumb(number, bytearray(2000))
            if len(self._kept) > self.capacity:
                self._kept.popitem(last=False)
        return self._kept[number]


thumbs = Thumbs(50_000)
for number in requests(100):
    thumbs.get(number)
    serve(number)
