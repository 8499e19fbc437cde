"""How a figure that is made of samples is marked: ≈ unless it is exact, and ``no samples`` where there is none."""

from __future__ import annotations

from typing import Final

from heaptop.analysis.samples.estimate import Estimate
from heaptop.analysis.text.units import format_bytes, format_count

NONE: Final = "no samples"  # For 0: small blocks may have been missed
SHORT_NONE: Final = "0 samples"  # For no samples, where there is no room for these words


def sure(one: Estimate) -> bool:
    """Whether it is exact: all such blocks are sampled. What is only a difference to a census has no samples."""
    return one.exact and one.samples > 0


def estimate_text(one: Estimate, *, blocks: bool = False) -> str:
    """``≈12.3 MiB``, or without ≈ what is exact; its blocks instead of its bytes."""
    if not one.bytes:
        return NONE
    return ("" if sure(one) else "≈") + (format_count(one.count) if blocks else format_bytes(one.bytes))


def about_bytes(number: int) -> str:
    """Bytes that are known from samples only."""
    return f"≈{format_bytes(number)}" if number else NONE
