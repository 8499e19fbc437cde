"""The table under the chart: a row a band, with what it holds, its share, what changed, and its recent past."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, overload

from heaptop.analysis.bands.series import BandLine, BandSizes, SeriesCache
from heaptop.analysis.filters.filters import Filter
from heaptop.analysis.heap.history import Moment

SPARK: Final = 16  # Snapshots in a row's sparkline, at most


@dataclass(frozen=True, slots=True)
class TableRow:
    """One band at the latest record."""

    name: str
    count: int | None
    """None where it is not known: objects that were not sampled are counted, and blocks are not objects."""
    bytes: int
    share: float  # Of all bytes that pass the filter: 0.0 to 1.0
    count_change: int | None
    """Since the record before; None for a band never seen before it ("new"), 0 at the very first record."""
    bytes_change: int | None
    spark: tuple[int, ...]  # Bytes at the last records, oldest first: as many as there are, at most SPARK
    hidden: int = 0  # Bytes beyond `bytes` that `sys.getsizeof` leaves out
    guessed: int = 0  # Objects of which `bytes` is a guess

    @property
    def growth(self) -> int:
        """Bytes gained over the sparkline."""
        return self.spark[-1] - self.spark[0]


def _or_all(change: int | None, whole: int) -> int:
    """A new band sorts by all it holds."""
    return whole if change is None else change


def _bytes(row: TableRow) -> int:
    return row.bytes


SORTS: Final[dict[str, Callable[[TableRow], object]]] = {
    "name": lambda row: row.name,
    "count": lambda row: -1 if row.count is None else row.count,
    "bytes": _bytes,
    "share": _bytes,
    "change": lambda row: _or_all(row.bytes_change, row.bytes),
    "growth": lambda row: row.growth,
}
"""The columns that a table can be sorted by, in the order of the screen."""


class Rows(Sequence[TableRow]):
    """Rows of which each is made when it is examined: a screen has room for some of thousands. None changes when the
    series that they are of is extended."""

    def __init__(self, length: int, make: Callable[[int], TableRow], total: int, largest: int, hides: bool) -> None:
        """``make`` is asked for the row at a place; the others are what the properties of these names say."""
        self._length = length
        self._make = make
        self._made: dict[int, TableRow] = {}
        self.total = total  # Bytes of all rows
        self.largest = largest  # Of the row that has most
        self.hides = hides  # Whether a row has bytes that `sys.getsizeof` leaves out

    @classmethod
    def of(cls, rows: Sequence[TableRow]) -> Rows:
        """Of rows that are made already."""
        sizes = [row.bytes for row in rows]
        return cls(len(rows), rows.__getitem__, sum(sizes), max(sizes, default=0), any(row.hidden for row in rows))

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, place: int) -> TableRow: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[TableRow]: ...
    def __getitem__(self, place: int | slice) -> TableRow | Sequence[TableRow]:
        if isinstance(place, slice):
            return [self[each] for each in range(*place.indices(self._length))]
        at = range(self._length)[place]
        row = self._made.get(at)
        if row is None:
            row = self._made[at] = self._make(at)
        return row


def table(
    records: Sequence[Moment],
    key: str,
    where: Filter,
    sort: str = "bytes",
    descending: bool = True,
    *,
    memo: SeriesCache | None = None,
) -> tuple[TableRow, ...]:
    """The bands of the latest record, sorted by a name of :data:`SORTS`, ties by name; empty before the first.

    Raises:
        UsageError: there is no such band key.
        KeyError: there is no such sort.
    """
    return tuple(rows(records, key, where, sort, descending, memo=memo))


def rows(
    records: Sequence[Moment],
    key: str,
    where: Filter,
    sort: str = "bytes",
    descending: bool = True,
    *,
    memo: SeriesCache | None = None,
) -> Rows:
    """The same, each row made when it is examined."""
    if not records:
        return Rows.of(())
    series = (memo or SeriesCache()).series(records, key, where)
    held, length = series.held().copy(), series.length
    total, largest, hides = sum(held.bytes), max(held.bytes, default=0), any(held.hidden)
    places = _sorted(held, sort, descending, length)
    return Rows(len(places), lambda at: _row(held, places[at], length, total), total, largest, hides)


def _sorted(held: BandSizes, sort: str, descending: bool, length: int) -> Sequence[int]:
    """Places of the bands by a name of :data:`SORTS`, ties by name; they are ordered by name."""
    places = range(len(held.bytes))
    if sort == "name":
        return places[::-1] if descending else places
    if SORTS[sort] is _bytes:
        values = held.bytes
    elif sort == "count":
        values = [-1 if other else line.counts[-1] for line, other in zip(held.lines, held.uncounted, strict=True)]
    else:
        order = _ORDERS[sort]
        values = [0 if other else order(line, length) for line, other in zip(held.lines, held.uncounted, strict=True)]
    return sorted(places, key=values.__getitem__, reverse=descending)


def _growth(line: BandLine, length: int) -> int:
    """As :attr:`TableRow.growth`."""
    start = max(length - SPARK, 0)
    if line.at[-1] <= start:
        return 0
    position = bisect_right(line.at, start)
    return line.bytes[-1] - (line.bytes[position - 1] if position else 0)


_ORDERS: Final[dict[str, Callable[[BandLine, int], int]]] = {
    "change": lambda line, length: _or_all(_changes(line, length)[1], line.bytes[-1]),
    "growth": _growth,
}
"""What :data:`SORTS` say of the row, before it is made."""


def _changes(line: BandLine, length: int) -> tuple[int | None, int | None]:
    """Blocks and bytes since the record before."""
    if line.at[-1] != length - 1 or length <= 1:
        return 0, 0
    if len(line.at) < 2:
        return None, None
    return line.counts[-1] - line.counts[-2], line.bytes[-1] - line.bytes[-2]


def _row(held: BandSizes, place: int, length: int, total: int) -> TableRow:
    line = held.lines[place].until(length)
    count_change, bytes_change = _changes(line, length)
    size = line.bytes[-1]
    return TableRow(
        name=line.name,
        count=None if held.uncounted[place] else line.counts[-1],
        bytes=size,
        share=size / total if total else 0.0,
        count_change=count_change,
        bytes_change=bytes_change,
        spark=_spark(line, length),
        hidden=held.hidden[place],
        guessed=held.guessed[place],
    )


def _spark(line: BandLine, length: int) -> tuple[int, ...]:
    start = max(length - SPARK, 0)
    if line.at[-1] <= start:
        return (line.bytes[-1],) * (length - start)
    return tuple(line.expand(line.bytes, length, start))
