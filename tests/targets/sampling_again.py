"""One life of an interpreter that samples itself and is ended meanwhile. For sampling_again.c, which gives ``turn``."""

import os
import sys

sys.path.insert(0, os.path.dirname(sys.argv[0]))

from sampling_agent import Agent


def work():
    space = {}
    for i in range(300):
        exec(f"def g{i}(x):\n    name_{i} = [x] * 50\n    return name_{i}, 'text_{i}'\n", space)
    return [space[f"g{i}"](i) for i in range(300)], space


def main(turn):
    agent = Agent()
    before = agent.core.sample_stats()
    work()
    book = agent.start(1)
    kept = work()
    agent(book.read)
    found = {"on": before["on"], "bytes": before["bytes"], "births": book.births > 300}
    if turn == 1:
        found["stop"] = agent.stop()
    del kept
    work()
    print(ascii(found), flush=True)
    sys.modules["kept"] = work()


main(turn)  # noqa: F821
