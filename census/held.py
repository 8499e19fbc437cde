"""Sampled blocks as they were at one moment, for a display that is held while more of them come.

This module never follows what is said later; it copies sums, and shares the names of code, stacks and types, to which
only more are added.
"""

from __future__ import annotations

from collections.abc import Iterable

from heaptop.census.estimate import Sums
from heaptop.census.samples import Samples, Tally


class HeldSamples(Samples):
    """What :meth:`Samples.tallies` says now. Of single living blocks it knows nothing, and it takes no messages."""

    def __init__(self, samples: Samples) -> None:
        super().__init__()
        self.state, self.time_ns, self.clock, self.dropped = (
            samples.state,
            samples.time_ns,
            samples.clock,
            samples.dropped,
        )
        self.types, self.codes, self.stacks = samples.types, samples.codes, samples.stacks
        self._held = [_copy(tally) for tally in samples.tallies()]

    def tallies(self) -> Iterable[Tally]:
        return self._held


def _copy(tally: Tally) -> Tally:
    copy = Tally(tally.stack, tally.type, tally.bin)
    copy.live, copy.freed, copy.lost = (Sums.made_of(one.parts) for one in (tally.live, tally.freed, tally.lost))
    return copy
