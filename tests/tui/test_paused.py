"""While the display is held every figure on it is of one moment, also of what is asked for only then."""

from __future__ import annotations

import pytest

from heaptop.tui.state.background import Throttled
from heaptop.tui.state.session import Display
from tests.tui.sampled import on_sampled_stage
from tests.tui.support import LARGE, Stage
from tests.tui.test_not_sampled import PLACES, places

pytestmark = pytest.mark.usefixtures("plain_environment")


async def look(stage: Stage, place: str) -> list[str]:
    """What is seen at a place, on a stage whose views are as at first; and all is put back."""
    view, keys = place[0], place[1:]
    await stage.press(view, *keys)
    await stage.pilot.pause()
    seen = stage.text.splitlines()[2:]
    rounds = {"1b": 9, "2b": 5, "2v": 3, "6b": 5}.get(place[:2], 0)
    await stage.press(*keys[:1] * (rounds - len(keys)))
    return seen


@pytest.mark.sample(2)
@pytest.mark.parametrize("first", ["1", "2", "6", "8"])
async def test_what_is_looked_at_only_then_is_of_that_moment(first: str) -> None:
    async with on_sampled_stage(LARGE, first) as stage:
        await stage.press("space")
        await stage.ticks(4)
        early = {place: await look(stage, place) for place in PLACES}
        await stage.ticks(9)
        for place in PLACES:
            assert await look(stage, place) == early[place], place


async def test_pausing_shows_what_was_there() -> None:
    """Held and not held, a view that was made for the same tick is the same."""
    async with on_sampled_stage(LARGE, "2") as stage:
        async for place in places(stage):
            before = stage.lines(2)
            await stage.press("space")
            assert "paused" in stage.text, place
            assert stage.lines(2) == before, place
            await stage.press("space")


@pytest.mark.parametrize("place", ["1bbbbbb", "2", "2b"])
async def test_what_is_costly_rests_and_says_of_when_it_is(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("bands", "producers"):
        monkeypatch.setattr(f"heaptop.tui.views.{module}.view.SMALL", 0)
    async with on_sampled_stage(LARGE, place[0]) as stage:
        await stage.press(*place[1:])
        paced = stage.live.view._drawn if place[0] == "2" else stage.live.view._eventual  # type: ignore[attr-defined]
        monkeypatch.setattr(paced, "_due", float("inf"))
        before = stage.text.splitlines()[3:]
        await stage.ticks(3)
        assert stage.text.splitlines()[3:] == before
        assert "as of 3 s ago" in stage.text.splitlines()[2]
        await stage.press("i")
        assert stage.text.splitlines()[3:] != before


def test_rest_is_the_callers_choice() -> None:
    now = [0.0]
    paced: Throttled[float] = Throttled(lambda: now[0], rest=20)

    def make() -> float:
        now[0] += 1.0
        return now[0]

    first = paced.get(Display(), None, make)
    now[0] += 19.0
    assert paced.get(Display(), None, make) == first
    now[0] += 2.0
    assert paced.get(Display(), None, make) > first
