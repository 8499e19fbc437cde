"""Lets the native core read everything there is: each object's size and referents, and the whole heap, many times; and
make its graph, with all that can be found in it, and a snapshot that stays open and answers every question.

Arguments: the core's library, `clone` to count in clones too, `image` to have one stay open. Prints `done` at the end.
"""

import gc
import struct
import sys
import time

import core_breaks

TIME_NS = 500 * 10**9  # of a clone: sanitized, and beside other tests, it takes several times as long as it would


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


def question(what, *lists, flags=0, offset=0, limit=50, number=3, low=0, high=0, known=b""):
    """As heaptop packs it: protocol/images.py."""
    head = struct.pack("<IIIIIIQQQ", what, flags, offset, limit, number, 0, 7, low, high)
    lists = [*lists, *[()] * (9 - len(lists))]
    return head + b"".join(struct.pack(f"<I{len(each)}Q", len(each), *each) for each in lists) + known


def questions(heap):
    kinds, addresses = (0, 2, 4, 5), tuple(map(id, [*heap, heap[0][5], heap[0][5].texts, build, Node, "caf", 5, sys]))
    for what in range(1, 13):
        yield question(what)
        yield question(what, (0, 3, 5), kinds, (), (), addresses, (), addresses, flags=3, limit=1 << 31)
        yield question(what, (), (), addresses, low=id(heap) - 10**6, high=id(heap) + 10**6, limit=1000)
        yield question(what, (), kinds, (), (), (), (5, 7), (), addresses[:3], (0, 1, 300), offset=9)
        yield question(what, (), (), (), (1, 2))[:-1]
    yield from (question(4, (), (), (each,), flags=2) for each in addresses)
    yield from (question(12, *lists, number=51) for lists in ((), ((0, 3, 5),), ((), (), addresses)))


def asked(core):
    """The answer's bytes."""
    while core.image_look()[0] != 1:
        assert core.image_look()[0] != -1, core.image_end()
        time.sleep(0.001)
    return core.image_take()


def pieces(core):
    """Of what it says of addresses: behind the name of the field, and msgpack's length of four bytes."""
    offset = 0
    while True:
        assert core.image_ask(question(9, offset=offset))
        data, _, after = asked(core).partition(b"\xa4data\xc6")[2].rpartition(b"\xa4next")
        yield data[4:]
        offset = int.from_bytes(after[1:], "big") if after[0] > 127 else after[0]
        if not offset:
            return


def image(core, heap):
    core.image_begin({"id": 1, "image": 1, "keep_ns": TIME_NS})
    asked(core)
    for each in questions(heap):
        assert core.image_ask(each)
        assert len(asked(core)) > 20
    told = list(pieces(core))
    for number in (1, 2):
        for each in told:
            for known in (each, each[:-1], each[:9], bytes(reversed(each))):
                assert core.image_ask(question(10, number=number, known=known))
                assert (b"known" in asked(core)) == (known is each)
    assert core.image_end()[:2] == ("it was closed", True)


def main():
    core = core_breaks.load(sys.argv[1])
    assert core.check(gc) == "", core.check(gc)
    heap = build()
    gc.collect()
    for o in gc.get_objects():
        core.edges_of(o)
        core.size_of(o)
    counts = [core.stop(0)[2]["objects"] for _ in range(3)]
    if "clone" in sys.argv:
        core.begin(0, {"wall_ns": TIME_NS})
        core.end()
    gc.freeze()
    core.stop(0)
    gc.unfreeze()
    graph(core, heap)
    if "image" in sys.argv:
        image(core, heap)
    assert max(counts) - min(counts) < 20, counts  # the list of them grows
    print("done" if heap else "")


if __name__ == "__main__":
    main()
