"""Bands by how long blocks will have lived, and any other bands restricted to blocks that live long.

:class:`~heaptop.analysis.samples.generations.LifetimeBands` keeps what is needed, and this makes charts and tables of
it, as :mod:`heaptop.analysis.bands.bands` and :mod:`heaptop.analysis.bands.table` do of what is known at once. A
lifetime is only known in retrospect, so the past of these charts changes as blocks die.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from math import log
from typing import Final

from heaptop.analysis.bands.bands import Band, BandChart
from heaptop.analysis.bands.table import SORTS, SPARK, TableRow
from heaptop.analysis.filters.filters import EVERYTHING, Filter
from heaptop.analysis.heap.history import Amount
from heaptop.analysis.lifetimes.live_groups import find_alive
from heaptop.analysis.samples.clock import LifetimeBound, size_label
from heaptop.analysis.samples.generations import DECADES, LiveSample, RunningTotal
from heaptop.analysis.samples.moments import named_cell
from heaptop.analysis.samples.sampling import Sampling
from heaptop.errors import UsageError
from heaptop.protocol.messages import TypeName

KEY: Final = "lifetime"  # The band key that is not one of `BAND_KEYS`: a cell does not know it
GROUPED: Final = {"producer": "site", "type": "type", "size": "size"}
"""Band keys whose lifetimes are kept, and the attribute of :data:`heaptop.analysis.samples.sampling.GROUPS` for
each."""


_SLICE: Final = 500  # Groups that are gone through in one step


@dataclass(frozen=True, slots=True)
class LongerThan:
    """The restriction to blocks that live longer than a bound."""

    bytes: int  # Bytes allocated meanwhile: one of the bounds that classes of lifetime are kept by
    text: str  # `lifetime > 100 MB`, and how that follows from what was asked


def is_eventual(key: str, where: Filter) -> bool:
    """Whether the bands of ``key`` under this filter are made here.

    Raises:
        UsageError: they are, and cannot be: a block's lifetime is kept with its type, its site and its size, each
            alone.
    """
    if key != KEY and where.lifetime is None:
        return False
    others = [name for name in where.attributes if name != KEY]
    if key == KEY and where:
        wrong = others[0] if others else "a bound on it"
    elif key not in GROUPED and key != KEY:
        wrong = key
    else:
        wrong = next((other for other in others if other != GROUPED[key]), "") if key != KEY else ""
    if wrong:
        raise UsageError(
            f"lifetime and {wrong} do not go together.",
            why="A block's lifetime is kept by type, by site and by size, each separately.",
            fix="Group by producer, type or size with lifetime>10MB alone, or by lifetime without a filter.",
        )
    return True


def longer_than(asked: LifetimeBound, sampling: Sampling) -> LongerThan:
    """What is known of a bound: classes end at powers of ten, and a time goes by the rate of allocation so far.

    Raises:
        UsageError: no class ends there; or it is a time, and nothing was allocated yet.
    """
    if asked.bytes is not None:
        if asked.bytes not in DECADES:
            known = ", ".join(size_label(bound).replace(" ", "") for bound in DECADES)
            raise UsageError(
                f"Lifetimes are kept in classes that end at {known}.",
                fix=f"Write lifetime>{known.split(',')[1].strip()}.",
            )
        return LongerThan(asked.bytes, f"lifetime > {size_label(asked.bytes)} allocated")
    meanwhile = sampling.timeline.bytes_in(asked.time_ns or 0)
    if meanwhile is None:
        raise UsageError(
            "The allocation rate is not known yet.",
            fix="Wait for samples, or write bytes: lifetime>10MB.",
        )
    nearest = min(DECADES, key=lambda bound: abs(log(bound / max(meanwhile, 1.0))))
    return LongerThan(nearest, f"lifetime > {size_label(nearest)} allocated (≈ {asked.text})")


class Eventual:
    """Such a chart, of the moment this is made at. Making it copies; the rest is done by :meth:`work`, or by whoever
    asks first."""

    def __init__(self, sampling: Sampling, key: str, where: Filter, longer: LongerThan | None, limit: int) -> None:
        """As :func:`restricted`; with :data:`KEY` and without a bound as :func:`by_lifetime`."""
        self._kept = sampling.lifetime_bands.freeze()
        self._attribute = GROUPED[key] if longer is not None else ""
        self._alive: dict[Hashable, list[LiveSample]] = {}
        self._finding = find_alive(sampling, self._attribute, self._alive)
        self._where, self._longer, self._limit = where, longer, limit
        self._chart: BandChart | None = None

    def work(self) -> Iterator[None]:
        """Make :attr:`chart` ready, in steps of a few milliseconds."""
        if self._chart is not None:
            return
        yield from self._finding
        if self._longer is None:
            self._chart = self._classes()
        else:
            lines: list[tuple[int, str, RunningTotal]] = []
            yield from self._find_lines(self._longer.bytes, lines)
            self._chart = self._largest(lines)

    @property
    def chart(self) -> BandChart:
        for _ in self.work():
            pass
        assert self._chart is not None
        return self._chart

    def _classes(self) -> BandChart:
        chart = self._kept.chart(None, self._alive.get(None, ()))
        assert chart is not None, "the total is always kept"
        bands = [
            Band(f"lived {band.label}" if band.fate == "died" else band.label, band.bytes, band.counts)
            for band in chart.bands
            if any(band.bytes)
        ]
        return _chart(chart.times_ns, bands)

    def _find_lines(self, bound: int, lines: list[tuple[int, str, RunningTotal]]) -> Iterator[None]:
        """The groups that pass and have anything: (less their area, name, line)."""
        groups, size = {*self._kept.groups(), *self._alive}, self._kept.moments
        for done, group in enumerate(groups, 1):
            if not done % _SLICE:
                yield
            if not (isinstance(group, tuple) and group[0] == self._attribute and self._passes(name := str(group[1]))):
                continue
            line = self._kept.longer(bound, group, self._alive.get(group, ()))
            if line is not None and (area := line.area(size)) > 0:
                lines.append((-area, name, line))

    def _passes(self, name: str) -> bool:
        type, site = (name if self._attribute == key else "" for key in ("type", "site"))
        return self._where.of_cell(named_cell(TypeName("", type), site)) is True

    def _largest(self, lines: list[tuple[int, str, RunningTotal]]) -> BandChart:
        size, limit = self._kept.moments, max(self._limit, 0)
        lines.sort(key=lambda one: one[:2])
        named, others = lines[:limit], lines[limit:]
        bands = [Band(name, *line.totals(size)) for _, name, line in named]
        if others:
            rest = RunningTotal.sum_of(line.steps for _, _, line in others)
            bands.append(Band(f"(other: {len(others)} more)", *rest.totals(size), is_rest=True))
        return _chart(self._kept.times_ns, bands)


def by_lifetime(sampling: Sampling) -> BandChart:
    """All that was sampled, by classes of eventual lifetime from the short to the long; empty classes are left out.

    What lives has a class of its own by its age: how long it will have lived is not known.
    """
    return Eventual(sampling, KEY, EVERYTHING, None, 0).chart


def restricted(sampling: Sampling, key: str, where: Filter, longer: LongerThan, limit: int) -> BandChart:
    """The bands of ``key`` (of :data:`GROUPED`), of blocks that are known to live longer than the bound.

    ``where`` is one that :func:`is_eventual` says true of.

    The ``limit`` largest have a band each, the others share the last. Groups that came when the table of lifetimes was
    full are in none.
    """
    return Eventual(sampling, key, where, longer, limit).chart


def rows_of(chart: BandChart, sort: str, descending: bool) -> tuple[TableRow, ...]:
    """The chart's bands at its last moment as rows of a table, sorted by a name of ``SORTS``, ties by name.

    Raises:
        KeyError: there is no such sort.
    """
    total = chart.totals[-1].bytes if chart.totals else 0
    rows = [_row(band, total) for band in chart.bands if band.bytes]
    rows.sort(key=SORTS["name"])  # type: ignore[arg-type]  # every sort key orders itself
    rows.sort(key=SORTS[sort], reverse=descending)  # type: ignore[arg-type]
    return tuple(rows)


def _row(band: Band, total: int) -> TableRow:
    before = (band.counts[-2], band.bytes[-2]) if len(band.bytes) > 1 else (band.counts[-1], band.bytes[-1])
    return TableRow(
        name=band.name,
        count=band.counts[-1],
        bytes=band.bytes[-1],
        share=band.bytes[-1] / total if total else 0.0,
        count_change=band.counts[-1] - before[0],
        bytes_change=band.bytes[-1] - before[1],
        spark=band.bytes[-SPARK:],
    )


def _chart(times: tuple[int, ...], bands: Sequence[Band]) -> BandChart:
    counts, sizes = (
        [*map(sum, zip(*part, strict=True))] or [0] * len(times)
        for part in ([band.counts for band in bands], [band.bytes for band in bands])
    )
    totals = tuple(map(Amount, counts, sizes))
    return BandChart(times, tuple(bands), totals)
