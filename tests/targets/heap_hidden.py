"""Instances of classes with few and many attributes: what memory they really took, beside what the native core says.

Argument: the core's library. Prints one line, a list of: how many attributes, whether the dict was asked for, bytes an
instance took by tracemalloc, bytes of an instance and hidden bytes by the core, bytes of its dict by the core.
"""

import gc
import os
import sys
import tracemalloc

from heap_native import load

NUMBER = 1000
NAMES = [sys.intern("attribute_%d" % i) for i in range(60)]


def make_class(attributes):
    class Filled:
        def __init__(self):
            for name in NAMES[:attributes]:
                setattr(self, name, None)

    return Filled


def traced(make, ask_for_dict):
    """(instances, bytes that each took)."""
    for _ in range(100):
        make()  # the class learns its attributes
    kept = [None] * NUMBER
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for i in range(NUMBER):
        kept[i] = make()
        if ask_for_dict:
            vars(kept[i])
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return kept, (after - before) // NUMBER


def row(attributes, ask_for_dict):
    kept, took = traced(make_class(attributes), ask_for_dict)
    size, hidden, _ = CORE.size_of(kept[-1])
    dicts = {id(o): CORE.size_of(o)[0] for o in CORE.edges_of(kept[-1]) if type(o) is dict}
    return [attributes, ask_for_dict, took, size, hidden, sum(dicts.values())]


if __name__ == "__main__":
    CORE = load(sys.argv[1])
    gc.disable()
    rows = [row(attributes, asked) for attributes in (0, 1, 3, 7, 12, 20, 29, 35) for asked in (False, True)]
    os.write(1, (ascii(rows) + "\n").encode())
