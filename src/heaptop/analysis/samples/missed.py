"""What a sample that was not taken may have represented, where the sampling interval was changed: for the intervals of
estimates (:meth:`~heaptop.analysis.samples.estimate.Sums.estimate`).

It counts what was allocated, sampled and freed at each sampling interval, not single blocks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

LAG: Final = 128 << 10
"""Bytes that each thread may still allocate at an interval when it is changed (LONGEST of the core's ``sample.c``)."""


class MissedSamples:
    """Counts by sampling interval."""

    def __init__(self) -> None:
        self._allocated = Counter[int]()  # Bytes, of all sites together
        self._born = Counter[int]()  # Samples; this and the next one of those that are still followed
        self._died = Counter[int]()

    def copy(self) -> MissedSamples:
        """The same counts, whatever is added later."""
        copy = MissedSamples()
        copy._allocated, copy._born, copy._died = self._allocated.copy(), self._born.copy(), self._died.copy()
        return copy

    def allocated(self, interval: int, size: int) -> None:
        """So many bytes more were allocated while this interval was in force, or some of them at a finer one."""
        self._allocated[interval] += size

    def born(self, intervals: Iterable[int]) -> None:
        self._born.update(intervals)

    def died(self, intervals: Iterable[int]) -> None:
        self._died.update(intervals)

    def follow_no_more(self) -> None:
        """What lived until now is not followed any longer."""
        self._born.clear()
        self._died.clear()

    def of_all(self) -> int:
        """Bytes that one sample would have represented, for what was allocated or freed: the coarsest interval, but not
        much more than was allocated at it altogether. 0 while there was one interval only."""
        if len(self._allocated) < 2:
            return 0
        return max(min(interval, size + LAG) for interval, size in self._allocated.items())

    def of_live(self) -> int:
        """Likewise for what lives: of the part that is still there, by the samples of that interval. Those
        of a burst that has died do not count for what lives."""
        if len(self._allocated) < 2:
            return 0
        return max(
            max(round(min(interval, size) * self._part_alive(interval)), min(interval, LAG))
            for interval, size in self._allocated.items()
        )

    def _part_alive(self, interval: int) -> float:
        """One more lives than was seen."""
        return (self._born[interval] - self._died[interval] + 1) / (self._born[interval] + 1)

    def live_weight(self) -> int:
        """Bytes that the live samples represent, those of small blocks: the mean by bytes. 0 where none lives."""
        live = self._born - self._died
        total = sum(interval * number for interval, number in live.items())
        return sum(interval * interval * number for interval, number in live.items()) // total if total else 0
