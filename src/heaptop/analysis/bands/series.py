"""How much every band held at every record: what charts and tables are cut from, kept up to date cheaply.

A heap has thousands of types and few of them change between two censuses, so a band is kept as its change
points, and a new record costs what changed in it: the cells that it does not share with the one before
(:class:`~heaptop.analysis.heap.history.History` shares them).

::

    record      0     1     2     3     4     5
    bytes         0     0    64    64    64    80
    at                     2                 5
    bytes                 64                80
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from heaptop.analysis.filters.attributes import band_key
from heaptop.analysis.filters.filters import Filter
from heaptop.analysis.filters.predicates import FilterFigures, Rest
from heaptop.analysis.heap.history import AnyCell, Moment
from heaptop.protocol.messages import TypeName

MEMO_LIMIT = 4  # Series kept by a SeriesCache: enough to go back and forth between band keys under one filter


class BandLine:
    """One band over time, as its change points."""

    __slots__ = ("_base", "_last", "_squares", "at", "bytes", "counts", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.at = array("q")
        self.counts = array("q")
        self.bytes = array("q")
        self._base = 0  # what the sum of bytes over all records is beyond as many times the last ones
        self._last = 0
        self._squares = 0  # squared first differences summed over all change points but one at record 0

    def change(self, index: int, count: int, size: int) -> None:
        """From record ``index`` on, the band holds this much."""
        before, self._last = self._last, size
        self._base += (before - size) * index
        if index:
            self._squares += (size - before) ** 2
        self.at.append(index)
        self.counts.append(count)
        self.bytes.append(size)

    def area(self, length: int) -> int:
        """Bytes summed over the first ``length`` records, which must be all of them."""
        return self._base + self._last * length

    def roughness(self, length: int) -> int:
        """The variance of the first differences of the bytes, times (length − 1)²: an exact integer."""
        first = self.bytes[0] if self.at[0] == 0 else 0
        return (length - 1) * self._squares - (self.bytes[-1] - first) ** 2

    def expand(self, values: Sequence[int], length: int, start: int = 0) -> list[int]:
        """``self.bytes`` or ``self.counts`` at each of the records from ``start`` to ``length``."""
        position = bisect_right(self.at, start)
        begin, value = start, values[position - 1] if position else 0
        out: list[int] = []
        for place in range(position, len(self.at)):
            end = self.at[place]
            out += [value] * (end - begin)
            begin, value = end, values[place]
        out += [value] * (length - begin)
        return out

    def until(self, length: int) -> BandLine:
        """As it was when there were so many records: this one, where nothing has changed since."""
        if self.at[-1] < length:
            return self
        line = BandLine(self.name)
        for place in range(bisect_left(self.at, length)):
            line.change(self.at[place], self.counts[place], self.bytes[place])
        return line

    def thinned(self, kept: Sequence[int]) -> BandLine:
        """The same band over the records of these numbers only, which rise and end with the last one."""
        line = BandLine(self.name)
        places = [bisect_left(kept, index) for index in self.at]
        for position, place in enumerate(places):
            if position + 1 < len(places) and places[position + 1] == place:
                continue  # no kept record saw this value
            value = self.counts[position], self.bytes[position]
            if value != ((line.counts[-1], line.bytes[-1]) if line.at else (0, 0)):
                line.change(place, *value)
        return line


class BandSum:
    """What a band holds now. ``cells`` distinguishes a band of nothing from one that has gone."""

    __slots__ = ("bytes", "cells", "count", "guessed", "hidden", "uncounted")

    def __init__(self) -> None:
        self.cells = 0
        self.count = 0
        self.bytes = 0
        self.hidden = 0
        self.guessed = 0
        self.uncounted = 0  # Cells whose count is not known

    def add(self, cell: AnyCell, sign: int) -> None:
        self.cells += sign
        self.count += sign * cell.count
        self.bytes += sign * cell.bytes
        self.hidden += sign * cell.hidden
        self.guessed += sign * cell.guessed
        self.uncounted += sign * (not cell.counted)


class BandSizes(NamedTuple):
    """What the bands of a record hold, a column each, in the order of their names."""

    lines: list[BandLine]
    bytes: list[int]
    uncounted: list[int]  # Cells whose count is not known
    hidden: list[int]
    guessed: list[int]

    def copy(self) -> BandSizes:
        return BandSizes(*[column[:] for column in self])  # type: ignore[arg-type]  # each keeps its type

    def put(self, place: int, line: BandLine, sums: BandSum) -> None:
        """A band holds this much now."""
        self.lines[place] = line
        self.bytes[place] = sums.bytes
        self.uncounted[place] = sums.uncounted
        self.hidden[place] = sums.hidden
        self.guessed[place] = sums.guessed


class _Kind:
    """The cells of one type in the last record, by id(), and those of them that are counted."""

    __slots__ = ("cells", "counted")

    def __init__(self) -> None:
        self.cells: dict[int, AnyCell] = {}
        self.counted: list[AnyCell] = []


class Series:
    """All bands of one key under one filter, extended a record at a time."""

    def __init__(self, key: str, where: Filter) -> None:
        self._label: Callable[[AnyCell], str] = band_key(key).label
        self._where = where
        self._seen: list[Moment] = []
        self._cells: Sequence[AnyCell] = ()  # of the last record
        self._kinds: dict[TypeName, _Kind] = {}
        self._verdicts: dict[Hashable, bool | Rest] = {}  # of the filter, whatever figures are
        self._sums: dict[str, BandSum] = {}
        self._held: BandSizes | None = None
        self._places: dict[str, int] = {}  # of the bands in it
        self._total = BandSum()  # its bytes and count
        self.lines: dict[str, BandLine] = {}  # Every band that was ever there, by name
        self.total = BandLine("")  # All of them together

    @property
    def length(self) -> int:
        """Snapshots so far."""
        return len(self._seen)

    def held(self) -> BandSizes:
        """What the last record has. To be copied by who keeps it beyond the next."""
        if self._held is None:
            names = sorted(self._sums)
            sums = [self._sums[name] for name in names]
            self._places = {name: place for place, name in enumerate(names)}
            self._held = BandSizes(
                lines=[self.lines[name] for name in names],
                bytes=[each.bytes for each in sums],
                uncounted=[each.uncounted for each in sums],
                hidden=[each.hidden for each in sums],
                guessed=[each.guessed for each in sums],
            )
        return self._held

    def areas(self) -> list[int]:
        """Of each of :attr:`lines`: see :meth:`BandLine.area`."""
        length = self.length
        return [line._base + line._last * length for line in self.lines.values()]

    def extends_to(self, records: Sequence[Moment]) -> bool:
        """Whether these records begin with the ones seen so far."""
        return len(records) >= len(self._seen) and list(records[: len(self._seen)]) == self._seen

    def thin_to(self, records: Sequence[Moment]) -> bool:
        """Forget the records that a history has dropped; False, and nothing done, when that is not what happened.

        The history drops from the middle of what it has and never the latest. This costs a step a change point,
        where starting over costs one a cell of every record.
        """
        number = {id(record): index for index, record in enumerate(self._seen)}
        kept = [number[id(record)] for record in records if id(record) in number]
        seen = [self._seen[index] for index in kept]
        if not kept or kept[-1] != len(self._seen) - 1 or list(records[: len(seen)]) != seen:
            return False
        if any(left >= right for left, right in pairwise(kept)):
            return False
        self._seen = seen
        self.total = self.total.thinned(kept)
        thinned = (line.thinned(kept) for line in self.lines.values())
        self.lines = {line.name: line for line in thinned if line.at}
        self._held = None
        return True

    def extend(self, records: Sequence[Moment]) -> None:
        """Take the records beyond those seen so far."""
        for record in records[len(self._seen) :]:
            self._add(record)

    def _add(self, record: Moment) -> None:
        index = len(self._seen)
        gone, new = _others(self._cells, record.cells)
        if self._where.bounded:
            gone, new = self._counted(gone, new)
        elif self._where:
            gone, new = ([cell for cell in cells if self._verdict(cell) is True] for cells in (gone, new))
        touched = {*self._move(gone, -1), *self._move(new, 1)}
        self._seen.append(record)
        self._cells = record.cells
        for name in touched:
            self._note(name, index)
        _change_if_new(self.total, index, self._total)

    def _counted(self, gone: Sequence[AnyCell], new: Sequence[AnyCell]) -> tuple[list[AnyCell], list[AnyCell]]:
        """What is not counted any more, and what is now, where the filter looks at all of a type: of each type that any
        of these is of, all that was, and all that passes."""
        changed: dict[int, _Kind] = {}
        for cell in gone:
            kind = self._kind(cell)
            del kind.cells[id(cell)]
            changed[id(kind)] = kind
        for cell in new:
            kind = self._kind(cell)
            kind.cells[id(cell)] = cell
            changed[id(kind)] = kind
        before = [cell for kind in changed.values() for cell in kind.counted]
        for kind in changed.values():
            kind.counted = self._passing(kind.cells)
        return before, [cell for kind in changed.values() for cell in kind.counted]

    def _kind(self, cell: AnyCell) -> _Kind:
        kind = self._kinds.get(cell.type)
        if kind is None:
            kind = self._kinds[cell.type] = _Kind()
        return kind

    def _passing(self, cells: dict[int, AnyCell]) -> list[AnyCell]:
        """Those of one type's cells that the filter lets through."""
        total = FilterFigures(sum(c.bytes for c in cells.values()), sum(c.count for c in cells.values()))
        verdicts = ((cell, self._verdict(cell)) for cell in cells.values())
        return [cell for cell, found in verdicts if (found if isinstance(found, bool) else found(total))]

    def _verdict(self, cell: AnyCell) -> bool | Rest:
        """Its names, the same at every moment; found once."""
        place = cell.place
        verdict = self._verdicts.get(place)
        if verdict is None:
            verdict = self._verdicts[place] = self._where.of_cell(cell)
        return verdict

    def _move(self, cells: Iterable[AnyCell], sign: int) -> list[str]:
        """These are counted, or not any more. Says which bands they are of."""
        label, known, total = self._label, self._sums, self._total
        names = []
        for cell in cells:
            name = label(cell)
            sums = known.get(name)
            if sums is None:
                sums = known[name] = BandSum()
                self._held = None
            sums.add(cell, sign)
            total.count += sign * cell.count
            total.bytes += sign * cell.bytes
            names.append(name)
        return names

    def _note(self, name: str, index: int) -> None:
        sums = self._sums[name]
        if not sums.cells:
            del self._sums[name]
            self._held = None
        line = self.lines.get(name)
        if line is None:
            line = self.lines[name] = BandLine(name)
        _change_if_new(line, index, sums)
        if self._held is not None:
            self._held.put(self._places[name], line, sums)


