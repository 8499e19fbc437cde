"""View 8: collections over time, under phases, with and without the sampler; and every key."""

from __future__ import annotations

import re

import pytest

from tests.tui.sampled import PHASES, column, on_sampled_stage
from tests.tui.support import LARGE, SIZES, SMALL, check_golden, on_stage

pytestmark = pytest.mark.usefixtures("plain_environment")


@pytest.mark.parametrize("size", SIZES)
async def test_v_and_b_lead_to_collections_generations_and_phases(size: tuple[int, int]) -> None:
    async with on_sampled_stage(size, "8", phases=True) as stage:
        check_golden("gc-collections-{size}", stage.app)
        collections, chart = len(column(stage, "time")), stage.lines(3, 10)
        await stage.press("b")
        heading = ["Generation▲", "Collections", "Time", "Each", "Longest", "Collected"]
        assert stage.line("Collections").split()[: len(heading)] == heading
        assert column(stage, "name") == ["generation 0", "generation 1", "generation 2"]
        assert sum(map(int, column(stage, "collections"))) == collections
        await stage.press("b")
        assert stage.line("Began").split()[:4] == ["Phase", "Began▼", "Takes", "Collections"]
        assert column(stage, "name") == ["serve", "parse", "load orders"]
        assert stage.lines(3, 10) == chart, "it is the same chart of all"
        await stage.press("b")
        assert "GC by collection" in stage.text


async def test_the_legend_is_whole_on_a_narrow_screen() -> None:
    async with on_sampled_stage((60, 20), "8") as stage:
        line = stage.line(" A  heap")
        assert re.fullmatch(r" A  heap [\d,]+ blocks   B  live after full GC [\d,]+", line)


async def test_the_two_charts_of_a_wide_screen_have_a_moment_at_the_same_place() -> None:
    async with on_sampled_stage(LARGE, "8") as stage:
        corners = [line.index("└") for line in stage.lines(0) if "└" in line]
        assert len(corners) == 2
        assert corners[0] == corners[1]


async def test_v_shows_another_chart() -> None:
    async with on_sampled_stage(SMALL, "8", phases=True) as stage:
        before = stage.text
        for legend in (" A  RSS 67.0 MiB", " C  allocated before the last collection ≈1.43 MiB"):
            await stage.press("v")
            assert stage.lines(13)[0] == legend
            assert any(legend[1] in line for line in stage.lines(5, 12)), "the curve has its letter"
        await stage.press("v")
        assert stage.text == before


async def test_a_letter_means_the_same_in_the_legend_and_at_a_collection() -> None:
    async with on_sampled_stage(SMALL, "8", phases=True) as stage:
        await stage.press("v")
        at = next(line for line in stage.text.splitlines() if line.startswith(" at "))
        assert " A  RSS " in at
        assert at.count("RSS") == 1


async def test_without_the_sampler_allocation_is_not_known() -> None:
    async with on_stage(SMALL) as stage:
        await stage.press("8", "v", "v")
        assert "(not sampled; key r)" in stage.text
        assert set(column(stage, "allocated")) == {"-"}


async def test_the_gc_view_is_ascii_in_all_its_layouts() -> None:
    async with on_sampled_stage(SMALL, "8", phases=True, ascii=True) as stage:
        for key in ("v", "v", "v", "b", "b", "b"):
            assert stage.text.isascii()
            await stage.press(key)


async def test_curves_have_letters_without_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with on_sampled_stage(SMALL, "8", phases=True) as stage:
        assert " A  heap" in stage.text
        assert " B  live" in stage.text


@pytest.mark.parametrize("size", SIZES)
async def test_the_curves_are_said_at_the_collection_under_the_cursor(size: tuple[int, int]) -> None:
    async with on_sampled_stage(size, "8", phases=True) as stage:
        for row in range(3):
            line = next(line for line in stage.text.splitlines() if line.startswith(" at "))
            for key in ("time", "live", "allocated", "heap", "rss"):
                figure = column(stage, key)[row] if size == LARGE or key in ("time", "live", "allocated") else ""
                assert figure == "-" or figure in line, f"{key}: {line}"
            assert line.endswith("in serve")
            assert (" B " in line) == (column(stage, "live")[row] != "-")
            await stage.press("j")
        await stage.press("b")
        assert not [line for line in stage.text.splitlines() if line.startswith(" at ")], "a sum has no moment"


async def test_what_was_allocated_since_the_collection_before() -> None:
    async with on_sampled_stage(SMALL, "8") as stage:
        known = [text for text in column(stage, "allocated") if text != "-"]
        assert "1.91 MiB" in known, "a tick's two million bytes"


async def test_collections_are_sorted_by_each_column() -> None:
    async with on_sampled_stage(SMALL, "8") as stage:
        newest = column(stage, "time")
        await stage.press("i")
        assert column(stage, "time") == newest[::-1]
        await stage.press("greater_than_sign")
        assert "Gen▼" in stage.text
        assert column(stage, "generation") == sorted(column(stage, "generation"), reverse=True)
        await stage.press("greater_than_sign")
        assert column(stage, "duration")[0] == "25.9 ms"


async def test_only_generations_are_filtered() -> None:
    async with on_sampled_stage(SMALL, "8") as stage:
        rows = len(column(stage, "time"))
        await stage.press("slash")
        await stage.type("type:x")
        assert "× Collections have no type." in stage.text
        await stage.press("escape", "slash")
        await stage.type("gen:2")
        await stage.press("enter")
        assert set(column(stage, "generation")) == {"2"}
        await stage.press("escape")
        assert len(column(stage, "time")) == rows


async def test_follow_keeps_the_collection_under_the_cursor() -> None:
    async with on_sampled_stage(SMALL, "8") as stage:
        await stage.press("j", "f")
        table = stage.live.view.table
        row = table.row_key  # type: ignore[attr-defined]
        await stage.ticks(3)
        assert table.row_key == row  # type: ignore[attr-defined]
        assert "following" in stage.text


async def test_paused_nothing_moves() -> None:
    async with on_sampled_stage(LARGE, "8") as stage:
        await stage.press("space")
        before = stage.text.splitlines()[2:]
        stage.source.say(PHASES)
        await stage.ticks(5)
        await stage.press("v", "v", "b", "b", "b")
        assert stage.text.splitlines()[2:] == before


async def test_before_the_first_collection_it_says_that_there_is_none() -> None:
    async with on_stage(SMALL, censuses=0) as stage:
        await stage.until(lambda: "live" in stage.text, "attached")
        await stage.press("8")
        assert "No collection yet." in stage.text
