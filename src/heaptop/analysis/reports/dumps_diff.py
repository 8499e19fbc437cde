"""What differs between two snapshots, of heap dumps or of a process: by type, by module, by what keeps the objects.

Of two snapshots of one process it is also known which objects are new, and which are gone: a mark of one of them is
sent to the other, as a leak hunt does. An address may be used again, so both are *at least* so many.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from heaptop.analysis.heap.path_words import path_text, type_of
from heaptop.analysis.leaks.marks import send_pieces, take_pieces
from heaptop.analysis.reports.moments_diff import (
    Changed,
    MomentSizes,
    changed_json,
    changes,
    most_changed,
    sizes_by_name,
    total,
)
from heaptop.analysis.snapshot.asking import Asking, answered
from heaptop.analysis.text.recorded_times import utc
from heaptop.protocol.images import AGES, GROUPS, PATHS, Ages, Groups, Image, Paths, Question, Selection
from heaptop.protocol.messages import TypeName

if TYPE_CHECKING:
    from heaptop.documents import DiffJson, MomentJson

MOST_GROUPS: Final = 1 << 20
MOST_PATHS: Final = 2000  # Of the largest, by what they retain: others are one row
OTHER_PATHS: Final = "(other paths)"

Sizes = Mapping[str, MomentSizes]


@dataclass(frozen=True, slots=True)
class ComparedHeap:
    """One of the two."""

    name: str  # Of the file, or `process PID`
    pid: int
    started: int  # Clock ticks from the machine's boot until the process started; 0: not known
    wall: float  # Seconds since 1970
    image: Image
    types: Sequence[TypeName]
    rss: int | None


@dataclass(frozen=True, slots=True)
class HeapsDiff:
    """Rows by growth, and of each row's name what is new and what is gone: None where that cannot be known."""

    rows: list[Changed]
    new: Sizes | None
    gone: Sizes | None


def sizes(by: str, types: Sequence[TypeName]) -> Asking[Sizes]:
    """What a snapshot holds, by type, module or path."""
    if by == "path":
        return (yield from _by_path(types))
    answer = yield from answered(Groups, Question(GROUPS, limit=MOST_GROUPS))
    name = _name_of(by, types)
    return sizes_by_name((name(row.type), row.count, row.bytes) for row in answer.rows)


def _by_path(types: Sequence[TypeName]) -> Asking[Sizes]:
    answer = yield from answered(Paths, Question(PATHS, limit=MOST_PATHS))
    rows = [
        (" ".join([*path_text(group.steps), type_of(types, group.steps[-1].type).full]), group.count, group.bytes)
        for group in answer.groups
        if group.steps
    ]
    count, size = sum(row[1] for row in rows), sum(row[2] for row in rows)
    rows.append((OTHER_PATHS, answer.count - count, answer.bytes - size))
    return sizes_by_name(row for row in rows if row[1])


def _name_of(by: str, types: Sequence[TypeName]) -> Callable[[int], str]:
    if by == "module":
        return lambda number: type_of(types, number).module or "builtins"
    return lambda number: type_of(types, number).full


def mark(image: Image) -> Asking[tuple[bytes, ...]]:
    """What a snapshot holds, for :func:`unmarked` of another one of the same process."""
    return take_pieces(image)


def unmarked(pieces: Sequence[bytes], by: str, types: Sequence[TypeName]) -> Asking[Sizes]:
    """What a snapshot holds and the one that the mark is of does not, by type or module."""
    yield from send_pieces(pieces)
    answer = yield from answered(Ages, Question(AGES, Selection(seen=(0,)), limit=MOST_GROUPS))
    name = _name_of(by, types)
    return sizes_by_name((name(row.type), row.count, row.bytes) for row in answer.rows if row.seen == 0)


def difference(before: Sizes, after: Sizes, new: Sizes | None = None, gone: Sizes | None = None) -> HeapsDiff:
    """What grew most comes first, what shrank most last; what did not change is left out unless some of it is new."""
    rows = [row for row in changes(before, after) if row.bytes or row.count or (new and row.name in new)]
    return HeapsDiff(rows, new, gone)


def heaps_diff_json(
    before: ComparedHeap, after: ComparedHeap, by: str, found: HeapsDiff, top: int | None
) -> DiffJson:
    """The document, with at most ``top`` rows (all for None)."""
    grown = total(found.rows)
    shown = most_changed(found.rows, top)
    rows = [changed_json(row) for row in shown]
    for row, document in zip(shown, rows, strict=True):
        if found.new is not None and found.gone is not None:
            new, gone = (side.get(row.name, MomentSizes()) for side in (found.new, found.gone))
            document["new"] = {"count": new.count, "bytes": new.bytes}
            document["gone"] = {"count": gone.count, "bytes": gone.bytes}
    return {
        "schema": "heaptop.diff",
        "version": 1,
        "before": _moment_json(before),
        "after": _moment_json(after),
        "by": by,
        "grown": {"count": grown.count, "bytes": grown.bytes},
        "shown": len(shown),
        "of": len(found.rows),
        "rows": rows,
    }


def _moment_json(heap: ComparedHeap) -> MomentJson:
    return {
        "file": heap.name,
        "pid": heap.pid,
        "rss": heap.rss,
        "total": {"count": heap.image.objects, "bytes": heap.image.bytes},
        "complete": True,
        "time": utc(heap.wall),
    }
