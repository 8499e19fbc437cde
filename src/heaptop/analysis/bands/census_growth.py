"""What grew since a moment by the counts of censuses alone: while one waits for a leak hunt, and where there is none.

More objects of a type need not be new ones only: some may have gone while others came.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from heaptop.analysis.bands.series import BandLine, SeriesCache
from heaptop.analysis.filters.filters import Filter
from heaptop.analysis.heap.history import Moment

SPARK: Final = 16  # Values of a row's sparkline, at most


@dataclass(frozen=True, slots=True)
class CountedGrowth:
    """One type, or module, in the first census and in the last."""

    name: str
    count: int  # Objects more; below 0: fewer
    bytes: int
    now: int
    now_bytes: int
    count_rate: float  # Objects more a second, over all of the time
    byte_rate: float
    spark: tuple[int, ...]  # Objects from the first census to the last, as many values as there are, at most SPARK


@dataclass(frozen=True, slots=True)
class CensusGrowth:
    """All of them by bytes, descending; those that have not changed are left out."""

    rows: tuple[CountedGrowth, ...]
    seconds: float  # From the first census to the last


def growth_since(records: Sequence[Moment], time_ns: int, key: str, where: Filter, memo: SeriesCache) -> CensusGrowth:
    """From the last census up to a moment, or else the first after it, to the last census of all.

    Args:
        key: ``type`` or ``module``.

    Raises:
        UsageError: there is no such key.
    """
    if not records:
        return CensusGrowth((), 0.0)
    first = max(bisect_right(records, time_ns, key=lambda record: record.time_ns) - 1, 0)
    seconds = (records[-1].time_ns - records[first].time_ns) / 1e9
    series = memo.series(records, key, where)
    rows = [_row(line, series.length, first, seconds) for line in series.lines.values() if line.at[-1] > first]
    grown = [row for row in rows if row.count or row.bytes]
    return CensusGrowth(tuple(sorted(grown, key=lambda row: (-row.bytes, row.name))), seconds)


def _row(line: BandLine, length: int, first: int, seconds: float) -> CountedGrowth:
    counts = line.expand(line.counts, length, first)
    place = bisect_right(line.at, first)
    before = line.bytes[place - 1] if place else 0
    count, size = counts[-1] - counts[0], line.bytes[-1] - before
    step = max((len(counts) - 1) / (SPARK - 1), 1.0)
    spark = tuple(counts[round(place * step)] for place in range(SPARK) if round(place * step) < len(counts))
    return CountedGrowth(
        line.name, count, size, counts[-1], line.bytes[-1], count / (seconds or 1), size / (seconds or 1), spark
    )
