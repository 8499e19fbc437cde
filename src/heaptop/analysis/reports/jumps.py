"""Where a recorded process jumped: moments between which it grew by more than it usually grows in that time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Final

from heaptop.analysis.reports.moments_diff import Changed, grown
from heaptop.analysis.reports.recorded import Recorded, rss_at

LEAST_BYTES: Final = 64 << 10
LEAST_SHARE: Final = 0.02  # Of the largest size: less is no jump, nor is less than LEAST_BYTES
NOISE: Final = 6.0  # Times the median distance from the usual growth that is no noise any more
FEW: Final = 8  # Steps of which the median may itself be a jump: the least growth is the usual one then …
FEW_SHARE: Final = 0.1  # … and so much of the largest size a jump
HALF: Final = 0.5  # Of a jump of the heap: a step of resident memory that is so large shows when it was
OVERHEAD_BYTES: Final = 8 << 20
OVERHEAD_NS: Final = 15 * 10**9
"""After an attach heaptop's own memory grows, by less than this in such a time: resident memory that grows so at the
beginning of a recording is no jump of the program's."""

Sizes = Sequence[tuple[int, int]]  # (time in nanoseconds, bytes), ascending


@dataclass(frozen=True, slots=True)
class Jump:
    """From one moment to a later one."""

    begin_ns: int
    end_ns: int
    bytes: int  # That it is larger
    is_rss: bool = False  # Of resident memory alone; else of the live heap


@dataclass(frozen=True, slots=True)
class RecordedJump:
    """A jump with the census and the samples before it, and those after."""

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
        return counted_ns(self.before)

    @property
    def end_ns(self) -> int:
        """When the heap after it was."""
        return counted_ns(self.after)

    @property
    def at_ns(self) -> int:
        """When it was, as closely as the ticks between the two show it by resident memory."""
        ticks = [tick for tick in self.after.history.ticks if self.begin_ns <= tick.time_ns <= self.end_ns]
        sizes = [(tick.time_ns, tick.rss) for tick in ticks if tick.rss is not None]
        size, when = max([(after - before, end) for (_, before), (end, after) in pairwise(sizes)], default=(0, 0))
        return when if size >= HALF * self.bytes > 0 else self.end_ns

    @property
    def rss(self) -> int | None:
        """That resident memory is larger; None where that is not known: the last tick may be from before the jump."""
        old, new = rss_at(self.after.history.ticks, self.before.time_ns), self.after.rss
        more = None if old is None or new is None else new - old
        return more if more is not None and more >= HALF * self.bytes else None

    def grown(self, by: str, top: int) -> list[Changed]:
        """What it was of, the most first; by producer only what grew by more than it may be wrong."""
        return grown(self.before, self.after, by, top)


def jumps(heap: Sizes, rss: Sizes = ()) -> list[Jump]:
    """The jumps of the live heap at censuses, and those of resident memory at ticks that no jump of the heap and not
    heaptop's own memory explains; oldest first."""
    found = [Jump(begin, end, more) for begin, end, more in _rises(heap)]
    others = [Jump(begin, end, more, is_rss=True) for begin, end, more in _rises(rss)]
    others = [one for one in others if not any(_meet(one, jump) for jump in found) and not _is_overhead(one, rss)]
    return sorted([*found, *others], key=lambda jump: jump.end_ns)


def largest(found: Sequence[Jump], number: int) -> list[Jump]:
    """So many of them, the largest first."""
    return sorted(found, key=lambda jump: (-jump.bytes, jump.begin_ns))[:number]


def _rises(sizes: Sizes) -> list[tuple[int, int, int]]:
    """From when to when it grew far beyond the usual, and by how much. Neighbouring rises are one, where sizes are
    many."""
    steps = [(begin, end, after - before) for (begin, before), (end, after) in pairwise(sizes) if end > begin]
    if not steps:
        return []
    few = len(steps) < FEW
    rates = [more / (end - begin) for begin, end, more in steps]
    usual = min(rates) if few else median(rates)
    beyond = [more - usual * (end - begin) for begin, end, more in steps]
    noise = 0.0 if few else median([abs(one) for one in beyond])
    share = FEW_SHARE if few else LEAST_SHARE
    least = max(LEAST_BYTES, share * max(size for _, size in sizes), NOISE * noise)
    found: list[tuple[int, int, int]] = []
    for (begin, end, more), extra in zip(steps, beyond, strict=True):
        if extra < least or more <= 0:
            continue
        if found and found[-1][1] == begin and not few:
            first, _, before = found.pop()
            found.append((first, end, before + more))
        else:
            found.append((begin, end, more))
    return found


def _is_overhead(one: Jump, rss: Sizes) -> bool:
    return one.begin_ns - rss[0][0] < OVERHEAD_NS and one.bytes < OVERHEAD_BYTES


def _meet(one: Jump, other: Jump) -> bool:
    return one.begin_ns < other.end_ns and other.begin_ns < one.end_ns


def counted_ns(recorded: Recorded) -> int:
    """When the last census that is known then was taken; that moment itself where there is none."""
    latest = recorded.history.latest
    return latest.time_ns if latest is not None else recorded.time_ns
