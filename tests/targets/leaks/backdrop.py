"""What the programs of this folder have in common: a small shop that answers requests and keeps nothing of them.

A catalogue that stays as it is, a cache of pages at its bound, and for each request much that is allocated and let go.
A program takes :func:`requests`, answers each with :func:`serve`, and beside that does the one thing that it is here
for. It runs on every Python that heaptop attaches to, and ends when its parent does, or after five minutes.
"""

import functools
import itertools
import json
import os
import random
import signal
import time

LIMIT = 300


class Product:
    __slots__ = ("name", "number", "price", "text")

    def __init__(self, number):
        self.number = number
        self.name = f"product {number}"
        self.price = number % 97 * 25
        self.text = f"the text of product {number}" * 5


CATALOGUE = {number: Product(number) for number in range(4000)}


@functools.lru_cache(maxsize=200)
def page(number):
    products = [CATALOGUE[number + i] for i in range(3)]
    return json.dumps([{"number": each.number, "name": each.name, "text": each.text} for each in products])


def serve(number):
    """An answer, of which nothing stays but a page in the cache for a while."""
    rows = json.loads(page(number * 37 % 3900))
    rows += [{"number": each, "text": "x" * 50} for each in range(30)]
    random.shuffle(rows)
    return json.dumps(sorted(rows, key=lambda row: row["number"]))


class Row:
    def __init__(self, values):
        self.values = values


def load(number):
    """Much that is allocated at once."""
    text = json.dumps([{"id": i, "name": f"row {number} {i}", "value": i * 1.5} for i in range(300)])
    return [Row(each) for each in json.loads(text)]


def requests(rate):
    """So many a second, or with no pause where that is 0: numbers from 0 on, the first when the program is ready."""
    for number in range(200):
        serve(number)  # the cache is at its bound
    parent = os.getppid()
    signal.alarm(LIMIT)
    os.write(1, b"ready\n")
    begin = time.monotonic()
    for number in itertools.count():
        if rate:
            time.sleep(max(0.0, begin + number / rate - time.monotonic()))
        if os.getppid() != parent:
            return
        yield number
