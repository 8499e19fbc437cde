"""Sampled blocks as they were at one moment, for a display that is held while more of them come.

This module never follows what is said later; it copies sums, and shares the names of code, stacks and types, to which
only more are added.
"""

from __future__ import annotations

from collections.abc import Iterable

from heaptop.analysis.samples.samples import SampledBlocks, Tally


class FrozenSamples(SampledBlocks):
    """Shares the names of what others take messages for. It takes none itself."""

    def __init__(self, samples: SampledBlocks) -> None:
        super().__init__()
        self.state, self.time_ns, self.clock, self.dropped, self.origin = (
            samples.state,
            samples.time_ns,
            samples.clock,
            samples.dropped,
            samples.origin,
        )
        self.types, self.codes, self.stacks = samples.types, samples.codes, samples.stacks
        self._said = samples._said


class FrozenTallies(FrozenSamples):
    """What :meth:`SampledBlocks.tallies` and :meth:`SampledBlocks.live_block_columns` say now."""

    def __init__(self, samples: SampledBlocks) -> None:
        super().__init__(samples)
        self._held = [_copy(tally) for tally in samples.tallies()]
        self._blocks = samples.blocks.copy()

    def tallies(self) -> Iterable[Tally]:
        return self._held

    @property
    def tally_count(self) -> int:
        return len(self._held)


def _copy(tally: Tally) -> Tally:
    copy = Tally(tally.stack, tally.type, tally.bin)
    copy.live = tally.live.copy()
    if tally.freed.samples:
        copy.freed = tally.freed.copy()
    if tally.lost.samples:
        copy.lost = tally.lost.copy()
    return copy
