"""Which part of a line must be sent to the terminal again, as a pure function. It never draws."""

from __future__ import annotations

from collections.abc import Sequence

from rich.segment import Segment
from textual.geometry import Region
from textual.strip import Strip


def dirty_region(y: int, old: Strip, new: Strip) -> Region | None:
    """The part of line ``y`` that is left of two strips without the segments that both begin and end with; None if
    nothing is. What is alike within it is found cell by cell, when it is sent."""
    if old is new:
        return None
    before, after, width = list(old), list(new), new.cell_length
    if old.cell_length != width:
        return Region(0, y, max(old.cell_length, width), 1)
    begin, end = _in_common(before, after), _in_common(before[::-1], after[::-1])
    return Region(begin, y, width - begin - end, 1) if begin + end < width else None


def _in_common(before: Sequence[Segment], after: Sequence[Segment]) -> int:
    """The cells of the first segments that are alike."""
    cells = 0
    for was, now in zip(before, after, strict=False):
        if was != now:
            break
        cells += now.cell_length
    return cells
