"""Samples numpy's buffers of known sizes, made by known functions, and prints what was seen of them.

Arguments: the core's library, the name of numpy's, and where its slots are (numbers with commas between).
"""

import os
import sys
import warnings

from arrays_common import Slots
from sampling_agent import Agent

SMALL, LARGE = 520, 1 << 20
INTERVAL = 16384
kept = {}


def make_large(numpy, n):
    return [numpy.ones(LARGE, dtype="u1") for _ in range(n)]


def make_small(numpy, n):
    return [numpy.ones(SMALL, dtype="u1") for _ in range(n)]


def make_zeros(numpy, n):
    return [numpy.zeros((2, LARGE), dtype="u1") for _ in range(n)]


def churn(numpy, n):
    for _ in range(n):
        numpy.ones(SMALL, dtype="u1")


def resized(numpy):
    array = numpy.ones(LARGE, dtype="u1")
    array.resize(3 * LARGE, refcheck=False)
    return array


def arrays_of(book, function, births=None):
    """Below numpy's own Python code, of which there is more or less by version."""
    births = list(book.living.values()) if births is None else births
    return [b for b in births if b.domain == 2 and function in [name for name, _ in book.stack(b)]]


def sizes(births):
    return sorted(birth.size for birth in births)


def main():
    agent = Agent()
    book = agent.start(INTERVAL)
    told = {"before": agent(book.read)["arrays"]}
    import numpy  # noqa: PLC0415 - while sampling is on

    slots = Slots(sys.argv[2], [int(word) for word in sys.argv[3].split(",")])
    told["numpy"] = numpy.__version__
    values, pages = slots.values(), slots.pages()
    told["slots"] = values
    told["loaded"] = agent(book.read)["arrays"]
    told["again"] = agent(book.read)["arrays"]  # found by then also where the first call had not been yet
    told["changed"] = slots.values()
    told["pages kept"] = slots.pages() == pages

    kept["large"], kept["zeros"] = make_large(numpy, 10), make_zeros(numpy, 3)
    kept["small"], kept["resized"] = make_small(numpy, 20000), resized(numpy)
    churn(numpy, 20000)
    agent(book.read)
    told["large"] = sizes(arrays_of(book, "make_large"))
    told["zeros"] = sizes(arrays_of(book, "make_zeros"))
    told["resized"] = sizes(arrays_of(book, "resized"))
    told["small"] = sum(birth.bytes() for birth in arrays_of(book, "make_small"))
    dead = [birth for birth, _ in book.dead]
    told["resized from"] = sizes(arrays_of(book, "resized", dead))
    told["churned"] = sum(birth.bytes() for birth in arrays_of(book, "churn", dead))

    warnings.simplefilter("ignore", DeprecationWarning)  # of forks in programs with threads
    child = os.fork()
    if child == 0:
        make_large(numpy, 3)
        kept.clear()
        os._exit(7)
    told["child"] = os.waitpid(child, 0)[1] >> 8

    kept.clear()
    agent(book.read)
    told["left"] = len([birth for birth in book.living.values() if birth.domain == 2 and birth.size >= SMALL])
    told["said"] = [agent.stop(), agent.stop()]
    kept["resolved"] = make_large(numpy, 1)
    told["after"] = slots.values()
    told["pages after"] = slots.pages() == pages

    book = agent.start(INTERVAL)
    kept["large"] = make_large(numpy, 2)
    agent(book.read)
    told["second session"] = sizes(arrays_of(book, "make_large"))
    told["said"].append(agent.stop())
    told["end"] = slots.values()
    print(told)


if __name__ == "__main__":
    main()
