"""The living by how long they will have lived: bands by eventual lifetime, and the joint distributions behind them.

Births, deaths and censuses are given, and what was alive when is made of them.

Lifetimes are only known in retrospect. Runciman and Röjemo ("New dimensions in heap profiling", JFP 6(4), 1996, §2.1)
count each *generation* (what was born between two censuses) at each census, and transform that matrix, in place and in
linear time, into one of lifetimes at each census. Here are both of them:

:class:`Cohorts`
    the matrix itself, its time cut into equal steps of allocated bytes: living volume by time and age (Stefanović and
    Moss, Fig. 1). For a raster.
:class:`LifetimeBands`
    a few classes of lifetime (< 1 MB, 1–10 MB, …) at any censuses, of any group, with each death's own lifetime
    instead of a number of censuses. For charts, and for restricting another view to a class.

As deaths are seen one by one, bands need neither of the first two phases of the transformation, which only find out
how many of a generation died after each census. Its third phase is a running total along each row of lifetimes, which
a block enters at the first census that sees it and leaves at the first that does not. Those increments are what is
kept here; a death costs two additions, a new census nothing.

Volumes are estimates in bytes, by Horvitz–Thompson weights; what follows only adds them up.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, Literal, NamedTuple

from heaptop.analysis.samples.clock import size_label
from heaptop.analysis.samples.estimate import Weight, whole

# -- time by age --------------------------------------------------------------------------------------------


class Cohort(NamedTuple):
    """A sampled block that lives, or some of the same birth."""

    birth: int  # On the clock of allocated bytes
    volume: int  # Bytes that it represents


class Cohorts:
    """Living volume by generation at each census, where both are cut at equal steps of the allocated bytes.

    Generation ``y`` is born from ``y · step`` on and before ``(y + 1) · step``, where census ``y`` is taken. Blocks
    that no census saw are in none of the figures.

    At most ``limit`` censuses: beyond that the step is doubled, pairs of generations become one, and every second
    census is forgotten. What is kept stays exact; what is lost is resolution, and the blocks that lived between two
    censuses that are kept. So the step is between 1 and 2 / limit of all that was allocated.
    """

    def __init__(self, step: int = 1 << 16, limit: int = 256) -> None:
        if step < 1 or limit < 2 or limit % 2:
            raise ValueError("a step is 1 byte at least, and the limit an even number")
        self.step = step
        self._limit = limit
        self._died: list[list[int]] = []
        """[y][t]: of generation y, what was alive t censuses after its first, and dead at the next: phases I and II."""

    def freeze(self) -> Cohorts:
        """What is known now, whatever is added later."""
        frozen = Cohorts(self.step, self._limit)
        frozen._died = [died.copy() for died in self._died]
        return frozen

    def add_death(self, birth: int, death: int, volume: int) -> None:
        """A block was born and died at these clocks."""
        self.reach(max(birth, death))
        generation, last = birth // self.step, death // self.step - 1
        if last >= generation:
            self._add(generation, last - generation, volume)

    def reach(self, clock: int) -> None:
        """Make the step so long that this clock is among the censuses."""
        while clock >= self.step * self._limit:
            self._double()

    def by_age(self, clock: int, live_blocks: Iterable[Cohort] = ()) -> list[list[int]]:
        """``[census][age]``: what was alive at each whole step up to ``clock``, by the steps since its generation's
        census: of age 0 are those born within the step before. ``live_blocks`` live at ``clock``."""
        return [[row[x - t] for t in range(x + 1)] for x, row in enumerate(self.matrix(clock, live_blocks))]

    def matrix(self, clock: int, live_blocks: Iterable[Cohort] = ()) -> list[list[int]]:
        """``[census][generation]``, a square: the living volume at each whole step up to ``clock``."""
        self.reach(clock)
        size = clock // self.step
        out = [[0] * size for _ in range(size)]
        for generation, died in enumerate(self._died[:size]):
            left = 0
            for age in range(min(len(died), size - generation) - 1, -1, -1):
                left += died[age]
                out[generation + age][generation] = left
            late = sum(died[size - generation :])  # deaths dated later than the clock, as threads' may be
            for x in range(generation, size if late else generation):
                out[x][generation] += late
        for birth, volume in live_blocks:
            generation = birth // self.step
            for x in range(generation, size):
                out[x][generation] += volume
        return out

    def _add(self, generation: int, age: int, volume: int) -> None:
        while len(self._died) <= generation:
            self._died.append([])
        died = self._died[generation]
        died.extend([0] * (age + 1 - len(died)))
        died[age] += volume

    def _double(self) -> None:
        before, self._died = self._died, []
        self.step *= 2
        for generation, died in enumerate(before):
            for age, volume in enumerate(died):
                last = (generation + age + 1) // 2 - 1
                if volume and last >= generation // 2:
                    self._add(generation // 2, last - generation // 2, volume)


# -- classes of lifetime ------------------------------------------------------------------------------------

DECADES: Final = (10**6, 10**7, 10**8, 10**9, 10**10)  # Where classes of lifetime end, in allocated bytes

COLUMN_LIMIT: Final = 2000
STEP_LIMIT: Final = 400_000  # Increments kept over all groups, some 200 bytes each
GROUP_LIMIT: Final = 4000

Fate = Literal["died", "lost", "living"]


@dataclass(frozen=True, slots=True)
class LifetimeBand:
    """What belongs to one class, at each census."""

    label: str
    fate: Fate  # `died`: of a known lifetime; `living`: lives now; `lost`: was followed no longer
    low: int  # Of the lifetimes of the class, or of the ages that the living have now, in allocated bytes
    high: int | None  # None: no end
    bytes: tuple[int, ...]
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LifetimeChart:
    """Bands by lifetime: at every census they add up to all that is known to be alive."""

    times_ns: tuple[int, ...]
    clocks: tuple[int, ...]
    bands: tuple[LifetimeBand, ...]
    """All that there may be, also empty ones: those that died by rising lifetime, lost, living by rising age."""


class LiveSample(NamedTuple):
    """A sampled block that lives at the last census."""

    birth: int
    weight: Weight
    times: int = 1  # How many there are that are to the chart like this one


@dataclass(frozen=True, slots=True)
class RunningTotal:
    """A running total over the censuses, as its increments: what any number of blocks come to."""

    steps: dict[int, tuple[int, int]]  # By census: bytes and blocks, in the unit of weights

    def area(self, size: int) -> int:
        """Bytes summed over the first ``size`` censuses, which are all of them, in the unit of weights."""
        return sum([step[0] * (size - census) for census, step in self.steps.items()])

    def totals(self, size: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Phase III: bytes and blocks at each of ``size`` censuses."""
        if not self.steps:
            return (0,) * size, (0,) * size
        each = [self.steps.get(census, (0, 0)) for census in range(size)]
        bytes_ = accumulate(step[0] for step in each)
        counts = accumulate(step[1] for step in each)
        return tuple(map(whole, bytes_)), tuple(map(whole, counts))

    @classmethod
    def sum_of(cls, lines: Iterable[Mapping[int, tuple[int, int]]]) -> RunningTotal:
        """The increments of several together."""
        steps: dict[int, tuple[int, int]] = {}
        for line in lines:
            for census, (volume, blocks) in line.items():
                known = steps.get(census, (0, 0))
                steps[census] = known[0] + volume, known[1] + blocks
        return cls(steps)


