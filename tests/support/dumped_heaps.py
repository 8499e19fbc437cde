"""Compares the heap of a dump that no code was run for with that of a snapshot of the same process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from heaptop.dumps.reader import HeapDump
from tests.interpreters import Interpreter

BY_THE_ATTACH: Final = (10, 4096)
"""Objects and bytes by which the process differs while heaptop is attached, which it is after the other was made."""
BY_INTERNED_NAMES: Final = (1200, 200_000)
"""From 3.14 on, names of the agent's code among them: they are interned for good."""

Figures = dict[str, tuple[int, int]]
"""Objects and bytes, by type."""


@contextmanager
def loaded(dump: HeapDump) -> Iterator[HeapDump]:
    with dump:
        dump.load()
        yield dump


def counted(dump: HeapDump) -> Figures:
    objects: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for row in dump.counts():
        objects[dump.types[row.type].full] += row.count
        sizes[dump.types[row.type].full] += row.bytes
    return {name: (objects[name], sizes[name]) for name in objects}


def check_same_heap(interpreter: Interpreter, live: HeapDump, found: HeapDump) -> None:
    """Types and objects; bytes but for types that are measured by code, which are named. What is opaque is stated."""
    one, other = counted(live), counted(found)
    most = BY_INTERNED_NAMES if interpreter.version >= (3, 14) else BY_THE_ATTACH
    guessed = {found.types[number].full for number in found.image.guessed}
    changed = {name: (one.get(name, (0, 0)), other.get(name, (0, 0))) for name in one | other}
    counts = {name: pair for name, pair in changed.items() if pair[0][0] != pair[1][0]}
    assert sum(abs(mine[0] - its[0]) for mine, its in counts.values()) <= most[0], counts
    sizes = {name: pair for name, pair in changed.items() if name not in guessed and pair[0][1] != pair[1][1]}
    assert sum(abs(mine[1] - its[1]) for mine, its in sizes.values()) <= most[1], sizes
    assert found.image.opaque < found.image.bytes / 100
