"""Prints an open snapshot by retainer set or by kind of root: ``heaptop census --by retainer|kind``.

This module never reads the command line and never attaches by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from heaptop.analysis.filters.filters import Filter
from heaptop.analysis.heap.path_words import KIND_WORDS
from heaptop.analysis.snapshot.retained import (
    Remainder,
    RetainedRow,
    filtered_amount,
    retained_json,
    wanted,
)
from heaptop.analysis.snapshot.retaining import SMALL_SETS
from heaptop.analysis.snapshot.why import elided
from heaptop.analysis.text.units import filtered_words, format_bytes, format_count, format_number, format_share
from heaptop.choices import TIMEOUT
from heaptop.cli.terminal import ProgressLine, stdout_columns, table
from heaptop.protocol.images import Image
from heaptop.protocol.source import Attached, Source
from heaptop.watching.queries import retainer_sets, root_kinds
from heaptop.watching.snapshot_watch import SnapshotWatch, snapshot_notices

if TYPE_CHECKING:
    from heaptop.documents import RetainedJson

TITLES = {"kind": "KIND", "retainer": "RETAINERS"}


@dataclass(frozen=True, slots=True)
class RetainedResult:
    """What a snapshot answered."""

    attached: Attached
    image: Image
    rows: tuple[RetainedRow, ...]
    complete: bool
    other: Remainder


def take_retained(
    source: Source,
    progress: ProgressLine,
    by: str,
    number: int,
    where: Filter,
    again: str,
    *,
    timeout: float = TIMEOUT,
) -> RetainedResult:
    """Attach, freeze, ask, detach; ``number`` is the most members of a retainer set.

    Errors: as :class:`~heaptop.watching.snapshot_watch.SnapshotWatch`; UsageError of the filter.
    """
    with SnapshotWatch(source, progress, again, timeout=timeout) as watch:
        image = watch.freeze()
        selection = wanted(where, watch.types)
        if by == "kind":
            rows, complete = root_kinds(watch, selection, number, where)
            return RetainedResult(watch.attached, image, rows, complete, Remainder())
        rows, other, complete = retainer_sets(watch, selection, number, where)
        if other.count and "retainer" in where.attributes:
            return RetainedResult(watch.attached, image, rows, False, Remainder())
        return RetainedResult(watch.attached, image, rows, complete, other)


def as_json(taken: RetainedResult, by: str, number: int, where: Filter, top: int | None) -> RetainedJson:
    """The document of ``--json``, with at most ``top`` rows (all for None)."""
    return retained_json(
        by,
        taken.rows,
        taken.image,
        pid=taken.attached.target.pid,
        python=taken.attached.hello.python,
        complete=taken.complete,
        other=taken.other,
        number=number if by == "retainer" else None,
        where=where,
        top=top,
    )


def as_lines(taken: RetainedResult, by: str, where: Filter, top: int | None) -> list[str]:
    """A table of at most ``top`` rows (all for None), its total, and what the figures are worth."""
    left = filtered_amount(taken.rows, taken.other, taken.image)
    notices = [f"only {where}: {filtered_words(left.count, left.bytes, what='object')}"] if where else []
    if not taken.complete:
        notices.append("partial: there may be more; the snapshot stopped early or ran out of space")
    if by == "retainer" and any(row.retainers is None for row in taken.rows):
        notices.append(
            "(more than …): objects with more retainers, of several sets; --retainers N shows sets of up to N"
        )
    lines = retained_table(taken.rows, taken.other, TITLES[by], top)
    return [*lines, "", *snapshot_notices(taken.attached, taken.image), *notices]


def retained_table(rows: Sequence[RetainedRow], other: Remainder, title: str, top: int | None) -> list[str]:
    """At most ``top`` rows (all for None), the rest as one, and the total; cut to the terminal where there is one."""
    shown, rest = rows[:top], rows[len(rows[:top]) :]
    total = _sum([*rows, other])
    lines = [(_words(row.name), Remainder(row.count, row.bytes)) for row in shown]
    if rest:
        lines.append((f"({format_number(len(rest), 'more row')})", _sum(rest)))
    if other.count:
        lines.append((SMALL_SETS, other))
    lines.append(("total", total))
    cells = [
        (format_count(each.count), format_bytes(each.bytes), format_share(each.bytes, total.bytes), name)
        for name, each in lines
    ]
    return fitted(("OBJECTS", "SIZE", "SHARE", title), cells)


def _sum(parts: Sequence[RetainedRow | Remainder]) -> Remainder:
    return Remainder(sum(part.count for part in parts), sum(part.bytes for part in parts))


def fitted(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A table whose last column gives way in its middle where the terminal is too narrow; nothing does in a pipe."""
    columns = stdout_columns()
    last = len(header) - 1
    if columns is not None:
        before = table([*header[:last], ""], [[*row[:last], "."] for row in rows], left=frozenset({last}))
        room = columns - max((len(line) - 1 for line in before[1:]), default=0)
        rows = [[*row[:last], elided(row[last].split(" "), max(room, 1))] for row in rows]
    return table(header, rows, left=frozenset({last}))


def _words(name: str) -> str:
    """Of a kind what it means too, and how a filter calls it."""
    return f"{KIND_WORDS[name]} (kind:{name})" if name in KIND_WORDS else name
