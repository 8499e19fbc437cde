"""More type names than the native core numbers, in one census or in two.

Arguments: the core's library, and ``stop`` or ``clone``. Prints the answers of three censuses, the later two of one
session: 50,010 classes in one census; then in a new session 49,000 of them, and all of them.
"""

import sys

import core_breaks

CLASSES = 50_010
FIRST = 49_000


def main():
    core = core_breaks.load(sys.argv[1])

    def count(first_number):
        if sys.argv[2] == "stop":
            return core.stop(first_number)
        core.begin(first_number, {})
        return core.end()

    made = [type(f"Many{i}", (), {"__slots__": ()}) for i in range(CLASSES)]
    heap = [each() for each in made]
    print(ascii(count(0)))
    del heap[FIRST:]
    before = count(0)
    print(ascii(before))
    heap += [each() for each in made[FIRST:]]
    print(ascii(count(int.from_bytes(before[0][1:5], "big"))))


if __name__ == "__main__":
    main()
