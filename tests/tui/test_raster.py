"""The raster keeps the figures: heights sum to the total, order is kept, and no line is longer than the screen."""

from __future__ import annotations

import math
import re
from itertools import pairwise, zip_longest

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.segment import Segment
from textual.geometry import Region
from textual.strip import Strip

from heaptop.analysis.text.time_words import duration_label
from heaptop.tui.charts.raster import (
    EIGHTHS,
    EMPTY,
    INK,
    ChartBands,
    Ink,
    PointedAt,
    StyleRun,
    area,
    byte_axis,
    columns,
    lettered,
    picture,
    pointed_at,
    stack,
    window_for,
)
from heaptop.tui.terminal.repaint import dirty_region
from heaptop.tui.widgets.picture import changed_span

sizes = st.floats(0, 2**50, allow_nan=False)
scales = st.floats(2**-50, 2**-3)


@st.composite
def series(draw: st.DrawFn, max_bands: int = 6, max_times: int = 12) -> ChartBands:
    bands = draw(st.integers(1, max_bands))
    gaps = draw(st.lists(st.floats(0.01, 500), min_size=1, max_size=max_times))
    times = [sum(gaps[: i + 1]) for i in range(len(gaps))]
    values = [draw(st.lists(st.integers(0, 2**40), min_size=len(times), max_size=len(times))) for _ in range(bands)]
    return ChartBands(times, values, list(range(bands)), "ABCDEFGHIJ"[:bands])


# -- heights -------------------------------------------------------------------------------------------------


@given(st.lists(sizes, max_size=12), scales)
def test_heights_sum_to_the_rounded_total(values: list[float], scale: float) -> None:
    heights = stack(values, scale)
    assert sum(heights) == round(sum(value * scale for value in values))


@given(st.lists(sizes, max_size=12), scales)
def test_heights_are_off_by_less_than_one_slice(values: list[float], scale: float) -> None:
    for value, height in zip(values, stack(values, scale), strict=True):
        assert abs(height - value * scale) <= 1


@given(st.lists(sizes, min_size=2, max_size=12), scales)
def test_a_larger_band_is_never_drawn_lower(values: list[float], scale: float) -> None:
    pairs = sorted(zip(values, stack(values, scale), strict=True))
    for (small, low), (large, high) in pairwise(pairs):
        assert small == large or low <= high


def test_largest_remainders_get_what_rounding_down_left() -> None:
    assert stack([1.4, 1.4, 1.2], 1) == [2, 1, 1]
    assert stack([0.6, 0.6, 0.6], 1) == [1, 1, 0]
    assert stack([], 1) == []


# -- columns -------------------------------------------------------------------------------------------------


@given(series(), st.integers(1, 120))
def test_every_column_lies_between_the_smallest_and_the_largest_census(data: ChartBands, width: int) -> None:
    window = window_for(data.times[0], data.times[-1], width)
    totals = [sum(sample) for sample in zip(*data.values, strict=True)]
    shown = [sum(column) for column in columns(data, window, width) if column is not None]
    assert shown, "there is data, so something is shown"
    assert all(min(totals) <= total * (1 + 1e-9) and total <= max(totals) * (1 + 1e-9) for total in shown)
    assert math.isclose(max(shown), max(totals)), "no peak is lost"


@given(series(), st.integers(1, 120))
def test_data_is_drawn_without_holes(data: ChartBands, width: int) -> None:
    found = [column is not None for column in columns(data, window_for(0, data.times[-1], width), width)]
    first, last = found.index(True), len(found) - found[::-1].index(True)
    assert all(found[first:last])


def test_a_census_holds_until_the_next_one() -> None:
    """What was in between nobody knows: a line would show a jump as steady growth."""
    data = ChartBands([0.0, 30.0], [[0, 300], [30, 30]], [0, 1], "AB")
    found = columns(data, window_for(0, 30, 30), 30)
    assert found[:-1] == [(0, 30)] * 29
    assert found[-1] == (300, 30)


# -- cells ---------------------------------------------------------------------------------------------------


