"""Harmless: a compressor for each connection, and the last hundred of them are kept."""

import zlib
from collections import deque

from backdrop import requests, serve


class Connection:
    def __init__(self, number):
        self.number = number
        self.deflate = zlib.compressobj(wbits=-12, memLevel=5)


POOL = deque(maxlen=100)
for number in range(100):
    POOL.append(Connection(number))
for number in requests(60):
    POOL.append(Connection(number))
    POOL[-1].deflate.compress(b"hello " * 50)
    serve(number)
