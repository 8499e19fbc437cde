"""Breaks each fact of the native core's layout in turn, each in a fork, and prints what the self-check says.

Argument: the core's library. Prints {fact: {difference: sentence}}; a number stands for the signal that a fork died by.
The difference 0 is the table as it is.
"""

import gc
import importlib.machinery
import importlib.util
import os
import sys

DIFFERENCES = (8, -8, 1)
FAILED = "failed: "


def load(path):
    loader = importlib.machinery.ExtensionFileLoader("_core", path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("_core", loader))
    loader.exec_module(module)
    module.open(sys.hexversion)
    return module


def lookalike(name, value):
    """Of a class whose C name is that of another; each of its fields is the value."""
    slots = [f"slot_{i:02}" for i in range(10)]
    made = type(name, (), {"__slots__": slots})()
    for each in slots:
        setattr(made, each, value)
    return made


def in_fork(work):
    """What ``work()`` returns in a fork, or the number of the signal that ended it."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            text = work()
        except BaseException as error:
            text = FAILED + ascii(error)
        os.write(writing, text.encode())
        os._exit(0)
    os.close(writing)
    text = os.read(reading, 1000).decode()
    os.close(reading)
    status = os.waitpid(child, 0)[1]
    return status & 127 if status & 127 else text


def broken(core, fact, difference):
    core.set_layout(fact, core.layout()[fact] + difference)
    try:
        return core.check(gc)
    except BlockingIOError as error:  # refused for now: what gc_collecting points to is not 0
        return str(error)


def main():
    core = load(sys.argv[1])
    facts = core.layout()
    found = {"": {0: core.check(gc)}}
    for fact in facts:
        found[fact] = {}
        for difference in DIFFERENCES:
            found[fact][difference] = in_fork(lambda fact=fact, difference=difference: broken(core, fact, difference))
    print(ascii(found))


if __name__ == "__main__":
    main()