def _painted(data: ChartBands, width: int, rows: int, ink: Ink) -> tuple[list[list[tuple[str, int, int]]], float]:
    window = window_for(data.times[0], data.times[-1], width)
    peak = max(sum(sample) for sample in zip(*data.values, strict=True))
    axis = byte_axis(peak, rows)
    return [list(line) for line in area(data, window, axis, width, rows, ink)], axis.top


def _slices(column: list[tuple[str, int, int]]) -> int:
    """How many eighths of a column of cells are filled."""
    filled = 0
    for glyph, _, bg in column:
        if bg != EMPTY:
            filled += 8
        elif glyph != " ":
            filled += EIGHTHS.index(glyph)
    return filled


@given(series(), st.integers(4, 60), st.integers(2, 20))
def test_the_outline_is_the_total(data: ChartBands, width: int, rows: int) -> None:
    lines, top = _painted(data, width, rows, Ink.COLOUR)
    found = columns(data, window_for(data.times[0], data.times[-1], width), width)
    for x, values in enumerate(found):
        want = 0 if values is None else sum(stack(values, rows * 8 / top))
        assert _slices([line[x] for line in lines]) == want


@given(series(), st.integers(4, 60), st.integers(2, 20), st.sampled_from(list(Ink)))
def test_bands_lie_in_their_order(data: ChartBands, width: int, rows: int, ink: Ink) -> None:
    lines, _ = _painted(data, width, rows, ink)
    for x in range(width):
        slots = []
        for line in reversed(lines):
            _, fg, bg = line[x]
            slots += [slot for slot in (fg, bg) if slot >= 0]
        assert slots == sorted(slots)


@given(series(), st.integers(4, 60), st.integers(2, 20))
def test_a_letter_stands_in_its_own_band(data: ChartBands, width: int, rows: int) -> None:
    lines, _ = _painted(data, width, rows, Ink.COLOUR)
    for line in lines:
        for glyph, fg, bg in line:
            if fg == INK:
                assert data.letters[list(data.slots).index(bg)] == glyph


@given(series(), st.integers(4, 60), st.integers(2, 20), st.sampled_from(list(Ink)))
def test_a_band_has_its_letter_if_it_is_one_cell_high_anywhere(
    data: ChartBands, width: int, rows: int, ink: Ink
) -> None:
    lines, top = _painted(data, width, rows, ink)
    window = window_for(data.times[0], data.times[-1], width)
    heights = [stack(values, rows * ink.levels / top) for values in columns(data, window, width) if values is not None]
    runs = [[StyleRun(cell.glyph, cell.fg, cell.bg) for cell in line] for line in lines]
    found = lettered(runs, ink)
    for at, slot in enumerate(data.slots):
        highest = max(column[at] for column in heights)
        assert slot in found or highest < ink.levels
        assert slot not in found or highest * 2 >= ink.levels


def test_two_bands_share_a_cell() -> None:
    data = ChartBands([0.0, 30.0], [[1024 * 20] * 2, [1024 * 12] * 2], [3, 5], "AB")
    lines = area(data, window_for(0, 30, 4), byte_axis(1024 * 64, 8), 4, 8, Ink.COLOUR)
    column = [line[1] for line in lines][::-1]
    assert [(cell.fg, cell.bg) for cell in column[:5]] == [(3, 3), (3, 3), (3, 5), (5, 5), (EMPTY, EMPTY)] or any(
        cell.fg == 3 and cell.bg == 5 and cell.glyph in EIGHTHS[1:8] for cell in column
    )


def test_ascii_is_letters_only() -> None:
    data = ChartBands([0.0, 30.0], [[2048] * 2, [4096] * 2], [0, 1], "AB")
    rows = picture(data, origin=0, width=40, height=10, ink=Ink.ASCII)
    text = "".join(run.text for row in rows for run in row)
    assert text.isascii()
    assert "A" in text
    assert "B" in text


# -- the picture ---------------------------------------------------------------------------------------------


