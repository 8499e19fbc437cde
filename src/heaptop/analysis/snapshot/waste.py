"""What a heap could do without: rows, one sentence of advice each, totals that count each byte once, and their JSON.

A snapshot reports what is wrong with which objects (:class:`heaptop.protocol.images.Waste`); free room in the arenas of
Python's allocator, which is no object's, is measured beside it. After Eclipse MAT's component report.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from heaptop.analysis.filters.filters import EVERYTHING, Filter
from heaptop.analysis.heap.path_words import path_words, type_name, type_of
from heaptop.analysis.snapshot.retaining import narrowed
from heaptop.analysis.snapshot.why import image_json, path_json
from heaptop.analysis.text.units import format_bytes, format_count, format_number
from heaptop.errors import UsageError
from heaptop.protocol.images import INTERNED_COUNTED, INTERNED_FREED, NO_TYPE, WASTES, Image, Selection, Waste, WasteRow
from heaptop.protocol.messages import Memory, TypeName

if TYPE_CHECKING:
    from heaptop.documents import WasteJson, WasteRowJson

ARENAS: Final = "arenas"  # The sort of the row that is no object's
NAMES: Final[Mapping[str, str]] = {
    "duplicate": "duplicates",
    "equal": "equal numbers",
    "empty": "empty",
    "spare": "nearly empty",
    "sparse": "sparse dicts",
    "slots": "no __slots__",
    "ints": "lists of ints",
    "floats": "lists of floats",
    "interned": "interned, unused",
    ARENAS: "free in arenas",
}
"""Of each sort, a few words for a column."""
ESTIMATED: Final = frozenset(("spare", "sparse", "slots", "ints", "floats", "interned", ARENAS))
"""Sorts whose bytes depend on what takes their place, or were measured at another moment."""
KNOWN: Final = ("type", "module", "kind")  # What a filter may ask
MOST_ROWS: Final = 2_000  # No snapshot is asked for more, and no more are kept


@dataclass(frozen=True, slots=True)
class WasteGroup:
    """One row: objects with which the same is wrong."""

    sort: str  # One of WASTES, or ARENAS
    bytes: int  # What they could do without
    own: int  # Of that, what no row of another sort has in its own: over all rows, each byte once
    count: int
    type: str  # Full name of their type; empty for arenas
    module: str
    holder: str
    """What holds them: a type, ``module app.cache``, ``frame work() local rows``; of a class's instances its module."""
    detail: int
    advice: str
    path: tuple[str, ...]  # To one of them, step by step; empty where there is none
    example: int  # Its address; 0 where there is none

    @property
    def overlap(self) -> int:
        """Bytes that other rows have too."""
        return self.bytes - self.own

    @property
    def estimated(self) -> bool:
        return self.sort in ESTIMATED

    @property
    def name(self) -> str:
        return NAMES[self.sort]

    @property
    def key(self) -> str:
        """Its identity among the rows of a snapshot."""
        return f"{self.sort} {self.type} {self.holder} {self.detail if self.sort == 'slots' else 0} {self.example:x}"


@dataclass(frozen=True, slots=True)
class SortTotal:
    """All rows of one sort, also those that were not sent."""

    sort: str
    count: int
    bytes: int
    own: int
    kept: int  # Of duplicates and equal numbers: distinct values, each of more than one object


@dataclass(frozen=True, slots=True)
class WasteReport:
    """All of it."""

    rows: tuple[WasteGroup, ...]  # The largest first
    sorts: tuple[SortTotal, ...]  # Those of which there is something, the largest first
    other_rows: int  # Rows of the snapshot that were not sent; the totals have them
    notes: tuple[str, ...]  # Sentences on what is not known, or not exact
    complete: bool

    @property
    def total(self) -> int:
        """Bytes, each once."""
        return sum(each.own for each in self.sorts)

    @property
    def overlap(self) -> int:
        """By how much the sum of all rows is more than that."""
        return sum(each.bytes - each.own for each in self.sorts)

    @property
    def estimated(self) -> bool:
        return any(each.sort in ESTIMATED for each in self.sorts)


# -- what is asked --------------------------------------------------------------------------------------------


def wanted(where: Filter, types: Sequence[TypeName]) -> Selection | None:
    """The objects that pass a filter; None for none at all.

    Raises:
        UsageError: it asks what rows of waste do not know, or more than one question has room for.
    """
    where.allow(KNOWN, "Rows of waste")
    return narrowed(where, types, Selection())


