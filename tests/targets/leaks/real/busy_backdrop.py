"""What the programs of this folder have in common: the shop of ``backdrop.py``, grown large and busy.

More than 400,000 objects that stay, caches at their bound, a thread that loads reports, and an event loop on a thread
of its own, with tasks that come and go. A program takes :func:`requests` and uses one package beside that as its users
do.
"""

import asyncio
import functools
import random
import threading
import time

import backdrop
from backdrop import load, serve

__all__ = ["requests", "serve", "start_loop"]

CUSTOMERS = 13500
backdrop.LIMIT = 900  # on a busy machine, a hunt in a heap of this size may take minutes


class Customer:
    __slots__ = ("address", "name", "number", "orders")

    def __init__(self, number):
        self.number = number
        self.name = f"customer {number}"
        self.address = {"street": f"street {number % 1000}", "code": f"{number:05}", "city": f"city {number % 97}"}
        self.orders = [(f"order {number}-{i}", number * 1.5 + i, [f"line {i} of {number}"]) for i in range(4)]


KNOWN = {number: Customer(number) for number in range(CUSTOMERS)}


@functools.lru_cache(maxsize=3000)
def label(number):
    return {"name": KNOWN[number].name, "lines": [f"{name}: {price:.2f}" for name, price, _ in KNOWN[number].orders]}


def requests(rate):
    """As ``backdrop.requests``, with all that is beside it at work and warm."""
    for number in range(3000):
        label(number)
    threading.Thread(target=_load_reports, daemon=True).start()
    asyncio.run_coroutine_threadsafe(_keep_busy(), start_loop())
    for number in backdrop.requests(rate):
        label(random.randrange(CUSTOMERS))
        yield number


def start_loop():
    """An event loop that runs on a thread of its own."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    return loop


def _load_reports():
    number = 0
    while True:
        rows = load(number)
        number += len(rows)
        time.sleep(0.1)


async def _keep_busy():
    while True:
        await asyncio.gather(*(_answer(number) for number in range(20)))


async def _answer(number):
    rows = [{"number": number, "text": "x" * 40} for _ in range(20)]
    await asyncio.sleep(0.1 + random.random() / 10)
    return len(rows)
