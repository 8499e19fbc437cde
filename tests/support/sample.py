"""Which part of the tests `make test` runs: what is long is taken by a sample, which depends on a test's name alone.

Another test has another part, so that together they have every Python and every kind of case. `make whole` runs all.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

T = TypeVar("T")

PYTHONS: Final = 2
"""On how many of its Pythons a test runs."""


def pythons(names: Sequence[str], test: str) -> Sequence[str]:
    """Two of the Pythons that a test is for, far from each other in the order of versions; all where they are two."""
    if len(names) <= PYTHONS:
        return names
    first = zlib.crc32(test.encode()) % len(names)
    chosen = {(first + step * len(names) // PYTHONS) % len(names) for step in range(PYTHONS)}
    return [name for place, name in enumerate(names) if place in chosen]


def cases(items: Sequence[T], part: Callable[[T], int], name: Callable[[T], str]) -> list[T]:
    """One in ``part(item)`` of the cases of each test, at least one of each test, in their order.

    They are not evenly spaced: cases are products, and each third one could have the same word, or Python, throughout.
    """
    count = Counter(name(item).partition("[")[0] for item in items)
    seen = Counter[str]()
    kept = []
    for item in items:
        test = name(item).partition("[")[0]
        size = min(part(item), count[test])
        block, place = divmod(seen[test], size)
        if place == zlib.crc32(f"{test} {block}".encode()) % size:
            kept.append(item)
        seen[test] += 1
    return kept
