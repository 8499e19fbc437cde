"""How long blocks live, from those that were sampled at birth: what died at which age, by group.

Lifetimes, ages and weights are given. Curves are made of it by :mod:`heaptop.analysis.samples.survival`, which has the
words too.

**Bounded**: lifetimes are kept in bins, :data:`~heaptop.analysis.samples.survival.STEPS` a decade, so a group takes a
few hundred numbers however long the session.
"""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from math import log10
from typing import Final, NamedTuple

from heaptop.analysis.samples.estimate import Estimate, Sums, Weight, weight
from heaptop.analysis.samples.survival import STEPS, AgeBin, Measure, Survival, bin_of, edge, survival_of

GROUP_LIMIT: Final = 4000  # Groups kept; of one that comes later nothing is kept but its part in the whole

FRESH_LIMIT: Final = 32  # Deaths of a group, of different ages or weights, that wait to be summed up, …
FRESH_WHOLE: Final = 1024  # … and of the whole


class LiveBlock(NamedTuple):
    """A sampled block that lives."""

    age: int
    weight: Weight


@dataclass(frozen=True, slots=True)
class LifetimeClass:
    """What was allocated and died at an age from ``low`` on and before ``high``, and what is of that age now."""

    low: int
    high: int | None  # None: no end
    died: Estimate
    live_blocks: Estimate
    lost: Estimate  # Was of that age when it was followed no longer


class LiveBlockAges:
    """Sampled blocks that live, summed up by the bin of their age: what any number of :class:`LiveBlock` say."""

    __slots__ = ("cells",)

    def __init__(self) -> None:
        self.cells: _Cells = {}

    def add(self, index: int, one: Weight, times: int = 1) -> None:
        """So many blocks of this weight each, in the bin of :func:`bin_of`."""
        _add(self.cells, index, _cell(one, times))


class Lives:
    """Lifetimes seen so far, by group. A group is any hashable: ``("type", 12)``, ``("site", "shop.py:7")``; None is
    the whole, which takes part in everything by itself."""

    def __init__(self, group_limit: int = GROUP_LIMIT) -> None:
        self._limit = group_limit
        self._whole = _Exits()
        self._groups: dict[Hashable, _Exits] = {}

    @property
    def full(self) -> bool:
        """Whether new groups are kept no longer."""
        return len(self._groups) >= self._limit

    def groups(self) -> tuple[Hashable, ...]:
        """Those that a death was seen in, without the whole."""
        return tuple(self._groups)

    def keeps(self, group: Hashable) -> bool:
        """Whether the figures of this group are complete."""
        return group is None or group in self._groups or not self.full

    def add_dead(self, groups: Iterable[Hashable], index: int, one: Weight, times: int = 1) -> None:
        """So many sampled blocks of this weight died at an age that :func:`bin_of` puts into this bin: of these groups
        and no others. None is the whole, which needs each death in some group."""
        key = index, one
        for exits in self._of(groups):
            fresh = exits.fresh
            fresh[key] = fresh.get(key, 0) + times
            if len(fresh) > FRESH_LIMIT and (exits is not self._whole or len(fresh) > FRESH_WHOLE):
                exits.fold()

    def add_lost(self, groups: Iterable[Hashable], index: int, one: Weight, times: int = 1) -> None:
        """They were alive at such an age, and are followed no longer: the samples were made void."""
        cell = _cell(one, times)
        for exits in self._of((None, *groups)):
            _add(exits.lost, index, cell)

    def freeze(self) -> Lives:
        """What is known now, whatever deaths are added later. Costs a step a group."""
        new = Lives(self._limit)
        new._whole = self._whole.copy()
        new._groups = {group: exits.copy() for group, exits in self._groups.items()}
        return new

    def ended(self, group: Hashable = None) -> tuple[int, int]:
        """What died of a group, or was followed no longer, however old: samples, and the bytes they represent."""
        kept = self._whole if group is None else self._groups.get(group, _EMPTY)
        cells = [*kept.summed.values(), *kept.lost.values()]
        deaths = sum([cell[0] for cell in cells]) + sum(kept.fresh.values())
        volume = sum([one.bytes * times for (_, one), times in kept.fresh.items()]) / _UNIT
        return round(deaths), round(sum([cell[1] for cell in cells]) + volume)

    def survival(
        self,
        group: Hashable = None,
        live_blocks: Iterable[LiveBlock] | LiveBlockAges = (),
        measure: Measure = "bytes",
        *,
        mortality: bool = True,
    ) -> Survival | None:
        """The curve of one group.

        Args:
            living: every sampled block of the group that lives now. Without them the curve is that of the dead only,
                which is wrong.
            mortality: whether mₒ is wanted too, which costs many times as much as the rest.

        Returns:
            None where nothing is known: no samples, or the group came when the table was full.
        """
        if not self.keeps(group):
            return None
        exits = self._with(group, live_blocks)
        bins = _merge(exits, measure)
        if not bins:
            return None
        deaths, censored = (round(sum(cell[0] for cell in cells.values())) for cells in (exits.dead, exits.lost))
        return survival_of(bins, measure, deaths, censored, mortality=mortality)

    def classes(
        self,
        bounds: Sequence[int],
        group: Hashable = None,
        live_blocks: Iterable[LiveBlock] = (),
        missed: tuple[int, int] = (0, 0),
    ) -> tuple[LifetimeClass, ...]:
        """What was allocated by classes of lifetime, which rising ``bounds`` cut; empty where the group is not kept.

        Powers of ten are edges of bins, so these are exact; other bounds are moved by at most 4.5 %. Ages of 0 and 1
        are alike, so a bound of 1 has nothing below it. ``missed``: as :meth:`Sums.estimate` has it, of what was
        allocated and of what lives.
        """
        if not self.keeps(group):
            return ()
        kept = self._whole if group is None else self._groups.get(group, _EMPTY)
        now: _Cells = {}
        for age, one in live_blocks:
            _add(now, bin_of(age), _cell(one, 1))
        classes = []
        for low, high in zip((0, *bounds), (*bounds, None), strict=True):
            begin, end = _nearest(low), None if high is None else _nearest(high)
            parts = zip((kept.dead, now, kept.lost), (*missed, missed[0]), strict=True)
            found = [_estimate(_between_bins(cells, begin, end), largest) for cells, largest in parts]
            classes.append(LifetimeClass(low, high, *found))
        return tuple(classes)

    def _of(self, groups: Iterable[Hashable]) -> list[_Exits]:
        """These groups, None for the whole, to be added to."""
        found = []
        for group in groups:
            exits = self._whole if group is None else self._groups.get(group)
            if exits is None:
                if self.full:
                    continue
                exits = self._groups[group] = _Exits()
            if exits.shared:
                exits.part()
            found.append(exits)
        return found

    def _with(self, group: Hashable, live_blocks: Iterable[LiveBlock] | LiveBlockAges) -> _Exits:
        """What is known of a group, the living censored at their ages."""
        kept = self._whole if group is None else self._groups.get(group, _EMPTY)
        exits = _Exits()
        exits.summed = kept.dead
        exits.lost = {index: cell[:] for index, cell in kept.lost.items()}
        if isinstance(live_blocks, LiveBlockAges):
            for index, cell in live_blocks.cells.items():
                _add(exits.lost, index, cell)
            return exits
        for age, one in live_blocks:
            _add(exits.lost, bin_of(age), _cell(one, 1))
        return exits


