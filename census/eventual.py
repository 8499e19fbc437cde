"""Bands by how long blocks will have lived, and any other bands restricted to blocks that live long.

This module never follows a block: :class:`~heaptop.census.generations.LifetimeBands` keeps what is needed, and this
makes charts and tables of it, as :mod:`heaptop.census.bands` and :mod:`heaptop.census.table` do of what is known at
once.
A lifetime is only known in retrospect, so the past of these charts changes as blocks die.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from math import log
from typing import Final, TypeGuard

from heaptop.census.bands import Band, BandChart
from heaptop.census.clock import LifetimeBound, size_label
from heaptop.census.filters import Filter
from heaptop.census.generations import DECADES, Line
from heaptop.census.history import Amount
from heaptop.census.moments import SiteCell, named_cell
from heaptop.census.sampling import Sampling
from heaptop.census.table import SORTS, SPARK, TableRow
from heaptop.errors import UsageError
from heaptop.protocol.messages import TypeName

KEY: Final = "lifetime"
"""The band key that is not one of ``BAND_KEYS``: a cell does not know it."""
GROUPED: Final = {"producer": "site", "type": "type", "size": "size"}
"""Band keys whose lifetimes are kept, and the attribute of :data:`heaptop.census.sampling.GROUPS` for each."""


@dataclass(frozen=True, slots=True)
class Longer:
    """The restriction to blocks that live longer than a bound."""

    bytes: int
    """Bytes allocated meanwhile: one of the bounds that classes of lifetime are kept by."""
    text: str
    """``lifetime > 100 MB``, and how that follows from what was asked."""


def is_eventual(key: str, where: Filter) -> bool:
    """Whether the bands of ``key`` under this filter are made here.

    Raises:
        UsageError: they are, and cannot be: a block's lifetime is kept with its type, its site and its size, each
            alone.
    """
    if key != KEY and where.lifetime is None:
        return False
    others = [*(term.attribute for term in where.names), *(term.measure for term in where.bounds)]
    if key == KEY and where:
        wrong = "a filter"
    elif key not in GROUPED and key != KEY:
        wrong = key
    else:
        wrong = next((other for other in others if other != GROUPED[key]), "") if key != KEY else ""
    if wrong:
        raise UsageError(
            f"lifetime and {wrong} do not go together.",
            why="A block's lifetime is kept with its type, its site and its size, each alone.",
            fix="Look by producer, type or size under lifetime>10MB alone, or by lifetime without a filter.",
        )
    return True


def longer_than(asked: LifetimeBound, sampling: Sampling) -> Longer:
    """What can be told of a bound: classes end at powers of ten, and a time goes by the rate of allocation so far.

    Raises:
        UsageError: no class ends there; or it is a time, and nothing was allocated yet.
    """
    if asked.bytes is not None:
        if asked.bytes not in DECADES:
            known = ", ".join(size_label(bound).replace(" ", "") for bound in DECADES)
            raise UsageError(
                f"Lifetimes are kept in classes that end at {known}.",
                fix=f"Type lifetime>{known.split(',')[1].strip()}.",
            )
        return Longer(asked.bytes, f"lifetime > {size_label(asked.bytes)} allocated")
    meanwhile = sampling.timeline.bytes_in(asked.time_ns or 0)
    if meanwhile is None:
        raise UsageError(
            "How much is allocated in a time is not known yet.",
            fix="Wait for some samples, or write bytes: lifetime>10MB.",
        )
    nearest = min(DECADES, key=lambda bound: abs(log(bound / max(meanwhile, 1.0))))
    return Longer(nearest, f"lifetime > {size_label(nearest)} allocated (≈ {asked.text})")


def by_lifetime(sampling: Sampling) -> BandChart:
    """All that was sampled, by classes of eventual lifetime from the short to the long; empty classes are left out.

    What lives has a class of its own by its age: how long it will have lived nobody knows.
    """
    chart = sampling.lifetime_bands.chart(None, sampling.alive())
    assert chart is not None, "the whole is always kept"
    bands = [
        Band(f"lived {band.label}" if band.fate == "died" else band.label, band.bytes, band.counts)
        for band in chart.bands
        if any(band.bytes)
    ]
    return _chart(chart.times_ns, bands)


def restricted(sampling: Sampling, key: str, where: Filter, longer: Longer, limit: int) -> BandChart:
    """The bands of ``key`` (of :data:`GROUPED`), of blocks that are known to live longer than the bound.

    ``where`` is one that :func:`is_eventual` says true of.

    The ``limit`` largest have a band each, the others share the last. Groups that came when the table of lifetimes was
    full are in none.
    """
    attribute, kept = GROUPED[key], sampling.lifetime_bands
    alive = sampling.alive_by(attribute)
    size, found = kept.moments, []
    for group in {*kept.groups(), *alive}:
        if not _is_of(group, attribute) or not where.fits_name(_cell(attribute, name := str(group[1]))):
            continue
        line = kept.longer(longer.bytes, group, alive.get(group, ()))
        if line is not None and (area := line.area(size)) > 0:
            found.append((-area, name, line))
    found.sort(key=lambda one: one[:2])
    named, others = found[: max(limit, 0)], found[max(limit, 0) :]
    bands = [Band(name, *line.totals(size)) for _, name, line in named]
    if others:
        rest = Line.sum_of(line.steps for _, _, line in others)
        bands.append(Band(f"(rest: {len(others)} more)", *rest.totals(size), is_rest=True))
    return _chart(kept.times_ns, bands)


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


def _is_of(group: Hashable, attribute: str) -> TypeGuard[tuple[str, str]]:
    return isinstance(group, tuple) and group[0] == attribute


def _cell(attribute: str, name: str) -> SiteCell:
    return named_cell(TypeName("", name if attribute == "type" else ""), name if attribute == "site" else "")


def _chart(times: tuple[int, ...], bands: Sequence[Band]) -> BandChart:
    counts, sizes = (
        [*map(sum, zip(*part, strict=True))] or [0] * len(times)
        for part in ([band.counts for band in bands], [band.bytes for band in bands])
    )
    totals = tuple(map(Amount, counts, sizes))
    return BandChart(times, tuple(bands), totals)