@given(series(), st.integers(1, 140), st.integers(1, 30), st.sampled_from(list(Ink)))
def test_the_picture_has_exactly_the_size_that_was_asked_for(
    data: ChartBands, width: int, height: int, ink: Ink
) -> None:
    rows = picture(data, origin=0, width=width, height=height, ink=ink)
    assert len(rows) == height
    assert [sum(len(run.text) for run in row) for row in rows] == [width] * height


@pytest.mark.parametrize("ink", list(Ink))
def test_no_data_is_an_empty_picture(ink: Ink) -> None:
    rows = picture(ChartBands([], [], [], []), origin=0, width=40, height=8, ink=ink)
    assert [sum(len(run.text) for run in row) for row in rows] == [40] * 8
    assert all(run.bg == EMPTY for row in rows for run in row)


@given(series(max_times=30), st.integers(40, 120))
def test_while_the_window_holds_the_past_is_not_painted_again(data: ChartBands, width: int) -> None:
    """What makes a tick cheap: a census more changes only columns right of the census before."""
    if len(data.times) < 3:
        return
    older = ChartBands(data.times[:-1], [band[:-1] for band in data.values], data.slots, data.letters)
    window = window_for(data.times[0], data.times[-1], width)
    before, after = columns(older, window, width), columns(data, window, width)
    at = int((data.times[-2] - window.start) / (window.span / width))
    assert before[:at] == after[:at]


def test_pointing_at_a_band() -> None:
    data = ChartBands([0.0, 10.0, 20.0], [[100.0] * 3, [300.0] * 3], [0, 1], ["A", "B"])

    def at(x: int, y: int) -> PointedAt | None:
        return pointed_at(data, x, y, origin=0.0, width=60, height=12)

    drawn = picture(data, origin=0.0, width=60, height=12, ink=Ink.ASCII)
    seen = set()
    for y, row in enumerate(drawn):
        cells = "".join(run.text for run in row)
        for x, glyph in enumerate(cells):
            found = at(x, y)
            if glyph in "AB" and found is not None:
                seen.add((glyph, found.band, found.bytes, found.total))
    assert seen == {("A", 0, 100, 400), ("B", 1, 300, 400)}
    found = at(20, 5)
    assert found is not None
    assert 5 < found.time < 10
    over = at(20, 0)
    assert over is not None
    assert (over.band, over.bytes) in {(None, 0), (1, 300)}
    assert at(0, 5) is None, "on the axis"
    assert at(59, 5) is None, "nothing was counted there yet"
    assert at(20, 11) is None, "below the axis"


# -- axes ----------------------------------------------------------------------------------------------------


@given(st.floats(0, 2**60), st.integers(1, 60))
def test_the_axis_holds_the_peak_and_wastes_little(peak: float, rows: int) -> None:
    axis = byte_axis(peak, rows)
    assert axis.top >= peak
    assert axis.top <= max(peak, 1024) * 2.05
    values = [value for value, _ in axis.ticks]
    assert values[0] == 0
    assert values == sorted(values)
    assert values[-1] <= axis.top
    assert len(values) <= 12
    assert len({label for _, label in axis.ticks}) == len(values)
    places = [value / axis.top * rows for value in values]
    apart = {round(after - before, 6) for before, after in pairwise(places)}
    assert len(apart) <= 1
    assert all(one == round(one) for one in apart), "ticks are whole rows apart"


@pytest.mark.parametrize(
    ("peak", "labels"),
    [
        (41.5 * 2**20, ["0", "20 MiB", "40 MiB"]),
        (1.3 * 2**20, ["0", "0.5 MiB", "1 MiB"]),
        (900 * 2**10, ["0", "0.5 MiB", "1 MiB"]),
        (5 * 2**30, ["0", "1 GiB", "2 GiB", "3 GiB", "4 GiB", "5 GiB"]),
    ],
)
def test_the_axis_is_labelled_in_round_units(peak: float, labels: list[str]) -> None:
    assert [label for _, label in byte_axis(peak, 16).ticks] == labels


@given(st.integers(0, 10**6), st.floats(0, 1e6), st.integers(12, 200))
def test_the_window_holds_the_data(first: int, length: float, width: int) -> None:
    window = window_for(first, first + length, width)
    assert window.start == first
    assert window.span >= length * (1 - 1e-9)
    assert all(first <= tick <= first + window.span * (1 + 1e-9) for tick, _ in window.ticks)


