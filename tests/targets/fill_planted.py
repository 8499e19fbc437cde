"""Plants containers that have a bound, some that only look so, and does with their open snapshot what it is told.

Argument: the core's library. As image_exercise.py, with ``planted`` besides: the address, length and bound of each.
"""

import array
import asyncio
import collections
import functools
import gc
import io
import queue
import sys

import image_exercise

SECRET = 424_242


class Bounded(collections.deque):
    pass


class Half(collections.deque):
    """A deque without maxlen, whose class has a bound of its own."""

    def __init__(self, items, maxsize):
        super().__init__(items)
        self.maxsize = maxsize


class Log(list):
    pass


class Unmeasured(list):
    """What it says of its size is Python code, which nobody runs."""

    def __sizeof__(self):
        raise SystemExit("the target's code was run")


class Registry(dict):
    pass


class Hits(collections.Counter):
    __slots__ = ("name",)


class Groups(collections.defaultdict):
    pass


class Seen(set):
    pass


class Buffer(bytearray):
    pass


class Values(array.array):
    pass


class Text(io.StringIO):
    pass


class Bytes(io.BytesIO):
    pass


class Row(collections.namedtuple("Row", "a b c")):
    pass


class Name(str):
    __slots__ = ()


class Lru(collections.OrderedDict):
    def __init__(self, capacity):
        super().__init__()
        self.capacity = capacity


class Cache:
    """As those of cachetools."""

    def __init__(self, maxsize):
        self.__data = {1: 2}
        self.__maxsize = maxsize
        self.__currsize = 17


class Slotted:
    __slots__ = ("_max_entries", "items", "unset")

    def __init__(self, most):
        self._max_entries = most
        self.items = []


class Many:
    """It has more attributes than its class keeps names of."""

    def __init__(self, maxsize):
        for number in range(100):
            setattr(self, f"attribute_{number}", number)
        self.maxsize = maxsize


class Holder:
    def __init__(self, **attributes):
        self.__dict__.update(attributes)


class Limited:
    maxsize = 64


class LimitedToo(Limited):
    capacity = "none"

    def __init__(self, **attributes):
        self.__dict__.update(attributes)


def cache_of(maxsize):
    kept = {}

    def get(number):
        if len(kept) < maxsize:
            kept[number] = number
        return kept.get(number)

    return get


def remember(number, kept=[], maxsize=70):  # noqa: B006
    kept.append(number)
    del kept[:-maxsize]


def recall(number, *, kept=[], maxlen=80):  # noqa: B006
    kept.append(number)
    del kept[:-maxlen]


class Meta(type):
    pass


class Number(int):
    pass


class Liar:
    """Its bound is code, which nobody runs."""

    @property
    def maxsize(self):
        raise SystemExit("the target's code was run")

    def __len__(self):
        raise SystemExit("the target's code was run")


class _lru_cache_wrapper:
    """By its name alone."""

    def __init__(self):
        self.items = [1, 2, 3]


_lru_cache_wrapper.__module__ = "functools"
DOTTED = type("functools._lru_cache_wrapper", (), {"__slots__": tuple(f"slot_{n:02}" for n in range(17))})
DOTTED_DEQUE = type("collections.deque", (), {"__slots__": tuple(f"slot_{n:02}" for n in range(25))})


def filled(kind):
    """Each slot has an int, so that every offset leads to something."""
    made = kind()
    for name in kind.__slots__:
        setattr(made, name, 10**6)
    return made


def cached(maxsize, entries, typed=False):
    def answer(number):
        return [number]

    answer = functools.lru_cache(maxsize, typed)(answer)
    for number in range(entries):
        answer(number)
    return answer


def queue_of(kind, maxsize, items=0):
    made = kind(maxsize)
    for number in range(items):
        made.put_nowait(number)
    return made