def selection(where: Filter, types: Sequence[TypeName]) -> Selection:
    """As :func:`wanted`, for who has nothing to show without one.

    Raises:
        UsageError: also where nothing passes.
    """
    found = wanted(where, types)
    if found is None:
        raise UsageError(f"No type in the heap matches {where}.", fix="Use a wider filter, or none.")
    return found


# -- what comes of it -----------------------------------------------------------------------------------------


def waste_report(
    waste: Waste, types: Sequence[TypeName], memory: Memory | None = None, where: Filter = EVERYTHING
) -> WasteReport:
    """``memory``: measured at about the same time, for the arenas; they are left out where something is filtered."""
    rows = [_row(each, types) for each in waste.rows[:MOST_ROWS]]
    sorts = [SortTotal(WASTES[t.sort], t.count, t.bytes, min(t.own, t.bytes), t.kept) for t in waste.totals if t.count]
    arenas = _arenas(memory) if not where else None
    if arenas is not None:
        rows.append(arenas)
        sorts.append(SortTotal(ARENAS, arenas.count, arenas.bytes, arenas.own, 0))
    return WasteReport(
        rows=tuple(sorted(rows, key=lambda row: -row.bytes)),
        sorts=tuple(sorted(sorts, key=lambda each: -each.bytes)),
        other_rows=waste.other_rows + len(waste.rows[MOST_ROWS:]),
        notes=tuple(_notes(waste, where, has_arenas=arenas is not None)),
        complete=waste.complete,
    )


def _row(row: WasteRow, types: Sequence[TypeName]) -> WasteGroup:
    sort, type = WASTES[row.sort], type_of(types, row.type)
    return WasteGroup(
        sort=sort,
        bytes=row.bytes,
        own=min(row.own, row.bytes),
        count=row.count,
        type=type.full,
        module=type.module,
        holder=_holder(row, sort, types),
        detail=row.detail,
        advice=advice(sort, type.full, _holder(row, sort, types), row.detail),
        path=tuple(path_json(row.path, types)) if row.path else (),
        example=row.example,
    )


def _holder(row: WasteRow, sort: str, types: Sequence[TypeName]) -> str:
    if sort == "slots":
        return f"module {type_of(types, row.type).module}"
    if row.holder != NO_TYPE:
        return type_name(types, row.holder)
    words = path_words(row.path)
    return words[0] if words else ""


def _arenas(memory: Memory | None) -> WasteGroup | None:
    """Free blocks in pools in use, and free pools in arenas in use, as far as they are resident."""
    found = memory.outside.pymalloc if memory is not None and memory.outside is not None else None
    free = found.free_blocks + found.free_pools if found is not None else 0
    if found is None or not free:
        return None
    return WasteGroup(ARENAS, free, free, 0, "", "", "Python's allocator", found.free_pools, ADVICE[ARENAS], (), 0)


def _notes(waste: Waste, where: Filter, *, has_arenas: bool) -> list[str]:
    notes = []
    if any(row.bytes != row.own for row in waste.rows):
        notes.append("Some objects are in several rows, each with its full figure; the total counts each byte once.")
    if not where and waste.interned == INTERNED_FREED:
        notes.append("Interned strings: this Python frees each with its last reference, so none is unused.")
    elif not where and waste.interned == INTERNED_COUNTED:
        notes.append(
            "Interned strings: immortal ones have no reference count. Those listed have no reference that heaptop "
            "sees; C code may use some. Others are freed with their last reference."
        )
    elif not where:
        notes.append("Interned strings: their table was not found, so unused ones are unknown.")
    if not where and not has_arenas:
        notes.append("Arenas: their free memory is unknown.")
    return notes


# -- advice ---------------------------------------------------------------------------------------------------

