"""Whether a walk without code sees what the walk with it does, of one of everything and of all that it leads to.

Argument: the core's library. Prints {"objects": how many were compared, "types": of how many types, "opaque":
{type: how many there are}, "guessed": likewise, where bytes are a guess, "faults": sentences}. What is opaque may have
more references than the rules know of, and no fewer.

With ``poisoned``, the whole graph is made without code after each function that a walk with code calls was made one
that crashes; with ``called`` as well, once more with code. Prints {"objects", "edges": (with code, without), "opaque":
(bytes that have no rule, of all)}.
"""

import array
import collections
import ctypes
import gc
import os
import sys
import types

import core_breaks
import heap_edges
import heap_zoo

FAULTS = 20
TRAVERSE, IS_GC, METHOD = 184, 328, 40
"""Of a type, and of a method descriptor, in every version."""
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
    by_rule, size, hidden, guessed, opaque = core.without_code(o)
    seen, wanted = collections.Counter(map(id, by_rule)), collections.Counter(map(id, core.edges_of(o)))
    other = None if guessed or (size, hidden) == core.size_of(o)[:2] else (size, hidden, *core.size_of(o)[:2])
    return seen - wanted, wanted - seen, opaque, guessed, other


def poison():
    """Make every function that a walk with code would call crash who calls it: no address has bit 62."""
    types_met, todo = set(), [object]
    while todo:
        t = todo.pop()
        if id(t) not in types_met:
            types_met.add(id(t))
            todo += type.__subclasses__(t)
            todo.append(type(t))
    for address in types_met:
        for offset in (TRAVERSE, IS_GC):
            slot = ctypes.c_size_t.from_address(address + offset)
            slot.value |= (1 << 62) if slot.value else 0
        method = ctypes.cast(address, ctypes.py_object).value.__dict__.get("__sizeof__")
        if type(method) is type(list.append):
            function = ctypes.c_size_t.from_address(ctypes.c_size_t.from_address(id(method) + METHOD).value + 8)
            function.value |= 1 << 62


def build_poisoned():
    core = core_breaks.load(sys.argv[1])
    heap = {name: make(heap_edges.Leaf) for name, make in heap_edges.PLANTS.items()}
    heap["zoo"] = heap_zoo.everything()
    gc.collect()
    gc.disable()
    with_code = core.graph_build({"also": [heap]})
    core.graph_close()
    poison()
    if "called" in sys.argv:
        core.graph_build({"also": [heap]})
    without = core.graph_build({"also": [heap], "without_code": True})
    sizes = array.array("I")
    sizes.frombytes(core.graph_array("sizes"))
    counts = {"objects": (with_code["objects"], without["objects"]), "edges": (with_code["edges"], without["edges"])}
    print(ascii({**counts, "opaque": (without["opaque"], sum(sizes))}), flush=True)
    os._exit(0)


def main():
    core = core_breaks.load(sys.argv[1])
    main.heap = heap = {name: make(heap_edges.Leaf) for name, make in heap_edges.PLANTS.items()}
    heap["zoo"] = heap_zoo.everything()
    gc.collect()
    gc.disable()
    of_type = {}
    for o in closure(core, heap):
        of_type.setdefault(type(o), []).append(o)
    faults, opaque, guessed, compared = [], {}, {}, 0
    for t, objects in list(of_type.items()):
        for o in objects[:OF_A_TYPE]:
            more, less, is_opaque, is_guessed, other_size = differences(core, o)
            compared += 1
            if is_guessed and not core.size_of(o)[2]:
                guessed[str(t)] = len(objects)
            if other_size:
                faults.append("%s: bytes are %s" % (t, other_size))
            if is_opaque:
                opaque[str(t)] = len(objects)
            if more or (less and not is_opaque):
                faults.append("%s: %d references more and %d less" % (t, sum(more.values()), sum(less.values())))
    counts = {"objects": compared, "types": len(of_type), "opaque": opaque, "guessed": guessed}
    print(ascii({**counts, "faults": faults[:FAULTS]}), flush=True)
    os._exit(0)  # without what tasks that were never finished say at the end


if __name__ == "__main__":
    build_poisoned() if "poisoned" in sys.argv else main()