Span = tuple[int, int, int]
"""The first census that saw a block, the first that did not any more, and its row in the chart."""


class LifetimeBands:
    """Classes of eventual lifetime at each census, by group; None is the whole, and takes part in everything.

    A census at clock ``c`` sees what was born at ``c`` or before, and dies after it. At most ``columns`` censuses, and
    ``steps`` increments: beyond either, every second census of the older half is forgotten, and the generations on
    both sides of it become one. The figures at the others stay as they were.
    """

    def __init__(
        self,
        bounds: Sequence[int] = DECADES,
        columns: int = COLUMN_LIMIT,
        groups: int = GROUP_LIMIT,
        steps: int = STEP_LIMIT,
    ) -> None:
        if columns < 4 or not bounds or bounds[0] < 1 or list(bounds) != sorted(set(bounds)):
            raise ValueError("lifetime bands need rising bounds above 0, and room for four censuses")
        self._bounds = tuple(bounds)
        self._columns = columns
        self._group_limit = groups
        self._step_limit = steps
        self._clocks: list[int] = []
        self._times_ns: list[int] = []
        self._groups: dict[Hashable, _Rows] = {None: self._rows()}
        self._steps = 0
        self.thinned = 0  # Censuses forgotten

    def keeps(self, group: Hashable) -> bool:
        """Whether the figures of this group are complete: not of those that came when the table was full."""
        return group in self._groups or not self._full

    def groups(self) -> tuple[Hashable, ...]:
        """Those of which a block was seen at a census and has died, without the whole."""
        return tuple(group for group in self._groups if group is not None)

    def died(self, birth: int, death: int) -> Span | None:
        """What a block that was born and died at these clocks is to the chart; None where no census saw it. Valid until
        the next census."""
        return self._span(birth, death, bisect_right(self._bounds, death - birth))

    def lost(self, birth: int, last: int) -> Span | None:
        """Likewise of one that was alive at the clock ``last``, and is followed no longer."""
        return self._span(birth, last + 1, len(self._bounds) + 1)

    def add(self, groups: Iterable[Hashable], span: Span, one: Weight, times: int = 1) -> None:
        """So many sampled blocks of this weight. A group is any hashable, ``("type", 12)`` say."""
        self.add_to((None, *groups), span, one, times)

    def add_to(self, groups: Iterable[Hashable], span: Span, one: Weight, times: int = 1) -> None:
        """The same of these groups and no others: None is the whole, which needs each block in some group."""
        first, gone, row = span
        volume, blocks = one.bytes * times, one.count * times
        for group in groups:
            rows = self._groups.get(group)
            if rows is None:
                if self._full:
                    continue
                rows = self._groups[group] = self._rows()
            self._steps += rows.add(row, first, gone, volume, blocks)

    def freeze(self) -> LifetimeBands:
        """What is known now, whatever is added later. Costs a step a group."""
        new = LifetimeBands(self._bounds, self._columns, self._group_limit, self._step_limit)
        new._clocks, new._times_ns = self._clocks[:], self._times_ns[:]
        new._groups = {group: rows.copy() for group, rows in self._groups.items()}
        new._steps, new.thinned = self._steps, self.thinned
        return new

    @property
    def moments(self) -> int:
        """Censuses kept."""
        return len(self._clocks)

    def census(self, clock: int, time_ns: int) -> None:
        """A moment of the chart: what died up to ``clock`` has been added. A death that arrives later than a census
        that it came before, as threads' clocks can make it, is put right all the same.

        Raises:
            ValueError: the clock runs back. (:class:`~heaptop.analysis.samples.clock.Timeline` makes one that never
            does.)
        """
        if self._clocks and clock < self._clocks[-1]:
            raise ValueError("the clock of allocated bytes runs back")
        self._clocks.append(clock)
        self._times_ns.append(time_ns)
        while len(self._clocks) > self._columns or (self._steps > self._step_limit and len(self._clocks) > 4):
            self._thin()

    @property
    def times_ns(self) -> tuple[int, ...]:
        """Of the censuses kept."""
        return tuple(self._times_ns)

    def chart(self, group: Hashable = None, live_blocks: Iterable[LiveSample] = ()) -> LifetimeChart | None:
        """The bands of one group; None where it is not kept.

        Args:
            living: every sampled block of the group that lives at the last census.
        """
        if not self.keeps(group):
            return None
        bands = self._ended(self._groups.get(group) or self._rows())
        bands += self._live_blocks(live_blocks)
        return LifetimeChart(self.times_ns, tuple(self._clocks), tuple(bands))

    def longer(self, bound: int, group: Hashable = None, live_blocks: Iterable[LiveSample] = ()) -> RunningTotal | None:
        """What of a group is known to live longer than ``bound``, one of the classes': what died so old, and what lives
        and is so old already. None where it is not kept. Costs a step an increment.

        Raises:
            ValueError: no class begins there.
        """
        if bound not in self._bounds:
            raise ValueError(f"no class of lifetimes begins at {bound}")
        if not self.keeps(group):
            return None
        first, end = self._bounds.index(bound) + 1, len(self._bounds) + 1
        ended = self._groups.get(group) or self._rows()
        return RunningTotal.sum_of((*ended.lines(first, end), *self._live_rows(live_blocks).lines(first, end)))

    @property
    def cuts(self) -> list[int]:
        """Clocks that divide births into those that are alike to the chart: what was born after one of them and up to
        the next belongs together, and what was born after the last is in no chart yet."""
        if not self._clocks:
            return []
        last = self._clocks[-1]
        return sorted({*self._clocks, *(last - bound for bound in self._bounds)})

    # -- keeping ----------------------------------------------------------------------------------------------

    @property
    def _full(self) -> bool:
        return len(self._groups) > self._group_limit

    def _rows(self) -> _Rows:
        """A row for each class, and one for the lost."""
        return _Rows(len(self._bounds) + 2)

    def _span(self, birth: int, end: int, row: int) -> Span | None:
        first, gone = bisect_left(self._clocks, birth), bisect_left(self._clocks, end)
        return (first, gone, row) if first < gone else None

    def _thin(self) -> None:
        """As :func:`heaptop.analysis.heap.history.halve_older`: every second census of the older half, never first or
        last."""
        size = len(self._clocks)
        forgotten = slice(1, max(size // 2, 2), 2)
        numbers = range(size)[forgotten]
        place = [number - bisect_left(numbers, number) for number in range(size + 1)]
        """Where a step goes: to its own census, or to the next that is kept. The last is of deaths after them all."""
        self._steps = sum(rows.move(place) for rows in self._groups.values())
        del self._clocks[forgotten], self._times_ns[forgotten]
        self.thinned += len(numbers)

    # -- showing ----------------------------------------------------------------------------------------------

    def _ended(self, rows: _Rows) -> list[LifetimeBand]:
        classes = class_bounds(self._bounds)
        bands = [
            LifetimeBand(class_label(low, high), "died", low, high, *self._totals(rows, row))
            for row, (low, high) in enumerate(classes)
        ]
        lost = self._totals(rows, len(classes))
        return [*bands, LifetimeBand("no longer tracked", "lost", 0, None, *lost)]

    def _live_blocks(self, live_blocks: Iterable[LiveSample]) -> list[LifetimeBand]:
        """By the age they have at the last census: their lifetimes will be longer."""
        rows = self._live_rows(live_blocks)
        return [
            LifetimeBand(f"alive, {class_label(low, high)}", "living", low, high, *self._totals(rows, row))
            for row, (low, high) in enumerate(class_bounds(self._bounds))
        ]

    def _live_rows(self, live_blocks: Iterable[LiveSample]) -> _Rows:
        rows, size = self._rows(), len(self._clocks)
        for birth, one, times in live_blocks:
            first = bisect_left(self._clocks, birth)
            if first < size:
                row = bisect_right(self._bounds, self._clocks[-1] - birth)
                rows.add(row, first, size, one.bytes * times, one.count * times)
        return rows

    def _totals(self, rows: _Rows, row: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        (steps,) = rows.lines(row, row + 1)
        return RunningTotal(steps).totals(len(self._clocks))


class _Rows:
    """The increments of one group's running totals: [row][census] to bytes and blocks, in the unit of weights: whole
    numbers, so that they come back to 0."""

    __slots__ = ("_rows", "_shared")

    def __init__(self, rows: int) -> None:
        self._rows: list[dict[int, tuple[int, int]]] = [{} for _ in range(rows)]
        self._shared = False  # a copy has the same dicts: who changes them parts with it first

    def copy(self) -> _Rows:
        new = _Rows(0)
        new._rows = self._rows
        self._shared = new._shared = True
        return new

    def _part(self) -> None:
        if self._shared:
            self._rows = [row.copy() for row in self._rows]
            self._shared = False

    def add(self, row: int, first: int, gone: int, volume: int, blocks: int) -> int:
        """Alive at the censuses from ``first`` to the one before ``gone``. Says how many steps are new."""
        if self._shared:
            self._part()
        steps = self._rows[row]
        before = len(steps)
        step = steps.get(first)
        steps[first] = (step[0] + volume, step[1] + blocks) if step is not None else (volume, blocks)
        step = steps.get(gone)
        steps[gone] = (step[0] - volume, step[1] - blocks) if step is not None else (-volume, -blocks)
        return len(steps) - before

    def move(self, place: Sequence[int]) -> int:
        """Every census gets the number from ``place``; what falls together is added up, what is nothing goes.

        Returns:
            Steps that are left.
        """
        self._part()
        for number, row in enumerate(self._rows):
            moved: dict[int, tuple[int, int]] = {}
            for census, step in row.items():
                known = moved.get(place[census], (0, 0))
                moved[place[census]] = known[0] + step[0], known[1] + step[1]
            self._rows[number] = {census: step for census, step in moved.items() if step != (0, 0)}
        return sum(map(len, self._rows))

    def lines(self, first: int, end: int) -> list[dict[int, tuple[int, int]]]:
        """The increments of these rows."""
        return self._rows[first:end]


def class_bounds(bounds: Sequence[int]) -> list[tuple[int, int | None]]:
    """The classes that these bounds cut: each from its first on, and before its second (None: no end)."""
    return [*zip((0, *bounds), bounds, strict=False), (bounds[-1], None)]


def class_label(low: int, high: int | None) -> str:
    """``< 1 MB``, ``1–10 MB``, ``100 MB–1 GB``, ``≥ 10 GB``."""
    if high is None:
        return f"≥ {size_label(low)}"
    if not low:
        return f"< {size_label(high)}"
    number, unit = size_label(low).split(" ")
    above = size_label(high)
    return f"{number}–{above}" if above.endswith(f" {unit}") else f"{number} {unit}–{above}"
