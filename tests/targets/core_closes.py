"""Ends a session of the native core, with a clone that counts and without.

Argument: the core's library. Prints [bytes of address space that closing gave back, what a census then says,
whether a clone was gone after closing, how many more objects the next session counts].
"""

import os
import sys

import core_breaks
from core_scarce import address_space

CLASSES = 20_000


def is_there(pid):
    return os.path.exists(f"/proc/{pid}")


def main():
    core = core_breaks.load(sys.argv[1])
    heap = [type("Closing", (), {"__slots__": ()})() for _ in range(CLASSES)]
    for i, each in enumerate(heap):
        type(each).__qualname__ = f"Closing{i}"
    objects = core.stop(0)[2]["objects"]
    before = address_space()
    core.close()
    given_back = before - address_space()
    try:
        core.stop(0)
        refusal = ""
    except RuntimeError as error:
        refusal = str(error)
    core.close()
    core.open(sys.hexversion)
    pid = core.begin(0, {})[1]
    core.close()
    gone = not is_there(pid)
    core.open(sys.hexversion)
    print(ascii([given_back, refusal, gone, core.stop(0)[2]["objects"] - objects]))


if __name__ == "__main__":
    main()
