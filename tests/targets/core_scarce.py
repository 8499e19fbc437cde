"""Censuses of the native core in a process that may have little more memory than it has.

Arguments: the core's library, ``stop`` or ``clone``, and bytes that RLIMIT_AS leaves free. Prints what came of each of
two censuses: the number of objects, or the exception.
"""

import resource
import sys

import core_breaks


def address_space():
    with open("/proc/self/statm") as stream:
        return int(stream.read().split()[0]) * resource.getpagesize()


def census(core, mode):
    try:
        if mode == "stop":
            return core.stop(0)[2]["objects"]
        core.begin(0, {})
        return core.end()[2]["objects"]
    except Exception as error:
        return ascii(error)


def main():
    core = core_breaks.load(sys.argv[1])
    heap = [[i] for i in range(100_000)]
    most = address_space() + int(sys.argv[3])
    resource.setrlimit(resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))
    found = [census(core, sys.argv[2]) for _ in range(2)]
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    print(ascii([*found, census(core, sys.argv[2]), *heap[:0]]))


if __name__ == "__main__":
    main()
