"""Who allocated the objects of a snapshot, as far as they were sampled: a row a site, and shares by handler.

A snapshot knows sampled blocks that are objects, and not tables and buffers that belong to objects.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from heaptop.analysis.samples.estimate import Weight, weight, whole
from heaptop.analysis.samples.handlers import NO_HANDLER
from heaptop.analysis.samples.producers import FORGOTTEN_NAME, NO_FRAME_NAME, NO_SITE
from heaptop.analysis.samples.sampled_blocks import SampledBlocks
from heaptop.analysis.samples.sampling import Sampling
from heaptop.analysis.samples.stacks import FORGOTTEN
from heaptop.analysis.snapshot.retaining import RetainerRow
from heaptop.analysis.text.units import format_count, format_number
from heaptop.protocol.findings import HandlerShare, Suspect
from heaptop.protocol.images import Blocks, StackBlocks

_MOST_HANDLERS: Final = 3
_LEAST_SHARE: Final = 0.01
_FEW_SAMPLES: Final = 5  # With fewer, the number of samples is shown


def site_rows(answer: Blocks, sampling: Sampling, everything: int = 0) -> list[RetainerRow]:
    """How many blocks of each site were sampled, and about how many bytes these represent.

    A stack's blocks count as if all were of their mean size, and sampled at the mean rate of those that live now.

    Args:
        everything: bytes of all objects, sampled or not: what is beyond the sites becomes a row of its own.
    """
    samples, rates = sampling.samples, SamplingIntervals(sampling.samples)
    counts, sizes, stacks = Counter[str](), Counter[str](), dict[str, list[int]]()
    for row in answer.rows:
        stack = samples.stack_of(row.stack)
        name = sampling.sites.name(stack, "site")
        counts[name] += row.count
        one = rates.weight(row, stack)
        sizes[name] += whole(row.count * one.bytes)
        if stack != FORGOTTEN:
            stacks.setdefault(name, []).append(row.stack)
    rows = [RetainerRow(name, name, counts[name], sizes[name], stacks=tuple(stacks.get(name, ()))) for name in counts]
    rest = everything - sum(sizes.values())
    if rest > 0:
        name = f"{NO_SITE}; tables, buffers"
        rows.append(RetainerRow(name, name, 0, rest, rest=True))
    return rows


def handler_shares(sizes: Mapping[int, int], sampling: Sampling) -> tuple[HandlerShare, ...]:
    """The handlers with most of what was allocated, by stack; none where no stack has one."""
    found = Counter[str]()
    for stack, size in sizes.items():
        found[sampling.sites.name(stack, "handler")] += size
    if all(name.endswith((NO_HANDLER, NO_FRAME_NAME, FORGOTTEN_NAME)) for name in found):
        return ()
    total = found.total() or 1
    shares = (HandlerShare(name, size / total) for name, size in found.most_common(_MOST_HANDLERS))
    return tuple(each for each in shares if each.share >= _LEAST_SHARE)


def handler_words(suspect: Suspect) -> str:
    """``request create_session (shop/views.py)``; of several, the share of each; of few samples how many. Empty for
    none."""
    handlers, few = suspect.handlers, ""
    if not handlers:
        return ""
    if suspect.samples < _FEW_SAMPLES:
        few = f" ({format_number(suspect.samples, 'sample')})"
    others = 1 - sum(each.share for each in handlers)
    if len(handlers) == 1 and others < _LEAST_SHARE:
        return f"{handlers[0].name}{few}"
    parts = [f"{each.share:.0%} {each.name}" for each in handlers]
    return f"≈{', '.join([*parts, *([f'{others:.0%} others'] if others >= _LEAST_SHARE else [])])}{few}"


@dataclass(frozen=True, slots=True)
class SampledShare:
    """How much of something its samples are."""

    count: int  # Objects that were sampled
    stands_for: int  # Objects that there are about, these among them

    @property
    def words(self) -> str:
        """What it means that only these can be shown; empty where there are no others."""
        objects = f"object{'s' * (self.count != 1)}"
        if self.stands_for <= self.count:
            return ""
        verb, these = ("were", "these") if self.count != 1 else ("was", "it")
        return (
            f"Of this site {format_count(self.count)} {objects} {verb} sampled, of about "
            f"{format_count(self.stands_for)}. Only {these} can be shown: the others are unknown."
        )


def sampled_of(answer: Blocks, sampling: Sampling) -> SampledShare:
    """Of the objects of an answer, each stack's counted as :func:`site_rows` does."""
    samples, rates = sampling.samples, SamplingIntervals(sampling.samples)
    about = 0
    for row in answer.rows:
        about += row.count * rates.weight(row, samples.stack_of(row.stack)).count
    return SampledShare(sum(row.count for row in answer.rows), whole(about))


class SamplingIntervals:
    """Bytes from one sample to the next when what lives was sampled, by stack: the mean of the blocks of each."""

    def __init__(self, samples: SampledBlocks) -> None:
        self._now = samples.state.interval if samples.state is not None else 1
        self._sums, self._counts = Counter[int](), Counter[int]()
        for likeness, times in samples.live_block_columns().alike():
            self._sums[likeness.stack] += likeness.interval * times
            self._counts[likeness.stack] += times

    def of(self, stack: int) -> int:
        """That of now where nothing of the stack lives any more."""
        return max(self._sums[stack] // self._counts[stack] if self._counts[stack] else self._now, 1)

    def weight(self, row: StackBlocks, stack: int) -> Weight:
        """What each of a stack's blocks represents, as if all were of their mean size."""
        return weight(max(row.bytes // max(row.count, 1), 1), self.of(stack))