ADVICE: Final[Mapping[str, str]] = {
    "duplicate": "Keep one of each where they are made: s = seen.setdefault(s, s), with a dict that is dropped later.",
    "equal": "Keep one of each: x = seen.setdefault(x, x); or hold them in an array, which has no objects.",
    "empty": "Create it with its first item; until then keep None or a shared empty tuple.",
    "slots": "Declare __slots__ with its {detail} in the class and its bases (or dataclass(slots=True)).",
    "sparse": "Rebuild it, d = dict(d), or clear() it: a dict does not shrink when entries are deleted.",
    "sparse cache": "Call its cache_clear() once: a cache's dict does not shrink when entries are dropped.",
    "ints": "Use array.array('q') or numpy: at most 8 bytes a number instead of a reference and an object.",
    "floats": "Use array.array('d') or numpy: 8 bytes a number instead of a reference and an object.",
    "interned": "They stay until the process exits: do not intern data, or use it as attribute names.",
    ARENAS: "Nothing to change in code: Python reuses it. Fewer small objects that outlive a peak reduce it.",
    "spare": "Create it with the capacity it needs, or use a smaller container.",
    "spare list": "Build it in one step, list(items), or use a tuple: append over-allocates.",
    "spare dict": "The smallest dict has room for five entries: use attributes or a tuple for one or two.",
    "spare set": "The smallest set has room for eight: use a tuple for a few; set(s) makes a larger one fit.",
}
"""By sort; of ``spare`` by type, and of a cache's dict its own."""


def advice(sort: str, type: str, holder: str, detail: int) -> str:
    """One sentence on what to change."""
    text = ADVICE.get(f"{sort} {type}", ADVICE[sort])
    if sort == "sparse" and holder == "functools._lru_cache_wrapper":
        text = ADVICE["sparse cache"]
    return text.replace("{detail}", format_number(detail, "name"))


def row_words(row: WasteGroup) -> str:
    """``≈12.0 MiB in 4,711 objects``, and how much of it other rows have as well."""
    about = "≈" if row.estimated else ""
    objects = f" in {format_number(row.count, 'object')}" if row.count else ""
    overlap = f", of which {format_bytes(row.overlap)} also in other rows" if row.overlap else ""
    return f"{about}{format_bytes(row.bytes)}{objects}{overlap}"


def total_words(report: WasteReport, image: Image) -> str:
    """``≈31.0 MiB of 120 MiB, each byte once (34.0 MiB over all rows); free in arenas ≈2.00 MiB``: free memory is no
    part of the objects' bytes."""
    of_objects = [each for each in report.sorts if each.sort != ARENAS]
    about = "≈" if any(each.sort in ESTIMATED for each in of_objects) else ""
    once, all_rows = sum(each.own for each in of_objects), sum(each.bytes for each in of_objects)
    both = f" ({about}{format_bytes(all_rows)} over all rows)" if all_rows > once else ""
    beside = "".join(f"; {sort_words(each)}" for each in report.sorts if each.sort == ARENAS)
    return f"{about}{format_bytes(once)} of {format_bytes(image.bytes)}, each byte once{both}{beside}"


def sort_words(total: SortTotal) -> str:
    """``duplicates 2.0 MiB, 41 distinct values``"""
    about = "≈" if total.sort in ESTIMATED else ""
    kept = f", {format_count(total.kept)} distinct values" if total.kept else ""
    return f"{NAMES[total.sort]} {about}{format_bytes(total.bytes)}{kept}"


# -- the document ---------------------------------------------------------------------------------------------


def waste_json(
    report: WasteReport, image: Image, *, pid: int, python: str, where: Filter, most: int | None
) -> WasteJson:
    """The document of ``--json``, with at most ``most`` rows (all for None)."""
    shown = report.rows[:most]
    return {
        "schema": "heaptop.waste",
        "version": 1,
        "pid": pid,
        "python": python,
        "complete": report.complete,
        "where": where.text,
        "total": report.total,
        "sum": report.total + report.overlap,
        "estimated": report.estimated,
        "sorts": [
            {
                "sort": each.sort,
                "count": each.count,
                "bytes": each.bytes,
                "own": each.own,
                "contents": each.kept or None,
                "estimated": each.sort in ESTIMATED,
            }
            for each in report.sorts
        ],
        "shown": len(shown),
        "of": len(report.rows),
        "other_rows": report.other_rows,
        "rows": [_row_json(row) for row in shown],
        "notes": [*report.notes],
        **image_json(image),
    }


def _row_json(row: WasteGroup) -> WasteRowJson:
    return {
        "sort": row.sort,
        "bytes": row.bytes,
        "own": row.own,
        "estimated": row.estimated,
        "count": row.count,
        "type": row.type or None,
        "holder": row.holder or None,
        "detail": row.detail,
        "advice": row.advice,
        "path": list(row.path),
        "example": hex(row.example) if row.example else None,
    }
