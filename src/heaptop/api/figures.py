"""What the API answers with: plain data. Sizes are bytes, times seconds, types full names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from heaptop.analysis.bands.report import census_rows
from heaptop.analysis.filters.filters import parse_filter
from heaptop.analysis.heap.history import CensusRecord, known_hidden
from heaptop.analysis.heap.path_words import type_name
from heaptop.analysis.reports.sampled_report import ReportRow
from heaptop.analysis.snapshot.why import path_json
from heaptop.protocol.images import KINDS, Object, PathGroup, Paths
from heaptop.protocol.messages import TypeName


@dataclass(frozen=True, slots=True)
class CensusRow:
    """Objects that have a type, a module or a generation in common."""

    name: str
    count: int
    bytes: int
    hidden_bytes: int | None
    """Beyond ``bytes``, what ``sys.getsizeof`` leaves out; None where the census cannot see it."""
    sizeof_guessed: int
    """Objects that may be larger: their ``__sizeof__`` is written in Python, and never called, or they own memory of a
    C library, and its size is unknown."""


@dataclass(frozen=True, slots=True)
class CensusTable:
    """All live objects at one moment. Iterating gives the rows, largest first."""

    time_ns: int
    """When counting began, on the target's CLOCK_MONOTONIC."""
    mode: str
    """``clone``, ``stop`` or ``python``."""
    estimated: bool
    """The heap changed while it was counted (mode ``python``)."""
    complete: bool
    cut: str
    """Why it is not complete; else empty."""
    pause: float
    """Seconds for which the process waited for this census."""
    duration: float
    """Seconds that it took."""
    count: int
    bytes: int
    """Of all rows together."""
    by: str
    where: str
    rows: tuple[CensusRow, ...]

    def __iter__(self) -> Iterator[CensusRow]:
        return iter(self.rows)


def census_table(heap: CensusRecord, by: str = "type", where: str = "") -> CensusTable:
    """Raises UsageError where ``by`` or the filter is wrong."""
    taken = heap.census
    rows = tuple(
        CensusRow(row.name, row.count or 0, row.bytes, known_hidden(taken, row.hidden), row.guessed)
        for row in census_rows(heap, by, parse_filter(where))
    )
    return CensusTable(
        heap.time_ns,
        taken.mode,
        taken.mode == "python",
        taken.complete,
        taken.cut,
        taken.pause_ns / 1e9,
        taken.duration_ns / 1e9,
        sum(row.count for row in rows),
        sum(row.bytes for row in rows),
        by,
        where,
        rows,
    )


@dataclass(frozen=True, slots=True)
class AllocationSite:
    """Live blocks that one line allocated: an estimate from samples. The true number of bytes is between ``low`` and
    ``high`` in 95 of 100 cases."""

    name: str
    """``path/views.py:88 create_session``, or what it was asked by; in parentheses where it is neither."""
    bytes: int
    low: int
    high: int
    samples: int
    """0 where the row is not from samples: what is from before sampling began."""


def allocation_site(row: ReportRow) -> AllocationSite:
    live = row.live
    return AllocationSite(row.name, live.bytes, live.low, live.high, live.samples)


@dataclass(frozen=True, slots=True)
class RootPath:
    """Objects of a type that are held in the same way."""

    steps: tuple[str, ...]
    """From the root: ``("module app.cache", "._sessions", "dict[*]", "app.Session")``."""
    kind: str
    """Of the root: ``module``, ``frame``, ``none`` for garbage …"""
    count: int
    bytes: int
    retained: int
    """What would be freed with them."""
    example: int
    """Address of one of them in this snapshot."""


@dataclass(frozen=True, slots=True)
class KeptBy:
    """What keeps the objects of a type alive."""

    type: str
    count: int
    bytes: int
    retained: int
    complete: bool
    """Whether all paths are known."""
    paths: tuple[RootPath, ...]
    """The largest first; fewer than there are where ``most`` was given."""


def kept_by(name: str, paths: Paths, types: list[TypeName]) -> KeptBy:
    groups = tuple(_root_path(group, types) for group in paths.groups)
    return KeptBy(name, paths.count, paths.bytes, paths.retained, paths.complete, groups)


def _root_path(group: PathGroup, types: list[TypeName]) -> RootPath:
    steps = tuple(path_json(group.steps, types))
    return RootPath(steps, KINDS[group.kind], group.count, group.bytes, group.retained, group.example)


@dataclass(frozen=True, slots=True)
class Dominator:
    """One object, and what would be freed with it: what it dominates."""

    address: int
    """In this snapshot."""
    type: str
    bytes: int
    """Its own."""
    retained: int
    """Of it and of all that it dominates."""
    length: int
    """Items of a container; -1 where it is none."""
    dominator: int
    """Address of the nearest object without which it would be freed; 0 where several hold it, or it is a root."""
    kind: str
    """Of the root that leads to it: ``module``, ``frame``, ``none`` for garbage …"""
    path: tuple[str, ...]
    """From that root, as :attr:`RootPath.steps`."""


def dominator(found: Object, types: list[TypeName]) -> Dominator:
    row = found.row
    name, path = type_name(types, row.type), tuple(path_json(found.path, types))
    return Dominator(row.address, name, row.size, row.retained, row.length, found.dominator, KINDS[row.kind], path)
