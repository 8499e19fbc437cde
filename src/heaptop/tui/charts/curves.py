"""Curves over an axis, linear or logarithmic, as a pure function from points to rows of coloured text.

Like :mod:`heaptop.tui.charts.raster` it speaks of slots and roles.

A curve is drawn in Braille dots, two by four a cell, and its 95 % band as a shade around it. In one cell two curves
cannot have two colours: the later one has it. A letter on the curve says which it is, so that no colour is needed;
ASCII has only the letters.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from heaptop.tui.charts.raster import EMPTY, INK, LETTER_EVERY, NOTHING, Ink, StyleRun, even_step, framed, runs

_DOTS: Final = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""The bit of a dot in its cell's Braille pattern, by row from the top and column (Unicode, chapter 21.1)."""
_THOUSANDS: Final = ("", "k", "M", "G", "T")
_BRAILLE: Final = 0x2800
_SHADES: Final = "·░"  # Of the bands of the first and of the second curve, and so on in turn
_ASCII_SHADES: Final = ".:"
LEAST_PLOT: Final = 12  # Columns below which there are no axes, and no labels of a curve

Cell = tuple[str, int, int]  # Glyph, foreground, background


@dataclass(frozen=True, slots=True)
class Scale:
    """One axis: what lies at its ends, and the values to label."""

    low: float
    high: float
    ticks: tuple[tuple[float, str], ...] = ()
    log: bool = False

    def place(self, value: float) -> float:
        """Where a value lies: 0 at the low end, 1 at the high one; beyond them it stops there."""
        if self.log:
            value, low, high = math.log(max(value, self.low)), math.log(self.low), math.log(self.high)
        else:
            low, high = self.low, self.high
        return min(max((value - low) / (high - low), 0.0), 1.0) if high > low else 0.0


@dataclass(frozen=True, slots=True)
class Curve:
    """One curve: points by rising x, and the edges of its band where it has one."""

    points: Sequence[tuple[float, float]]
    slot: int
    letter: str
    band: Sequence[tuple[float, float, float]] = ()  # x, low, high


# -- columns of dots -----------------------------------------------------------------------------------------


def spans(points: Sequence[tuple[float, float]], x: Scale, y: Scale, width: int, height: int) -> list[tuple[int, int]]:
    """The lowest and the highest dot of a joined line in each of ``width`` columns; (1, 0) where there is none.

    Nothing between two points is left out: a column with many of them has all dots from the least to the largest.
    """
    found = [(1, 0)] * width
    first, start = -1, 0.0
    for at, value in points:
        if at > x.high or (at < x.low and not x.log):  # a logarithm has no 0: what lies below is at the low end
            continue
        column, level = round(x.place(at) * (width - 1)), y.place(value) * (height - 1)
        if column > first >= 0:
            found[first + 1 : column + 1] = _joined(start, level, column - first)
        else:
            end, (low, high) = round(level), found[column]
            found[column] = (min(low, end), max(high, end)) if low <= high else (end, end)
        first, start = column, level
    return found


@lru_cache(maxsize=4096)
def _joined(start: float, level: float, columns: int) -> tuple[tuple[int, int], ...]:
    """The lowest and the highest dot in each column behind that of a point, up to that of the next one, so many columns
    further: the same wherever both are, and from one frame to the next most of them stay."""
    found = []
    rise, last = (level - start) / columns, round(start)
    for between in range(1, columns + 1):
        dot = round(start + rise * between) if between < columns else round(level)
        beside = last - 1 if last > dot else min(last + 1, dot)  # joined to the column before
        found.append((min(dot, beside), max(dot, beside)))
        last = dot
    return tuple(found)


def _band(curve: Curve, x: Scale, y: Scale, width: int, rows: int) -> list[tuple[int, int]]:
    """The rows, from the bottom, that the band covers in each column."""
    places = [x.place(at) for at, _, _ in curve.band]
    found = []
    for column in range(width):
        at = (column + 0.5) / width
        right = bisect_right(places, at)
        if right == 0 or right == len(places):
            found.append((1, 0))
            continue
        part = (at - places[right - 1]) / (places[right] - places[right - 1])
        edges = [
            y.place(curve.band[right - 1][side]) * (1 - part) + y.place(curve.band[right][side]) * part
            for side in (1, 2)
        ]
        found.append((min(int(edges[0] * rows), rows - 1), min(int(edges[1] * rows), rows - 1)))
    return found


# -- cells ---------------------------------------------------------------------------------------------------


def plot(curves: Sequence[Curve], x: Scale, y: Scale, width: int, rows: int, ink: Ink) -> list[list[Cell]]:
    """The curves alone, without axes: ``rows`` lines from the top, of ``width`` cells each."""
    cells: list[list[Cell]] = [[NOTHING] * width for _ in range(rows)]
    shades = _ASCII_SHADES if ink is Ink.ASCII else _SHADES
    for number, curve in enumerate(curves):
        if not curve.band:
            continue
        for column, (low, high) in enumerate(_band(curve, x, y, width, rows)):
            for row in range(low, high + 1):
                cells[rows - 1 - row][column] = (shades[number % len(shades)], curve.slot, EMPTY)
    for number, curve in enumerate(curves):
        if ink is Ink.ASCII:
            _draw_letters(cells, curve, x, y)
        else:
            _draw_dots(cells, curve, x, y, 3 + number * 9)
    return cells


