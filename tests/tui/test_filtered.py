"""How much a filter hides is on the screen of every view, whatever else has to give way; what is wrong is marked."""

from __future__ import annotations

import re

import pytest

from heaptop.analysis.filters.filters import parse_filter
from heaptop.analysis.filters.selection import tally_filter
from heaptop.analysis.text.units import format_bytes
from heaptop.tui.charts.chart_style import ChartStyle
from heaptop.tui.charts.palette import DARK
from heaptop.tui.widgets.filter_bar import _FilterInput, _Line
from tests.tui.sampled import column, on_sampled_stage
from tests.tui.support import LARGE, SIZES, SMALL, Stage, on_stage
from tests.tui.test_retainers import look_for, on_retainers, press, title

pytestmark = pytest.mark.usefixtures("plain_environment")


async def restrict(stage: Stage, text: str) -> None:
    await stage.press("slash")
    await stage.type(text)
    await stage.press("enter")


def bar(stage: Stage) -> str:
    return stage.text.splitlines()[2]


def hidden_rows(stage: Stage) -> int:
    found = re.search(r"([\d,]+) (?:row|collection|generation)s?\b[^·]*filtered out$", bar(stage).rstrip())
    return int(found[1].replace(",", "")) if found is not None else 0


@pytest.mark.parametrize("size", SIZES)
async def test_rows_and_bytes_of_bands(size: tuple[int, int]) -> None:
    async with on_stage(size) as stage:
        whole = stage.bands._rows
        assert "filtered" not in bar(stage)
        await stage.press("slash")
        await stage.type("type:S or !(module:/^shop/ or gen:2) or type:d")
        assert bar(stage).rstrip().endswith("filtered out"), "while it is typed"
        await stage.press("enter")
        rows = stage.bands._rows
        assert 0 < len(rows) < len(whole)
        assert hidden_rows(stage) == len(whole) - len(rows)
        assert sum(row.bytes for row in whole) > sum(row.bytes for row in rows)
        assert re.search(r"\d [KM]iB filtered out$", bar(stage).rstrip()), "however long the filter is"
        await stage.press("escape")
        assert "filtered" not in bar(stage)


@pytest.mark.parametrize(
    ("key", "where", "name"),
    [
        ("1", "type:Session", "name"),
        ("2", "site:views", "name"),
        ("6", "module:shop", "name"),
        ("7", "type:Session or type:/^str$/", "name"),
        ("8", "!gen:2", "time"),
    ],
)
async def test_every_view_says_how_many_rows_it_hides(key: str, where: str, name: str) -> None:
    async with on_sampled_stage((80, 60), key, ticks=12) as stage:
        whole = len(column(stage, name))
        await restrict(stage, where)
        rows = len(column(stage, name))
        assert 0 < rows < whole
        older = key == "2"  # what is older than the sampling has a row where there is no filter
        assert hidden_rows(stage) == whole - rows - older
        await stage.press("escape")
        assert "filtered" not in bar(stage)


@pytest.mark.parametrize("key", ["2", "7"])
async def test_estimated_bytes_are_shown_or_filtered(key: str) -> None:
    async with on_sampled_stage(SMALL, key, ticks=12) as stage:
        await restrict(stage, "!type:Session")
        sampling = stage.live.session.sampling
        passes = tally_filter(sampling.samples, sampling.sites, parse_filter("type:Session"))
        assert passes is not None
        hidden = sum(tally.live.estimate().bytes for tally in sampling.samples.tallies() if passes(tally))
        assert f"≈{format_bytes(hidden)} filtered out" in bar(stage)
        assert hidden


async def test_what_a_snapshot_cannot_be_asked_is_refused_in_the_bar_or_dropped() -> None:
    async with on_retainers(SMALL) as stage:
        whole = len(column(stage, "name"))
        await look_for(stage, "kind:frame or Session")
        rows = len(column(stage, "name"))
        assert 0 < rows < whole, "rows by type can be filtered so"
        assert hidden_rows(stage) == whole - rows
        await press(stage, "b")
        assert title(stage) == "Retainers by tree", "a tree is asked for, by types and by kinds"
        assert "filtered" not in bar(stage)
        await stage.press("slash")
        await stage.type("kind:frame or Session")
        assert "× kind:frame or type:Session selects" in bar(stage)
        await press(stage, "escape")
        await look_for(stage, "kind:frame (Session or list)")
        assert re.search(r"\d (B|[KM]iB) filtered out$", bar(stage).rstrip())


async def test_a_filter_that_lets_everything_through_says_so() -> None:
    async with on_stage(SMALL) as stage:
        await restrict(stage, "size>0 or size=0")
        assert bar(stage).rstrip().endswith(" nothing filtered out")


async def test_phases_know_no_generation() -> None:
    async with on_sampled_stage(SMALL, "8") as stage:
        await restrict(stage, "gen:2")
        titles = []
        for _ in range(3):
            titles.append(stage.live.view.words[0].split("  ")[0])
            await stage.press("b")
        assert titles == ["GC by collection", "GC by generation", "GC by collection"]


async def test_what_is_wrong_is_marked_and_told_by_its_place() -> None:
    async with on_stage(SMALL) as stage:
        await stage.press("slash")
        await stage.type("size>10s")
        assert bar(stage).endswith("× '10s' is a time, but size is in bytes.")
        field = stage.live.query_one(_FilterInput)
        marked = [segment.text for segment in field.render_line(0) if segment.style and segment.style.underline]
        assert "".join(marked).startswith("10s")
        await stage.press("backspace")
        assert "×" not in bar(stage)
        assert not any(segment.style and segment.style.underline for segment in field.render_line(0))
    async with on_stage(LARGE) as stage:
        await stage.press("slash")
        await stage.type("size>10s")
        assert bar(stage).endswith("at character 6")


async def test_what_a_view_does_not_know_says_why() -> None:
    async with on_stage((160, 24)) as stage:
        await stage.press("slash")
        await stage.type("gen:2 site:x")
        assert "generation and site do not go together. Only a census has the generation" in bar(stage)


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_what_is_filtered_is_never_cut(width: int) -> None:
    line, look = _Line(), ChartStyle.of(DARK, ascii_only=False)
    line._left, line._right = "Bands by type  ›  type:" + "x" * 90, "row 1 of 2 · " * 9
    line._last = "9 rows, 1 B filtered out"
    text = "".join(segment.text for segment in line._segments(look, width))
    assert text.endswith("9 rows, 1 B filtered out")
    assert len(text) <= width
    assert text.startswith(" Ban")
