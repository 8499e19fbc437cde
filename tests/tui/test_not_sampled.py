"""While sampling is off, voided or refused, every view of samples says so: no figure passes for one of now."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from heaptop.tui.state.background import Throttled
from tests.fakes.source import FakeSource
from tests.tui.sampled import column, on_sampled_stage
from tests.tui.support import LARGE, SMALL, Stage, check_golden, on_stage

pytestmark = pytest.mark.usefixtures("plain_environment")

PLACES = {
    "2": "2", "2bbb": "bbb", "2v": "bv", "2vv": "v", "6": "v6", "6bbb": "bbb", "6bbbb": "b", "7": "b7", "8": "8",
    "1bbb": "1bbb", "1bbbb": "b", "1bbbbb": "b", "1bbbbbb": "b",
}  # fmt: skip
"""A view's key, and how often b or v makes of it what shows samples: each with the keys that lead to it from the one
before it."""
BACK = "bbb"
"""From the last to what view 1 shows at first."""


async def places(stage: Stage) -> AsyncIterator[str]:
    """Go to each of them."""
    for place, keys in PLACES.items():
        await stage.press(*keys)
        yield place
    await stage.press(*BACK)
    assert stage.bands.words[0] == "Bands by type"


def line(stage: Stage, number: int) -> str:
    return stage.text.splitlines()[number]


async def switch_off(stage: Stage, seconds: int = 12) -> None:
    stage.source.sample(0, 128)
    await stage.ticks(1 + seconds)


async def test_off_is_said_below_the_title_and_by_it() -> None:
    async with on_sampled_stage(SMALL, "2") as stage:
        async for place in places(stage):
            assert "has been off" not in stage.text, place
        await switch_off(stage)
        async for place in places(stage):
            what = "allocation since is unknown" if place == "8" else "figures are from before"
            assert line(stage, 3) == f" Sampling has been off for 12 s: {what}", place
            assert "sampled" not in line(stage, 2) or "not sampled now" in line(stage, 2), place
            assert "(no site)" not in stage.text or place.startswith("1"), "nobody knows what is older now"
        stage.source.sample(65536, 128)
        await stage.ticks(2)
        async for place in places(stage):
            assert "not sampled now" not in line(stage, 2), place
            assert "has been off" not in stage.text, place


@pytest.mark.parametrize(("key", "figure"), [("2", "live"), ("6", "alive"), ("7", "kept"), ("8", "allocated")])
async def test_off_figures_are_those_of_before_or_unknown(key: str, figure: str) -> None:
    async with on_sampled_stage(SMALL, key) as stage:
        await switch_off(stage, 0)
        stage.live.state.status.until = 0.0
        before = column(stage, figure)
        await stage.ticks(12)
        if key == "2":
            check_golden("off-2-80x24", stage.app)
        if key == "8":
            assert column(stage, figure)[0] == "-", "not known, which is not nothing"
        else:
            assert column(stage, figure) == before, "as it was when sampling was switched off"


@pytest.mark.parametrize("key", ["1", "1b", "1bb"])
async def test_what_a_census_counts_has_no_such_line(key: str) -> None:
    async with on_sampled_stage(SMALL, "1") as stage:
        await stage.press(*key[1:])
        await switch_off(stage)
        assert "has been off" not in stage.text
        assert "sampled" not in line(stage, 2)


@pytest.mark.parametrize("key", ["2", "6", "7", "8"])
async def test_begun_anew_is_said_while_it_is_new(key: str) -> None:
    async with on_sampled_stage(SMALL, key) as stage:
        await switch_off(stage, 3)
        stage.source.sample(65536, 128)
        await stage.ticks(5)
        assert line(stage, 3).startswith(" Sampling restarted 4 s ago: earlier samples are no longer tracked")
        await stage.ticks(60)
        assert "restarted" not in stage.text


async def test_begun_anew_nothing_seems_to_have_gone() -> None:
    """What is followed no longer is in another row: the sites did not shrink."""
    async with on_sampled_stage(LARGE, "2") as stage:
        await switch_off(stage, 3)
        assert any(text.startswith("?") for text in column(stage, "live")), "off, the sampler names no types"
        stage.source.sample(65536, 128)
        await stage.ticks(6)
        changes = dict(zip(column(stage, "name"), column(stage, "change"), strict=True))
        assert not any("-" in text for name, text in changes.items() if name[0] != "("), changes
        assert any("+" in text for text in changes.values())


@pytest.mark.parametrize("place", ["1bbbbbb", "6", "6bbb", "7", "2"])
async def test_begun_anew_no_figure_rests(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """However costly the figures of before were."""
    for module in ("bands", "producers", "sizes", "lifetimes"):
        monkeypatch.setattr(f"heaptop.tui.views.{module}.view.SMALL", 0)
    monkeypatch.setattr("heaptop.tui.state.background.REST", 10**9)
    async with on_sampled_stage(SMALL, place[0], ticks=30) as stage:
        view = stage.live.view
        for value in vars(view).values():
            if isinstance(value, Throttled):
                value._rest = 10**9
        await stage.press(*place[1:])
        await stage.until(lambda: stage.text.count("row 1 of"), "there are figures")
        before = stage.text.splitlines()[4:]
        await switch_off(stage, 0)
        stage.source.sample(65536, 128)
        await stage.ticks(2)
        stage.live.state.status.until = 0.0
        await stage.until(lambda: stage.text.splitlines()[5:] != before[1:], "figures are made anew")


@pytest.mark.parametrize("key", ["2", "6", "7", "8"])
async def test_why_samples_were_voided_stays(key: str) -> None:
    async with on_sampled_stage(SMALL, key) as stage:
        agent, state = stage.source.agent, stage.live.session.sampling.state
        assert state is not None
        agent._epoch, agent._free, agent._dying, agent._untyped = state.epoch + 1, [], {}, []
        why = "another tool has replaced the allocators"
        stage.source.say(replace(state, epoch=state.epoch + 1, text=why, time_ns=agent.time_ns))
        await stage.ticks(70)
        assert "restarted 1m 10s ago" in line(stage, 3)
        assert "another tool" in line(stage, 3)


async def test_refused_is_said_with_its_reason() -> None:
    source = FakeSource()
    source.agent.sampler_text = "another profiler holds the allocators"
    source.sample(65536, 128)
    reason = "Allocations are not sampled: another profiler holds the allocators"
    async with on_stage(SMALL, source=source) as stage:
        async for place in places(stage):
            await stage.until(lambda: reason in stage.text, f"{place}: figures are made")
            assert "≈ sampled" not in line(stage, 2), place


async def test_refused_again_is_said_again() -> None:
    source = FakeSource()
    source.agent.sampler_text = "another profiler holds the allocators"
    source.sample(65536, 128)
    async with on_stage(SMALL, source=source) as stage:
        for _ in range(2):
            await stage.press("r")
            await stage.ticks(1)
            assert "sampling is off: another profiler holds the allocators" in stage.text
            stage.live.state.status.text = ""


async def test_paused_it_stands_as_it_stood() -> None:
    async with on_sampled_stage(SMALL, "2") as stage:
        await stage.press("space")
        before = stage.text.splitlines()[3:]
        await switch_off(stage)
        stage.live.state.status.until = 0.0
        await stage.ticks(1)
        assert stage.text.splitlines()[3:] == before
        await stage.press("space")
        assert "has been off for 13 s" in line(stage, 3)
