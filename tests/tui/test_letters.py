"""A letter of the table or the legend of bands stands in the chart too, with colours and without."""

from __future__ import annotations

import re

import pytest

from heaptop.tui.widgets.area_chart import AreaChart
from heaptop.tui.widgets.legend import Legend
from heaptop.tui.widgets.virtual_table import VirtualTable
from tests.tui.sampled import column
from tests.tui.support import SIZES, Stage, on_stage

pytestmark = pytest.mark.usefixtures("plain_environment")


def drawn(stage: Stage) -> set[str]:
    """The letters in the chart's bands."""
    rows = stage.bands.query_one(AreaChart)._rows
    return set(re.findall(r"[A-Z~]", "".join(run.text for row in rows for run in row if run.bg >= 0)))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("theme", ["dark", "mono", "ascii"])
async def test_letters_of_the_table_are_in_the_chart(theme: str, size: tuple[int, int]) -> None:
    async with on_stage(size, ascii=theme == "ascii", theme="dark" if theme == "ascii" else theme) as stage:
        for _ in range(3):
            await stage.settled()
            table = {text.strip() for text in column(stage, "band")} - {""}
            assert table
            assert table == drawn(stage) - {"~"}
            region = stage.bands.query_one(Legend).region
            words = [line[region.x :] for line in stage.text.splitlines()[region.y : region.bottom]]
            said = set(re.findall(r"(?<= )([A-Z~])(?=   ?\S)", "\n".join(words)))
            assert said
            assert said <= drawn(stage)
            await stage.press("b")


async def test_a_band_that_is_too_thin_has_no_letter_anywhere() -> None:
    async with on_stage((80, 24), ascii=True) as stage:
        await stage.press("slash")
        await stage.type("type:dict or type:Warmup or type:Customer")
        await stage.press("enter")
        await stage.settled()
        letters = dict(zip(column(stage, "name"), column(stage, "band"), strict=True))
        chart = stage.bands._previous_of(stage.bands._level).chart
        assert chart is not None
        named = [band.name for band in chart.bands]
        assert letters["dict"].strip() in drawn(stage)
        thin = [name for name in named if not letters[name].strip()]
        assert thin
        assert all(chart.bands[named.index(name)].bytes[-1] < 1 << 20 for name in thin)


async def test_the_title_has_the_figures_under_the_mouse() -> None:
    async with on_stage() as stage:
        chart = stage.bands.query_one(AreaChart)
        assert "row 1 of" in stage.lines(2)[0]
        await stage.pilot.hover(AreaChart, offset=(12, chart.size.height - 3))
        await stage.pilot.pause()
        found = re.search(r"at (\d+\.\d+) s: ([A-Z~]) [\d.]+ [KM]iB of [\d.]+ MiB$", stage.lines(2)[0])
        assert found, stage.lines(2)[0]
        assert 0 < float(found[1]) < 4
        assert found[2] in drawn(stage)
        await stage.pilot.hover(VirtualTable, offset=(9, 2))
        await stage.pilot.pause()
        assert "row 1 of" in stage.lines(2)[0]