def _draw_letters(cells: list[list[Cell]], curve: Curve, x: Scale, y: Scale) -> None:
    rows, width = len(cells), len(cells[0])
    for column, (low, high) in enumerate(spans(curve.points, x, y, width, rows)):
        for row in range(low, high + 1):
            cells[rows - 1 - row][column] = (curve.letter, curve.slot, EMPTY)


def _draw_dots(cells: list[list[Cell]], curve: Curve, x: Scale, y: Scale, start: int) -> None:
    """With the curve's letter on it: ``start`` says in which columns, see :func:`_name`."""
    rows, width = len(cells), len(cells[0])
    found = spans(curve.points, x, y, 2 * width, 4 * rows)
    for column, halves in enumerate(zip(found[::2], found[1::2], strict=True)):
        for row, glyph in _glyphs(*halves):
            cells[rows - 1 - row][column] = (glyph, curve.slot, EMPTY)
    _name(cells, curve, found, start)


@lru_cache(maxsize=4096)
def _glyphs(*halves: tuple[int, int]) -> tuple[tuple[int, str], ...]:
    """What two columns of dots beside each other are as characters: rows from the bottom, and what is there. From
    one frame to the next most columns stay as they are."""
    masks: dict[int, int] = {}
    for half, (low, high) in enumerate(halves):
        for dot in range(low, high + 1):
            masks[dot // 4] = masks.get(dot // 4, 0) | _DOTS[3 - dot % 4][half]
    return tuple([(row, chr(_BRAILLE + mask)) for row, mask in masks.items()])


def _name(cells: list[list[Cell]], curve: Curve, found: list[tuple[int, int]], start: int) -> None:
    """The curve's letter on it, on a grid of columns of its own; where it has none of them, at its end."""
    drawn = sorted({column // 2 for column, (low, high) in enumerate(found) if low <= high})
    places = [column for column in drawn if column % LETTER_EVERY == start % LETTER_EVERY] or drawn[-1:]
    for column in places:
        dots = [dot for dot, high in found[2 * column : 2 * column + 2] if dot <= high]
        dots += [high for low, high in found[2 * column : 2 * column + 2] if low <= high]
        cells[len(cells) - 1 - (min(dots) + max(dots)) // 8][column] = (curve.letter, INK, curve.slot)


# -- the picture ---------------------------------------------------------------------------------------------


def gutter_of(y: Scale) -> int:
    """Columns that the labels of an axis take, with its line."""
    return max((len(label) for _, label in y.ticks), default=0) + 2


def with_axes(lines: list[list[Cell]], x: Scale, y: Scale, gutter: int, ink: Ink) -> list[list[StyleRun]]:
    """Cells with axes around them, whose labels at the left have ``gutter`` columns."""
    labels = {round(y.place(value) * len(lines)): label for value, label in y.ticks}
    ticks = [(x.place(value) * (len(lines[0]) - 1), text) for value, text in x.ticks]
    return framed(lines, labels, ticks, gutter, ink)


def picture(
    curves: Sequence[Curve], x: Scale, y: Scale, width: int, height: int, ink: Ink, *, gutter: int = 0
) -> list[list[StyleRun]]:
    """The whole chart with axes: ``height`` lines of runs, each exactly ``width`` columns.

    A screen too small for axes gets the bare curves. ``gutter`` is the least room for the labels at the left, for
    charts that are above one another.
    """
    gutter = max(gutter, gutter_of(y))
    if width - gutter < LEAST_PLOT or height < 4:
        return [runs(line) for line in plot(curves, x, y, width, height, ink)]
    return with_axes(plot(curves, x, y, width - gutter, height - 2, ink), x, y, gutter, ink)


# -- scales --------------------------------------------------------------------------------------------------


def log_scale(low: float, high: float, label: Sequence[tuple[float, str]]) -> Scale:
    """From the power of ten at or below ``low`` to ``high``, at least one decade; ``label`` is cut to what is on it."""
    begin = 10.0 ** math.floor(math.log10(low) + 1e-9)
    end = max(high, begin * 10)
    return Scale(begin, end, tuple(tick for tick in label if begin <= tick[0] <= end), log=True)


def count_scale(peak: float, rows: int) -> Scale:
    """From 0 to at least ``peak``, labelled about every fourth row at 1, 2 or 5 times a power of ten."""
    peak = max(peak, 1.0)
    raw = max(peak / max(1, min(6, rows // 3)), 1.0)
    power = 10.0 ** math.floor(math.log10(raw))
    steps = [times * power for times in (1, 2, 5, 10, 20) if times * power >= raw * (1 - 1e-9)]
    step, apart = even_step(steps, peak, rows)
    top = step * rows / apart
    group = min(int(math.log10(step * 1.0001)) // 3, len(_THOUSANDS) - 1)
    ticks = [(0.0, "0")]
    ticks += [(i * step, f"{i * step / 1000**group:g}{_THOUSANDS[group]}") for i in range(1, rows // apart + 1)]
    return Scale(0.0, top, tuple(ticks))
