"""One open snapshot by retainer set or by kind of root: rows, and the JSON of ``heaptop census --by retainer|kind``.

Retainer sets are nhc's (Runciman and Röjemo, New dimensions in heap profiling, 1996, §3): objects with the same
retainers are one row, and those with more than N are one row together, which is named as what it is. This module never
asks a snapshot, and prints nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from heaptop.census.filters import Filter
from heaptop.census.history import Cell
from heaptop.census.why import Types, image_json, kind_name
from heaptop.errors import UsageError
from heaptop.protocol.images import Groups, Image, Retainers, RetainerSet
from heaptop.protocol.messages import UNTRACKED

KNOWN: Final = ("type", "module")
"""What a filter may ask of these figures."""
MOST_TYPES: Final = 5_000
"""Ids that one question has room for."""
NOBODY: Final = "(no retainer)"

MEANINGS: Final = {
    "module": "what modules, builtins and sys have by name, and what these lead to",
    "frame": "local variables of threads, and what only they lead to",
    "runtime": "the interpreter itself",
    "interpreter": "another interpreter of the process",
    "c": "held by C: a C extension or a call under way counts a reference that no object has",
    "none": "uncollected garbage: only itself keeps it",
}


@dataclass(frozen=True, slots=True)
class Remainder:
    """Objects of rows too small for the snapshot to tell."""

    count: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class RetainedRow:
    """Objects that have in common by what they are kept."""

    name: str
    count: int
    bytes: int
    retainers: tuple[str, ...] | None = None
    """Their labels; None where the row is not of one set."""
    many: bool = False
    """More retainers than were asked for, not all the same ones."""


def types_wanted(where: Filter, types: Types) -> tuple[int, ...]:
    """Ids of the types that the filter lets through; none where it is empty, which means all of them.

    Raises:
        UsageError: it asks about something else than a type; or there is none, or there are too many.
    """
    where.allow(KNOWN, "Open snapshots")
    if not where:
        return ()
    wanted = tuple(id for id, name in types.items() if where.fits_name(Cell(name, UNTRACKED, 1, 1)))
    if not wanted:
        raise UsageError(f"No type of the heap passes {where}.", fix="Filter by less, or not at all.")
    if len(wanted) > MOST_TYPES:
        raise UsageError(
            f"{len(wanted)} types pass {where}, and one question has room for {MOST_TYPES}.", fix="Filter by more."
        )
    return wanted


def rows_by_retainer(answer: Retainers) -> tuple[RetainedRow, ...]:
    """Largest first, ties by name; types that have the same retainers together, and retainers that read alike, such as
    the local variable of one function in several threads."""
    rows: dict[str, RetainedRow] = {}
    for each in answer.rows:
        row = _empty(answer, each)
        before = rows.get(row.name, row)
        rows[row.name] = replace(row, count=before.count + each.count, bytes=before.bytes + each.bytes)
    return _in_order(rows.values())


def _empty(answer: Retainers, of: RetainerSet) -> RetainedRow:
    if of.many:
        return RetainedRow(f"(more than {answer.number} retainers)", 0, 0, many=True)
    labels = Counter(answer.units[unit].label for unit in of.units)
    name = " + ".join(label if number == 1 else f"{number} × {label}" for label, number in labels.items())
    return RetainedRow(name or NOBODY, 0, 0, tuple(labels.elements()))


def rows_by_kind(answer: Groups) -> tuple[RetainedRow, ...]:
    """By the sort of root that leads to them, largest first."""
    sums: dict[int, list[int]] = {}
    for group in answer.rows:
        amount = sums.setdefault(group.kind, [0, 0])
        amount[0] += group.count
        amount[1] += group.bytes
    return _in_order(RetainedRow(kind_name(kind), count, size) for kind, (count, size) in sums.items() if count)


def _in_order(rows: Iterable[RetainedRow]) -> tuple[RetainedRow, ...]:
    return tuple(sorted(rows, key=lambda row: (-row.bytes, -row.count, row.name)))


def retained_json(
    by: str,
    rows: Sequence[RetainedRow],
    image: Image,
    *,
    pid: int,
    python: str,
    complete: bool,
    other: Remainder,
    number: int | None,
    where: Filter,
    top: int | None,
) -> dict[str, Any]:
    """The document: rows as those of :func:`heaptop.census.report.census_json`, at most ``top`` of them (all for None).

    ``number`` is N, the most members of a retainer set that is told: None by kind. ``other`` is what the
    snapshot had no room to tell, and part of the total. Bytes are with the hidden ones. A row whose ``retainers`` are
    None is of several sets.
    """
    shown = rows[:top]
    details = image_json(image)
    return {
        "pid": pid,
        "python": python,
        "mode": "clone",
        "complete": complete,
        "pause_ms": details["pause_ms"],
        "duration_ms": details["build_ms"],
        "total": {
            "count": sum(row.count for row in rows) + other.count,
            "bytes": sum(row.bytes for row in rows) + other.bytes,
        },
        "other": {"count": other.count, "bytes": other.bytes},
        "by": by,
        "where": where.text,
        **({} if number is None else {"retainers": number}),
        "shown": len(shown),
        "of": len(rows),
        "rows": [row_json(row, by_retainer=number is not None) for row in shown],
        **details,
    }


def row_json(row: RetainedRow, *, by_retainer: bool) -> dict[str, Any]:
    """One of the rows."""
    told: dict[str, Any] = {"name": row.name, "count": row.count, "bytes": row.bytes}
    if by_retainer:
        told |= {"retainers": None if row.retainers is None else list(row.retainers), "many": row.many}
    return told
