"""Allocation bins: how much was allocated, freed and kept of each size (mprof: Zorn and Hilfinger, 1988, fig. 3).

A size is that of a block as it was asked for, and an object may have several.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from heaptop.analysis.samples.estimate import Estimate, Sums
from heaptop.analysis.samples.samples import SampledBlocks
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
    allocated_share: float  # Of the bytes of all bins, 0 to 1
    kept_share: float
    types: tuple[TypeOfSize, ...]
    """The largest first; those not known are one of them. Empty for classes and the total."""


@dataclass(frozen=True, slots=True)
class Bins:
    """The whole table."""

    rows: tuple[Bin, ...]  # By size. Sizes that were not kept apart come as a row of their class, after its others.
    classes: tuple[Bin, ...]  # All four, small to extra large
    total: Bin


class _Group:
    """What is summed up for one row."""

    __slots__ = ("freed", "kept", "lost", "types")

    def __init__(self) -> None:
        self.freed, self.kept, self.lost = Sums(), Sums(), Sums()
        self.types: dict[int, _Group] = {}

    def take(self, other: _Group) -> None:
        self.kept.merge(other.kept)
        self.freed.merge(other.freed)
        self.lost.merge(other.lost)

    def add(self, tally: Tally) -> None:
        self.kept.merge(tally.live)
        self.freed.merge(tally.freed)
        self.lost.merge(tally.lost)

    @property
    def allocated(self) -> Sums:
        return self.kept + self.freed + self.lost

    @property
    def allocated_bytes(self) -> int:
        """In the unit of ``Sums.bytes``."""
        return self.kept.bytes + self.freed.bytes + self.lost.bytes


@dataclass(frozen=True, slots=True)
class TypeOfSize:
    """Blocks of one type among those of one size; figures are made for who asks, as there may be very many of these."""

    type: TypeName
    _sums: _Group
    _samples: SampledBlocks

    @property
    def allocated(self) -> Estimate:
        return self._sums.allocated.estimate(self._samples.missed)

    @property
    def kept(self) -> Estimate:
        return self._sums.kept.estimate(self._samples.live_missed)


def bins(samples: SampledBlocks, where: Callable[[Tally], bool] | None = None) -> Bins:
    """The table, of what ``where`` lets through."""
    by_size: dict[int, _Group] = {}
    for tally in samples.tallies():
        if where is None or where(tally):
            row = by_size.setdefault(tally.bin, _Group())
            row.types.setdefault(tally.type, _Group()).add(tally)
    classes = [_Group() for _ in CLASS_RANGES]
    total = _Group()
    for number, row in by_size.items():
        for one in row.types.values():
            row.take(one)
        classes[class_of(number)].take(row)
        total.take(row)
    return Bins(
        rows=tuple(_bin(number, bin_label(number), by_size[number], total, samples) for number in _by_size(by_size)),
        classes=tuple(_bin(kind, CLASS_RANGES[kind], group, total, samples) for kind, group in enumerate(classes)),
        total=_bin(-1, "all", total, total, samples),
    )


def _by_size(numbers: Iterable[int]) -> list[int]:
    return sorted(numbers, key=lambda number: (class_of(number), number < 0, number))


def _bin(number: int, label: str, group: _Group, total: _Group, samples: SampledBlocks) -> Bin:
    kinds = sorted(group.types.items(), key=lambda item: (-item[1].allocated_bytes, item[0]))
    return Bin(
        number=number,
        label=label,
        allocated=group.allocated.estimate(samples.missed),
        freed=group.freed.estimate(samples.missed),
        kept=group.kept.estimate(samples.live_missed),
        allocated_share=_share(group.allocated, total.allocated),
        kept_share=_share(group.kept, total.kept),
        types=tuple(TypeOfSize(samples.type_name(kind), one, samples) for kind, one in kinds),
    )


def _share(part: Sums, whole: Sums) -> float:
    return part.bytes / whole.bytes if whole.bytes else 0.0
