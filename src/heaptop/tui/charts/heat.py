"""How much there is at each place of a plane, as a pure function from a matrix to rows of shaded text.

One slot is drawn in shades, which need no colour.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from heaptop.tui.charts.curves import LEAST_PLOT, Cell, Scale, gutter_of, with_axes
from heaptop.tui.charts.raster import EMPTY, Ink, StyleRun, runs

SHADES: Final = " ·░▒▓█"
ASCII_SHADES: Final = " .:+#@"


def resample(columns: Sequence[Sequence[float]], width: int, height: int) -> list[list[float]]:
    """``width`` columns of ``height`` values, the first of each at its bottom.

    Neighbouring values of a column that fall together are added up, and neighbouring columns averaged; where there
    are fewer than wanted, the nearest is repeated. A column that is shorter than the longest ends in zeros.
    """
    tall = max((len(column) for column in columns), default=0)
    if not tall:
        return [[0.0] * height for _ in range(width)]
    pooled = [[float(sum(column[begin:end])) for begin, end in _parts(tall, height)] for column in columns]
    return [
        [sum(values) / (end - begin) for values in zip(*pooled[begin:end], strict=True)]
        for begin, end in _parts(len(columns), width)
    ]


def _parts(size: int, wanted: int) -> list[tuple[int, int]]:
    """``wanted`` neighbouring ranges over ``size`` things, none empty."""
    edges = [number * size // wanted for number in range(wanted + 1)]
    return [(begin, max(end, begin + 1)) for begin, end in pairwise(edges)]


def picture(
    columns: Sequence[Sequence[float]], x: Scale, y: Scale, width: int, height: int, ink: Ink, slot: int = 0
) -> list[list[StyleRun]]:
    """The matrix with axes: ``height`` lines of runs, each exactly ``width`` columns.

    The darkest shade is the largest value; shades go by its square root, so that a tenth of it is still seen. What
    is above 0 is never blank.
    """
    gutter = gutter_of(y)
    bare, wide, rows = _plot(gutter, width, height)
    values, top = _values(columns, wide, rows)
    shades = _shades(ink)

    def cell(value: float) -> Cell:
        if value <= 0:
            return " ", EMPTY, EMPTY
        return shades[max(1, round((value / top) ** 0.5 * (len(shades) - 1)))], slot, EMPTY

    lines = [[cell(values[column][row]) for column in range(wide)] for row in reversed(range(rows))]
    return [runs(line) for line in lines] if bare else with_axes(lines, x, y, gutter, ink)


def shades(columns: Sequence[Sequence[float]], y: Scale, width: int, height: int, ink: Ink) -> list[tuple[str, float]]:
    """Each shade of :func:`picture`, and the largest value it represents."""
    _, wide, rows = _plot(gutter_of(y), width, height)
    _, top = _values(columns, wide, rows)
    known = _shades(ink)
    last = len(known) - 1
    return [(known[place], top * min((place + 0.5) / last, 1.0) ** 2) for place in range(1, last + 1)]


def _plot(gutter: int, width: int, height: int) -> tuple[bool, int, int]:
    """Whether there is no room for axes; columns and rows of the plot."""
    bare = width - gutter < LEAST_PLOT or height < 4
    return (True, width, height) if bare else (False, width - gutter, height - 2)


def _values(columns: Sequence[Sequence[float]], wide: int, rows: int) -> tuple[list[list[float]], float]:
    """What is drawn, and the largest of it."""
    values = resample(columns, wide, rows)
    return values, max((value for column in values for value in column), default=0.0) or 1.0


def _shades(ink: Ink) -> str:
    return ASCII_SHADES if ink is Ink.ASCII else SHADES
