"""What censuses of the native core say that they took themselves, as the heap grows.

Argument: the core's library. Prints the bytes that a count took, by name of what had been made last.
"""

import gc
import sys

import core_breaks

OBJECTS = 1_000_000
TYPES = 5_000


def main():
    core = core_breaks.load(sys.argv[1])
    taken, heap = {}, []

    def count(name):
        taken[name] = core.stop(0)[2]["child_bytes"]

    gc.disable()
    core.stop(0)
    count("nothing")
    heap.append([float(i) for i in range(OBJECTS)])
    count("floats")
    heap.append([[] for _ in range(OBJECTS)])
    count("young lists")
    gc.collect()
    count("old lists")
    for i in range(TYPES):
        made = type("Counted", (), {"__slots__": ()})
        made.__qualname__ = f"Counted{i}" + "x" * 200
        heap.append(made())
    gc.collect()
    count("types")
    print(ascii(taken))


if __name__ == "__main__":
    main()
