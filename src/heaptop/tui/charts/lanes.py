"""Labelled intervals of time above a chart, as a pure function to rows of coloured text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from heaptop.tui.charts.curves import Cell, Scale
from heaptop.tui.charts.raster import AXIS, EMPTY, Ink, StyleRun, runs


@dataclass(frozen=True, slots=True)
class LaneInterval:
    """One labelled interval. In one lane none overlaps another."""

    name: str
    begin: float
    end: float
    lane: int
    open: bool = False  # It continues beyond what is known


def picture(
    intervals: Sequence[LaneInterval], x: Scale, width: int, rows: int, ink: Ink, gutter: int
) -> list[list[StyleRun]]:
    """``rows`` lines of ``width`` columns, the first lane at the bottom: ``├load───┤``.

    What is too short for its name has as much of it as fits; what is shorter than a column is one column. Of more
    lanes than rows, the last row shows how many are left out.
    """
    lanes = 1 + max((interval.lane for interval in intervals), default=-1)
    shown = lanes if lanes <= rows else rows - 1
    plot = width - gutter
    lines: list[list[Cell]] = [[(" ", EMPTY, EMPTY)] * plot for _ in range(min(rows, lanes))]
    for interval in intervals:
        if interval.lane < shown and interval.end >= x.low:
            first, last = (round(x.place(at) * (plot - 1)) for at in (interval.begin, interval.end))
            _lay(lines[len(lines) - 1 - interval.lane], interval, first, last, ink)
    drawn = [[StyleRun(" " * gutter, AXIS, EMPTY), *runs(line)] for line in lines]
    if lanes > rows > 0:
        said = f"{lanes - shown} more lanes of phases"[:plot]
        drawn[0] = [StyleRun(" " * gutter + said.ljust(plot), AXIS, EMPTY)]
    return drawn


def _lay(line: list[Cell], interval: LaneInterval, first: int, last: int, ink: Ink) -> None:
    left, bar, right, on = "[-]>" if ink is Ink.ASCII else "├─┤→"
    if last == first:
        text = "|" if ink is Ink.ASCII else "│"
    else:
        inner = last - first - 1
        name = interval.name if len(interval.name) <= inner else interval.name[:inner]
        text = left + name.ljust(inner, bar) + (on if interval.open else right)
    if ink is Ink.ASCII:
        text = text.encode("ascii", "replace").decode()
    for place, char in enumerate(text):
        line[first + place] = (char, 0 if char in (left, bar, right, on) else EMPTY, EMPTY)
