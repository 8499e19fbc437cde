"""Four threads change the heap without rest while main takes one census after another of it, in clones.

Arguments: the core's library, how many censuses, and, for two more threads that are in malloc most of the time, the
library of churn.c. A population that nobody changes is in the heap, and one that a thread moves from container to
container; each census must have exactly that many of either.
Prints one line: how many censuses there were, what was wrong with any, and how much the threads did meanwhile.
"""

import collections
import ctypes
import itertools
import os
import select
import struct
import sys
import threading
import time

from heap_native import PATIENCE, load

KNOWN = {
    ("__main__", "Known"): 5000,
    ("__main__", "KnownTable"): 300,
    ("__main__", "KnownNode"): 700,
    ("__main__", "Moved"): 3000,
    ("builtins", "complex"): 2000,
    ("builtins", "bytearray"): 1000,
}
"""Objects of each type that are made here and stay; once the threads run nothing else makes or drops any."""


class Known:
    __slots__ = ("number", "text")

    def __init__(self, i):
        self.number, self.text = float(i), "known %d" % i


class KnownTable(dict):
    pass


class KnownNode:
    def __init__(self, i, before):
        self.number, self.before = i, before


def known_population():
    nodes = []
    for i in range(KNOWN["__main__", "KnownNode"]):
        nodes.append(KnownNode(i, nodes[-1] if nodes else None))
    tables = [KnownTable({i: i}) for i in range(KNOWN["__main__", "KnownTable"])]
    return [[Known(i) for i in range(KNOWN["__main__", "Known"])], tables, nodes]


class Moved:
    """In a list of the collector's, wherever it is."""

    def __init__(self, i):
        self.number = [i]


def moving_population():
    """Pairs of containers that :func:`move_objects` moves between.

    Complex numbers and byte arrays are in no list of the collector's: the container that one is in is all that leads
    to it.
    """
    return (
        ([Moved(i) for i in range(KNOWN["__main__", "Moved"])], []),
        ({i: complex(i) for i in range(KNOWN["builtins", "complex"])}, {}),
        (collections.deque(bytearray(b"moved") for _ in range(KNOWN["builtins", "bytearray"])), collections.deque()),
    )


def move_objects(turns):
    """Some objects from the one container of a pair to the other, and back when all are there.

    An object on its way is in neither: in C's hands, or on the stack of a running frame, where no census sees it. So
    all of a move is one call, in which the GIL never changes hands.
    """
    (objects, to_objects), (table, to_table), (queue, to_queue) = MOVING
    n = 0
    while not OVER:
        n += 1
        some = n * 31 % 300 + 1
        to_objects.extend(map(objects.pop, itertools.repeat(-1, min(some, len(objects)))))
        keys = list(itertools.islice(table, some))
        to_table.update(zip(keys, map(table.pop, keys)))
        to_queue.extend(itertools.starmap(queue.popleft, itertools.repeat((), min(some, len(queue)))))
        if not objects:
            objects, to_objects = to_objects, objects
        if not table:
            table, to_table = to_table, table
        if not queue:
            queue, to_queue = to_queue, queue
        turns[3] += 1


class Changing:
    pass


def grow_containers(turns):
    """Lists, dicts and sets that grow, shrink and move in memory."""
    kept, table, bag = [], {}, set()
    n = 0
    while not OVER:
        n += 1
        kept.append([n, {"n": n}])
        table[n, "key"] = (n, str(n))
        bag.add((n,))
        if n % 997 == 0:
            del kept[:-300]
            table.clear()
            bag = {(n, i) for i in range(n % 50)}
        turns[0] += 1


def make_instances(turns):
    """Instances whose dicts come and go, cycles for the collector, and types that live for a moment."""
    ring = collections.deque(maxlen=500)
    n = 0
    while not OVER:
        n += 1
        one, other = Changing(), Changing()
        one.other, other.other = other, one
        setattr(one, "attribute_%d" % (n % 40), [n])
        if n % 3 == 0:
            one.__dict__["more"] = n
        if n % 7 == 0:
            one.__dict__ = {"replaced": n}
        if n % 200 == 0:
            one.type = type("Momentary", (Changing,), {"__slots__": ("x",), "n": n})
        ring.append(one)
        turns[1] += 1


def run_code(turns):
    """Frames, generators, exceptions, and objects that the collector tracks late or no more."""

    def produce(depth):
        local = [depth]
        if depth:
            yield from produce(depth - 1)
        yield local

    n = 0
    started = collections.deque(maxlen=100)
    while not OVER:
        n += 1
        generator = produce(n % 10)
        started.append((generator, next(generator)))
        try:
            raise KeyError(n)
        except KeyError as error:
            started.append(error)
        started.append((n, str(n)) if n % 2 else {n: str(n)})
        started.append("%d" % n * (n % 3000))
        turns[2] += 1


