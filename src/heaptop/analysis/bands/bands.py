"""Bands: the heap over time cut by one attribute, largest bands by name, ordered smooth below rough.

The order is Runciman and Wakeling's ("Heap profiling of lazy functional programs", JFP 3(2), 1993): smoother
bands below rougher ones, because a band's unevenness shakes everything above it. hp2ps, their tool's descendant,
measures roughness by the standard deviation of a band's values, which puts a steadily growing leak on top. Here
it is the standard deviation of the *first differences* of its bytes: a ramp has none, as it lifts what lies
above without bending it, and a leak shows as a wedge near the base line. It is in bytes, not relative to the
band's size, since bytes are what the eye sees move.

A live chart must not reshuffle at every tick, so both choices hold on to the chart before (``previous``): a band
that was named keeps its name until another's area is a quarter larger, and two bands change places only when
the upper one is less than half as rough. Without ``previous`` ties are broken by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import nlargest, nsmallest

from heaptop.analysis.bands.series import BandLine, Series, SeriesCache
from heaptop.analysis.filters.filters import Filter
from heaptop.analysis.heap.history import Amount, Moment

KEEP_NAMED = (5, 4)  # The area of a band that the previous chart named counts this much more (numerator, denominator)

SWAP_ROUGHNESS = 4  # Bands change places at this ratio of their variances: twice the standard deviation


@dataclass(frozen=True, slots=True)
class Band:
    """One band; ``bytes`` and ``counts`` have a figure for every time of the chart."""

    name: str
    bytes: tuple[int, ...]
    counts: tuple[int, ...]
    is_rest: bool = False  # Whether it represents all the bands that have no name of their own


@dataclass(frozen=True, slots=True)
class BandChart:
    """A chart: at every time the bands sum to the total."""

    times_ns: tuple[int, ...]
    bands: tuple[Band, ...]  # From the bottom of the stack to the top; the rest, where there is one, is last
    totals: tuple[Amount, ...]  # What passed the filter at each time


def bands(
    records: Sequence[Moment],
    key: str,
    where: Filter,
    limit: int,
    *,
    memo: SeriesCache | None = None,
    previous: BandChart | None = None,
) -> BandChart:
    """The chart of these records by ``key`` (a name of ``BAND_KEYS``).

    Args:
        limit: most bands that get a name, 0 or more; all others are joined in ``(rest: N more)``.
        memo: what the caller keeps from frame to frame to make this cheap; the result does not depend on it.
        previous: the chart on screen, whose choice and order of bands is kept where it still serves.

    Raises:
        UsageError: there is no such key.
    """
    series = (memo or SeriesCache()).series(records, key, where)
    names = tuple(band.name for band in previous.bands if not band.is_rest) if previous else ()
    chosen = _choose(series, limit, frozenset(names))
    ordered = _order(series, chosen, names)
    named = tuple(_band(line, series.length) for line in ordered)
    totals = _band(series.total, series.length) if series.length else Band("", (), ())
    hidden = len(series.lines) - len(named)
    rest = (_rest(totals, named, hidden),) if hidden else ()
    return BandChart(
        times_ns=tuple(record.time_ns for record in records),
        bands=named + rest,
        totals=tuple(map(Amount, totals.counts, totals.bytes)),
    )


def _choose(series: Series, limit: int, before: frozenset[str]) -> list[BandLine]:
    """The lines of the largest area; those named before are weighed up."""
    if limit <= 0:
        return []
    more, less = KEEP_NAMED
    lines, areas, length = series.lines, series.areas(), series.length
    # Of thousands few come into question: the largest, and those that are weighed up.
    least = min(nlargest(limit, areas), default=0)
    found = {name for area, name in zip(areas, lines, strict=True) if area >= least}
    found.update(name for name in before if name in lines)
    weighed = ((-lines[name].area(length) * (more if name in before else less), name) for name in found)
    return [lines[name] for _, name in nsmallest(limit, weighed)]


def _order(series: Series, chosen: list[BandLine], before: tuple[str, ...]) -> list[BandLine]:
    """Smooth to rough; lines of ``before`` stay in their order unless it is wrong by :data:`SWAP_ROUGHNESS`."""
    rough = {line.name: line.roughness(series.length) for line in chosen}
    by_name = {line.name: line for line in chosen}
    order = [by_name.pop(name) for name in before if name in by_name]
    for line in sorted(by_name.values(), key=lambda line: (rough[line.name], line.name)):
        after = (place for place, other in enumerate(order) if rough[other.name] > rough[line.name])
        order.insert(next(after, len(order)), line)
    _settle(order, [rough[line.name] for line in order])
    return order


def _settle(order: list[BandLine], rough: list[int]) -> None:
    """Swap neighbours until none is wrong by the ratio. Each swap undoes an inversion, so it ends."""
    for end in range(1, len(order)):
        place = end
        while place and rough[place - 1] > SWAP_ROUGHNESS * rough[place]:
            order[place - 1], order[place] = order[place], order[place - 1]
            rough[place - 1], rough[place] = rough[place], rough[place - 1]
            place -= 1


def _band(line: BandLine, length: int) -> Band:
    return Band(line.name, tuple(line.expand(line.bytes, length)), tuple(line.expand(line.counts, length)))


def _rest(totals: Band, named: tuple[Band, ...], hidden: int) -> Band:
    """What the total has beyond the named bands."""

    def beyond(total: tuple[int, ...], parts: list[tuple[int, ...]]) -> tuple[int, ...]:
        return tuple(map(int.__sub__, total, map(sum, zip(*parts, strict=True)))) if parts else total

    return Band(
        f"(other: {hidden} more)",
        beyond(totals.bytes, [band.bytes for band in named]),
        beyond(totals.counts, [band.counts for band in named]),
        is_rest=True,
    )
