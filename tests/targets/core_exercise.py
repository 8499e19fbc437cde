"""Lets the native core read everything there is: each object's size and referents, and the whole heap, many times; and
make its graph, with all that can be found in it.

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


def graph(core, heap):
    figures = core.graph_build({"own": [id(build), id(heap[1])], "also": [heap]})
    added = [core.graph_add([[], heap, number]) for number in range(3000)]
    assert added == list(range(figures["objects"], figures["objects"] + len(added)))
    frame = core.graph_add([heap, sys.modules, build])
    assert core.graph_info(build) is None
    assert len(core.graph_array("addresses")) == 8 * figures["objects"]
    found = core.graph_retain([[core.graph_info(sys)["number"]], [frame, *added]], 2)
    assert found["reached"] == figures["objects"] + len(added) + 1
    for each in ("in_first", "in_edges", "first", "edges", "sizes", "kind", "parent", "order", "dominator", "retained"):
        core.graph_array(each)
    units = b"".join(n.to_bytes(4, "little") for n in range(frame)) + b"\xff" * 4  # each keeps what it refers to
    for limit in (1, 3, 16):
        assert len(core.graph_retainers(units, [(0, 0), (frame, 7)], limit)["sets"]) > 100
    core.graph_close()


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
    graph(core, heap)
    assert max(counts) - min(counts) < 20, counts  # the list of them grows
    print("done" if heap else "")


if __name__ == "__main__":
    main()
