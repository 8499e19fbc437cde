"""As ``image_exercise``, with large things whose memory is not all in one place: ``blocks`` says where it is."""

import ctypes
import sys

import image_exercise
from image_exercise import Exercise

COUNT = 60_000


class Attributed:
    def __init__(self, number):
        self.number, self.label = number, None


class Slotted:
    __slots__ = ("one", "two")


THINGS = {
    "list": [None] * COUNT,
    "dict": dict.fromkeys(range(COUNT)),
    "set": set(range(COUNT)),
    "bytearray": bytearray(COUNT * 4),
    "str": chr(228) * COUNT,
    "bytes": b"x" * COUNT,
    "tuple": (None,) * COUNT,
    "int": 1 << (COUNT * 8),
}
POINTERS = {"list": 24, "dict": 32, "set": 40, "bytearray": 32}
"""listobject.h, dictobject.h, setobject.h, bytearrayobject.h: where each has the address of its items."""
COLLECTED = ("list", "dict", "set", "tuple")
"""The collector's head stands before them."""
ATTRIBUTED = [Attributed(number) for number in range(2000)]
SLOTTED = [Slotted() for _ in range(2000)]


class Blocks(Exercise):
    def blocks(self, _):
        """By type: address of the object, and (address, bytes) of each of its blocks."""
        found = {}
        for name, thing in THINGS.items():
            head = 16 if name in COLLECTED else 0
            whole = sys.getsizeof(thing)
            own = type(thing).__basicsize__ + head if name in POINTERS else whole
            blocks = [(id(thing) - head, own)]
            if name in POINTERS:
                items = ctypes.c_uint64.from_address(id(thing) + POINTERS[name]).value
                if name == "bytearray" and sys.version_info >= (3, 15):
                    items -= bytes.__basicsize__ - 1  # they are a bytes object's
                blocks.append((items, whole - own))
            found[name] = (id(thing), blocks)
        return found

    def alike(self, _):
        """Addresses of many small objects."""
        return {"Attributed": list(map(id, ATTRIBUTED)), "Slotted": list(map(id, SLOTTED))}


if __name__ == "__main__":
    image_exercise.Exercise = Blocks
    image_exercise.main()
