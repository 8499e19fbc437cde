"""The living sampled blocks that have lived for longer than a bound, as samples that every table can be made of.

Those that are younger than the bound may yet outlive it, and are left out. Of the dead only sums are kept, so what
was allocated and freed is not known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from heaptop.analysis.samples.clock import LifetimeBound, Timeline
from heaptop.analysis.samples.estimate import weight
from heaptop.analysis.samples.live_blocks import Likeness
from heaptop.analysis.samples.sampled_blocks import SampledBlocks
from heaptop.analysis.samples.sizes import bin_of
from heaptop.analysis.samples.tallies import Tally

SLICE: Final = 4000  # Samples that are gone through between two pauses of LongLived.work()


class LongLived(SampledBlocks):
    """What lives and is older than ``bound``, at the moment this is made. Making it copies what lives; the rest is done
    by :meth:`work`, or by whoever asks first."""

    def __init__(self, samples: SampledBlocks, timeline: Timeline, bound: LifetimeBound) -> None:
        super().__init__()
        self.share_names(samples)
        self.lifetime = bound
        born_by = bound.born_by(timeline, samples.origin + samples.clock, samples.time_ns)
        self._born_by = -1 if born_by is None else born_by - samples.origin
        self._columns = samples.live_block_columns()
        self._made: list[Tally] | None = None

    def work(self) -> Iterator[None]:
        """Make :meth:`tallies` ready, in steps of a few milliseconds."""
        if self._made is not None:
            return
        alike: Counter[Likeness] = Counter()
        for begin in range(0, self._columns.rows, SLICE):
            alike.update(self._columns.born_by(self._born_by, begin, begin + SLICE))
            yield
        found: dict[tuple[int, int, int], Tally] = {}
        for done, ((stack, kind, size, interval), number) in enumerate(alike.items(), 1):
            key = (stack, kind, bin_of(size))
            tally = found.get(key)
            if tally is None:
                tally = found[key] = Tally(*key)
            tally.live.add_alike(weight(size, interval), number)
            if not done % SLICE:
                yield
        self._made = [*found.values()]

    def tallies(self) -> Iterable[Tally]:
        for _ in self.work():
            pass
        return self._made or ()

    @property
    def tally_count(self) -> int:
        return len([*self.tallies()])