def malloc_forever(churn, seed):
    while not OVER:
        churn(20, seed)
        [bytes(1000 + i) for i in range(200)]


def unpack(data, at=0):
    """(value, where it ends): as much of msgpack as the core writes."""
    head = data[at]
    if head < 0x80 or head >= 0xE0:
        return struct.unpack_from("b", data, at)[0], at + 1
    if head >> 4 == 9 or head in (0xDC, 0xDD):
        width = {0xDC: 2, 0xDD: 4}.get(head, 0)
        size = int.from_bytes(data[at + 1 : at + 1 + width], "big") if width else head & 15
        return unpack_items(data, at + 1 + width, size)
    if head >> 5 == 5 or head in (0xD9, 0xDA, 0xDB):
        width = {0xD9: 1, 0xDA: 2, 0xDB: 4}.get(head, 0)
        start = at + 1 + width
        size = int.from_bytes(data[at + 1 : start], "big") if width else head & 31
        return data[start : start + size].decode(), start + size
    code = {0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q", 0xD0: ">b", 0xD1: ">h", 0xD2: ">i", 0xD3: ">q"}[head]
    return struct.unpack_from(code, data, at + 1)[0], at + 1 + struct.calcsize(code)


def unpack_items(data, at, size):
    items = []
    for _ in range(size):
        item, at = unpack(data, at)
        items.append(item)
    return items, at


def wrong(answer, expected):
    """What is wrong with a census; an empty text for nothing."""
    types, rows, stats = answer
    names, end = unpack(types)
    if end != len(types):
        return "bytes after the types"
    found, end = unpack(rows)
    if end != len(rows):
        return "bytes after the rows"
    if not stats["complete"] or stats["cut"]:
        return "cut: %s" % stats["cut"]
    if sum(row[2] for row in found) != stats["objects"]:
        return "%d in rows, %d objects" % (sum(row[2] for row in found), stats["objects"])
    if any(row[1] not in (-1, 0, 1, 2, 3) or row[2] <= 0 or row[3] <= 0 for row in found):
        return "a row without objects, bytes or generation"
    for name, number in expected.items():
        count = number_of(name, names, found)
        if count != number:
            return "%d of %d %s" % (count, number, name)
    return ""


def number_of(name, names, rows):
    return sum(row[2] for row in rows if tuple(names[row[0]]) == name)


def settled():
    """{name: how many there are} of the known types: what is made here, and a few that modules hold for good."""
    types, rows, _ = CORE.stop(0)
    names, found = unpack(types)[0], unpack(rows)[0]
    there = {name: number_of(name, names, found) for name in KNOWN}
    assert all(KNOWN[name] <= number < KNOWN[name] + 100 for name, number in there.items()), there
    return there


def begin():
    """The descriptor of a clone that counts; asked again for as long as one of the threads is in a collection."""
    while True:
        try:
            return CORE.begin(0, {"descriptor": 1})[0]
        except BlockingIOError:
            time.sleep(0.0005)


def one_census(expected):
    waiting = select.poll()
    waiting.register(begin(), select.POLLIN)
    if not waiting.poll(PATIENCE):
        CORE.abort()
        return "not done after %d s" % (PATIENCE // 1000)
    try:
        return wrong(CORE.end(), expected)
    except RuntimeError as error:
        return "refused: %s" % error


def main():
    expected = settled()
    turns = [0, 0, 0, 0]
    works = (grow_containers, make_instances, run_code, move_objects)
    threads = [threading.Thread(target=work, args=(turns,)) for work in works]
    if len(sys.argv) > 3:
        churn = ctypes.CDLL(sys.argv[3]).churn
        threads += [threading.Thread(target=malloc_forever, args=(churn, seed)) for seed in (1, 2)]
    for thread in threads:
        thread.start()
    faults = []
    try:
        for _ in range(int(sys.argv[2])):
            faults.append(one_census(expected))
    finally:
        OVER.append(True)
        for thread in threads:
            thread.join()
    result = {"censuses": len(faults), "faults": sorted({fault for fault in faults if fault}), "turns": turns}
    os.write(1, (ascii(result) + "\n").encode())


if __name__ == "__main__":
    OVER = []
    CORE = load(sys.argv[1])
    POPULATION = known_population()
    MOVING = moving_population()
    main()
