"""A heap that stands still while it is counted twice: by the native core, and by the plain reference.

Arguments: the core's library, then names of what to build: ``zoo``, ``mixed`` (heap_mixed's), ``records``, ``aged``.
Commands on stdin, a byte each, each answered with one line: ``r`` the reference, ``t`` a census with the world stopped,
``k`` one in a clone, ``f`` freeze, ``u`` unfreeze, ``p`` how many are frozen, ``c`` collect, ``y`` make some young
objects, ``n`` names of what code of the heap's own was called, ``h`` sorts of edges that are hidden from the collector,
``A``, ``B``, … the reference without the first, second, … of them, ``q`` quit.
Nothing runs besides, and nothing collects but ``c``.
"""

import gc
import importlib.machinery
import importlib.util
import os
import select
import sys

import heap_mixed
import heap_reference
import heap_zoo

PATIENCE = 120_000
"""Milliseconds for a clone's census."""

HEAPS = {
    "zoo": heap_zoo.everything,
    "mixed": lambda: heap_mixed.build(500),
    "records": lambda: heap_zoo.records(20_000, aged=False),
    "aged": lambda: heap_zoo.records(20_000, aged=True),
}


def load(path):
    """The core, as the agent loads it: an extension module from a file, known to nobody else."""
    loader = importlib.machinery.ExtensionFileLoader("_core", path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("_core", loader))
    loader.exec_module(module)
    module.open("%x" % sys.hexversion)
    return module


def stopped():
    return CORE.stop(0)


def cloned():
    fd = CORE.begin(0, {"descriptor": 1})[0]
    waiting = select.poll()
    waiting.register(fd, select.POLLIN)
    waiting.poll(PATIENCE)
    return CORE.end()


def frozen():
    gc.freeze()
    return gc.get_freeze_count()


def young():
    YOUNG.extend([[i, {"young": (i, [i])}] for i in range(100)])
    return len(YOUNG)


def called():
    return sorted(set(heap_mixed.CALLED))


COMMANDS = {
    b"r": heap_reference.count,
    b"t": stopped,
    b"k": cloned,
    b"f": frozen,
    b"u": gc.unfreeze,
    b"p": gc.get_freeze_count,
    b"c": gc.collect,
    b"y": young,
    b"n": called,
    b"h": lambda: list(heap_reference.HIDDEN),
}


def lacking(what):
    """The reference, as if it did not know one sort of hidden edge."""

    def count():
        heap_reference.LEFT_OUT.add(what)
        try:
            return heap_reference.count()
        finally:
            heap_reference.LEFT_OUT.clear()

    return count


COMMANDS.update((bytes([65 + i]), lacking(what)) for i, what in enumerate(heap_reference.HIDDEN))


def main():
    answer = None
    while True:
        work = COMMANDS.get(os.read(0, 1))
        if work is None:
            return
        answer = work()
        os.write(1, (ascii(answer) + "\n").encode())
        answer = None


if __name__ == "__main__":
    CORE = load(sys.argv[1])
    gc.disable()
    HEAP = [HEAPS[name]() for name in sys.argv[2:]]
    YOUNG = []
    heap_mixed.CALLED.clear()
    gc.collect()
    main()
