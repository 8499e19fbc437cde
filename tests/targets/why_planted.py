"""Sessions that are kept in several ways, known by how many each keeps; its word is the address of one of them."""

import functools
import gc
import threading

from steady import ready

SECRET = "hunter2"


class Session:
    __slots__ = ["number", "other", "user"]  # so that its attributes are its own references on every version

    def __init__(self, number):
        self.number = number
        self.user = SECRET + str(number)


class Registry:
    def __init__(self):
        self.sessions = {f"key {number}": Session(number) for number in range(100)}


class Twin:
    class Session:
        pass


@functools.lru_cache(None)
def cached(number):
    return Session(number)


def worker(started, never):
    rows = [Session(number) for number in range(30)]
    started.set()
    never.wait()
    del rows


def ring():
    first, second = Session(1), Session(2)
    first.other, second.other = second, first


registry = Registry()
twins = [Twin.Session()]
for number in range(20):
    cached(number)
started, never = threading.Event(), threading.Event()
threading.Thread(target=worker, args=(started, never), daemon=True).start()
started.wait()
gc.collect()
gc.disable()
for _ in range(5):
    ring()
ready(hex(id(registry.sessions["key 7"])))
while True:
    threading.Event().wait(1)
