"""How a recording went, as some of its moments: what lines, bands and tables over all of its time are made from.

A history replayed from a recording is dense towards its last moment, and thin before; a course is even.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from heaptop.analysis.heap.history import Amount, CensusRecord
from heaptop.analysis.reports.recorded import Recorded, rss_at
from heaptop.analysis.samples.moments import SiteRecord
from heaptop.analysis.samples.sampling import Sampling
from heaptop.protocol.messages import Tick

POINTS: Final = 200  # Moments of a course, at most: as many as a page is wide, about


@dataclass(frozen=True, slots=True)
class CensusMoment:
    """The process at one census."""

    time_ns: int
    rss: int | None
    """At the last tick by then, of the first point else at the first tick, and of the last point by the moment that was
    replayed to, as in ``heaptop diff``; None where that is not known."""
    total: Amount


@dataclass
class CensusTimeline:
    """Moments in their order, the first census and the last among them."""

    points: tuple[CensusMoment, ...] = ()
    records: tuple[CensusRecord, ...] = ()
    sites: list[SiteRecord] = field(default_factory=list)
    """What was sampled and lived, at moments of its own: whoever reads a recording fills it (:meth:`add_sites`)."""

    @classmethod
    def of(cls, recorded: Recorded) -> CensusTimeline:
        """Up to the moment that it was replayed to."""
        history = recorded.history
        by_time = {record.time_ns: record for record in history.records}
        records = tuple(by_time[time] for time in spread(list(by_time), POINTS))
        points = [CensusMoment(each.time_ns, rss_at(history.ticks, each.time_ns), each.total) for each in records]
        if points:
            points[0] = replace(points[0], rss=_first_rss(history.ticks, points))
            points[-1] = replace(points[-1], rss=recorded.rss)
        return cls(tuple(points), records)

    def add_sites(self, sampling: Sampling) -> None:
        """What lived at a moment, which comes after those before."""
        moments = sampling.moments.records
        if moments and (not self.sites or moments[-1].time_ns > self.sites[-1].time_ns):
            self.sites.append(moments[-1])


def _first_rss(ticks: Sequence[Tick], points: Sequence[CensusMoment]) -> int | None:
    """The first census may come before any tick: its RSS is that of the first one, if that is not after the second
    census."""
    if points[0].rss is not None or len(points) == 1:
        return points[0].rss
    return next((tick.rss for tick in ticks if tick.time_ns <= points[1].time_ns and tick.rss is not None), None)


def spread(times: Sequence[int], number: int) -> list[int]:
    """So many (2 or more) of these ascending times at most, spread evenly, the first and the last among them."""
    if len(times) <= number:
        return list(times)
    first, last = times[0], times[-1]
    wanted = (first + (last - first) * step // (number - 1) for step in range(number - 1))
    chosen = dict.fromkeys(times[bisect_right(times, time) - 1] for time in wanted)
    return list(dict.fromkeys([*chosen, last]))
