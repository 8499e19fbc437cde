"""Which part of the tests `make test` runs: what is long is taken by a sample, which depends on a test's name alone.

Another test has another part, so that together they have every Python and every kind of case. `make whole` runs all.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def pythons(names: Sequence[str], extra: Sequence[str], test: str, place: int, count: int) -> set[str]:
    """Those of its Pythons that the case at ``place`` of a test's ``count`` cases runs on.

    The only case of a test runs on two of ``names``, far from each other in the order of versions. Of several each runs
    on one, and as many in a row as there are names on all of them: in an order that changes, since cases are products,
    and each second one could have the same word. One case of each test runs on the last of ``extra`` too: not every
    machine has these.
    """
    chosen = {*extra[-1:]} if place == zlib.crc32(test.encode()) % count else set[str]()
    if not names:
        return chosen
    if count == 1:
        first = zlib.crc32(test.encode()) % len(names)
        return chosen | {names[first], names[(first + len(names) // 2) % len(names)]}
    block, step = divmod(place, len(names))
    return chosen | {names[(zlib.crc32(f"{test} {block}".encode()) + step) % len(names)]}


def on_few_pythons(
    items: Sequence[T],
    test: Callable[[T], str],
    case: Callable[[T], str],
    python: Callable[[T], str],
    extra: Sequence[str],
) -> list[T]:
    """Those items that run on the Pythons chosen for their case; ``python`` is empty for one that is for none."""
    names: dict[str, list[str]] = {}
    cases: dict[str, list[str]] = {}
    for item in items:
        for found, of_item in ((names, python(item)), (cases, case(item))):
            known = found.setdefault(test(item), [])
            if of_item not in known:
                known.append(of_item)

    def is_chosen(item: T) -> bool:
        name, all_of_it = test(item), cases[test(item)]
        usual = [each for each in names[name] if each not in extra]
        others = [each for each in names[name] if each in extra]
        return python(item) in pythons(usual, others, name, all_of_it.index(case(item)), len(all_of_it))

    return [item for item in items if not python(item) or is_chosen(item)]


def cases(
    items: Sequence[T], part: Callable[[T], int], name: Callable[[T], str], least: Callable[[T], int] = lambda _: 1
) -> list[T]:
    """One in ``part(item)`` of the cases of each test, in their order; ``least(item)`` of each test where it has them.

    They are not evenly spaced: cases are products, and each third one could have the same word, or Python, throughout.
    """
    count = Counter(name(item).partition("[")[0] for item in items)
    seen = Counter[str]()
    kept = []
    for item in items:
        test = name(item).partition("[")[0]
        size = max(1, min(part(item), count[test] // least(item)))
        block, place = divmod(seen[test], size)
        if place == zlib.crc32(f"{test} {block}".encode()) % size:
            kept.append(item)
        seen[test] += 1
    return kept
