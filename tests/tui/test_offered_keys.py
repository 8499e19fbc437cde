"""Each key that footer or help page offers does something that can be seen, or the screen says why not: in every view,
of a process and of a recording."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from heaptop.tui.keys.bindings import Key
from heaptop.tui.screens.replay import LACKING
from heaptop.tui.views import VIEWS
from heaptop.tui.widgets.filter_bar import FilterBar
from heaptop.tui.widgets.help_screen import keys_here
from tests.fakes.source import FakeSource
from tests.support.recorded import written
from tests.tui.support import Stage, on_stage
from tests.tui.test_recording import LAST, TICKS, opened

pytestmark = pytest.mark.usefixtures("plain_environment", "utc")
LEAVING = ("leave", "suspend")
"""What ends the screen has a test of its own in ``test_every_key.py``."""


@asynccontextmanager
async def live(path: Path) -> AsyncIterator[Stage]:
    source = FakeSource()
    source.sample(64 << 10, 128)
    async with on_stage(censuses=4, source=source) as stage:
        yield stage


@asynccontextmanager
async def recorded(path: Path) -> AsyncIterator[Stage]:
    async with opened(written(path / "night.heaptop", TICKS)) as stage:
        await stage.at(LAST)
        yield stage


Opened = Callable[[Path], AbstractAsyncContextManager[Stage]]


def state(stage: Stage) -> tuple[object, ...]:
    """All that a key may change and a person may see, and what was asked of the process."""
    source = stage.source
    asked = [*getattr(source, "sampling", ()), getattr(source, "census_requests", 0)]
    return stage.text, [type(screen) for screen in stage.app.screen_stack], stage.app.clipboard, asked


def offered(stage: Stage) -> list[Key]:
    """By the footer, and by the first lines of the help page, but for those that lead to other views."""
    shown = stage.live
    found = {key.id: key for key in (*shown._footer_keys, *keys_here(shown.help_page))}
    return [key for key in found.values() if key.group != "Views" and key.name not in LEAVING]


async def is_answered(stage: Stage, key: Key) -> bool:
    """Whether a press changes something, or says why not."""
    stage.live.state.status.text = ""
    stage.live.redraw_words()
    await stage.settled()
    before = state(stage)
    await stage.press(key.keys.split(",")[0])
    for _ in range(20):
        if state(stage) != before:
            return True
        await stage.pilot.pause(0.05)
    return False


async def go_back(stage: Stage, name: str) -> None:
    """To the first level of the view, with nothing open above it."""
    while len(stage.app.screen_stack) > 1 and stage.app.screen is not stage.live:
        await stage.press("escape")
    if stage.live.query_one(FilterBar).editing:
        await stage.press("escape")
    for _ in range(4):
        await stage.press("escape")
    await stage.press("1", str(VIEWS[name].NUMBER % 10))
    await stage.settled()


@pytest.mark.parametrize("opened_as", [live, recorded])
@pytest.mark.parametrize("name", VIEWS)
async def test_each_key_that_is_offered_does_something_or_says_why_not(
    opened_as: Opened, name: str, tmp_path: Path
) -> None:
    """A recording offers none that needs a process."""
    async with opened_as(tmp_path) as stage:
        await go_back(stage, name)
        dead, refused = [], []
        for key in offered(stage):
            if not await is_answered(stage, key):
                dead.append(f"{key.shown} {key.action}")
            said = stage.live.state.status.text
            if said.startswith("a recording has no ") or said in LACKING.values():
                refused.append(f"{key.shown}: {said}")
            await go_back(stage, name)
        assert dead == []
        assert refused == []