@pytest.mark.parametrize(
    ("seconds", "label"),
    [(0, "0s"), (45, "45s"), (60, "1m"), (90, "1m30"), (3600, "1h"), (8100, "2h15"), (86400, "1d"), (129600, "1d12")],
)
def test_a_duration_on_an_axis_has_two_units_at_most(seconds: float, label: str) -> None:
    assert duration_label(seconds) == label


# -- repainting ----------------------------------------------------------------------------------------------

rows_of_runs = st.lists(st.tuples(st.sampled_from("ab "), st.integers(-1, 2)), min_size=20, max_size=20)


@given(rows_of_runs, rows_of_runs)
def test_the_changed_span_holds_every_difference(old: list[tuple[str, int]], new: list[tuple[str, int]]) -> None:
    span = changed_span(
        [StyleRun(char, slot, slot) for char, slot in old], [StyleRun(char, slot, slot) for char, slot in new]
    )
    different = [x for x in range(20) if old[x] != new[x]]
    assert span == ((different[0], different[-1] + 1) if different else None)


longer_runs = st.lists(st.tuples(st.text("ab ", min_size=1, max_size=4), st.integers(-1, 1)), max_size=6)


@given(longer_runs, longer_runs, longer_runs, longer_runs)
def test_the_changed_span_is_the_same_however_rows_are_cut_into_runs(
    begin: list[tuple[str, int]], old: list[tuple[str, int]], new: list[tuple[str, int]], end: list[tuple[str, int]]
) -> None:
    rows = [[StyleRun(text, slot, slot) for text, slot in [*begin, *middle, *end]] for middle in (old, new)]
    single = [[StyleRun(char, run.fg, run.bg) for run in row for char in run.text] for row in rows]
    if len(single[0]) != len(single[1]):
        assert changed_span(*rows) == (0, max(map(len, single)))
        return
    different = [x for x, (was, now) in enumerate(zip(*single, strict=True)) if was != now]
    assert changed_span(*rows) == ((different[0], different[-1] + 1) if different else None)


def _strip(texts: list[str]) -> Strip:
    return Strip([Segment(text) for text in texts])


words = st.lists(st.sampled_from(["a ", "bc", "日", "dd", "e"]), max_size=6)


@given(words, words)
def test_every_difference_between_two_strips_is_in_the_dirty_region(old: list[str], new: list[str]) -> None:
    region = dirty_region(3, _strip(old), _strip(new))
    assert region is None or (region.y == 3 and region.height == 1)
    before, after = _cells(old), _cells(new)
    cells = zip_longest(before, after)
    different = {x for x, (was, now) in enumerate(cells) if was != now}
    assert different <= ({*range(region.x, region.right)} if region is not None else set())
    assert (region is not None) == (old != new)


def _cells(texts: list[str]) -> list[str]:
    return [cell for char in "".join(texts) for cell in ([char] if char.isascii() else [char, char])]


def test_unchanged_figures_are_not_sent_again() -> None:
    assert dirty_region(0, _strip(["ab", "cd", "ef"]), _strip(["ab", "xx", "ef"])) == Region(2, 0, 2, 1)
    assert dirty_region(0, _strip(["ab", "cd", "ef"]), _strip(["ab", "c", "d", "ef"])) == Region(2, 0, 2, 1)
    assert dirty_region(0, _strip(["a", "a"]), _strip(["a", "a", ""])) is None


@pytest.mark.parametrize("first", [0.0, 26.3, 31.0])
def test_both_corners_of_the_axis_say_when(first: float) -> None:
    data = ChartBands([first, first + 29.5], [[2048] * 2], [0], "A")
    rows = picture(data, origin=0, width=80, height=10, ink=Ink.COLOUR)
    under = "".join(run.text for run in rows[-1])[len("  1 KiB") :]
    assert re.match(r" ?\d+s", under)
    assert re.search(r"\d+m?s?$", under.rstrip())
    assert len(under.rstrip()) >= len(under) - 4
