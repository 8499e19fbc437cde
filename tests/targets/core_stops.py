"""Counts in this process itself, under limits. Arguments: the core's library, and a module with a type whose size only
C code knows.

Prints a list: for each count what it says, its objects or its error.
"""

import sys
from importlib import machinery, util

from core_breaks import load

WAYS = {
    "no limit": {},
    "in time": {"wall_ns": 100 * 10**9},
    "out of time": {"wall_ns": 1},
    "again": {},
    "as a clone": {"as_clone": True},
}


reached = []
"""Not a local of a running function, which the collector does not see."""


def say(core, options):
    try:
        return core.stop(0, options)[2]["objects"]
    except (MemoryError, RuntimeError, TimeoutError) as error:
        return repr(error)


def main():
    core = load(sys.argv[1])
    core.check(__import__("gc"))
    kept = [[i] for i in range(20000)]
    said = {name: say(core, options) for name, options in WAYS.items()}
    for name, held in (
        ("a list", [None] * 10**6),
        ("a tuple", (None,) * 10**6),
        ("a dict", dict.fromkeys(range(10**6))),
        ("a set", set(range(10**6))),
    ):
        said[name] = say(core, {"wall_ns": 1})
        del held
    reached.append(load_module(sys.argv[2]).make())
    said["with a foreign size"] = say(core, {"as_clone": True})
    said["guessed"] = say(core, {})
    print(said, bool(kept and reached), sep="\n")


def load_module(path):
    loader = machinery.ExtensionFileLoader("foreign_size", path)
    module = util.module_from_spec(util.spec_from_loader("foreign_size", loader))
    loader.exec_module(module)
    return module


if __name__ == "__main__":
    main()
