"""Makes floats in blocks that the free list hands on, samples every byte, and prints whose they are said to be.

Arguments: the core's library, the library of another tool's tracers, and what is to be done.
"""

import ctypes
import itertools
import sys

from sampling_agent import Agent, Book

FLOAT, MANY = 24, 50
kept = {}


class Counts(ctypes.Structure):
    _fields_ = [("created", ctypes.c_long), ("destroyed", ctypes.c_long)]


def first(base, n):
    made = [None] * n
    for i in range(n):
        made[i] = base + i
    return made


def second(base, n):
    made = [None] * n
    for i in range(n):
        made[i] = base + i
    return made


def drain():
    """Takes what is in the free list, and more."""
    return list(map(float, range(200)))


def loop(n):
    x = 1.5
    for _ in itertools.repeat(None, n):
        x = -x
    return x


def start(agent, reborn):
    agent.core.sample_stop()
    agent(agent.core.sample_start, {"interval": 1, "depth": 8, "seed": 1, "bytes": 0, "reborn": reborn})
    return Book(agent.core)


def tracer():
    """(function, data) that the interpreter has."""
    data = ctypes.c_void_p()
    get = ctypes.pythonapi.PyRefTracer_GetTracer
    get.restype = ctypes.c_void_p
    return get(ctypes.byref(data)) or 0, data.value or 0


def set_tracer(function, data):
    assert ctypes.pythonapi.PyRefTracer_SetTracer(ctypes.c_void_p(function), ctypes.c_void_p(data)) == 0


def floats(book, function, births=None):
    births = list(book.living.values()) if births is None else births
    return len([b for b in births if b.size == FLOAT and b.domain == 1 and book.site(b)[0] == function])


def hand_on(agent, book):
    """Floats of first() die, and second() takes their blocks."""
    base = 0.5
    drained = drain()
    kept["first"] = first(base, MANY)
    agent(book.read)
    told = {"first": floats(book, "first")}
    del kept["first"]
    kept["second"] = second(base, MANY)
    told["reborn"] = agent(book.read)["reborn"]
    told["then"] = [floats(book, "first"), floats(book, "second")]
    dead = [birth for birth, _ in book.dead]
    told["dead"] = floats(book, "first", dead)
    del kept["second"], drained
    return told


def plain(agent):
    told = {"with": hand_on(agent, start(agent, 1)), "during": tracer() != (0, 0), "said": [agent.stop()]}
    told["without"] = hand_on(agent, start(agent, 0))
    told["said"].append(agent.stop())
    told["after"] = tracer()
    return told


def busy(agent):
    """A block or two are reborn again and again, beside others."""
    book = start(agent, 1)
    drained = drain()  # so that the loop takes fresh blocks
    agent(book.read)
    births = book.births
    loop(200000)
    first(0.5, MANY)
    kept["second"] = second(0.5, MANY)
    agent(book.read)
    told = {"births": book.births - births, "dropped": book.stats["dropped"], "beside": floats(book, "second")}
    told["reborn"], told["notes"] = book.stats["reborn"], book.notes
    del kept["second"]
    told["handed on"] = hand_on(agent, book)  # it begins anew
    del drained
    agent.stop()
    return told


def crowded(agent):
    """Many blocks are reborn, none of them very often."""
    book = start(agent, 1)
    drained = drain()
    agent(book.read)
    births = book.births
    for _ in range(300):
        kept["first"] = first(0.5, MANY)
        del kept["first"]
    agent(book.read)
    told = {"births": book.births - births, "dropped": book.stats["dropped"]}
    agent(book.read)
    told["reborn"], told["notes"] = [book.stats["reborn"]], book.notes
    told["said"] = agent.stop()
    del drained
    told["reborn"].append(agent(start(agent, 1).read)["reborn"])
    agent.stop()
    return told


def others():
    library = ctypes.CDLL(sys.argv[2])
    return library, [ctypes.cast(f, ctypes.c_void_p).value for f in (library.count, library.count_and_pass_on)]


def below(agent):
    """Another tracer is there first."""
    _, (count, _) = others()
    counts = Counts()
    kept["counts"] = counts
    theirs = count, ctypes.addressof(counts)
    set_tracer(*theirs)
    book = start(agent, 1)
    told = {"on top": tracer() != theirs}
    before = counts.created, counts.destroyed
    told["handed on"] = hand_on(agent, book)
    told["counted"] = counts.created - before[0], counts.destroyed - before[1]
    told["said"] = agent.stop()
    told["theirs"] = tracer() == theirs
    set_tracer(None, None)
    return told


def above(agent):
    """Another tracer comes later, and passes on."""
    library, (_, passing) = others()
    counts = Counts()
    kept["counts"] = counts
    told = {}
    start(agent, 1)
    ours = tracer()
    library.set_below(ctypes.c_void_p(ours[0]), ctypes.c_void_p(ours[1]))
    set_tracer(passing, ctypes.addressof(counts))
    told["said"] = [agent.stop()]
    told["stays"] = tracer() == (passing, ctypes.addressof(counts))
    before = counts.created
    first(0.5, 1000)
    told["counted"] = counts.created - before
    told["again"] = hand_on(agent, start(agent, 1))
    told["same"] = tracer() == (passing, ctypes.addressof(counts))
    set_tracer(*ours)
    told["said"].append(agent.stop())
    told["after"] = tracer()
    return told


def dropped(agent):
    """Somebody takes all tracers out."""
    book = start(agent, 1)
    set_tracer(None, None)
    agent(book.read)
    told = {"handed on": hand_on(agent, book), "said": agent.stop(), "after": tracer()}
    return told


def early(agent):
    """A Python that has no such thing."""
    return {"handed on": hand_on(agent, start(agent, 1)), "said": agent.stop()}


def main():
    agent = Agent()
    print(globals()[sys.argv[3]](agent))


if __name__ == "__main__":
    main()