def _nearest(bound: float) -> int:
    """The bin whose beginning is nearest to this bound."""
    return round(log10(bound) * STEPS) if bound > 1 else 0


# -- what is kept -------------------------------------------------------------------------------------------

_UNIT: Final = weight(1, 1).bytes  # One byte, and one block, as weights are written
_WIDTH: Final = 8
"""Of a cell: samples, bytes, squared bytes, blocks, squared blocks; then seen, variance and third of ``Sums``."""
_PLACE: Final[dict[Measure, int]] = {"bytes": 1, "blocks": 3}

_Cell = Sequence[float]
_Cells = dict[int, "array[float]"]


class _Exits:
    """A group's samples that died, and those that were followed no longer, by bin."""

    __slots__ = ("fresh", "lost", "shared", "summed")

    def __init__(self) -> None:
        self.summed: _Cells = {}
        self.fresh: dict[tuple[int, Weight], int] = {}
        """Deaths by bin and weight that are not summed up yet: hundreds come a second, and few groups are examined."""
        self.lost: _Cells = {}
        self.shared = False  # Whether a copy has the same cells: who adds to them parts with it first

    @property
    def dead(self) -> _Cells:
        """All deaths, summed up."""
        if self.fresh:
            if self.shared:
                self.part()
            self.fold()
        return self.summed

    def fold(self) -> None:
        """Sum up what is fresh. Nobody has the same cells."""
        for (index, one), times in self.fresh.items():
            _add(self.summed, index, _cell(one, times))
        self.fresh.clear()

    def copy(self) -> _Exits:
        new = _Exits()
        new.summed, new.fresh, new.lost = self.summed, self.fresh, self.lost
        self.shared = new.shared = True
        return new

    def part(self) -> None:
        self.summed = {index: cell[:] for index, cell in self.summed.items()}
        self.fresh = self.fresh.copy()
        self.lost = {index: cell[:] for index, cell in self.lost.items()}
        self.shared = False


_EMPTY: Final = _Exits()


def _cell(one: Weight, times: int) -> _Cell:
    volume, blocks = one.bytes / _UNIT, one.count / _UNIT
    cell = 1, volume, volume * volume, blocks, blocks * blocks, one.seen, one.variance, one.third
    return cell if times == 1 else [part * times for part in cell]


def _add(cells: _Cells, index: int, cell: _Cell) -> None:
    known = cells.get(index)
    if known is None:
        cells[index] = array("d", cell)
        return
    for place, part in enumerate(cell):
        known[place] += part


def _between_bins(cells: _Cells, begin: int, end: int | None) -> list[_Cell]:
    return [cell for index, cell in cells.items() if begin <= index and (end is None or index < end)]


def _estimate(cells: Iterable[_Cell], missed: int) -> Estimate:
    cell = [sum(column) for column in zip((0.0,) * _WIDTH, *cells, strict=True)]
    sums = Sums()
    sums.samples, sums.seen = round(cell[0]), round(cell[5])
    sums.bytes, sums.count = round(cell[1] * _UNIT), round(cell[3] * _UNIT)
    sums.variance, sums.third = round(cell[6]), round(cell[7])
    return sums.estimate(missed)


def _merge(exits: _Exits, measure: Measure) -> list[AgeBin]:
    """All bins from the first that has something to the last."""
    indices = exits.dead.keys() | exits.lost.keys()
    if not indices:
        return []
    place = _PLACE[measure]
    none = (0.0,) * _WIDTH
    out = []
    for index in range(min(indices), max(indices) + 1):
        dead: _Cell = exits.dead.get(index) or none
        lost: _Cell = exits.lost.get(index) or none
        weights = dead[place], dead[place + 1], lost[place], lost[place + 1]
        out.append(AgeBin(edge(index), edge(index + 1), *weights))
    return out
