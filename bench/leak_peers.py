"""Run a program with one of the memory tools that a program imports itself, and write down what that says.

``python leak_peers.py tracemalloc|objgraph|guppy3 WARM-UP SECONDS ANSWER PROGRAM``: a thread looks after the warm-up
and again after some seconds, writes to ANSWER and ends the process. Used by ``leaks.py``.
"""

import os
import random
import runpy
import sys
import threading
import time
import traceback

LINES = 3


def tracemalloc():
    import tracemalloc  # noqa: PLC0415 - the others are not to be there

    before = tracemalloc.take_snapshot()
    yield
    yield from map(str, tracemalloc.take_snapshot().compare_to(before, "lineno")[:LINES])


def objgraph():
    import objgraph  # noqa: PLC0415 - the others are not to be there

    objgraph.growth(limit=LINES)
    yield
    grown = objgraph.growth(limit=LINES)
    for name, count, more in grown:
        yield f"{name} {count} +{more}"
    for name, _, _ in grown[:2]:
        chain = objgraph.find_backref_chain(random.choice(objgraph.by_type(name)[-100:]), objgraph.is_proper_module)
        yield f"chain of a {name}: " + " > ".join(getattr(each, "__name__", type(each).__name__) for each in chain)


def guppy3():
    from guppy import hpy  # noqa: PLC0415 - the others are not to be there

    heap = hpy()
    heap.setrelheap()
    yield
    yield from str(heap.heap()).splitlines()[: LINES + 2]


def watch(tool, warm_up, seconds, file):
    time.sleep(warm_up)
    try:
        look = tool()
        took = [time.monotonic()]
        next(look)
        took.append(time.monotonic())
        time.sleep(seconds)
        took.append(time.monotonic())
        lines = list(look)
        took.append(time.monotonic())
        lines.append(f"(the looks took {took[1] - took[0]:.1f} s and {took[3] - took[2]:.1f} s)")
    except BaseException:
        lines = [traceback.format_exc()]
    with open(file, "w") as stream:
        stream.write("\n".join(lines))
    os._exit(0)


if __name__ == "__main__":
    name, warm_up, seconds, file, program = sys.argv[1:]
    if name == "tracemalloc":
        import tracemalloc as module

        module.start()
    threading.Thread(target=watch, args=(globals()[name], float(warm_up), float(seconds), file), daemon=True).start()
    sys.argv = [program]
    sys.path[0] = os.path.dirname(program)
    runpy.run_path(program, run_name="__main__")
