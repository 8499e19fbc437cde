"""Harmless: a cache with a bound that it is far from."""

import functools

from backdrop import requests, serve


class Avatar:
    def __init__(self, number, pixels):
        self.number = number
        self.pixels = pixels


@functools.lru_cache(maxsize=100_000)
def avatar(number):
    return Avatar(number, bytearray(2000))


for number in requests(100):
    avatar(number)
    serve(number)
