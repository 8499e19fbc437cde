"""All that is known of samples as it was at one moment, for a display that is held while more is said.

This module never follows what is said later. What only grows (names of types, code, stacks and sites) is shared; sums
are copied, at a cost of a step for each.
"""

from __future__ import annotations

from copy import copy, deepcopy
from typing import TypeVar

from heaptop.analysis.samples.frozen import FrozenTallies
from heaptop.analysis.samples.samples import SampledBlocks
from heaptop.analysis.samples.sampling import Sampling
from heaptop.protocol.messages import Message

T = TypeVar("T")


class FrozenSampling(Sampling):
    """What :class:`Sampling` says now, whatever it is told later. It takes no messages itself."""

    def __init__(self, sampling: Sampling) -> None:
        super().__init__()
        sampling.work_in()
        self.__dict__.update(vars(sampling))
        self._void = None
        self._pending = []
        self.samples: SampledBlocks = FrozenTallies(sampling.samples)
        self._lives = sampling.lives.copy()
        self._lifetime_bands = sampling.lifetime_bands.copy()
        self._cohorts = deepcopy(sampling.cohorts)
        self.timeline = _shallow(sampling.timeline)
        self.gc = _shallow(sampling.gc)
        self._moments = _shallow(sampling.moments)

    def feed(self, message: Message) -> None:
        raise TypeError("what is held takes no messages")


def _shallow(kept: T) -> T:
    """A copy with lists and dicts of its own: their items do not change."""
    new = copy(kept)
    for name, value in vars(kept).items():
        if isinstance(value, (list, dict)):
            setattr(new, name, value.copy())
    return new
