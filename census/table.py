"""The table under the chart: a row a band, with what it holds, its share, what changed, and its recent past.

This module never formats a figure and never cuts the list: the screen shows what fits of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from heaptop.census.filters import Filter
from heaptop.census.history import Moment
from heaptop.census.series import Line, Memo, Sum

SPARK: Final = 16
"""Snapshots in a row's sparkline, at most."""


@dataclass(frozen=True, slots=True)
class TableRow:
    """One band at the latest snapshot."""

    name: str
    count: int | None
    """None where nobody knows: objects that were not sampled are counted, and blocks are not objects."""
    bytes: int
    share: float
    """Of all bytes that pass the filter: 0.0 to 1.0."""
    count_change: int | None
    """Since the snapshot before; None for a band never seen before it ("new"), 0 at the very first snapshot."""
    bytes_change: int | None
    spark: tuple[int, ...]
    """Bytes at the last snapshots, oldest first: as many as there are, at most :data:`SPARK`."""
    hidden: int = 0
    """Bytes beyond ``bytes`` that ``sys.getsizeof`` does not tell."""
    guessed: int = 0
    """Objects of which ``bytes`` is a guess."""

    @property
    def growth(self) -> int:
        """Bytes gained over the sparkline."""
        return self.spark[-1] - self.spark[0]


def _or_all(change: int | None, whole: int) -> int:
    """A new band sorts by all it holds."""
    return whole if change is None else change


SORTS: Final[dict[str, Callable[[TableRow], object]]] = {
    "name": lambda row: row.name,
    "count": lambda row: -1 if row.count is None else row.count,
    "bytes": lambda row: row.bytes,
    "share": lambda row: row.bytes,
    "change": lambda row: _or_all(row.bytes_change, row.bytes),
    "growth": lambda row: row.growth,
}
"""The columns that a table can be sorted by, in the order of the screen."""


def table(
    snapshots: Sequence[Moment],
    key: str,
    where: Filter,
    sort: str = "bytes",
    descending: bool = True,
    *,
    memo: Memo | None = None,
) -> tuple[TableRow, ...]:
    """The bands of the latest snapshot, sorted by a name of :data:`SORTS`, ties by name; empty before the first.

    Raises:
        UsageError: there is no such band key.
        KeyError: there is no such sort.
    """
    if not snapshots:
        return ()
    series = (memo or Memo()).series(snapshots, key, where)
    total = sum(sums.bytes for sums in series.alive.values())
    rows = [_row(series.lines[name], series.length, total, sums) for name, sums in series.alive.items()]
    rows.sort(key=SORTS["name"])  # type: ignore[arg-type]  # every sort key orders itself
    rows.sort(key=SORTS[sort], reverse=descending)  # type: ignore[arg-type]
    return tuple(rows)


def _row(line: Line, length: int, total: int, sums: Sum) -> TableRow:
    count, size = line.counts[-1], line.bytes[-1]
    count_change: int | None = 0
    bytes_change: int | None = 0
    if line.at[-1] == length - 1 and length > 1:
        known = len(line.at) > 1
        count_change = count - line.counts[-2] if known else None
        bytes_change = size - line.bytes[-2] if known else None
    return TableRow(
        name=line.name,
        count=None if sums.uncounted else count,
        bytes=size,
        share=size / total if total else 0.0,
        count_change=count_change,
        bytes_change=bytes_change,
        spark=_spark(line, length),
        hidden=sums.hidden,
        guessed=sums.guessed,
    )


def _spark(line: Line, length: int) -> tuple[int, ...]:
    start = max(length - SPARK, 0)
    if line.at[-1] <= start:
        return (line.bytes[-1],) * (length - start)
    return tuple(line.expand(line.bytes, length, start))