UNKNOWN, UNLIMITED = -1, 0
LOOP = asyncio.new_event_loop()
asyncio.set_event_loop(LOOP)
module = type(sys)("settings")
module.maxsize = 1000
module.items = []
PLANTED = {
    # name: (object, length, bound)
    "deque": (collections.deque(range(700)), 700, UNLIMITED),
    "bounded deque": (collections.deque(range(700), 500), 500, 500),
    "empty bounded deque": (collections.deque(maxlen=5), 0, 5),
    "deque of nothing": (collections.deque(maxlen=0), 0, UNKNOWN),
    "deque of the most": (collections.deque(maxlen=sys.maxsize), 0, sys.maxsize),
    "subclass of deque": (Bounded(range(7), 5), 5, 5),
    "deque with a bound of its class": (Half(range(7), 50), 7, 50),
    "lru_cache": (cached(100, 30), 30, 100),
    "full lru_cache": (cached(10, 30), 10, 10),
    "empty lru_cache": (cached(10, 0), 0, 10),
    "lru_cache without a limit": (cached(None, 30), 30, UNLIMITED),
    "lru_cache of nothing": (cached(0, 30), 0, UNKNOWN),
    "queue": (queue_of(queue.Queue, 1000, 3), -1, 1000),
    "its deque": (None, 3, UNLIMITED),
    "queue without a limit": (queue_of(queue.Queue, 0), -1, UNLIMITED),
    "lifo": (queue_of(queue.LifoQueue, 20), -1, 20),
    "asyncio queue": (queue_of(asyncio.Queue, 30), -1, 30),
    "asyncio queue without a limit": (queue_of(asyncio.Queue, 0), -1, UNLIMITED),
    "ordered": (collections.OrderedDict.fromkeys(range(9)), 9, UNKNOWN),
    "ordered with a bound": (Lru(128), 0, 128),
    "as cachetools": (Cache(1000), 17, 1000),
    "slots": (Slotted(77), -1, 77),
    "many attributes": (Many(88), -1, 88),
    "a dict of its own": (Holder(maxsize=5, number=6), -1, 5),
    "two that agree": (Holder(maxsize=5, capacity=5), -1, 5),
    "two that do not": (Holder(maxsize=5, capacity=6), -1, UNKNOWN),
    "below zero": (Holder(maxsize=-1), -1, UNLIMITED),
    "the largest that is read": (Holder(maxsize=(1 << 60) - 1), -1, (1 << 60) - 1),
    "huge": (Holder(maxsize=1 << 60), -1, UNKNOWN),
    "huge below zero": (Holder(maxsize=-(10**40)), -1, UNKNOWN),
    "a float": (Holder(maxsize=1000.0), -1, UNKNOWN),
    "a bool": (Holder(maxsize=True), -1, UNKNOWN),
    "a text": (Holder(maxsize="1000"), -1, UNKNOWN),
    "a subclass of int": (Holder(maxsize=Number(1000)), -1, UNKNOWN),
    "nothing": (Holder(maxsize=None), -1, UNKNOWN),
    "another name": (Holder(limit=SECRET, maxsized=SECRET, pin=SECRET, _=SECRET, __=SECRET, most=SECRET), -1, UNKNOWN),
    "a name that is not ASCII": (Holder(**{"maxsiz\u20ac": SECRET, "\xe9maxsize": SECRET}), -1, UNKNOWN),
    "a property": (Liar(), -1, UNKNOWN),
    "by its name alone": (_lru_cache_wrapper(), -1, UNKNOWN),
    "by its dotted name": (filled(DOTTED), -1, UNKNOWN),
    "a deque by its dotted name": (filled(DOTTED_DEQUE), -1, UNKNOWN),
    "a module": (module, -1, UNKNOWN),
    "a class": (Meta("Limited", (), {"maxsize": 1000}), -1, 1000),
    "an instance of one with a bound": (Limited(), -1, 64),
    "an instance of a class below it": (LimitedToo(), -1, 64),
    "an instance with another bound": (LimitedToo(maxsize=7), -1, 7),
    "a closure": (cache_of(600), -1, 600),
    "a closure whose bound is no int": (cache_of(600.5), -1, UNKNOWN),
    "default arguments": (remember, -1, 70),
    "default arguments by keyword": (recall, -1, 80),
    "a function": (cache_of, -1, UNKNOWN),
    "list": ([1, 2, 3], 3, UNKNOWN),
    "dict": ({1: 2}, 1, UNKNOWN),
    "set": ({1, 2}, 2, UNKNOWN),
    "tuple": ((LOOP, LOOP), 2, UNKNOWN),
    "frozenset": (frozenset((LOOP, 1)), 2, UNKNOWN),
    "bytearray": (bytearray(b"12345"), 5, UNKNOWN),
    "array": (array.array("d", [1.5]), UNKNOWN, UNKNOWN),
    "BytesIO": (io.BytesIO(b"123"), UNKNOWN, UNKNOWN),
    "StringIO": (io.StringIO("123"), UNKNOWN, UNKNOWN),
    "subclass of list": (Log(range(11)), 11, UNKNOWN),
    "subclass of list that measures itself": (Unmeasured(range(12)), 12, UNKNOWN),
    "subclass of dict": (Registry.fromkeys(range(13)), 13, UNKNOWN),
    "subclass of Counter": (Hits("abcab"), 3, UNKNOWN),
    "subclass of defaultdict": (Groups(list, {1: [], 2: []}), 2, UNKNOWN),
    "subclass of set": (Seen(range(14)), 14, UNKNOWN),
    "subclass of bytearray": (Buffer(b"123456"), 6, UNKNOWN),
    "subclass of array": (Values("d", [1.5]), UNKNOWN, UNKNOWN),
    "subclass of StringIO": (Text("123"), UNKNOWN, UNKNOWN),
    "subclass of BytesIO": (Bytes(b"123"), UNKNOWN, UNKNOWN),
    "named tuple": (Row(LOOP, 2, 3), 3, UNKNOWN),
    "subclass of str": (Name("a name"), 6, UNKNOWN),
}
CONTAINERS = (
    *("list", "dict", "set", "bytearray", "array", "BytesIO", "StringIO", "ordered", "ordered with a bound"),
    *(name for name in PLANTED if "lru_cache" in name),
    *(name for name in PLANTED if name.startswith("subclass of ") and name != "subclass of str"),
    *("deque", "bounded deque", "empty bounded deque", "deque of nothing", "deque of the most", "its deque"),
    "deque with a bound of its class",
)
PLANTED["its deque"] = (PLANTED["queue"][0].queue, *PLANTED["its deque"][1:])


class Exercise(image_exercise.Exercise):
    def planted(self, _):
        return {name: (id(each), length, bound) for name, (each, length, bound) in PLANTED.items()}

    def containers(self, _):
        return sorted(set(CONTAINERS))

    def work(self, puts_and_gets):
        """How many wait in the queue then."""
        jobs, (puts, gets) = PLANTED["queue"][0], puts_and_gets
        for number in range(puts):
            jobs.put(number)
        for _ in range(gets):
            jobs.get()
        return jobs.qsize()

    def forget(self, name):
        """With this fact wrong: what the check makes of it, and the fact from then on."""
        self.core.open(sys.hexversion)
        self.core.set_layout(name, self.core.layout()[name] + 8)
        return self.core.check(gc), self.core.layout()[name]


def main():
    image_exercise.serve(Exercise())


if __name__ == "__main__":
    main()
