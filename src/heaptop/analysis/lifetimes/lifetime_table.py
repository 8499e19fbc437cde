"""Lifetimes of every group at one moment: what a table of them shows, and the curves beside it.

Deaths come from :class:`~heaptop.analysis.samples.block_lifetimes.Lives`, which is copied, and the living from
:class:`~heaptop.analysis.samples.sampled_blocks.SampledBlocks`, so that all figures of a
:class:`LifetimeTable` are of its moment, however long it is examined.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from typing import Final

from heaptop.analysis.samples.block_lifetimes import LiveBlockAges
from heaptop.analysis.samples.estimate import weight
from heaptop.analysis.samples.sampling import GROUPS, Sampling
from heaptop.analysis.samples.sizes import CLASS_RANGES, class_of
from heaptop.analysis.samples.sizes import bin_of as size_bin_of
from heaptop.analysis.samples.survival import Survival, SurvivalPoint, bin_of

MARKS: Final = (10**6, 10**7, 10**8)  # Ages at which the table has survival, in allocated bytes

FEW: Final = 10  # With fewer samples than this, dead and living, only the numbers of a group are shown

_UNIT: Final = weight(1, 1).bytes  # One byte, as weights are written
_UNTOLD: Final = -1  # In place of an age, of what told_from leaves out


SHAPE: Final = tuple(10.0 ** (3 + number * 6 / 15) for number in range(16))
"""Ages from a kilobyte to a gigabyte, evenly on a logarithmic axis: where the shape of a curve is examined."""


@dataclass(frozen=True, slots=True)
class LifetimeGroup:
    """What is known of one group without any estimate of lifetimes."""

    key: Hashable  # As Sampling.groups() gives it; None for the whole
    name: str
    deaths: int  # Samples that died, or were followed no longer
    alive: int  # Samples that live
    died_bytes: int  # What the dead represent
    alive_bytes: int  # What the living represent

    @property
    def few(self) -> bool:
        """Whether there are too few samples to say anything."""
        return self.deaths + self.alive < FEW


@dataclass(frozen=True, slots=True)
class LifetimeFigures:
    """The curve of one group, in numbers."""

    median: float | None
    """The age that half of what was allocated reaches; None where more than half has lived through all ages seen."""
    oldest: float  # The greatest age seen
    marks: tuple[SurvivalPoint | None, ...]
    """The curve at each of :data:`MARKS`; None beyond the greatest age seen, but where all have died by then."""
    shape: tuple[float, ...]  # Its height at the ages of SHAPE that were seen


_Place = tuple[int, int, int]  # Bin of the age, size, interval

SLICE: Final = 1000  # Samples that are gone through between two pauses of LifetimeTable.work()


class _LiveGroup:
    """The living of one group, those alike counted."""

    __slots__ = ("bytes", "places", "samples")

    def __init__(self) -> None:
        self.places: dict[_Place, int] = {}
        self.samples = 0
        self.bytes = 0  # As weights are written


class LifetimeTable:
    """All of it at the moment it is made.

    Making it copies; what costs a step for each living sample is done by :meth:`work`, and the curve of a group when it
    is first asked for.
    """

    def __init__(self, sampling: Sampling) -> None:
        self._clock = sampling.samples.clock
        self._told_from = sampling.told_from - sampling.samples.origin
        self._lives = sampling.lives.freeze()
        self._columns = sampling.samples.live_block_columns()
        self._name: dict[str, Callable[[int, int, int], str]] = {
            "type": lambda stack, kind, size: sampling.samples.type_name(kind).full,
            "site": lambda stack, kind, size: sampling.sites.name(stack, "site"),
            "size": lambda stack, kind, size: CLASS_RANGES[class_of(size_bin_of(size))],
        }
        self._places: Counter[tuple[int, int, int, int, int]] | None = None
        self._live_blocks: dict[str, dict[Hashable, _LiveGroup]] = {}
        self._groups: dict[str, tuple[LifetimeGroup, ...]] = {}
        self._figures: dict[Hashable, LifetimeFigures | None] = {}
        self._survivals: dict[tuple[Hashable, bool], Survival | None] = {}
        self.clock = sampling.timeline.latest  # Bytes allocated while it was sampled
        self.full = self._lives.full  # Whether groups that came late are left out
        per_second = sampling.timeline.bytes_in(10**9)
        self.bytes_per_second = per_second if per_second else None
        """Allocated, on average; None where that is unknown, or nothing is."""

    @property
    def steps(self) -> int:
        """About how much :meth:`work` is: rows of living samples, and groups of the dead."""
        return self._columns.rows + self.group_count

    @property
    def group_count(self) -> int:
        """Groups of all attributes together that a death was seen in."""
        return len(self._lives.groups())

    def work(self, attribute: str) -> Iterator[None]:
        """Make :meth:`groups` of one attribute, and the whole, ready in steps of a few milliseconds at most."""
        if self._places is None:
            places: Counter[tuple[int, int, int, int, int]] = Counter()
            for begin in range(0, self._columns.rows, SLICE):
                places.update(self._columns.places(self._age_bin, begin, begin + SLICE))
                yield
            self._places = Counter({place: number for place, number in places.items() if place[4] != _UNTOLD})
        for name in ("", attribute):
            if name not in self._live_blocks:
                yield from self._sort_live_blocks(name, self._places)
        self.groups(attribute)
        yield

    def groups(self, attribute: str) -> tuple[LifetimeGroup, ...]:
        """Every group of one of :data:`~heaptop.analysis.samples.sampling.GROUPS`, those with most samples first."""
        if attribute not in self._groups:
            keys = {key for key in self._lives.groups() if _attribute(key) == attribute} | self._alive(attribute).keys()
            found = [self.group(key) for key in keys if self._lives.keeps(key)]
            found.sort(key=lambda group: (-group.deaths - group.alive, group.name))
            self._groups[attribute] = tuple(found)
        return self._groups[attribute]

    def group(self, key: Hashable = None) -> LifetimeGroup:
        """One group, or the whole."""
        live_blocks = self._alive(_attribute(key)).get(key) or _LiveGroup()
        deaths, died_bytes = self._lives.ended(key)
        name = str(key[1]) if isinstance(key, tuple) else "total"
        return LifetimeGroup(key, name, deaths, live_blocks.samples, died_bytes, live_blocks.bytes // _UNIT)

    def figures(self, key: Hashable = None) -> LifetimeFigures | None:
        """The group's curve in numbers; None where nothing is known, or from too few samples."""
        if key not in self._figures:
            self._figures[key] = self._measure(key)
        return self._figures[key]

    def survival(self, key: Hashable = None, *, mortality: bool = False) -> Survival | None:
        """The curve of one group; None where nothing is known of it, or too little."""
        if (key, mortality) not in self._survivals:
            curve = self._lives.survival(key, self._ages(key), mortality=mortality)
            few = curve is None or curve.deaths + curve.censored < FEW
            self._survivals[key, mortality] = None if few else curve
        return self._survivals[key, mortality]

    def time_ns(self, age: float) -> int | None:
        """How long so many bytes take to allocate, at the average rate so far; None where that is unknown."""
        return round(age * 1e9 / self.bytes_per_second) if self.bytes_per_second else None

    def _measure(self, key: Hashable) -> LifetimeFigures | None:
        curve = self.survival(key)
        if curve is None:
            return None
        shape = (curve.at(age) for age in SHAPE)
        return LifetimeFigures(
            curve.age_at(0.5),
            curve.points[-1].age,
            tuple(_at(curve, mark) for mark in MARKS),
            tuple(point.object_survival for point in shape if point is not None),
        )

    def _age_bin(self, birth: int) -> int:
        return bin_of(self._clock - birth) if birth >= self._told_from else _UNTOLD

    def _ages(self, key: Hashable) -> LiveBlockAges:
        ages = LiveBlockAges()
        live_blocks = self._alive(_attribute(key)).get(key)
        for (index, size, interval), number in live_blocks.places.items() if live_blocks is not None else ():
            ages.add(index, weight(size, interval), number)
        return ages

    def _alive(self, attribute: str) -> dict[Hashable, _LiveGroup]:
        """The living of each group of one attribute, or with an empty one of the whole."""
        if attribute not in self._live_blocks:
            for _ in self.work(attribute or GROUPS[0]):
                pass
        return self._live_blocks[attribute]

    def _sort_live_blocks(self, attribute: str, places: Counter[tuple[int, int, int, int, int]]) -> Iterator[None]:
        known: dict[Hashable, _LiveGroup] = {}
        name = self._name.get(attribute)
        for done, ((stack, kind, size, interval, index), number) in enumerate(places.items(), 1):
            key = None if name is None else (attribute, name(stack, kind, size))
            group = known.get(key)
            if group is None:
                group = known[key] = _LiveGroup()
            place = index, size, interval
            group.places[place] = group.places.get(place, 0) + number
            group.samples += number
            group.bytes += number * weight(size, interval).bytes
            if not done % SLICE:
                yield
        self._live_blocks[attribute] = known


def _at(curve: Survival, age: float) -> SurvivalPoint | None:
    last = curve.points[-1]
    return last if age > last.age and not last.object_survival else curve.at(age)


def _attribute(key: Hashable) -> str:
    return str(key[0]) if isinstance(key, tuple) else ""
