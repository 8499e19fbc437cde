"""The line above the figures in any width, and in every view: Esc takes off the last crumb, one at a time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heaptop.analysis.filters.filters import EVERYTHING, parse_filter
from heaptop.tui.keys.trail import SEPARATOR, fit_trail, trail
from heaptop.tui.state.drill import added
from heaptop.tui.views import VIEWS
from tests.fakes.source import FakeSource
from tests.tui.scenes import SCENES
from tests.tui.support import SMALL, on_stage

NAMES = st.text("abcdefgh./ ", min_size=1, max_size=60)


@given(NAMES, st.lists(NAMES, max_size=5), st.integers(1, 120))
def test_it_fits_and_is_whole_where_there_is_room(first: str, crumbs: list[str], width: int) -> None:
    text = first + trail(crumbs)
    shown = fit_trail(text, width)
    assert len(shown) <= width
    if len(text) <= width:
        assert shown == text


def test_what_is_in_the_middle_goes_first() -> None:
    text = "Producers by site" + trail(["module shop.cache", "create_session", "views.py:88"])
    assert SEPARATOR in text
    assert fit_trail(text, 70) == "Producers by site › module shop.cache › create_session › views.py:88"
    assert fit_trail(text, 60) == "Producers by site › … › create_session › views.py:88"
    assert fit_trail(text, 40) == "Producers by site › … › views.py:88"
    assert fit_trail(text, 30) == "Producers b… › … › views.py:88"
    assert fit_trail("Bands" + trail(["a_very_long_package.of.Something"]), 24) == "Bands › a_ver….Something"


def test_of_a_filter_only_what_is_new() -> None:
    before, after = parse_filter("module:=shop"), parse_filter("module:=shop type:=dict")
    assert added(before, after) == "type:=dict"
    assert added(EVERYTHING, after) == "module:=shop type:=dict"
    assert added(before, parse_filter("size>1MB")) == "size>1MB"


@pytest.mark.usefixtures("plain_environment")
@pytest.mark.parametrize("name", VIEWS)
async def test_esc_takes_off_the_last_crumb(name: str) -> None:
    down, where = SCENES[name].down, SCENES[name].where
    source = FakeSource()
    source.sample(64 << 10, 128)
    async with on_stage(SMALL, source=source) as stage:
        view = stage.live.query_one(VIEWS[name])
        await stage.press(str(view.NUMBER % 10))
        await stage.until(lambda: getattr(view.table, "window", view) is not None, "a map is there")
        await stage.settled()
        crumbs = [view.crumbs]
        for key in down:
            await (stage.ticks(5) if key == "+" else stage.press(key))
            await stage.settled()
        if down:
            crumbs.append(view.crumbs)
        if where:
            view.set_where(parse_filter(where))
            crumbs.append(view.crumbs)
        assert [len(each) for each in crumbs] == list(range(len(crumbs))), "a level or a filter is one crumb"
        assert len(crumbs) > 1
        for before in crumbs[-2::-1]:
            await stage.press("escape")
            await stage.settled()
            assert view.crumbs == before
        await stage.press("escape")
        assert "nothing to go back to" in stage.text
        assert stage.app.is_running, "Esc never quits"


@pytest.mark.usefixtures("plain_environment")
async def test_the_view_that_led_there_is_the_first_crumb() -> None:
    async with on_stage() as stage:
        await stage.press("w")
        await stage.settled()
        assert stage.text.splitlines()[2].startswith(" 1 Bands › 3 Retainers by tree  ›  ")
        stage.live.view.set_where(parse_filter("kind:frame"))
        await stage.press("escape")
        assert stage.live.view.NAME == "retainers", "the filter goes first"
        assert not stage.live.view.where
        await stage.press("escape")
        assert stage.text.splitlines()[2].startswith(" 1 Bands by type")
        await stage.press("minus")
        assert stage.live.view.NAME == "retainers"
        await stage.press("minus")
        assert stage.live.view.NAME == "bands"


@pytest.mark.usefixtures("plain_environment")
async def test_levels_that_were_there_before_are_no_crumbs_of_the_way_in() -> None:
    async with on_stage() as stage:
        for key in ("3", "j", "enter", "1", "w"):
            await stage.press(key)
            await stage.settled()
        assert len(stage.live.view.crumbs) == 1
        await stage.press("escape")
        assert stage.live.view.NAME == "bands"
        await stage.press("minus")
        await stage.settled()
        assert len(stage.live.view.crumbs) == 1, "the one that was there before"
