"""Allocation bins: how much was allocated, freed and kept of each size (mprof: Zorn and Hilfinger, 1988, fig. 3).

A size is that of a block as it was asked for, and an object may have several.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from heaptop.analysis.samples.estimate import Estimate
from heaptop.analysis.samples.producers import Flow
from heaptop.analysis.samples.sampled_blocks import SampledBlocks
from heaptop.analysis.samples.sizes import CLASS_RANGES, bin_label, class_of
from heaptop.analysis.samples.tallies import Tally
from heaptop.protocol.messages import TypeName


@dataclass(frozen=True, slots=True)
class Bin:
    """Blocks of one size, of a range of sizes, or of a class."""

    number: int  # As in analysis.samples.sizes; of a class its position in `CLASSES`; −1 for all together
    label: str
    allocated: Estimate
    freed: Estimate
    kept: Estimate
    kept_share: float  # Of the bytes of all bins, 0 to 1
    types: tuple[TypeOfSize, ...]
    """The largest first; those not known are one of them. Empty for classes and the total."""


@dataclass(frozen=True, slots=True)
class Bins:
    """The whole table."""

    rows: tuple[Bin, ...]  # By size. Sizes that were not kept apart come as a row of their class, after its others.
    classes: tuple[Bin, ...]  # All four, small to extra large
    total: Bin


@dataclass(frozen=True, slots=True)
class _Group(Flow):
    """What is summed up for one row."""

    types: dict[int, Flow] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TypeOfSize:
    """Blocks of one type among those of one size; figures are made for who asks, as there may be very many of these."""

    type: TypeName
    _sums: Flow
    _samples: SampledBlocks

    @property
    def allocated(self) -> Estimate:
        return self._sums.allocated.estimate(self._samples.missed)

    @property
    def kept(self) -> Estimate:
        return self._sums.live.estimate(self._samples.live_missed)


def bins(samples: SampledBlocks, where: Callable[[Tally], bool] | None = None) -> Bins:
    """The table, of what ``where`` lets through."""
    by_size: dict[int, _Group] = {}
    for tally in samples.tallies():
        if where is None or where(tally):
            row = by_size.setdefault(tally.bin, _Group())
            row.types.setdefault(tally.type, Flow()).add(tally)
    classes = [_Group() for _ in CLASS_RANGES]
    total = _Group()
    for number, row in by_size.items():
        for one in row.types.values():
            row.add(one)
        classes[class_of(number)].add(row)
        total.add(row)
    numbers = sorted(by_size, key=lambda number: (class_of(number), number < 0, number))
    return Bins(
        rows=tuple(_bin(number, bin_label(number), by_size[number], total, samples) for number in numbers),
        classes=tuple(_bin(kind, CLASS_RANGES[kind], group, total, samples) for kind, group in enumerate(classes)),
        total=_bin(-1, "all", total, total, samples),
    )


def _bin(number: int, label: str, group: _Group, total: _Group, samples: SampledBlocks) -> Bin:
    def place(item: tuple[int, Flow]) -> tuple[int, int]:
        kind, sums = item
        return -(sums.live.bytes + sums.freed.bytes + sums.lost.bytes), kind

    kinds = sorted(group.types.items(), key=place)
    return Bin(
        number=number,
        label=label,
        allocated=group.allocated.estimate(samples.missed),
        freed=group.freed.estimate(samples.missed),
        kept=group.live.estimate(samples.live_missed),
        kept_share=group.live.bytes / total.live.bytes if total.live.bytes else 0.0,
        types=tuple(TypeOfSize(samples.type_name(kind), one, samples) for kind, one in kinds),
    )
