"""One of everything on a free-threaded build, from threads that live and threads that have ended; and how many objects
of each type there are.

Argument: a file, which gets the counts as JSON, {type: [objects, bytes]}. With ``busy``, threads go on making and
freeing objects, and nothing is counted. ``ready`` says how many planted objects there are.
"""

import gc
import json
import sys
import threading

sys.modules["_ssl"] = None  # what its module keeps for itself, only its own code knows

import heap_reference  # noqa: E402
import heap_zoo  # noqa: E402
from steady import ready  # noqa: E402

PLANTED = 1000
kept = []


class Planted:
    """Its instances have words before them, and values behind."""

    def __init__(self, number):
        self.number = number
        self.other = [number]


class Slotted:
    __slots__ = ["other"]


def plant():
    rows = [Planted(number) for number in range(PLANTED)]
    for number in range(PLANTED):
        slotted = Slotted()
        slotted.other = (rows, str(number))
        rows.append(slotted)
    del rows[1::3]  # there are holes
    kept.append(rows)


def stay(started, never):
    plant()
    started.set()
    never.wait()


def churn():
    recent = []
    while True:
        recent = [Planted(number) for number in range(100)] + recent[:100]


def full(names):
    module, qualname, _ = names
    return qualname if module == "builtins" else module + "." + qualname


def write_counts(path):
    counts = {}
    for names, (count, size) in heap_reference.count()["rows"].items():
        mine = counts.setdefault(full(names), [0, 0])
        mine[0] += count
        mine[1] += size
    with open(path, "w") as file:
        json.dump(counts, file)


def main():
    zoo = heap_zoo.everything()
    started, never = threading.Event(), threading.Event()
    lasting = threading.Thread(target=stay, args=(started, never), daemon=True)
    lasting.start()
    started.wait()
    for _ in range(3):
        ending = threading.Thread(target=plant)
        ending.start()
        ending.join()
    plant()
    kept.append((kept,) + ("x",) * (3 << 20))  # a page of its own
    gc.collect()
    gc.disable()
    if "busy" in sys.argv:
        for _ in range(2):
            threading.Thread(target=churn, daemon=True).start()
    else:
        write_counts(sys.argv[1])
        gc.collect()  # what the encoder has left
    ready(sum(isinstance(each, Planted) for rows in kept for each in rows))
    never.wait()
    return zoo


main()
