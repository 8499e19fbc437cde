"""The stacked area chart, as a pure function from bands over time to rows of coloured text.

It speaks of band *slots* (0, 1, …) and of a few roles below zero, and :mod:`heaptop.tui.widgets.area_chart` turns these
into styles.

A cell is cut into ``levels`` slices from bottom to top. With eight, the glyphs ``▁▂▃▄▅▆▇`` let two bands share
a cell, one as its foreground and one as its background::

        upper band (background)  ┐
    ▅   ─────────────────────────┤ one cell, five eighths
        lower band (foreground)  ┘

Where three or more meet in one cell, the two widest there are drawn, except at the top of the stack: its
outline is kept exact, because that line is the total. Half blocks (two levels) would paint a sixth faster (4.1
against 4.9 ms at 200×50 with ten bands) and show a quarter of the detail, so they are not offered; one level
serves ASCII and monochrome screens.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from itertools import accumulate, groupby
from typing import Final, NamedTuple

from heaptop.analysis.text.time_words import ELAPSED, Times
from heaptop.analysis.text.units import used

EMPTY: Final = -1  # Role of what lies outside the stack: no paint
AXIS: Final = -2  # Role of lines, ticks and labels
GRID: Final = -3  # Role of the faint lines that lead from a tick into the empty part of the chart
INK: Final = -4  # Role of a letter drawn into a band; the band is its background

EIGHTHS: Final = " ▁▂▃▄▅▆▇█"
TEXTURES: Final = "▓░█▒"  # Fillings for monochrome screens, in turn from the bottom up

LETTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
REST_LETTER: Final = "~"

LETTER_EVERY: Final = 26  # Columns between two letters of one band


class Ink(Enum):
    """How bands are distinguished, besides their letters."""

    COLOUR = 8  # Eighth blocks in colours
    TEXTURE = 2  # Shades, for NO_COLOR
    ASCII = 1  # Every cell is its band's letter

    @property
    def levels(self) -> int:
        """Slices that a cell is cut into; textures and letters cannot share a cell."""
        return 8 if self is Ink.COLOUR else 1


class StyleRun(NamedTuple):
    """Neighbouring cells of one style. ``fg`` and ``bg`` are slots (from 0) or roles (below 0)."""

    text: str
    fg: int
    bg: int


class Glyph(NamedTuple):
    glyph: str
    fg: int
    bg: int


NOTHING: Final = Glyph(" ", EMPTY, EMPTY)


@dataclass(frozen=True, slots=True)
class ChartBands:
    """Bands over time, lowest first: what the chart draws.

    ``values[i][t]`` are the bytes of band ``i`` at ``times[t]`` seconds; ``slots[i]`` and ``letters[i]`` say what
    it is drawn with. Times rise.
    """

    times: Sequence[float]
    values: Sequence[Sequence[float]]
    slots: Sequence[int]
    letters: Sequence[str]


@dataclass(frozen=True, slots=True)
class Axis:
    """A value axis from 0 to ``top`` bytes, with the ticks to label."""

    top: float
    ticks: tuple[tuple[float, str], ...]


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """The interval of time on the chart, in seconds since the attach, and its ticks."""

    start: float
    span: float
    ticks: tuple[tuple[float, str], ...]
    ends: tuple[str, str] = ("", "")  # What its corners are called, where no tick is


# -- axes ----------------------------------------------------------------------------------------------------

_SECOND_STEPS: Final = (
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400,
)  # fmt: skip
_SPANS: Final = (30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 28800, 43200, 86400)


def byte_axis(peak: float, rows: int) -> Axis:
    """An axis that holds ``peak`` bytes on ``rows`` rows, labelled about every fourth row in round units.

    Ticks are as many rows apart as fit: all the same, and a slowly growing heap does not rescale the chart at every
    census.
    """
    units = used()
    base = float(units.base)
    peak = max(peak, base)
    raw = peak / max(1, min(6, rows // 3))
    power = min(len(units.names) - 1, int(math.log(max(raw, 1), base)))
    steps = [step * base**power for step in (*units.steps, 2 * base, 5 * base) if step * base**power >= raw]
    step, apart = even_step(steps, peak, rows)
    if step >= units.steps[-2] * base**power and power + 1 < len(units.names):
        power += 1
    top, count = step * rows / apart, rows // apart
    ticks = [(0.0, "0")]
    ticks += [(i * step, f"{i * step / base**power:g} {units.names[power]}") for i in range(1, count + 1)]
    return Axis(top, tuple(ticks))


def even_step(steps: Sequence[float], peak: float, rows: int) -> tuple[float, int]:
    """Of the first two steps the one that leaves less room above the ``peak``, with its whole number of rows from one
    tick to the next."""

    def apart(step: float) -> int:
        return max(1, int(rows * step / (peak * 1.02)))

    first, second = ((step, apart(step)) for step in steps[:2])
    is_better = second[0] / second[1] < first[0] / first[1] and rows // second[1] >= 2
    return second if is_better else first


def window_for(first: float, last: float, width: int, times: Times = ELAPSED) -> TimeWindow:
    """The interval of time to show for data between ``first`` and ``last`` seconds on ``width`` columns.

    It is longer than the data, and grows in steps: until the next step only new columns are painted, which is
    what keeps a tick cheap over ssh.
    """
    need = max(last - first, 1e-9)
    span = float(next((s for s in _SPANS if s >= need), math.ceil(need / 86400) * 86400))
    wanted = span / max(1, width // 12)
    step = float(next((s for s in _SECOND_STEPS if s >= wanted), math.ceil(wanted / 86400) * 86400))
    tick = times.first_tick(first, step)
    ticks = []
    while tick <= first + span + 1e-9:
        ticks.append((tick, times.tick(tick, step)))
        tick += step
    begin, end = (times.tick(round(moment), step) for moment in (first, first + span))
    return TimeWindow(first, span, tuple(ticks), (begin, end))


# -- columns -------------------------------------------------------------------------------------------------


def columns(series: ChartBands, window: TimeWindow, width: int) -> list[tuple[float, ...] | None]:
    """The value of every band in each of ``width`` columns; None where there is no data.

    A column that holds censuses shows the largest of them, so that no peak is lost; one between two censuses shows the
    one before.
    """
    times = series.times
    samples = list(zip(*series.values, strict=True)) if series.values else [() for _ in times]
    step = window.span / width
    found: list[tuple[float, ...] | None] = []
    low = bisect_left(times, window.start)
    for x in range(width):
        end = window.start + (x + 1) * step
        high = bisect_left(times, end, low) if x < width - 1 else len(times)
        if high > low:
            found.append(max(samples[low:high], key=sum))
        elif 0 < low < len(times):
            found.append(samples[low - 1])
        else:
            found.append(None)
        low = high
    return found


# From one frame to the next most columns stay as they are: what they come to is remembered.


@lru_cache(maxsize=1024)
def _heights(values: tuple[float, ...], scale: float) -> tuple[int, ...]:
    return tuple(stack(values, scale))


def stack(values: Sequence[float], scale: float) -> list[int]:
    """Heights in slices for one column, by the largest-remainder method: they sum to the rounded total.

    Order is kept: of two bands, the larger is never drawn lower.
    """
    exact = [value * scale for value in values]
    heights = [int(part) for part in exact]
    short = round(sum(exact)) - sum(heights)
    if short > 0:
        by_remainder = sorted(range(len(exact)), key=lambda i: (heights[i] - exact[i], -exact[i]))
        for i in by_remainder[:short]:
            heights[i] += 1
    return heights


def _shared(parts: list[tuple[int, int]], levels: int) -> Glyph:
    """One cell that several bands meet in: ``parts`` are (slot, slices) from the bottom up."""
    filled = sum(amount for _, amount in parts)
    if filled < levels:
        widest = max(parts, key=lambda part: part[1])[0]
        return Glyph(EIGHTHS[filled], widest, EMPTY)
    if len(parts) == 2:
        lower, upper = parts
    else:
        first, second = sorted(sorted(range(len(parts)), key=lambda i: -parts[i][1])[:2])
        lower, upper = parts[first], parts[second]
    level = round(levels * lower[1] / (lower[1] + upper[1]))
    return Glyph(EIGHTHS[min(max(level, 1), levels - 1)], lower[0], upper[0])


@lru_cache(maxsize=1024)
def paint_column(heights: tuple[int, ...], full: tuple[Glyph, ...], rows: int, levels: int) -> tuple[Glyph, ...]:
    """The cells of one column, bottom first. ``full[i]`` is a cell that band ``i`` fills alone."""
    cells: list[Glyph] = []
    parts: list[tuple[int, int]] = []
    room = levels
    for band, height in enumerate(heights):
        left = height
        while left:
            if room == levels and left >= levels:
                cells += [full[band]] * (left // levels)
                left %= levels
                continue
            take = min(room, left)
            parts.append((full[band].bg, take))
            room -= take
            left -= take
            if not room:
                cells.append(full[band] if len(parts) == 1 else _shared(parts, levels))
                parts, room = [], levels
    if parts:
        cells.append(_shared(parts, levels))
    cells = cells[:rows]
    return (*cells, *[NOTHING] * (rows - len(cells)))


def _full_cells(series: ChartBands, ink: Ink) -> tuple[Glyph, ...]:
    cells = []
    for place, (slot, letter) in enumerate(zip(series.slots, series.letters, strict=True)):
        # By place and not by slot: no two neighbours are alike, and the letters say which band is which.
        glyph = {Ink.COLOUR: "█", Ink.TEXTURE: TEXTURES[place % len(TEXTURES)], Ink.ASCII: letter}[ink]
        # Foreground and background alike: no seams between lines, and a copied screen still shows the shape.
        cells.append(Glyph(glyph, slot, slot))
    return tuple(cells)


def _letters(stacks: Sequence[Sequence[int] | None], levels: int) -> dict[tuple[int, int], int]:
    """Where letters are written, (column, row from the bottom), and whose. A band that is one cell high somewhere has
    one, and so has one that fills half of a cell, where there is no other's letter."""
    ends = [None if heights is None else [0, *accumulate(heights)] for heights in stacks]
    # Most thin bands are so everywhere: nobody need go through all columns for them.
    tallest = [max(band) for band in zip(*[heights for heights in stacks if heights is not None], strict=True)]
    places: dict[tuple[int, int], int] = {}
    for band, height in enumerate(tallest):
        if height >= levels:
            places.update(dict.fromkeys(_high_places(ends, band, levels), band))
    lettered = set(places.values())
    for band, height in enumerate(tallest):
        if height * 2 < levels or band in lettered:
            continue
        if (place := _thin_place(ends, band, levels, places)) is not None:
            places[place] = band
    return places


