"""The leak table once more, made plainly: what was allocated, freed and kept by each call chain (mprof: Zorn and
Hilfinger, 1988, fig. 2). What the tests compare with.

This module never says that something is a leak: what is kept may be wanted.

mprof keeps the last five callers, since it must count as the program runs. Here whole stacks are there, so the number
of callers is the reader's choice, and so is whether two lines of one function are two places.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from heaptop.analysis.callers.producer_table import CALLERS
from heaptop.analysis.samples.estimate import Estimate, Sums
from heaptop.analysis.samples.sampled_blocks import SampledBlocks
from heaptop.analysis.samples.stacks import StackTree
from heaptop.analysis.samples.tallies import Tally

Chain = tuple[tuple[int, int], ...]
"""Frames, innermost first: each a position in ``SampledBlocks.codes``, and its line (0 where lines are not told
apart)."""


@dataclass(frozen=True, slots=True)
class ChainRow:
    """One call chain, and what it allocated since sampling began."""

    chain: Chain
    """Empty where no Python code ran, or where places are no longer told apart."""
    cut: bool
    """Whether stacks went on beyond the chain's last frame."""
    allocated: Estimate
    freed: Estimate
    kept: Estimate
    """What lives."""
    stack: int
    """One whole stack of the chain: the one that keeps most."""


class _Row:
    """What is summed up for one chain."""

    __slots__ = ("cut", "freed", "kept", "lost", "most", "stack")

    def __init__(self) -> None:
        self.freed, self.kept, self.lost = Sums(), Sums(), Sums()
        self.cut = False
        self.stack = 0
        self.most = -1


def chains(
    samples: SampledBlocks,
    callers: int | None = CALLERS,
    *,
    lines: bool = False,
    everything: bool = False,
    where: Callable[[Tally], bool] | None = None,
) -> list[ChainRow]:
    """The table, the chain that keeps most bytes first.

    Args:
        callers: frames of a chain, 1 or more; None for whole stacks.
        lines: whether two lines of one function are two places.
        everything: also the chains that keep nothing.
        where: restricts what is counted.
    """
    rows: dict[tuple[int, Chain], _Row] = {}
    known: dict[int, tuple[Chain, bool]] = {}
    for tally in samples.tallies():
        if where is not None and not where(tally):
            continue
        if tally.stack not in known:
            known[tally.stack] = _chain(samples.stacks, tally.stack, callers, lines)
        chain, cut = known[tally.stack]
        row = rows.setdefault((min(tally.stack, 0), chain), _Row())
        row.kept.merge(tally.live)
        row.freed.merge(tally.freed)
        row.lost.merge(tally.lost)
        row.cut |= cut
        if tally.live.bytes > row.most:
            row.stack, row.most = tally.stack, tally.live.bytes
    table = [
        ChainRow(
            chain,
            row.cut,
            (row.kept + row.freed + row.lost).estimate(),
            row.freed.estimate(),
            row.kept.estimate(),
            row.stack,
        )
        for (_, chain), row in rows.items()
        if everything or row.kept.samples
    ]
    return sorted(table, key=lambda row: (-row.kept.bytes, -row.allocated.bytes, row.chain))


def _chain(stacks: StackTree, stack: int, callers: int | None, lines: bool) -> tuple[Chain, bool]:
    chain: list[tuple[int, int]] = []
    while stack > 0 and (callers is None or len(chain) < callers):
        chain.append((stacks.codes[stack], stacks.lines[stack] if lines else 0))
        stack = stacks.parents[stack]
    return tuple(chain), stack > 0
