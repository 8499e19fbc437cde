"""View 10: what the heap could do without; asked of the snapshot, filtered, sorted, and looked into."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from heaptop.analysis.filters.filters import parse_filter
from heaptop.analysis.snapshot.waste import waste_report
from heaptop.errors import UsageError
from heaptop.protocol.images import WASTE, Waste
from heaptop.tui.state.snapshot_client import SnapshotStage
from heaptop.tui.views.waste.view import WasteView
from tests.fakes.source import FakeSource
from tests.tui.sampled import column
from tests.tui.support import LARGE, SIZES, SMALL, Stage, check_golden, on_stage

pytestmark = pytest.mark.usefixtures("plain_environment")


def view(stage: Stage) -> WasteView:
    return stage.live.query_one(WasteView)


@asynccontextmanager
async def on_waste(size: tuple[int, int], source: FakeSource | None = None) -> AsyncIterator[Stage]:
    async with on_stage(size, source=source) as stage:
        await stage.press("0")
        await stage.until(lambda: not stage.live.client.is_busy, "all is answered")
        await stage.settled()
        yield stage


@pytest.mark.parametrize("size", SIZES)
async def test_what_could_be_saved_and_how(size: tuple[int, int]) -> None:
    async with on_stage(size) as stage:
        stage.live.client.clock = lambda: 1_000.0  # the age of the snapshot is on the screen
        await stage.press("0")
        await stage.until(lambda: bool(view(stage)._rows), "there are rows")
        await stage.settled()
        check_golden("waste-rows-{size}", stage.app)
        assert stage.live.view.NAME == "waste"
        assert [question.what for question in stage.source.agent.images.asked] == [WASTE]


async def test_the_column_once_adds_up_to_the_total() -> None:
    async with on_waste(LARGE) as stage:
        report = view(stage)._report
        assert report is not None
        assert sum(row.own for row in view(stage)._rows) == report.total
        assert "each byte once" in stage.text


async def test_rows_are_sorted_by_what_is_chosen() -> None:
    async with on_waste(LARGE) as stage:
        saved = [row.bytes for row in view(stage)._rows]
        assert saved == sorted(saved, reverse=True)
        await stage.press("i")
        assert [row.bytes for row in view(stage)._rows] == sorted(saved)
        await stage.press("less_than_sign")
        counts = [row.count for row in view(stage)._rows]
        assert counts == sorted(counts, reverse=True)


async def test_below_the_table_is_the_advice_for_the_row() -> None:
    async with on_waste(LARGE) as stage:
        for _ in view(stage)._rows[:3]:
            row = view(stage)._row
            assert row is not None
            assert row.advice in stage.text
            assert "one of them: " + " ".join(row.path)[:100] in stage.text
            await stage.press("j")


async def test_enter_shows_one_of_them_and_esc_leads_back() -> None:
    async with on_waste(SMALL) as stage:
        row = view(stage)._row
        assert row is not None
        await stage.press("enter")
        await stage.settled()
        assert stage.live.view.NAME == "retainers"
        assert hex(row.example) in stage.text
        await stage.press("escape")
        assert stage.live.view.NAME == "waste"


async def test_w_asks_what_keeps_the_type() -> None:
    async with on_waste(SMALL) as stage:
        row = view(stage)._row
        assert row is not None
        await stage.press("w")
        await stage.settled()
        assert stage.live.view.NAME == "retainers"
        assert stage.live.view.crumbs[-1] == row.type


async def test_a_filter_is_asked_of_the_snapshot() -> None:
    async with on_waste(LARGE) as stage:
        whole = view(stage)._report
        view(stage).set_where(parse_filter("type:=str"))
        await stage.until(lambda: not stage.live.client.is_busy, "it is answered")
        await stage.settled()
        assert {row.type for row in view(stage)._rows} == {"str"}
        assert "filtered out" in stage.text
        view(stage).set_where(parse_filter("type:nobody"))
        await stage.settled()
        assert "No type in the heap matches type:nobody." in stage.text
        with pytest.raises(UsageError, match=r"Rows of waste have no size"):
            view(stage).set_where(parse_filter("size>1"))
        await stage.press("escape")
        await stage.settled()
        assert view(stage)._report == whole


async def test_free_room_in_arenas_is_a_row_once_it_is_measured() -> None:
    async with on_waste(LARGE) as stage:
        await stage.ticks(2)
        await stage.until(lambda: view(stage).now.memory.latest is not None, "memory was looked at")
        (row,) = [row for row in view(stage)._rows if row.sort == "arenas"]
        reading = view(stage).now.memory.latest
        assert reading is not None
        pymalloc = reading.memory.outside.pymalloc if reading.memory.outside else None
        assert pymalloc is not None
        assert row.bytes == row.own == pymalloc.free_blocks + pymalloc.free_pools
        view(stage).list.move_to(list(view(stage)._rows).index(row))
        assert not view(stage).action_drill()
        assert view(stage).subject is None


async def test_without_a_snapshot_it_says_why() -> None:
    source = FakeSource()
    source.agent.images.refusal = "its heap is counted in mode python"
    async with on_waste(SMALL, source) as stage:
        assert stage.live.client.stage is SnapshotStage.GONE
        assert "its heap is counted in mode python" in stage.text
        assert view(stage)._rows == []


async def test_what_the_snapshot_cannot_say_is_said() -> None:
    async with on_stage(SMALL) as stage:
        await stage.press("3")
        await stage.until(lambda: stage.live.client.is_open and not stage.live.client.is_busy, "it is open")
        stage.source.agent.images.failure = "it would take more memory than it may"
        await stage.press("0")
        await stage.until(lambda: "more memory" in stage.text, "it is said")
        assert "The snapshot did not answer: it would take more memory than it may." in stage.text


async def test_texts_are_the_same_where_nothing_is_new() -> None:
    """What was asked once is not asked again by drawing."""
    async with on_waste(LARGE) as stage:
        await stage.ticks(2)
        names = column(stage, "what")
        asked = len(stage.source.agent.images.asked)
        await stage.ticks(3)
        assert column(stage, "what") == names
        assert len(stage.source.agent.images.asked) == asked


def test_a_partial_answer_says_so() -> None:
    found = Waste(1, (), (), 0, 0)
    assert waste_report(found, ()).complete
    assert not waste_report(replace(found, complete=False), ()).complete
