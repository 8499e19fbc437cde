"""Censuses of the native core from a guess of where the middle of generation 2 is, good and bad ones.

Argument: the core's library. Prints a line for each: (what was guessed, the core's answer).
"""

import ctypes
import gc
import sys

import core_breaks

HEAD = 16
"""Bytes of the collector's head, which stands before an object."""
LINKS = 1000


class Node:
    def __init__(self, next):
        self.next = next


def chain(length):
    node = None
    for _ in range(length):
        node = Node(node)
    return node


def ring(links, broken):
    """As many words as links of a list that nobody knows of: (next, previous) each; one leads to nothing."""
    words = (ctypes.c_uint64 * (2 * links + 2))()
    start = (ctypes.addressof(words) + 15) & ~15
    first = (start - ctypes.addressof(words)) // 8
    for i in range(links):
        words[first + 2 * i] = start + 16 * ((i + 1) % links)
        words[first + 2 * i + 1] = start + 16 * ((i - 1) % links)
    if broken:
        words[first + 2 * (links // 2)] = 0
    return words, start


def main():
    core = core_breaks.load(sys.argv[1])
    heap = chain(20_000)
    gc.collect()
    gc.disable()
    old = gc.get_objects(2)
    places = {name: id(old[at]) - HEAD for name, at in (("first", 0), ("second", 1), ("inside", 7000), ("last", -1))}
    del old
    young = Node(heap)
    whole, lonely = ring(LINKS, False)
    torn, broken = ring(LINKS, True)
    guesses = [
        ("none", 0),
        *places.items(),
        ("young", id(young) - HEAD),
        ("no object of the collector", id("text of some length") - HEAD),
        ("another ring", lonely),
        ("a ring that is torn", broken),
        ("nothing there", 0x7F0000000010),
        ("not aligned", id(heap) - HEAD + 1),
        ("no address", 1 << 60),
        ("a low one", 16),
    ]
    for name, guess in guesses:
        core.begin(0, {"middle": guess})
        print(ascii((name, core.end())))
    for name in ("found by the last", "found again"):
        core.begin(0, {})
        print(ascii((name, core.end())))
    gc.freeze()
    core.begin(0, {"middle": places["inside"]})
    print(ascii(("frozen", core.end())))
    del whole, torn  # they were needed until here


if __name__ == "__main__":
    main()
