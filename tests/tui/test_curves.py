"""Curves, heat maps, lanes of phases, and when costly figures are made again: the pure parts of the views."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from heaptop.protocol.messages import Tick
from heaptop.tui.charts import curves, heat, lanes
from heaptop.tui.charts.curves import Curve, Scale, count_scale, log_scale, plot, spans
from heaptop.tui.charts.lanes import LaneInterval
from heaptop.tui.charts.raster import INK, Ink, StyleRun
from heaptop.tui.state.background import REST, Throttled
from heaptop.tui.state.session import Display

UNIT = Scale(0.0, 1.0)

heights = st.lists(st.floats(0, 1), min_size=2, max_size=40)


def line(values: list[float]) -> list[tuple[float, float]]:
    return [(number / (len(values) - 1), value) for number, value in enumerate(values)]


# -- curves --------------------------------------------------------------------------------------------------


@example([0, 0, 0, 0.25, 0.9999999999999999], 12, 8)  # roundings that differ by less than a dot
@given(heights, st.integers(2, 90), st.integers(2, 60))
@example([0.0, 0.0, 0.0, 0.25, 0.9999999999999999], 12, 8)
def test_a_curve_is_one_line_without_gaps(values: list[float], width: int, height: int) -> None:
    found = spans(line(values), UNIT, UNIT, width, height)
    assert all(0 <= low <= high < height for low, high in found)
    for (low, high), (next_low, next_high) in pairwise(found):
        assert next_low <= high + 1
        assert low <= next_high + 1


@given(heights, st.integers(2, 90), st.integers(2, 60))
def test_a_curve_goes_through_its_points(values: list[float], width: int, height: int) -> None:
    found = spans(line(values), UNIT, UNIT, width, height)
    for x, y in line(values):
        low, high = found[round(x * (width - 1))]
        assert low <= round(y * (height - 1)) <= high


def test_of_many_points_in_a_column_none_is_lost() -> None:
    points = [(number / 1000, 1.0 if number == 500 else 0.0) for number in range(1001)]
    assert max(high for _, high in spans(points, UNIT, UNIT, 10, 20)) == 19


@given(heights, st.integers(1, 90), st.integers(1, 30), st.sampled_from(list(Ink)))
def test_a_picture_has_its_size(values: list[float], width: int, height: int, ink: Ink) -> None:
    y = Scale(0.0, 1.0, ((0.0, "0"), (1.0, "100%")))
    band = [(x, value / 2, value) for x, value in line(values)]
    rows = curves.picture([Curve(line(values), 0, "A", band)], UNIT, y, width, height, ink)
    assert len(rows) == height
    assert {sum(len(run.text) for run in row) for row in rows} == {width}


@pytest.mark.parametrize("ink", list(Ink))
def test_curves_are_told_apart_by_letters(ink: Ink) -> None:
    cells = plot([Curve([(0, 0.2), (1, 0.2)], 0, "A"), Curve([(0, 0.8), (1, 0.8)], 1, "B")], UNIT, UNIT, 60, 10, ink)
    text = ["".join(cell[0] for cell in row) for row in cells]
    assert [number for number, row in enumerate(text) if "B" in row] == [2]
    assert [number for number, row in enumerate(text) if "A" in row] == [7]
    assert ink is Ink.ASCII or any(cell[1] == INK for row in cells for cell in row)


def test_the_band_lies_around_the_curve() -> None:
    band = [(0.0, 0.25, 0.75), (1.0, 0.25, 0.75)]
    cells = plot([Curve([(0, 0.5), (1, 0.5)], 0, "A", band)], UNIT, UNIT, 40, 20, Ink.ASCII)
    middle = [row[20][0] for row in cells]
    assert middle == [" "] * 4 + ["."] * 5 + ["A"] + ["."] * 5 + [" "] * 5


def test_curves_are_drawn_in_ascii() -> None:
    rows = curves.picture([Curve([(0, 0), (1, 1)], 0, "A")], UNIT, Scale(0, 1, ((0, "0"), (1, "1"))), 50, 12, Ink.ASCII)
    assert all(run.text.isascii() for row in rows for run in row)


@given(st.floats(1e-6, 1e12), st.floats(1, 1e6))
def test_a_logarithmic_scale_holds_both_ends(low: float, ratio: float) -> None:
    scale = log_scale(low, low * ratio, [(10.0**power, str(power)) for power in range(-9, 20)])
    assert scale.low <= low * (1 + 1e-6)
    assert scale.high >= low * ratio * (1 - 1e-9)
    assert scale.place(scale.low) == 0
    assert math.isclose(scale.place(math.sqrt(scale.low * scale.high)), 0.5, abs_tol=1e-9)
    assert all(scale.low <= tick <= scale.high for tick, _ in scale.ticks)


@given(st.floats(0, 1e15), st.integers(1, 60))
def test_an_axis_of_counts_holds_the_peak_and_wastes_little(peak: float, rows: int) -> None:
    scale = count_scale(peak, rows)
    assert max(peak, 1) <= scale.high <= max(peak, 1) * 2.6
    assert len({label for _, label in scale.ticks}) == len(scale.ticks) <= 12


def test_counts_are_labelled_in_round_numbers() -> None:
    assert [label for _, label in count_scale(271_000, 12).ticks] == ["0", "100k", "200k", "300k"]


# -- heat ----------------------------------------------------------------------------------------------------


@given(st.lists(st.lists(st.integers(0, 1000), max_size=30), max_size=40), st.integers(1, 60), st.integers(1, 20))
def test_resampling_gives_the_size_asked_for(columns: list[list[int]], width: int, height: int) -> None:
    found = heat.resample(columns, width, height)
    assert [len(column) for column in found] == [height] * width


def test_resampling_adds_up_ages_and_averages_times() -> None:
    assert heat.resample([[1, 2, 3, 4], [5, 6, 7, 8]], 1, 2) == [[7.0, 11.0]]


@given(st.lists(st.lists(st.integers(0, 9), max_size=30), min_size=1, max_size=40), st.sampled_from(list(Ink)))
def test_what_is_there_is_never_blank(columns: list[list[int]], ink: Ink) -> None:
    size = max(1, *map(len, columns))
    rows = heat.picture(columns, UNIT, UNIT, len(columns), size, ink)
    text = ["".join(run.text for run in row) for row in rows]
    if len(columns) < 14 or size < 4:  # without axes a cell is a value
        for x, column in enumerate(columns):
            for y, value in enumerate(column):
                assert (text[size - 1 - y][x] != " ") == (value > 0)


@given(st.lists(st.lists(st.integers(0, 10**6), min_size=1, max_size=8), min_size=1, max_size=12), st.sampled_from(Ink))
def test_each_shade_stands_for_what_its_legend_says(columns: list[list[int]], ink: Ink) -> None:
    width, height = 40, 12
    known = dict(heat.shades(columns, UNIT, width, height, ink))
    assert list(known.values()) == sorted(known.values())
    _, wide, rows = heat._plot(heat.gutter_of(UNIT), width, height)
    values = heat.resample(columns, wide, rows)
    top = max(max(column) for column in values)
    assert list(known.values())[-1] == (top or 1.0)
    lines = heat.picture(columns, UNIT, UNIT, width, height, ink)
    gutter = width - wide
    texts = ["".join(run.text for run in line)[gutter:] for line in lines[:rows]]
    steps = [0.0, *known.values()]
    for x, column in enumerate(values):
        for y, value in enumerate(column):
            shade = texts[rows - 1 - y][x]
            if value > 0 and shade in known:
                place = [*known].index(shade)
                least = steps[place] if place else 0.0
                assert least * 0.999 <= value <= known[shade] * 1.001


# -- lanes ---------------------------------------------------------------------------------------------------


def text_of(rows: list[list[StyleRun]]) -> list[str]:
    return ["".join(run.text for run in row) for row in rows]


def test_phases_stand_at_their_time_with_their_name() -> None:
    stretches = [
        LaneInterval("load", 0.0, 0.5, 0),
        LaneInterval("parse", 0.2, 0.4, 1),
        LaneInterval("serve", 0.6, 1.0, 0, open=True),
    ]
    rows = text_of(lanes.picture(stretches, UNIT, 51, 4, Ink.COLOUR, 10))
    assert rows == [
        " " * 10 + " " * 8 + "├parse──┤".ljust(33),
        " " * 10 + "├load───────────────┤   ├serve──────────→",
    ]


def test_more_lanes_than_lines_are_counted() -> None:
    stretches = [LaneInterval(f"lane {number}", 0.0, 1.0, number) for number in range(5)]
    rows = text_of(lanes.picture(stretches, UNIT, 60, 3, Ink.ASCII, 10))
    assert len(rows) == 3
    assert rows[0].strip() == "3 more lanes of phases"
    assert "lane 1" in rows[1]
    assert "lane 0" in rows[2]
    assert all(row.isascii() for row in rows)


@given(
    st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1), st.text(max_size=12)), max_size=8),
    st.integers(20, 90),
    st.sampled_from(list(Ink)),
)
def test_lanes_have_their_width(parts: list[tuple[float, float, str]], width: int, ink: Ink) -> None:
    stretches = [LaneInterval(name, min(a, b), max(a, b), number) for number, (a, b, name) in enumerate(parts)]
    rows = lanes.picture(stretches, UNIT, width, 4, ink, 8)
    assert len(rows) == min(len(parts), 4)
    assert all(len(row) == width for row in text_of(rows))


# -- pacing --------------------------------------------------------------------------------------------------


def display(second: int) -> Display:
    tick = Tick(
        id=1, time_ns=second * 10**9, rss=1, blocks=1, gc_enabled=True, gc_counts=(0, 0, 0), frozen=0, threads=1,
        agent_cpu_ns=0,
    )  # fmt: skip
    return Display(tick=tick)


class Costly:
    """Makes a number a second of a clock that it moves itself."""

    def __init__(self) -> None:
        self.now = 0.0
        self.made = 0
        self.paced: Throttled[int] = Throttled(lambda: self.now)

    def make(self) -> int:
        self.now += 1.0
        self.made += 1
        return self.made


def test_a_costly_figure_rests_and_says_how_old_it_is() -> None:
    costly = Costly()
    first, later = display(10), display(13)
    assert costly.paced.get(first, "a", costly.make) == 1
    assert costly.paced.age_ns(first) == 0
    assert costly.paced.get(later, "a", costly.make) == 1
    assert costly.paced.age_ns(later) == 3 * 10**9
    costly.now += REST
    assert costly.paced.get(display(14), "a", costly.make) == 2
    assert costly.paced.get(display(15), "b", costly.make) == 3, "another key is another figure"


def test_a_small_figure_is_made_for_every_display() -> None:
    costly = Costly()
    assert [costly.paced.get(display(second), "a", costly.make, small=True) for second in (1, 2, 3)] == [1, 2, 3]


def test_while_the_display_is_held_nothing_is_made_again() -> None:
    costly = Costly()
    before = display(10)
    costly.paced.get(display(9), "a", costly.make)
    assert costly.paced.get(before, "a", costly.make) == 1
    costly.now += 10 * REST
    held = replace(before, held=object())  # type: ignore[arg-type]  # that it is there is all that counts
    for again in (before, held, held):
        assert costly.paced.get(again, "a", costly.make, small=True) == 1
