"""Where the heap of a recording jumped: censuses between which it grew by more than it usually grows in that time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Final

from heaptop.analysis.reports.census_timeline import CensusMoment
from heaptop.analysis.reports.moments_diff import Changed, grown
from heaptop.analysis.reports.recorded import Recorded

LEAST_BYTES: Final = 64 << 10
LEAST_SHARE: Final = 0.02
"""Of the largest heap: less is no jump, nor is less than :data:`LEAST_BYTES`."""
NOISE: Final = 6.0
"""Times the median distance from the usual growth that is no noise any more."""


@dataclass(frozen=True, slots=True)
class Jump:
    """From one census to a later one."""

    begin_ns: int
    end_ns: int
    bytes: int
    """That the live heap is larger."""


@dataclass(frozen=True, slots=True)
class RecordedJump:
    """A jump with all that was known before it, and after."""

    before: Recorded
    after: Recorded

    @property
    def bytes(self) -> int:
        """That the live heap is larger."""
        old, new = self.before.history.latest, self.after.history.latest
        return (new.total.bytes if new is not None else 0) - (old.total.bytes if old is not None else 0)

    @property
    def begin_ns(self) -> int:
        """When the heap before it was counted."""
        return _counted_ns(self.before)

    @property
    def end_ns(self) -> int:
        """When the heap after it was."""
        return _counted_ns(self.after)

    @property
    def rss(self) -> int | None:
        """That resident memory is larger; None where that is not known."""
        old, new = self.before.rss, self.after.rss
        return None if old is None or new is None else new - old

    def grown(self, by: str, top: int) -> list[Changed]:
        """What it was of, the most first; by producer only what grew by more than it may be wrong."""
        return grown(self.before, self.after, by, top)


def jumps(points: Sequence[CensusMoment]) -> list[Jump]:
    """The jumps between these moments, oldest first. Neighbouring ones are one."""
    steps = [(before, after) for before, after in pairwise(points) if after.time_ns > before.time_ns]
    if not steps:
        return []
    usual = median([_grown(*step) / _passed(*step) for step in steps])
    beyond = [_grown(*step) - usual * _passed(*step) for step in steps]
    noise = median([abs(one) for one in beyond])
    largest = max(point.total.bytes for point in points)
    least = max(LEAST_BYTES, LEAST_SHARE * largest, NOISE * noise)
    found: list[Jump] = []
    for (before, after), more in zip(steps, beyond, strict=True):
        if more < least:
            continue
        if found and found[-1].end_ns == before.time_ns:
            last = found.pop()
            found.append(Jump(last.begin_ns, after.time_ns, last.bytes + _grown(before, after)))
        else:
            found.append(Jump(before.time_ns, after.time_ns, _grown(before, after)))
    return found


def largest(found: Sequence[Jump], number: int) -> list[Jump]:
    """So many of them, the largest first."""
    return sorted(found, key=lambda jump: (-jump.bytes, jump.begin_ns))[:number]


def _counted_ns(recorded: Recorded) -> int:
    latest = recorded.history.latest
    return latest.time_ns if latest is not None else recorded.time_ns


def _grown(before: CensusMoment, after: CensusMoment) -> int:
    return after.total.bytes - before.total.bytes


def _passed(before: CensusMoment, after: CensusMoment) -> int:
    return after.time_ns - before.time_ns
