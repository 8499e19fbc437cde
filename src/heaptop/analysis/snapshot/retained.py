"""One open snapshot by retainer set or by kind of root: rows, and the JSON of ``heaptop census --by retainer|kind``.

Retainer sets are nhc's (Runciman and Röjemo, New dimensions in heap profiling, 1996, §3): objects with the same
retainers are one row, and those with more than N are one row together, which is named as what it is. Rows are called as
the bands of :mod:`heaptop.analysis.heap.graph_history` are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from heaptop.analysis.filters.filters import Filter
from heaptop.analysis.filters.kept_samples import retainer_term
from heaptop.analysis.heap.graph_history import GraphCell, GraphRecord, kind_cells, many_label, retainer_cells
from heaptop.analysis.snapshot.retaining import narrowed
from heaptop.analysis.snapshot.why import image_json
from heaptop.errors import UsageError
from heaptop.protocol.images import Groups, Image, Retainers, Selection
from heaptop.protocol.messages import TypeName

if TYPE_CHECKING:
    from heaptop.documents import RetainedJson, RetainedRowJson

KNOWN: Final = {
    "kind": ("type", "module", "kind", "retainer", "size", "count"),
    "retainer": ("type", "module", "kind", "retainer"),
}
"""What a filter may ask of rows of each sort."""


@dataclass(frozen=True, slots=True)
class RetainedRow:
    """Objects that have in common by what they are kept."""

    name: str
    count: int
    bytes: int
    retainers: tuple[str, ...] | None = None  # Their labels; None where the row is not of one set


@dataclass(frozen=True, slots=True)
class Remainder:
    """Objects of sets that are too small for the answer."""

    count: int = 0
    bytes: int = 0


def check_filter(by: str, where: Filter) -> None:
    """Whether rows by retainer or by kind can be restricted so.

    Raises:
        UsageError: they do not know what it asks about.
    """
    if by == "kind":
        retainer_term(where, "Counts by kind")
    elif other := where.beyond("type", "module", "kind").entangled(("kind",)):
        raise UsageError(
            f"Counts by retainer do not accept kind and {other} under one 'or'.",
            why="kind selects objects before retainer sets are built.",
            fix=f"Write kind next to {other}, or leave one of them out.",
        )
    known = KNOWN[by]
    wrong = next((name for name in where.attributes if name not in known), None)
    if wrong is not None:
        raise UsageError(
            f"Counts by {by} have no {wrong}.",
            why=f"They are grouped by {', '.join(known)} only.",
            fix=f"Leave {wrong} out.",
        )


def wanted(where: Filter, types: Sequence[TypeName]) -> Selection:
    """What the filter's terms on type, module and kind let through.

    Raises:
        UsageError: there is none of it, or more than one question has room for.
    """
    found = narrowed(where, types, Selection())
    if found is None:
        raise UsageError(f"No type in the heap matches {where}.", fix="Use a wider filter, or none.")
    return found


def rows_by_retainer(answer: Retainers, types: Sequence[TypeName], where: Filter) -> tuple[RetainedRow, ...]:
    """Of what is :func:`wanted`, largest first, ties by name; types that have the same retainers together, and
    retainers that read alike, such as the local variable of one function in several threads."""
    many = any(row.many for row in answer.rows)
    rows = _rows(retainer_cells(types, answer), where.without("kind"))
    return tuple(
        replace(row, retainers=None) if many and row.name == many_label(answer.number) else row for row in rows
    )


def rows_by_kind(answer: Groups, types: Sequence[TypeName], where: Filter) -> tuple[RetainedRow, ...]:
    """Of what is :func:`wanted` and kept by what the filter asks for, by the sort of root that leads to them, largest
    first."""
    return _rows(kind_cells(types, answer), where.without("retainer"))


def _rows(cells: Iterable[GraphCell], where: Filter) -> tuple[RetainedRow, ...]:
    rows: dict[str, RetainedRow] = {}
    for cell in where.select(GraphRecord(0, tuple(cells))):
        assert isinstance(cell, GraphCell)
        row = rows.get(cell.kind or cell.retainer) or RetainedRow(
            cell.kind or cell.retainer, 0, 0, None if cell.kind else cell.retainers
        )
        rows[row.name] = replace(row, count=row.count + cell.count, bytes=row.bytes + cell.bytes)
    return tuple(sorted(rows.values(), key=lambda row: (-row.bytes, -row.count, row.name)))


def filtered_amount(rows: Sequence[RetainedRow], other: Remainder, image: Image) -> Remainder:
    """What of the snapshot is in no row, because of a filter, or because the answer has no room for it."""
    count, size = sum(row.count for row in rows) + other.count, sum(row.bytes for row in rows) + other.bytes
    return Remainder(max(image.objects - count, 0), max(image.bytes - size, 0))


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
) -> RetainedJson:
    """The document, with at most ``top`` rows (all for None). ``number`` is N, the most members of a retainer set that
    is a row of its own: None by kind. Bytes are with those that ``sys.getsizeof`` leaves out."""
    shown, left = rows[:top], filtered_amount(rows, other, image) if where else Remainder()
    details = image_json(image)
    return {
        "schema": "heaptop.retained",
        "version": 1,
        "pid": pid,
        "python": python,
        "mode": "clone",
        "complete": complete,
        "duration_ms": details["build_ms"],
        "total": {
            "count": sum(row.count for row in rows) + other.count,
            "bytes": sum(row.bytes for row in rows) + other.bytes,
        },
        "other": {"count": other.count, "bytes": other.bytes},
        "by": by,
        "where": where.text,
        "filtered": {"count": left.count, "bytes": left.bytes},
        "shown": len(shown),
        "of": len(rows),
        "rows": [row_json(row, by_retainer=number is not None) for row in shown],
        "retainers": number,
        **details,
    }


def row_json(row: RetainedRow, *, by_retainer: bool) -> RetainedRowJson:
    """One of the rows."""
    told: RetainedRowJson = {"name": row.name, "count": row.count, "bytes": row.bytes}
    if by_retainer:
        told["retainers"] = None if row.retainers is None else list(row.retainers)
    return told
