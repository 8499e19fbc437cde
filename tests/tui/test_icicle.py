"""The icicle's boxes and cells: where they lie, what they look like, and moving among them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heaptop.tui.charts.chart_style import ChartStyle
from heaptop.tui.charts.icicle import Box, BoxStyle, at, clip_label, layout, neighbour, paint
from heaptop.tui.charts.icicle_table import LEAST, IcicleColumns, divide, in_order, table, window
from heaptop.tui.charts.palette import DARK
from heaptop.tui.charts.raster import EMPTY, INK, Ink

INKS = list(Ink)


class Nodes:
    """A tree of figures: node 0 is its root; ``own`` is what each node has by itself."""

    def __init__(self, parents: Sequence[int], own: Sequence[int]) -> None:
        self.parents = [0, *parents]
        self.totals = [0, *own]
        self.below: list[list[int]] = [[] for _ in self.parents]
        for node in range(len(self.parents) - 1, 0, -1):
            self.totals[self.parents[node]] += self.totals[node]
            self.below[self.parents[node]].insert(0, node)

    def boxes(self, width: int, ink: Ink, path: Sequence[int] = (0,), depth: int = 30) -> list[Box]:
        return layout(path, self.below.__getitem__, self.totals.__getitem__, width * ink.levels, depth)


@st.composite
def trees(draw: st.DrawFn) -> Nodes:
    size = draw(st.integers(0, 25))
    parents = [draw(st.integers(0, node)) for node in range(size)]
    return Nodes(parents, [draw(st.integers(0, 1000)) for _ in range(size)])


def face(node: int) -> BoxStyle:
    return BoxStyle(f"function_{node}", node % 3)


@given(trees(), st.integers(1, 120), st.sampled_from(INKS))
def test_boxes_lie_in_their_parents_and_beside_each_other(tree: Nodes, width: int, ink: Ink) -> None:
    boxes = tree.boxes(width, ink)
    place = {box.node: box for box in boxes}
    whole = width * ink.levels
    for box in boxes:
        above = place[tree.parents[box.node]]
        assert 0 <= above.start <= box.start < box.end <= above.end <= whole
        assert box.depth == (above.depth + 1 if box.node else 0)
        exact = tree.totals[box.node] * whole / (tree.totals[0] or 1)
        assert abs(box.end - box.start - exact) <= 1 or not box.node
    for depth in {box.depth for box in boxes}:
        row = [box for box in boxes if box.depth == depth]
        assert all(left.end <= right.start for left, right in pairwise(row))


@given(trees(), st.integers(1, 120), st.integers(1, 12), st.sampled_from(INKS), st.integers(0, 3))
def test_the_picture_has_exactly_the_size_that_was_asked_for(
    tree: Nodes, width: int, height: int, ink: Ink, top: int
) -> None:
    rows = paint(tree.boxes(width, ink), face, 0, width, height, ink, top)
    assert [sum(len(run.text) for run in row) for row in rows] == [width] * height
    assert ink is not Ink.ASCII or all(run.text.isascii() for row in rows for run in row)


@given(trees(), st.integers(8, 120))
def test_paint_covers_boxes_and_nothing_else(tree: Nodes, width: int) -> None:
    """A cell that boxes fill is painted, one that they leave empty is not."""
    boxes = tree.boxes(width, Ink.COLOUR)
    rows = paint(boxes, face, -1, width, 8, Ink.COLOUR)
    for depth, row in enumerate(rows):
        cells = [(char, run.fg, run.bg) for run in row for char in run.text]
        for x, (char, _, bg) in enumerate(cells):
            covered = sum(
                max(0, min(box.end, x * 8 + 8) - max(box.start, x * 8)) for box in boxes if box.depth == depth
            )
            if covered == 8:
                assert bg != EMPTY or char == "█"
            if covered == 0:
                assert (char, bg) == (" ", EMPTY)


def test_a_border_within_a_cell_is_drawn_where_it_is() -> None:
    tree = Nodes([0, 0], [3, 5])  # of 8 cells: 3 and 5; of 4: one and a half, and two and a half
    (row,) = paint(tree.boxes(4, Ink.COLOUR), face, -1, 4, 1, Ink.COLOUR, top=1)
    assert [(run.text, run.fg, run.bg) for run in row] == [(" ", INK, 1), ("▌", 1, 2), ("  ", INK, 2)]


def test_neighbours_of_one_colour_are_told_apart() -> None:
    tree = Nodes([0, 0], [4, 4])
    (row,) = paint(tree.boxes(20, Ink.COLOUR), lambda node: BoxStyle("same", 0), -1, 20, 1, Ink.COLOUR, top=1)
    assert "".join(run.text for run in row) == "same      ▏same     "


@pytest.mark.parametrize(("ink", "want"), [
    (Ink.TEXTURE, ["│function_0────────────────────│", "│function_1────│›function_2──│  "]),
    (Ink.ASCII, ["|function_0--------------------|", "|function_1----|>function_2--|  "]),
])  # fmt: skip
def test_without_colours_boxes_are_outlined(ink: Ink, want: list[str]) -> None:
    tree = Nodes([0, 0, 0], [15, 15, 0])
    tree.totals[0] = 32  # two by itself
    rows = paint(tree.boxes(32, ink), face, 2, 32, 2, ink)
    assert ["".join(run.text for run in row) for row in rows] == want
    assert [run.bg for run in rows[1] if run.fg == INK] == [2], "and what is chosen by more than its mark"


def test_what_is_looked_into_has_the_whole_width() -> None:
    tree = Nodes([0, 0, 1, 1], [0, 5, 3, 1])
    boxes = tree.boxes(10, Ink.ASCII, path=(0, 1))
    assert boxes == [Box(0, 0, 0, 10), Box(1, 1, 0, 10), Box(3, 2, 0, 8), Box(4, 2, 8, 10)]
    assert neighbour(boxes, 3, 1) == neighbour(boxes, 4, 1) == 4
    assert neighbour(boxes, 3, -1) == neighbour(boxes, 4, -1) == 3
    assert neighbour(boxes, 2, 1) == 2, "what is not drawn has no neighbours"
    assert [at(boxes, 2, x, Ink.ASCII) for x in (0, 7, 8, 9)] == [3, 3, 4, 4]
    assert at(boxes, 3, 0, Ink.ASCII) is None


def test_what_is_chosen_is_seen_however_narrow() -> None:
    tree = Nodes([0, 0], [1, 400])
    (row,) = paint(tree.boxes(80, Ink.COLOUR), face, 1, 80, 1, Ink.COLOUR, top=1)
    assert row[0].text == "›"


def test_labels_are_cut_or_left_out() -> None:
    assert [clip_label("decode", room) for room in (7, 6, 5, 4, 3, 0)] == ["decode", "decode", "deco…", "dec…", "", ""]


# -- the table beside it ---------------------------------------------------------------------------------------


@given(trees(), st.integers(1, 120), st.sampled_from(INKS))
def test_the_table_has_callers_above_what_they_call_and_all_from_left_to_right(
    tree: Nodes, width: int, ink: Ink
) -> None:
    rows = in_order(tree.boxes(width, ink))
    places = {box.node: place for place, box in enumerate(rows)}
    assert len(places) == len(rows)
    for box in rows[1:]:
        above = tree.parents[box.node]
        assert places[above] < places[box.node]
        between = rows[places[above] + 1 : places[box.node]]
        assert all(one.depth > rows[places[above]].depth for one in between), "nothing of others stands in between"


@given(st.integers(0, 300), st.integers(1, 60), st.data())
def test_the_chosen_row_is_seen_and_no_line_is_wasted(count: int, lines: int, data: st.DataObject) -> None:
    chosen = data.draw(st.integers(0, max(count - 1, 0)))
    first = window(count, chosen, lines)
    assert 0 <= first <= chosen or not count
    assert chosen < first + lines
    assert first + min(lines, count) <= count


@given(st.integers(1, 300), st.integers(1, 100), st.booleans())
def test_boxes_and_table_share_the_room(width: int, height: int, wide: bool) -> None:
    width = width + 200 if wide else width
    room = divide(width, height, wide=wide)
    assert room.boxes[0] + (room.table[0] + 2 if room.left else 0) == width
    assert room.boxes[1] + (0 if room.left else room.table[1]) == height
    assert room.boxes[1] >= 1


@given(trees(), st.integers(60, 120), st.integers(2, 40), st.sampled_from([True, False]))
def test_every_row_has_its_figures_and_the_width(tree: Nodes, width: int, height: int, ascii_only: bool) -> None:
    look = ChartStyle.of(DARK, ascii_only=ascii_only)
    figures = IcicleColumns((("Total", 9), ("Own", 6)), lambda node: (f"{tree.totals[node]}", f"n{node}"))
    boxes = tree.boxes(width, look.ink)
    drawn, nodes = table(boxes, face, figures, boxes[-1].node, (width, height), look)
    assert len(drawn) == len(nodes) + 1 == min(height, len(boxes) + 1)
    texts = ["".join(run.text for run in row) for row in drawn]
    assert {len(text) for text in texts} == {width}
    assert texts[0].split() == ["Box", "Total", "Own"]
    for node, text in zip(nodes, texts[1:], strict=True):
        assert text.split()[-2:] == [str(tree.totals[node]), f"n{node}"]
        assert f"function_{node}" in text
        assert text.startswith((">" if ascii_only else "›") if node == boxes[-1].node else " ")


def test_where_there_is_no_room_there_is_no_table() -> None:
    figures = IcicleColumns((), lambda node: ())
    assert divide(80, LEAST - 1, wide=False).table[1] == 0
    assert table([Box(0, 0, 0, 8)], face, figures, 0, (80, 1), ChartStyle.of(DARK, ascii_only=False)) == ([], [])
