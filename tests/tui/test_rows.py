"""Rows that stay at the top, and rows that the last filter has shown."""

from __future__ import annotations

import pytest

from heaptop.tui.widgets.pinned_rows import PINNED
from heaptop.tui.widgets.virtual_table import VirtualTable
from tests.tui.sampled import column, on_sampled_stage
from tests.tui.support import Stage, on_stage

pytestmark = pytest.mark.usefixtures("plain_environment")


def table(stage: Stage) -> VirtualTable:
    found = stage.live.view.table
    assert isinstance(found, VirtualTable)
    return found


def names(stage: Stage) -> list[str]:
    """Of the lines of the table, from the top, with their marks."""
    lines = table(stage)._cells
    at = next(place for place, one in enumerate(table(stage).columns) if one.key == "name")
    return [lines[line][at].text for line in sorted(lines)]


async def test_a_pinned_row_stays_at_the_top_whatever_the_order_and_the_figures() -> None:
    async with on_stage() as stage:
        before = names(stage)
        await stage.press("j", "j", "j", "p")
        assert names(stage) == [PINNED + before[3], *before[:3], *before[4:]]
        assert table(stage).row_key == before[3], "the cursor stays on it"
        assert "row 4 of" in stage.text, "its place in the order is still shown"
        await stage.press("i")
        assert names(stage)[0] == PINNED + before[3]
        assert names(stage)[1:] != before[1:]
        await stage.ticks(3)
        assert names(stage)[0] == PINNED + before[3]
        await stage.press("i", "g", "g", "p")
        assert not [name for name in names(stage) if PINNED in name], "key p again"


async def test_keys_act_on_the_row_that_is_under_the_cursor_where_rows_are_pinned() -> None:
    async with on_sampled_stage(key="2") as stage:
        first, _, third, *_ = column(stage, "name")
        await stage.press("j", "j", "p", "j", "enter")
        assert first.split()[0] in stage.text.splitlines()[2], "of the row below the pinned one"
        await stage.press("escape")
        assert table(stage).row_key == first
        await stage.press("k", "enter")
        assert third.split()[-1] in stage.text.splitlines()[2]
        await stage.press("escape", "y")
        assert stage.app.clipboard.split("\t")[0] == third, "what is copied has no mark"


@pytest.mark.parametrize("key", ["1", "2", "6", "7"])
async def test_esc_goes_back_to_the_row_that_was_opened(key: str) -> None:
    async with on_sampled_stage(key=key) as stage:
        await stage.press("j", "j")
        opened = table(stage).row_key
        await stage.press("enter")
        assert stage.live.view.depth == 2
        assert table(stage).cursor == 0
        await stage.press("escape")
        assert table(stage).row_key == opened


async def test_rows_of_a_tree_are_not_pinned() -> None:
    async with on_sampled_stage(key="2") as stage:
        await stage.press("v", "p")
        assert "only rows that can be sorted can be pinned" in stage.text
        assert PINNED not in stage.text


async def test_a_pin_is_ascii_where_the_screen_is() -> None:
    async with on_stage(ascii=True) as stage:
        await stage.press("p")
        assert stage.text.isascii()
        assert "# " in stage.lines(15)[0] + stage.lines(16)[0] + stage.text


async def test_n_goes_through_the_rows_that_a_dropped_filter_has_shown() -> None:
    async with on_stage() as stage:
        await stage.press("n")
        assert "nothing was filtered yet" in stage.text
        await stage.press("slash")
        await stage.type("shop")
        await stage.press("enter")
        shown = column(stage, "name")
        assert len(shown) > 2
        await stage.press("n")
        assert table(stage).row_key == shown[1], "every row matches the filter that is on"
        await stage.press("escape")
        assert len(column(stage, "name")) > len(shown)
        assert table(stage).row_key == shown[1], "Esc keeps the cursor on its row"
        went = []
        for _ in shown:
            await stage.press("n")
            went.append(table(stage).row_key)
        assert went == [*shown[2:], *shown[:2]], "from the last to the first"
        await stage.press("N")
        assert table(stage).row_key == shown[0]


async def test_n_where_nothing_can_match() -> None:
    async with on_stage() as stage:
        await stage.press("slash")
        await stage.type("shop")
        await stage.press("enter", "escape", "b", "b", "n")
        assert "no row here matches the last filter" in stage.text
        await stage.press("5", "n")
        assert "no rows to search" in stage.text
