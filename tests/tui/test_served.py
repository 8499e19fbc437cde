"""A screen that is served to a browser: it shows everything, and writes nothing on this machine."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual import events
from textual.geometry import Size

from heaptop.cli import web
from heaptop.errors import UsageError
from heaptop.recordings.reader import Recording
from heaptop.recordings.replay import ReplaySource
from heaptop.tui import app as app_module
from heaptop.tui.app import make_app
from heaptop.tui.screens.commands import HeaptopCommands
from heaptop.tui.screens.saving_control import SavingControl
from tests.support.recorded import written
from tests.tui.support import SMALL
from tests.tui.test_recording import LAST, TICKS, Watched

pytestmark = pytest.mark.usefixtures("plain_environment", "utc")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "current"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@asynccontextmanager
async def served(tmp_path: Path, *, read_only: bool = True) -> AsyncIterator[Watched]:
    player = ReplaySource(Recording.open(written(tmp_path / f"{read_only}.heaptop", TICKS)))
    app = make_app(player, theme="dark", read_only=read_only)
    try:
        async with app.run_test(size=SMALL) as pilot:
            stage = Watched(app, player, pilot)  # type: ignore[arg-type]  # which has no fake source to drive
            await stage.at(LAST)
            yield stage
    finally:
        player.close()


async def offered(stage: Watched) -> set[str]:
    """Titles in the palette."""
    provider = HeaptopCommands(stage.screen)
    return {command.title for command in provider._commands()}


@pytest.mark.parametrize("view", ["1", "2", "4"])
async def test_a_served_screen_saves_nothing(view: str, tmp_path: Path, here: Path) -> None:
    async with served(tmp_path) as stage:
        await stage.pilot.press(view, "s")
        await stage.until(lambda: "read-only" in stage.text, "it says why")
        assert stage.screen.state.prompts.open is None
        for name in ("a.tsv", "a.svg"):
            with pytest.raises(UsageError, match="read-only"):
                SavingControl(stage.screen).save(name)
        with pytest.raises(UsageError, match="read-only"):
            stage.app.save_screenshot("a.svg")
        await stage.pilot.press("ctrl+r", "ctrl+z")
        assert [*here.iterdir()] == []


async def test_what_writes_is_not_offered(tmp_path: Path) -> None:
    saves, stops = "Save the table or screen", "Suspend heaptop; fg resumes"
    async with served(tmp_path, read_only=False) as stage:
        assert {saves, stops} <= await offered(stage)
        assert "save" in {key.action for key in stage.screen._footer_keys}
    async with served(tmp_path) as stage:
        assert not {saves, stops} & await offered(stage)
        assert "save" not in {key.action for key in stage.screen._footer_keys}
        assert "Copy this row" in await offered(stage)


@pytest.mark.parametrize("asked", [Size(900, 24), Size(80, 400), Size(500, 200)])
async def test_the_screen_is_no_larger_than_it_may_be(asked: Size, tmp_path: Path) -> None:
    async with served(tmp_path) as stage:
        stage.app.post_message(events.Resize(asked, asked))
        most = app_module.LARGEST
        bound = Size(min(asked.width, most.width), min(asked.height, most.height))
        await stage.until(lambda: stage.app.size == bound, "it has the size that is allowed")
        assert stage.screen.size == bound


def test_server_and_screen_have_the_same_bound() -> None:
    assert web.bounded(90_000, 90_000) == tuple(app_module.LARGEST)
    assert web.bounded(-1, 0) == (1, 1)


def test_a_page_has_its_rate() -> None:
    now = [0.0]
    rate = web._Rate(10, lambda: now[0])
    assert all(rate.allows(1) for _ in range(10 * web.BURST))
    assert not rate.allows(1)
    now[0] = 3
    assert all(rate.allows(1) for _ in range(29))
    assert not rate.allows(10)
