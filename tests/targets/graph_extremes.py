"""Graphs at the edge. Arguments: the core's library, and what to try:

- ``scarce``: for each number of bytes behind it, a graph, and what is found in it, in a fork that has so many bytes of
  address space left; the numbers of objects, or exceptions;
- ``types``: more types than a number of 16 bits can tell; how many objects were told to be of another;
- ``large``: bytes of the largest object of a heap with one of more than 4 GiB, told by its size, and by what would go
  with who has it; or None where that cannot be had.
"""

import array
import resource
import sys

import core_breaks
from core_scarce import address_space

TYPES = 66_000
LARGE = 5 << 30


def found_in(core):
    try:
        objects = core.graph_build()["objects"]
        core.graph_retain([[core.graph_info(sys)["number"]]], 1)
        units = array.array("I", range(objects)).tobytes()
        core.graph_retainers(units, [(core.graph_info(sys)["number"], 0)], 3)
        return str(objects)
    except Exception as error:
        return ascii(error)
    finally:
        core.graph_close()


def scarce(core):
    heap = [[[i], {"key": i}] for i in range(100_000)]

    def limited(free):
        resource.setrlimit(resource.RLIMIT_AS, (address_space() + free, resource.RLIM_INFINITY))
        return found_in(core)

    found = [core_breaks.in_fork(lambda free=free: limited(int(free))) for free in sys.argv[3:]]
    return found + heap[:0]


def of_many_types(core):
    made = [type(f"Many{i}", (), {"__slots__": ()})() for i in range(TYPES)]
    core.graph_build()
    return sum(core.graph_info(each)["type"] is not type(each) for each in made)


def large(core):
    try:
        holder = [bytes(LARGE)]
    except MemoryError:
        return None
    core.graph_build()
    number = core.graph_info(holder)["number"]
    core.graph_retain([[number]], 1)
    retained = array.array("Q")
    retained.frombytes(core.graph_array("retained"))
    return core.graph_info(holder[0])["size"] - LARGE, retained[number] - LARGE


def main():
    core = core_breaks.load(sys.argv[1])
    print(ascii({"scarce": scarce, "types": of_many_types, "large": large}[sys.argv[2]](core)))


if __name__ == "__main__":
    main()