def _high_places(ends: Sequence[list[int] | None], band: int, levels: int) -> list[tuple[int, int]]:
    """Of a band that is one cell high somewhere: on a fixed grid, else once where it fills most of a cell. Where it
    fills none, in the cell that it begins in, which no other band of that height begins in."""

    def middle(x: int) -> int | None:
        end = ends[x] if 0 <= x < len(ends) else None
        if end is None or end[band + 1] - end[band] < levels:
            return None
        first, last = -(-end[band] // levels), end[band + 1] // levels - 1
        return (first + last) // 2 if first <= last else None

    def roomy(x: int) -> int | None:
        row = middle(x)
        if row is None:
            return None
        for beside in (ends[x - 1] if x else None, ends[x + 1] if x + 1 < len(ends) else None):
            if beside is None or beside[band] > row * levels or beside[band + 1] < (row + 1) * levels:
                return None
        return row

    start = 3 + band * 7 % LETTER_EVERY
    places = [(x, row) for x in range(start, len(ends), LETTER_EVERY) if (row := roomy(x)) is not None]
    if places:
        return places
    found: list[tuple[tuple[bool, int, int, int], tuple[int, int]]] = []
    for x, end in enumerate(ends):
        if end is not None and (height := end[band + 1] - end[band]) >= levels:
            row = middle(x)
            at = end[band] // levels if row is None else row
            found.append(((roomy(x) is not None, -(end[band] % levels) if row is None else 1, height, -x), (x, at)))
    return [max(found)[1]] if found else []


def _thin_place(
    ends: Sequence[list[int] | None], band: int, levels: int, taken: Container[tuple[int, int]]
) -> tuple[int, int] | None:
    """Of a band that is nowhere one cell high: where it fills most of a cell, half of one at least. The outline of the
    stack is left as it is."""
    found: list[tuple[int, int, int]] = []
    for x, end in enumerate(ends):
        if end is None or (end[band + 1] - end[band]) * 2 < levels or end[band + 1] == end[band]:
            continue
        for row in {end[band] // levels, (end[band + 1] - 1) // levels}:
            filled = min(end[band + 1], (row + 1) * levels) - max(end[band], row * levels)
            if filled * 2 >= levels and (row + 1) * levels <= end[-1] and (x, row) not in taken:
                found.append((filled, -x, row))
    if not found:
        return None
    _, x, row = max(found)
    return -x, row


def area(series: ChartBands, window: TimeWindow, axis: Axis, width: int, rows: int, ink: Ink) -> list[list[Glyph]]:
    """The stack alone, without axes: ``rows`` lines from the top, of ``width`` cells each."""
    levels = ink.levels
    scale = rows * levels / axis.top
    full = _full_cells(series, ink)
    stacks = [None if values is None else _heights(values, scale) for values in columns(series, window, width)]
    empty = (NOTHING,) * rows
    painted = [empty if heights is None else paint_column(heights, full, rows, levels) for heights in stacks]
    lines = [list(line) for line in zip(*painted, strict=True)][::-1]
    if ink is not Ink.ASCII:
        for (x, row), band in _letters(stacks, levels).items():
            if row < rows:
                lines[rows - 1 - row][x] = Glyph(series.letters[band], INK, series.slots[band])
    return lines


# -- the picture ---------------------------------------------------------------------------------------------


def lettered(rows: Sequence[Sequence[StyleRun]], ink: Ink) -> frozenset[int]:
    """The slots of the bands that have their letter in a picture."""
    return frozenset(run.bg for row in rows for run in row if run.bg >= 0 and (run.fg == INK or ink is Ink.ASCII))


def runs(cells: Iterable[tuple[str, int, int]]) -> list[StyleRun]:
    """Neighbouring cells of one style as one run. Most are as the cell before, all of it."""
    found: list[StyleRun] = []
    text, worn = "", (EMPTY, EMPTY)
    for (glyph, fg, bg), group in groupby(cells):
        alike = glyph * len([*group])
        if worn == (fg, bg):
            text += alike
            continue
        if text:
            found.append(StyleRun(text, *worn))
        text, worn = alike, (fg, bg)
    return [*found, StyleRun(text, *worn)] if text else found


def framed(
    lines: Sequence[Sequence[tuple[str, int, int]]],
    labels: Mapping[int, str],
    ticks: Iterable[tuple[float, str]],
    gutter: int,
    ink: Ink,
    ends: tuple[str, str] = ("", ""),
) -> list[list[StyleRun]]:
    """Cells with axes around them: a column of labels ``gutter`` wide at the left, by rows from the bottom, and two
    lines below, with ticks by columns and what the corners are called."""
    ascii_only = ink is Ink.ASCII
    grid = Glyph("." if ascii_only else "┈", GRID, EMPTY)
    drawn: list[list[StyleRun]] = []
    for number, line in enumerate(lines):
        label = labels.get(len(lines) - number)
        cells = line if label is None else [grid if cell == NOTHING else cell for cell in line]
        mark = ("-|" if ascii_only else "╶┤") if label is not None else (" |" if ascii_only else " │")
        drawn.append([StyleRun((label or "").rjust(gutter - 2) + mark, AXIS, EMPTY), *runs(cells)])
    under, captions = _under(ticks, len(lines[0]), ascii_only, ends)
    corner = "-+" if ascii_only else "╶└"
    drawn.append([StyleRun(labels.get(0, "").rjust(gutter - 2) + corner + under, AXIS, EMPTY)])
    drawn.append([StyleRun(" " * gutter + captions, AXIS, EMPTY)])
    return drawn


def _under(
    ticks: Iterable[tuple[float, str]], width: int, ascii_only: bool, ends: tuple[str, str]
) -> tuple[str, str]:
    """The axis line with its ticks, and the labels under it, in its corners too. A label that has no room is left
    out."""
    line = ["-" if ascii_only else "─"] * width
    labels = [" "] * width
    free = 0
    for place, text in ticks:
        column = min(width - 1, round(place))
        line[column] = "+" if ascii_only else "┬"
        at = min(max(0, column - len(text) // 2), width - len(text))
        if at >= free:
            labels[at : at + len(text)] = text
            free = at + len(text) + 1
    begin, end = ends
    if begin and len(begin) < width and not "".join(labels[: len(begin) + 1]).strip():
        labels[: len(begin)] = begin
    if end and len(end) < width and not "".join(labels[-len(end) - 1 :]).strip():
        labels[-len(end) :] = end
    return "".join(line), "".join(labels)


@dataclass(frozen=True, slots=True)
class _Layout:
    """What a chart of some size shows: its bands by seconds from the origin, both axes, and where the area is."""

    series: ChartBands
    window: TimeWindow
    axis: Axis
    gutter: int  # Columns on the left, with the labels; 0 without axes
    rows: int

    @classmethod
    def of(
        cls, series: ChartBands, origin: float, width: int, height: int, times: Times, now: float | None = None
    ) -> _Layout:
        moments = [time - origin for time in series.times]
        moved = ChartBands(moments, series.values, series.slots, series.letters)
        last = max(moments[-1] if moments else 0.0, (now - origin) if now is not None else 0.0)
        first = moments[0] if moments else 0.0
        # An attach takes a moment before the first census: the axis still begins at the attach itself.
        first = 0.0 if first < 2.0 else first
        peak = max((sum(sample) for sample in zip(*series.values, strict=True)), default=0.0)
        rows = max(1, height - 2)
        axis = byte_axis(peak, rows)
        gutter = max(len(label) for _, label in axis.ticks) + 2
        if width - gutter < 12 or height < 4:
            return cls(moved, window_for(first, last, width, times), byte_axis(peak, height), 0, height)
        return cls(moved, window_for(first, last, width - gutter, times), axis, gutter, rows)


class PointedAt(NamedTuple):
    """What is drawn in one cell: at which time, in seconds from the origin; of how many bytes; which band, by its
    place in the series, and how many of them are its own. No band above the stack."""

    time: float
    total: float
    band: int | None
    bytes: float


def pointed_at(
    series: ChartBands, x: int, y: int, *, origin: float, width: int, height: int, times: Times = ELAPSED
) -> PointedAt | None:
    """What :func:`picture` has in a cell; None beside the area, and where nothing was counted."""
    shown = _Layout.of(series, origin, width, height, times)
    plot, column = width - shown.gutter, x - shown.gutter
    if not (0 <= column < plot and 0 <= y < shown.rows):
        return None
    values = columns(shown.series, shown.window, plot)[column]
    if values is None:
        return None
    height_there = (shown.rows - y - 0.5) / shown.rows * shown.axis.top
    band = next((place for place, end in enumerate(accumulate(values)) if height_there < end), None)
    time = shown.window.start + (column + 0.5) / plot * shown.window.span
    return PointedAt(time, sum(values), band, values[band] if band is not None else 0.0)


def picture(
    series: ChartBands,
    *,
    origin: float,
    width: int,
    height: int,
    ink: Ink,
    now: float | None = None,
    times: Times = ELAPSED,
) -> list[list[StyleRun]]:
    """The whole chart with axes: ``height`` lines of runs, each exactly ``width`` columns.

    ``series.times`` are seconds on any clock; labels count from ``origin`` on it. ``now`` extends the window
    beyond the last value. A screen too small for axes gets the bare area.
    """
    shown = _Layout.of(series, origin, width, height, times, now)
    window, axis, gutter, rows, plot = shown.window, shown.axis, shown.gutter, shown.rows, width - shown.gutter
    lines = area(shown.series, window, axis, plot, rows, ink)
    if not gutter:
        return [runs(line) for line in lines]
    labels = {round(value / axis.top * rows): label for value, label in axis.ticks}
    ticks = [((value - window.start) / window.span * plot, text) for value, text in window.ticks]
    return framed(lines, labels, ticks, gutter, ink, window.ends)
