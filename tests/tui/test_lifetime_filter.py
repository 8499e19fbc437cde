"""``lifetime>…`` in views 2 and 7: only what lives longer, in every shape, and no column that cannot be known then."""

from __future__ import annotations

import pytest

from heaptop.tui.state import background
from heaptop.tui.views.producers import selecting
from heaptop.tui.views.producers.view import ProducersView
from heaptop.tui.views.sizes.view import SizesView
from tests.tui.sampled import column, on_sampled_stage
from tests.tui.support import LARGE, SIZES, SMALL, Stage, on_stage
from tests.tui.test_tracer import asked, coreless

pytestmark = pytest.mark.usefixtures("plain_environment")

UNKNOWN = ("Alloc'd", "Allocated", "Freed", "freed", "% by size", "Change", "Trend")


async def restrict(stage: Stage, text: str) -> None:
    await stage.press("slash")
    await stage.type(text)
    await stage.press("enter")


def says_nothing_unknown(stage: Stage) -> None:
    for title in UNKNOWN:
        assert title not in stage.text


@pytest.mark.parametrize("size", SIZES)
async def test_producers_in_all_shapes(size: tuple[int, int]) -> None:
    """list_orders keeps for four ticks of 2 MB at most, Cache.get for twelve, create_session for good."""
    async with on_sampled_stage(size, "2", ticks=30) as stage:
        assert "list_orders" in stage.text
        await restrict(stage, "lifetime>10MB")
        for key in ("site", "function", "module", "call stack", "handler"):
            assert key in stage.live.view.words[0]
            assert "views" in stage.text or key in ("call stack", "handler")
            assert "list_orders" not in stage.text
            assert "(before" not in stage.text
            says_nothing_unknown(stage)
            await stage.press("b")
        await stage.press("enter")
        assert "Stack 1 of 2" in stage.text
        says_nothing_unknown(stage)
        await stage.press("escape", "v")
        assert "tree, live" in stage.text
        assert "create_session" in stage.text
        assert "list_orders" not in stage.text
        says_nothing_unknown(stage)
        await stage.press("b")
        assert stage.live.view.words[0].startswith("Producers ≈ sampled tree, live"), "what was allocated is not known"
        await stage.press("v")
        assert "create_session" in stage.text
        assert "list_orders" not in stage.text
        await stage.press("b")
        assert "icicle, live" in stage.live.view.words[0]


async def test_what_was_allocated_is_left_when_it_is_known_no_longer() -> None:
    async with on_sampled_stage(SMALL, "2") as stage:
        await stage.press("v", "b")
        assert "tree, allocated" in stage.text
        await restrict(stage, "lifetime>1MB")
        assert "tree, live" in stage.text
        says_nothing_unknown(stage)


async def test_a_functions_callees_sizes_and_types() -> None:
    async with on_sampled_stage(LARGE, "2") as stage:
        await restrict(stage, "lifetime>10s")
        await stage.press("b", "j", "j", "enter")
        names = [text.strip() for text in column(stage, "name")]
        assert "By block size" in names
        says_nothing_unknown(stage)


async def test_by_time_it_is_less_the_longer_it_is() -> None:
    async with on_sampled_stage(LARGE, "2", ticks=30) as stage:
        seen = []
        for bound in ("lifetime>1s", "lifetime>5s", "lifetime>20s", "lifetime>1h"):
            await restrict(stage, bound)
            names = column(stage, "name")
            seen.append({name.split()[-1] for name in names})
            await stage.press("escape")
        assert seen[0] > seen[1] > seen[2] >= {"create_session"}
        assert seen[3] == set()


@pytest.mark.parametrize("size", SIZES)
async def test_a_filter_by_lifetime_narrows_every_grouping(size: tuple[int, int]) -> None:
    async with on_sampled_stage(size, "7", ticks=30) as stage:
        all_of_it = column(stage, "name")
        await restrict(stage, "lifetime>10MB")
        assert "lifetime>10MB" in stage.text
        assert set(column(stage, "name")) < set(all_of_it)
        says_nothing_unknown(stage)
        await stage.press("b")
        says_nothing_unknown(stage)
        await stage.press("b", "enter")
        assert column(stage, "name")
        assert "list_orders" not in stage.text
        says_nothing_unknown(stage)
        await stage.press("greater_than_sign", "greater_than_sign")
        assert "▼" in stage.text or "▲" in stage.text


@pytest.mark.parametrize("view", ["2", "7"])
async def test_held_it_is_of_then(view: str) -> None:
    async with on_sampled_stage(SMALL, view) as stage:
        await stage.press("space")
        await restrict(stage, "lifetime>2s")
        before = stage.text.splitlines()[2:]
        assert column(stage, "name")
        await stage.ticks(4)
        assert stage.text.splitlines()[2:] == before
        await stage.press("space")
        assert stage.text.splitlines()[2:] != before


@pytest.mark.parametrize(("key", "view"), [("2", ProducersView), ("7", SizesView)])
async def test_what_takes_long_is_made_in_steps_and_its_age_is_said(
    monkeypatch: pytest.MonkeyPatch, key: str, view: type[ProducersView | SizesView]
) -> None:
    monkeypatch.setattr(selecting, "SMALL", 0)
    monkeypatch.setattr(background, "REST", 1e9)
    monkeypatch.setattr(background, "SLICE_SECONDS", 0.0)
    async with on_sampled_stage(SMALL, key, ticks=12) as stage:
        shown = stage.live.query_one(view)
        await restrict(stage, "lifetime>2s")
        await stage.until(lambda: column(stage, "name"), "the first figures are there")
        before = column(stage, "name")
        await stage.ticks(3)
        assert "as of 3 s ago" in stage.text
        assert column(stage, "name") == before
        await stage.press("escape", "escape")
        assert "as of 3 s ago" not in shown.words[1]


@pytest.mark.parametrize(("key", "word"), [("6", "lifetime"), ("8", "lifetime")])
async def test_where_it_means_nothing_it_is_refused(key: str, word: str) -> None:
    async with on_sampled_stage(SMALL, key, ticks=4) as stage:
        await stage.press("slash")
        await stage.type("lifetime>1MB")
        assert "× " in stage.text
        assert f"no {word}" in stage.text or word in stage.text.split("× ")[1]


async def test_a_filter_by_lifetime_is_refused_where_only_traces_are_known() -> None:
    async with on_stage(LARGE, source=coreless()) as stage:
        await asked(stage)
        await stage.press("y")
        await stage.ticks(2)
        for view in ("2", "7"):
            await stage.press(view, "slash")
            await stage.type("lifetime>1MB")
            assert "× Traces have no lifetimes." in stage.text
            await stage.press("escape")
