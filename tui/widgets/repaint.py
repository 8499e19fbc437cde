"""Which part of a line must be sent to the terminal again, as a pure function. It never draws."""

from __future__ import annotations

from textual.geometry import Region
from textual.strip import Strip


def dirty_regions(y: int, old: Strip, new: Strip) -> list[Region]:
    """The regions of line ``y`` in which two strips differ, segment by segment; the whole line if they are cut
    into segments differently."""
    before, after = list(old), list(new)
    if before == after:
        return []
    if [segment.cell_length for segment in before] != [segment.cell_length for segment in after]:
        return [Region(0, y, max(old.cell_length, new.cell_length), 1)]
    regions: list[Region] = []
    x = 0
    for was, now in zip(before, after, strict=True):
        if was != now:
            regions.append(Region(x, y, now.cell_length, 1))
        x += now.cell_length
    return regions
