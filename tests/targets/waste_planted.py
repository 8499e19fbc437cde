"""Holds what could do without: planted waste of each sort, and much that is none. Says where, and what it comes to."""

import random
import sys
import time

import waste_reference
from steady import ready

SECRET = "hunter2"


class Plain:
    NAMES = ("first", "second", "third")

    def __init__(self, value):
        self.first = [value, value]
        self.second = self.third = None


class Other(Plain):
    NAMES = ("first", "second", "third", "fourth")


class Owner:
    NAMES = ("kept",)

    def __init__(self):
        self.kept = []


class Lean:
    __slots__ = ("kept",)


def text(*parts):
    """Made anew each time, and never interned."""
    return " ".join(map(str, parts))


def number(n):
    return n + (1 << 20)


def duplicates(chance):
    found = [text("planted", chance.randrange(40)) for _ in range(200)]
    found += [text("schön", chance.randrange(5)) for _ in range(20)]
    found += [text("\U0001f600", chance.randrange(5)) for _ in range(20)]
    found += [text("bytes", chance.randrange(10)).encode() for _ in range(50)]
    found += [text("x" * (1 << 20), each) for each in (1, 1, 2)]
    found += [text("my password is", SECRET) for _ in range(5)]
    return found


def numbers(chance):
    found = [number(chance.randrange(30)) * chance.choice((1, -1, 1 << 70)) for _ in range(100)]
    found += [chance.randrange(20) / 16 + 1000 for _ in range(100)]
    return [(each,) for each in found] + [-0.0 * found[0], 0.0 * found[0], float(text("nan")), float(text("nan"))]


def boxed(chance):
    """Lists of nothing but numbers, some with items that others have as well, and some that are not."""
    shared = [number(each) for each in range(2000, 2010)]
    found = [shared, [number(each) for each in range(3000, 3100)], [each + 0.5 for each in range(3000, 3100)]]
    found.append([each * 0.25 for each in range(16)])
    found.append([each * 0.25 for each in range(15)])
    found.append([*shared, *shared])
    found.append(list(range(100)))
    found.append([number(1) << 60 for _ in range(20)])
    found.append([*map(number, range(4000, 4020)), 0.5 + chance.randrange(10)])
    found.append([number(1) > 0 for _ in range(20)])
    grown = []
    for each in range(5000, 5040):
        grown.append(number(each))
    return [*found, grown]


def containers(chance):
    empty = [[] for _ in range(10)] + [{} for _ in range(11)] + [set() for _ in range(12)]
    one = [[] for _ in range(30)]
    for each in one:
        each.append(None)
    spare = [{text("key", each): None} for each in range(25)] + [{number(each): None} for each in range(7)]
    spare += [{None} for _ in range(8)] + [{*map(number, range(count))} for count in (2, 3, 5, 20, 40)]
    emptied = [None] * 1000
    emptied.clear()
    left = {*map(number, range(200))}
    for each in range(190):
        left.discard(number(each))
    return [*empty, *one, *spare, emptied, left, {None: None, **{text("a", each): 1 for each in range(9)}}]


def sparse(chance):
    found = []
    for size in (6, 40, 500, 70_000):
        for kept in (0, 1, size // 4, size // 2, size - 1):
            d = {}
            for each in range(size):
                d[text("key", each) if size % 40 else number(each)] = None
            for each in list(d)[: size - kept]:
                del d[each]
            found.append(d)
    return found


def instances(chance):
    plain = [Plain(text("value", each)) for each in range(100)]
    for each in plain[:20]:
        each.__dict__  # noqa: B018  made by this
    for each in plain[20:25]:
        del each.third
    others = [Other(text("other", each)) for each in range(4)]
    others[0].fourth = None
    owners = [Owner() for _ in range(3)]
    for each in owners:
        each.kept += [text("owned", "by one") for _ in range(3)]
    lean = [Lean() for _ in range(10)]
    return [plain, others, owners, lean]


def planted(seed):
    chance = random.Random(seed)
    return [each(chance) for each in (duplicates, numbers, boxed, containers, sparse, instances)]


def main():
    waste_reference.NAMES.update(*(each.NAMES for each in (Plain, Other, Owner)))
    found = waste_reference.Reference(HOLDER)
    said = {"holder": id(HOLDER), "rows": found.rows, "kept": found.kept, "own": found.own}
    unused = [sys.intern(text("interned, and used no more", each)) for each in range(500)]
    said["secret"] = next(id(each) for each in HOLDER[0] if type(each) is str and SECRET in each)
    said["interned"] = sum(map(sys.getsizeof, unused))
    return said


HOLDER = planted(7)
ready(main())
while True:
    time.sleep(1)
