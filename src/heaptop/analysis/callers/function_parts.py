"""What a function's allocations are made of: by size class, and by type where that is known."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from heaptop.analysis.samples.estimate import Sums
from heaptop.analysis.samples.sampled_blocks import SampledBlocks
from heaptop.analysis.samples.sizes import CLASS_RANGES, CLASSES, class_of
from heaptop.analysis.samples.tallies import Tally


@dataclass(frozen=True, slots=True)
class FunctionPart:
    """One size class or type."""

    by: Literal["size", "type"]
    name: str  # `m 33–256 B`, or a type's full name
    live: Sums
    allocated: int  # In the unit of `Sums.bytes`

    def amount(self, measure: str) -> int:
        """``live`` or ``allocated``, likewise."""
        return self.live.bytes if measure == "live" else self.allocated


def parts_of(tallies: Iterable[Tally], samples: SampledBlocks, measure: str) -> list[FunctionPart]:
    """Size classes and then types, the largest first by ``measure``, ``live`` or ``allocated``; none is empty."""
    found = [*tallies]
    sizes = _parts(
        found, "size", lambda tally: class_of(tally.bin), lambda kind: f"{CLASSES[kind]} {CLASS_RANGES[kind]} B"
    )
    types = _parts(found, "type", lambda tally: tally.type, lambda kind: samples.type_name(kind).full)
    return [
        *sorted(sizes, key=lambda part: (-part.amount(measure), part.name)),
        *sorted(types, key=lambda part: (-part.amount(measure), part.name)),
    ]


def _parts(
    tallies: list[Tally], by: Literal["size", "type"], of: Callable[[Tally], int], name: Callable[[int], str]
) -> list[FunctionPart]:
    live: dict[int, Sums] = {}
    allocated: dict[int, int] = {}
    for tally in tallies:
        key = of(tally)
        live.setdefault(key, Sums()).merge(tally.live)
        allocated[key] = allocated.get(key, 0) + tally.live.bytes + tally.freed.bytes + tally.lost.bytes
    return [FunctionPart(by, name(key), live[key], size) for key, size in allocated.items() if size]
