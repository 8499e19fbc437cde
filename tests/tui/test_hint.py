"""The line for new users: shown once, for some keys or seconds, with the first figures."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from heaptop.recordings.reader import Recording
from heaptop.recordings.replay import ReplaySource
from heaptop.tui.app import make_app
from heaptop.tui.keys import hint
from heaptop.tui.keys.hint import hint_words
from heaptop.tui.views import LIVE
from tests.fakes.source import FakeSource
from tests.support.recorded import written
from tests.tui.support import SMALL, Stage, check_golden, on_stage

pytestmark = pytest.mark.usefixtures("plain_environment")

HINT = "2 allocation sites · 4 leaks"


@asynccontextmanager
async def first_time() -> AsyncIterator[tuple[Stage, list[str]]]:
    """A stage before its first census, and what was remembered."""
    seen: list[str] = []
    source = FakeSource()
    app = make_app(source, theme="dark", hinted=lambda: seen.append("hint"))
    async with app.run_test(size=SMALL) as pilot:
        stage = Stage(app, source, pilot)
        await pilot.pause()
        stage.live.session.clock = lambda: stage.live.session.heard_at or 0.0
        yield stage, seen


async def test_it_comes_with_the_first_figures_and_is_remembered_then() -> None:
    async with first_time() as (stage, seen):
        stage.source.attach()
        await stage.pilot.pause()
        assert HINT not in stage.text
        assert seen == []
        await stage.ticks(2)
        await stage.until(lambda: seen, "it is remembered")
        line = next(line for line in stage.text.splitlines() if HINT in line)
        assert line.endswith("q detaches and quits"), "all of it is seen"
        check_golden("hint-80x24", stage.app)
        await stage.ticks(2)
        assert seen == ["hint"]


async def test_some_keys_later_it_is_gone() -> None:
    async with first_time() as (stage, _):
        stage.source.attach()
        await stage.ticks(2)
        for _ in range(hint.KEYS - 1):
            await stage.press("j")
        assert HINT in stage.text
        await stage.press("j")
        assert HINT not in stage.text
        await stage.ticks(2)
        assert HINT not in stage.text


async def test_who_opens_the_help_needs_it_no_longer() -> None:
    async with first_time() as (stage, _):
        stage.source.attach()
        await stage.ticks(2)
        await stage.press("question_mark")
        await stage.press("escape")
        assert HINT not in stage.text


async def test_it_goes_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(hint, "monotonic", lambda: now)
    async with first_time() as (stage, _):
        stage.source.attach()
        await stage.ticks(2)
        assert HINT in stage.text
        now += hint.SECONDS + 1
        await stage.until(lambda: HINT not in stage.text, "it is gone")


async def test_who_knows_heaptop_never_sees_it() -> None:
    async with on_stage() as stage:
        assert HINT not in stage.text


async def test_of_a_recording_nothing_is_detached(tmp_path: Path) -> None:
    with Recording.open(str(written(tmp_path / "night.heaptop", 8))) as recording:
        player = ReplaySource(recording)
        app = make_app(player, theme="dark", hinted=lambda: None)
        async with app.run_test(size=SMALL) as pilot:
            stage = Stage(app, FakeSource(), pilot)
            await stage.until(lambda: HINT in stage.text, "it is shown")
            line = next(line for line in stage.text.splitlines() if HINT in line)
            assert line.endswith("? views, keys · q quits")
        player.close()


def test_its_keys_are_the_tables() -> None:
    words = "2 allocation sites · 4 leaks · 9 RSS · ? views, keys · q quits"
    assert hint_words(LIVE, leaving="quits") == words
    without_help = [key for key in LIVE if key.name != "help"]
    assert hint_words(without_help, leaving="quits") == words.replace("? views, keys · ", "")
