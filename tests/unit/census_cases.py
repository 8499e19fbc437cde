"""Strategies and builders for the tests of the census: snapshots made as the session makes them, by History."""

from __future__ import annotations

from hypothesis import strategies as st

from heaptop.analysis.heap.history import CensusRecord, History
from heaptop.protocol.messages import Census, Row, TypeName, Types

NAMES = (
    TypeName("builtins", "dict"),
    TypeName("builtins", "str"),
    TypeName("shop.models", "Session"),
    TypeName("shop.models", "Order"),
    TypeName("shop.cache", "Entry"),
    TypeName("Shop", "session"),
)

Heap = dict[tuple[int, int], tuple[int, int]]
"""(type, generation) to (count, bytes)."""

heaps: st.SearchStrategy[Heap] = st.dictionaries(
    st.tuples(st.integers(0, len(NAMES) - 1), st.integers(-1, 3)),
    st.tuples(st.integers(0, 50), st.integers(0, 5_000)),
    max_size=12,
)
filters = st.sampled_from(
    [
        "",
        "session",
        "!session",
        "module:shop",
        "gen:2",
        "!gen:untracked",
        "size>1kB",
        "count<40 !type:str",
        "type:*e*,=dict",
    ]
)
keys = st.sampled_from(["type", "module", "generation"])


def census(number: int, heap: Heap, order: list[tuple[int, int]] | None = None) -> Census:
    """A census of the heap, its rows in ``order``, counted ``number`` seconds in."""
    rows = tuple(Row(*place, *heap[place]) for place in order or heap)
    return Census(number, number * 10**9, "python", True, "", rows, 2, 1, 1, 0, 0)


def history(heaps: list[Heap], limit: int = 2000) -> History:
    """What a session with these censuses leaves."""
    out = History(limit)
    out.feed(Types(0, NAMES))
    for number, heap in enumerate(heaps):
        out.feed(census(number, heap))
    return out


def snapshots(heaps: list[Heap]) -> tuple[CensusRecord, ...]:
    return tuple(history(heaps).records)


def ramp(values: dict[int, list[int]]) -> tuple[CensusRecord, ...]:
    """Snapshots where each type (by its number) holds these bytes, in generation 2."""
    length = len(next(iter(values.values())))
    return snapshots([{(kind, 2): (1, sizes[n]) for kind, sizes in values.items()} for n in range(length)])
