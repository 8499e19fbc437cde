"""What is computed fast elsewhere, once more and plainly: what the tests compare with."""

from __future__ import annotations

from dataclasses import dataclass

from heaptop.census.estimate import Estimate, Sums
from heaptop.census.producers import Frame, Sites
from heaptop.census.samples import Samples


@dataclass(frozen=True, slots=True)
class StackRow:
    """One whole stack and what it allocated that lives."""

    stack: int
    frames: tuple[Frame, ...]
    """Innermost first."""
    live: Estimate


def stacks_of(samples: Samples, sites: Sites, key: str, name: str) -> list[StackRow]:
    """The whole stacks of one site, function or module, the largest first."""
    sums: dict[int, Sums] = {}
    for tally in samples.tallies():
        if tally.live.samples and sites.name(tally.stack, key) == name:
            sums.setdefault(tally.stack, Sums()).merge(tally.live)
    rows = [StackRow(stack, sites.frames(stack), one.estimate()) for stack, one in sums.items()]
    return sorted(rows, key=lambda row: (-row.live.bytes, row.stack))
