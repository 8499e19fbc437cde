"""The table beside an icicle: the same boxes from left to right, callers above what they call, in figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from heaptop.tui.charts.chart_style import ChartStyle
from heaptop.tui.charts.icicle import Box, BoxStyle
from heaptop.tui.charts.raster import AXIS, EMPTY, INK, StyleRun
from heaptop.tui.text import clip

LEAST: Final = 14  # Lines of a whole chart from which on some of them are the table's
BESIDE: Final = 82  # Columns of the table beside the boxes
_STEPS: Final = 12  # Levels that names are moved in by, at most: deeper ones would have no room


@dataclass(frozen=True)
class IcicleColumns:
    """Columns, and what is in them."""

    headings: tuple[tuple[str, int], ...]  # Each with its columns
    of: Callable[[int], tuple[str, ...]]


class IcicleLayout(NamedTuple):
    """The places of boxes and table; the table beside the boxes where ``left`` is not 0, else below them."""

    boxes: tuple[int, int]  # Width and height
    table: tuple[int, int]
    left: int


def divide(width: int, height: int, *, wide: bool) -> IcicleLayout:
    """How much of a chart is the table's: nothing where there is no room."""
    if wide:
        return IcicleLayout((width - BESIDE - 2, height), (BESIDE, height), width - BESIDE)
    below = height // 3 + 1 if height >= LEAST else 0
    return IcicleLayout((width, height - below), (width, below), 0)


def in_order(boxes: Sequence[Box]) -> list[Box]:
    """Each before what is below it, and from left to right: as one reads them."""
    return sorted(boxes, key=lambda box: (box.start, box.depth))


def window(count: int, chosen: int, lines: int) -> int:
    """The first of ``lines`` rows that are shown: a third of them before the chosen one, as far as there are any."""
    return min(max(chosen - lines // 3, 0), max(count - lines, 0))


def table(
    boxes: Sequence[Box],
    face: Callable[[int], BoxStyle],
    figures: IcicleColumns,
    chosen: int,
    size: tuple[int, int],
    look: ChartStyle,
) -> tuple[list[list[StyleRun]], list[int]]:
    """Rows of runs under a heading, and the node of each row."""
    width, height = size
    if height < 2:
        return [], []
    numbers = sum(columns + 1 for _, columns in figures.headings)
    room = width - numbers - 3
    rows = in_order(boxes)
    at = next((place for place, box in enumerate(rows) if box.node == chosen), 0)
    first = window(len(rows), at, height - 1)
    heading = "".join(f" {title:>{columns}}" for title, columns in figures.headings)
    drawn = [[StyleRun(look.text(f"   {'Box':<{room}}{heading}"), AXIS, EMPTY)]]
    nodes = []
    for box in rows[first : first + height - 1]:
        label, slot = face(box.node)
        indent = " " * min(box.depth, _STEPS)
        name = clip(f"{indent}{label}", room).ljust(room)
        cells = "".join(
            f" {clip(cell, columns):>{columns}}"
            for cell, (_, columns) in zip(figures.of(box.node), figures.headings, strict=True)
        )
        is_chosen = box.node == chosen
        drawn.append(
            [
                StyleRun(look.text("›"), INK, slot) if is_chosen else StyleRun(" ", EMPTY, slot),
                StyleRun(look.text(f"  {name}{cells}"), EMPTY, EMPTY),
            ]
        )
        nodes.append(box.node)
    return drawn, nodes
