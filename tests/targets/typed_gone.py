"""What a block that dies is said to be, where its type is not there any more, or only seems to be there. Prints a dict.

Arguments: the core's library, and `stop` or `clone`.
"""

import ctypes
import gc
import sys

from sampling_agent import Agent, Book, unpack
from typed_known import Reads, census

SIZE = 5003
FIRSTS = 20
"""Types that go. Where one was, something else may come to stand before another type does."""


class Passing:
    """Of which there are none when a census comes."""

    __slots__ = ("i",)


class Session:
    def __init__(self, mode):
        self.agent, self.mode, self.names = Agent(), mode, []
        self.agent(self.agent.core.sample_start, {"interval": 1, "depth": 8, "seed": 1, "bytes": 0})
        self.reads = Reads(self.agent.core)
        self.book = Book(self.reads)

    def census(self):
        types, _, _ = self.agent(census, self.agent.core, self.mode, len(self.names))
        self.names += unpack(types)
        self.agent(self.book.read)

    def said(self, function, size=0):
        """Names of the types of blocks, of that size if not 0, that have died since the last time, allocated in
        that function. Asked on the agent's thread, which is not sampled."""
        return self.agent(self._said, function, size)

    def _said(self, function, size):
        self.book.read()
        found = []
        for birth, clock in self.book.dead:
            if birth.domain == 1 and self.book.site(birth)[0] == function and size in (0, birth.size):
                found.append(self.reads.types[birth.id, clock])
        self.book.dead.clear()
        self.reads.types.clear()
        return sorted({self.names[kind - 1][1] if kind else "" for kind in found})


def make_type(name):
    return type(name, (), {"__slots__": ("i",)})


def make_first(kept, kind):
    for _ in range(100):
        kept.append(kind())


def make_second(kept, kind):
    for _ in range(100):
        kept.append(kind())


def raw(place, word):
    """A block of no object, with a word that is the address of a type."""
    block = ctypes.pythonapi.PyObject_Malloc(SIZE)
    ctypes.memset(block, 0, SIZE)
    ctypes.c_void_p.from_address(block + place).value = word
    ctypes.pythonapi.PyObject_Free(block)


def main():
    session = Session(sys.argv[2])
    ctypes.pythonapi.PyObject_Malloc.restype = ctypes.c_void_p
    ctypes.pythonapi.PyObject_Malloc.argtypes = [ctypes.c_size_t]
    ctypes.pythonapi.PyObject_Free.argtypes = [ctypes.c_void_p]
    result = {}

    firsts = [make_type("First") for _ in range(FIRSTS)]
    addresses = [*map(id, firsts)]
    kept, others = [], []
    while firsts:
        make_first(kept, firsts.pop())
    make_first(kept, Passing)
    session.census()
    kept.clear()
    result["first"] = session.said("make_first")
    gc.collect()
    session.census()

    while not others or (id(others[-1]) not in addresses and len(others) < 10000):
        others.append(make_type("Second"))
    result["same address"] = id(others[-1]) in addresses
    for kind in ("Second", "Passing"):
        session.said("")
        make_second(kept, others[-1] if kind == "Second" else Passing)
        kept.clear()
        result[kind] = session.said("make_second")

    for place, word in ((8, int), (24, dict), (24, int), (40, int), (8, dict), (40, dict)):
        raw(place, id(word))
        result[place, word.__name__] = session.said("raw", SIZE)
    result["stop"] = session.agent.stop()
    print(result)


if __name__ == "__main__":
    main()