def _others(before: Sequence[AnyCell], now: Sequence[AnyCell]) -> tuple[Sequence[AnyCell], Sequence[AnyCell]]:
    """The cells of each that the other has not. Most are in both, in the same place."""
    pairs = [(was, cell) for was, cell in zip(before, now, strict=False) if was is not cell]
    gone = [*[was for was, _ in pairs], *before[len(now) :]]
    new = [*[cell for _, cell in pairs], *now[len(before) :]]
    moved = {*map(id, gone)} & {*map(id, new)}
    if not moved:
        return gone, new
    return [cell for cell in gone if id(cell) not in moved], [cell for cell in new if id(cell) not in moved]


def _change_if_new(line: BandLine, index: int, sums: BandSum) -> None:
    if not line.at or line.bytes[-1] != sums.bytes or line.counts[-1] != sums.count:
        line.change(index, sums.count, sums.bytes)


class SeriesCache:
    """Remembers the last few series, so that a frame costs what is new since the frame before.

    A front end keeps one and passes it to :func:`~heaptop.analysis.bands.bands.bands` and
    :func:`~heaptop.analysis.bands.table.table`; results are the same with and without.
    """

    def __init__(self) -> None:
        self._series: OrderedDict[tuple[str, str], Series] = OrderedDict()

    def series(self, records: Sequence[Moment], key: str, where: Filter) -> Series:
        """The series of exactly these records.

        Raises:
            UsageError: there is no such band key.
        """
        name = (key, where.text)
        series = self._series.get(name)
        if series is None or not (series.extends_to(records) or series.thin_to(records)):
            series = self._series[name] = Series(key, where)
        self._series.move_to_end(name)
        if len(self._series) > MEMO_LIMIT:
            self._series.popitem(last=False)
        series.extend(records)
        return series
