"""The native core's self-check while another thread is in a finalizer that a collection runs, and after that.

Argument: the core's library. Prints what came of each: a sentence, or the exception's type and text.
"""

import gc
import sys
import threading

import core_breaks


class Slow:
    def __init__(self):
        self.cycle = self

    def __del__(self):
        INSIDE.set()
        LEAVE.wait(60)


INSIDE = threading.Event()
LEAVE = threading.Event()


def check(core):
    try:
        return core.check(gc)
    except Exception as error:
        return type(error).__name__, str(error)


def main():
    core = core_breaks.load(sys.argv[1])
    gc.disable()
    Slow()
    collecting = threading.Thread(target=gc.collect)
    collecting.start()
    INSIDE.wait(60)
    meanwhile = check(core)
    LEAVE.set()
    collecting.join()
    print(ascii([meanwhile, check(core)]))


if __name__ == "__main__":
    main()
