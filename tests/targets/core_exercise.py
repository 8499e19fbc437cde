"""Lets the native core read everything there is: each object's size and referents, and the whole heap, many times.

Arguments: the core's library, and `clone` to count in clones too. Prints `done` at the end.
"""

import gc
import sys

import core_breaks


class Node:
    def __init__(self, number, parent):
        self.number = number
        self.parent = parent
        self.texts = ["caf\u00e9" * number, "\u20ac" * number, "\U0001f600", b"x" * number]


def build():
    nodes = [None]
    for i in range(300):
        nodes.append(Node(i, nodes[-1]))
    tables = [dict.fromkeys(range(n)) for n in range(40)]
    tables += [dict.fromkeys(map(str, range(n))) for n in (0, 5, 300, 70000)]
    parted = set(range(500))
    for i in range(0, 500, 2):
        parted.discard(i)
    nested = ()
    for i in range(20000):  # untracked after a collection, and deep
        nested = (i, nested)
    return [nodes, tables, parted, nested, [10**n for n in range(200)], [-(10**n) for n in range(200)]]


def main():
    core = core_breaks.load(sys.argv[1])
    assert core.check() == "", core.check()
    heap = build()
    gc.collect()
    for o in gc.get_objects():
        core.edges_of(o)
        core.size_of(o)
    counts = [core.stop(0)[2]["objects"] for _ in range(3)]
    if "clone" in sys.argv:
        core.begin(0, {})
        core.end()
    gc.freeze()
    core.stop(0)
    gc.unfreeze()
    assert max(counts) - min(counts) < 20, counts  # the list of them grows
    print("done" if heap else "")


if __name__ == "__main__":
    main()
