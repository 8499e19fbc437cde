"""Whether a walk without code sees what the walk with it does, of one of everything and of all that it leads to.

Argument: the core's library. Prints {"objects": how many were compared, "types": of how many types, "opaque":
{type: how many there are}, "faults": sentences}.

What is opaque may have more references than the rules know of, and no fewer.
"""

import collections
import gc
import os
import sys
import types

import core_breaks
import heap_edges
import heap_zoo

FAULTS = 20
OF_A_TYPE = 300
"""Compared, of each type."""


def closure(core, root):
    """What the collector's lists and a root lead to, each once."""
    met, todo = {}, [*gc.get_objects(), root]
    while todo:
        o = todo.pop()
        if id(o) not in met and o is not met and o is not todo:
            met[id(o)] = o
            todo += core.edges_of(o) if isinstance(o, (type, types.CodeType)) else gc.get_referents(o)
    return list(met.values())


def differences(core, o):
    """Addresses that the rules have and the walk has not, and the other way round."""
    by_rule, _, _, _, opaque = core.without_code(o)
    seen, wanted = collections.Counter(map(id, by_rule)), collections.Counter(map(id, core.edges_of(o)))
    return seen - wanted, wanted - seen, opaque


def main():
    core = core_breaks.load(sys.argv[1])
    main.heap = heap = {name: make(heap_edges.Leaf) for name, make in heap_edges.PLANTS.items()}
    heap["zoo"] = heap_zoo.everything()
    gc.collect()
    gc.disable()
    of_type = {}
    for o in closure(core, heap):
        of_type.setdefault(type(o), []).append(o)
    faults, opaque, compared = [], {}, 0
    for t, objects in list(of_type.items()):
        for o in objects[:OF_A_TYPE]:
            more, less, is_opaque = differences(core, o)
            compared += 1
            if is_opaque:
                opaque[str(t)] = len(objects)
            if more or (less and not is_opaque):
                faults.append("%s: %d references more and %d less" % (t, sum(more.values()), sum(less.values())))
    print(ascii({"objects": compared, "types": len(of_type), "opaque": opaque, "faults": faults[:FAULTS]}), flush=True)
    os._exit(0)  # without what tasks that were never finished say at the end


if __name__ == "__main__":
    main()
