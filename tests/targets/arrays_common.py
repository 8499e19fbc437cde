"""For targets that look at the slots of a library themselves: where they are, what stands in them, and how their pages
may be used. Not a target itself."""

import ctypes

NUMPY = 389047
"""numpy.lib.tracemalloc_domain."""


def mappings(name):
    """[(begin, end, permissions, offset)] of a file, and of the memory right behind it."""
    found, last = [], 0
    with open("/proc/self/maps") as stream:
        for line in stream:
            words = line.split(None, 5)
            begin, end = (int(part, 16) for part in words[0].split("-"))
            path = words[5].strip() if len(words) > 5 else ""
            if path.endswith(name) or (not path and begin == last):
                found.append((begin, end, words[1], int(words[2], 16)))
                last = end
    return found


class Slots:
    def __init__(self, name, offsets):
        self.name, self.offsets = name, offsets
        self.base = min(begin for begin, _, _, offset in mappings(name) if offset == 0)

    def values(self):
        return [ctypes.c_uint64.from_address(self.base + offset).value for offset in self.offsets]

    def pages(self):
        """What the pages of the slots permit, and all mappings of the library."""
        found = mappings(self.name)
        places = [self.base + offset for offset in self.offsets]
        return [p for place in places for begin, end, p, _ in found if begin <= place < end], found
