"""Makes objects of known types in known functions while every byte is sampled, counts, and prints what its samples are
said to be: living, and when they have died.

Arguments: the core's library, and `stop` or `clone`.
"""

import collections
import gc
import struct
import sys

from sampling_agent import Agent, Book, unpack

MANY = 300
TYPED, DEATH = struct.Struct("<II"), struct.Struct("<IIQ")


class Plain:
    def __init__(self, i):
        self.i = i


class Slotted:
    __slots__ = ("i",)


class Managed(dict):
    pass


class Bare(bytes):
    __slots__ = ()


def make_plain(i):
    return Plain(i)


def make_slotted(_):
    return Slotted()


def make_managed(_):
    return Managed()


def make_bare(i):
    return Bare(i % 100)


def make_bytes(i):
    return bytes(20 + i)


def make_int(i):
    return 10**40 + i


def make_set(i):
    return {i}


def make_function(_):
    return lambda: None


def make_type(_):
    return type("Made", (), {})


def make_error(_):
    return ValueError()


def make_class_instance(_):
    return collections.OrderedDict()


MAKERS = {
    make_plain: "Plain",
    make_slotted: "Slotted",
    make_managed: "Managed",
    make_bare: "Bare",
    make_bytes: "bytes",
    make_int: "int",
    make_set: "set",
    make_function: "function",
    make_type: "type",
    make_error: "ValueError",
    make_class_instance: "OrderedDict",
}


class Reads:
    """The core, for a book; keeps of deaths what the book does not."""

    def __init__(self, core):
        self.core, self.types = core, {}

    def sample_read(self, limit):
        answer = self.core.sample_read(limit)
        births = {record[0]: record for record in struct.iter_unpack("<IIQQIBBH", answer[4])}
        for number, kind, clock in DEATH.iter_unpack(answer[5]):
            self.types[number, clock] = kind
        assert len(births) * 32 == len(answer[4])
        return answer


def census(core, mode, first):
    if mode == "stop":
        return core.stop(first, {})
    core.begin(first, {})
    return core.end()


def by_site(book, names, found):
    """{name of a function: {name of a type: samples}} of pairs of a birth and its type's number + 1."""
    told = {}
    for birth, kind in found:
        function = book.site(birth)[0]
        if function.startswith("make_") and birth.domain == 1:
            kinds = told.setdefault(function, collections.Counter())
            kinds[names[kind - 1][1] if kind else ""] += 1
    return {function: dict(kinds) for function, kinds in told.items()}


def main():
    agent = Agent()
    mode = sys.argv[2]
    agent(agent.core.sample_start, {"interval": 1, "depth": 8, "seed": 1, "bytes": 0})
    reads = Reads(agent.core)
    book = Book(reads)
    kept = [[make(i) for i in range(MANY)] for make in MAKERS]
    if mode == "stop":
        agent(book.read)  # else births say their types themselves
    types, _, stats = agent(census, agent.core, mode, 0)
    names = unpack(types)
    typed = dict(TYPED.iter_unpack(stats["typed"]))
    told = {"wanted": {make.__name__: name for make, name in MAKERS.items()}}
    if mode != "stop":
        agent(book.read)
        assert all(book.living[i].type == kind + 1 for i, kind in typed.items() if i in book.living)
    living = [(birth, typed[i] + 1 if i in typed else 0) for i, birth in book.living.items()]
    told["living"] = by_site(book, names, living)

    types, _, stats = agent(census, agent.core, mode, len(names))
    agent(book.read)
    again = dict(TYPED.iter_unpack(stats["typed"]))
    told["twice"] = len([i for i in again if i in typed and i in book.living])
    names += unpack(types)

    dead = len(book.dead)
    kept.clear()
    gc.collect()  # for types
    agent(book.read)
    found = [(birth, reads.types[birth.id, clock]) for birth, clock in book.dead[dead:]]
    told["dead"] = by_site(book, names, found)
    told["said"] = agent.stop()
    types, _, stats = agent(census, agent.core, mode, len(names))
    told["off"] = stats["typed"]
    print(told)


if __name__ == "__main__":
    main()
