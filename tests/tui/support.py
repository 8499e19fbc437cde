"""What the tests of the screen share: an app on a fake source, the screen as text, and goldens.

Goldens are made again with ``HEAPTOP_UPDATE_GOLDENS=1 pytest tests/tui``; read the difference before keeping it.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from textual.pilot import Pilot

from heaptop.errors import HeaptopError
from heaptop.tui.app import HeaptopApp, make_app
from heaptop.tui.screens.live import LiveScreen
from heaptop.tui.views.bands.view import BandsView
from tests.fakes.source import FakeSource

GOLDENS = Path(__file__).parent / "goldens"
SMALL, LARGE = (80, 24), (200, 50)
SIZES = [pytest.param(SMALL, id="80x24"), pytest.param(LARGE, id="200x50")]


def screen_text(app: HeaptopApp) -> str:
    """What is on the terminal, line by line, without blanks at the ends of lines."""
    strips = app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in strip).rstrip() for strip in strips) + "\n"


def check_golden(name: str, app: HeaptopApp) -> None:
    """Compare the screen with ``goldens/name.txt``, ``{size}`` in it being that of the screen.

    A failure shows what differs. Goldens are for whole screens that people know heaptop by; other tests look at the
    lines that their names speak of.
    """
    width, height = app.size
    path, now = GOLDENS / f"{name.format(size=f'{width}x{height}')}.txt", screen_text(app)
    if os.environ.get("HEAPTOP_UPDATE_GOLDENS"):
        path.write_text(now, encoding="utf-8")
        return
    if not path.exists():
        pytest.fail(f"There is no golden {path.name}; make it with HEAPTOP_UPDATE_GOLDENS=1.\n\n{now}", pytrace=False)
    kept = path.read_text(encoding="utf-8")
    if kept != now:
        difference = difflib.unified_diff(kept.splitlines(), now.splitlines(), "kept", "now", lineterm="", n=2)
        pytest.fail(f"The screen is not as in {path.name}:\n\n" + "\n".join(difference), pytrace=False)


@dataclass
class Stage:
    """An app under test and what drives it."""

    app: HeaptopApp
    source: FakeSource
    pilot: Pilot[HeaptopError | None]

    @property
    def live(self) -> LiveScreen:
        found = next(screen for screen in self.app.screen_stack if isinstance(screen, LiveScreen))
        return found

    @property
    def bands(self) -> BandsView:
        return self.live.query_one(BandsView)

    @property
    def text(self) -> str:
        return screen_text(self.app)

    def lines(self, first: int, end: int | None = None) -> list[str]:
        """The lines of the screen from ``first`` on and before ``end``; negative numbers count from its end."""
        return self.text.splitlines()[first:end]

    def line(self, words: str) -> str:
        """The first line of the screen with these words."""
        found = next((line for line in self.text.splitlines() if words in line), None)
        assert found is not None, f"no {words!r} in:\n{self.text}"
        return found

    async def until(self, holds: Callable[[], object], what: str) -> None:
        """Wait until something holds that depends on a timer; fails with the screen if it never does."""
        for _ in range(1000):
            if holds():
                await self.pilot.pause()
                return
            await self.pilot.pause(0.02)
        pytest.fail(f"Waited in vain until {what}. The screen:\n\n{self.text}", pytrace=False)

    async def settled(self) -> None:
        """Wait until what is on the screen stays as it is: a view that was just opened is laid out more than once."""
        seen = ""
        for _ in range(40):
            if seen == self.text:
                return
            seen = self.text
            await self.pilot.pause(0.05)
        pytest.fail(f"The screen does not come to rest:\n\n{self.text}", pytrace=False)

    async def ticks(self, number: int, *, census: bool = True) -> None:
        """Let the source deliver, and wait until it is drawn."""
        session = self.live.session
        wanted = session.censuses + (number if census else 0)
        last = (session.tick.id if session.tick else 0) + number * (2 if census else 1)
        self.source.tick(number, census=census)

        def drawn() -> bool:
            tick = session.tick
            return session.censuses == wanted and tick is not None and tick.id >= last - 1

        await self.until(drawn, f"{wanted} censuses were taken in")

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.pilot.pause()

    async def type(self, text: str) -> None:
        """Type text as single keys, and wait until the last one was handled."""
        names = {" ": "space", ":": "colon", ">": "greater_than_sign", "!": "exclamation_mark", "=": "equals_sign"}
        await self.press(*(names.get(char, char) for char in text))


@asynccontextmanager
async def on_stage(
    size: tuple[int, int] = SMALL,
    *,
    censuses: int = 24,
    attach: bool = True,
    ascii: bool = False,
    theme: str | None = "dark",
    source: FakeSource | None = None,
) -> AsyncIterator[Stage]:
    """An app on a fake source that is attached and has sent ``censuses``."""
    fake = source or FakeSource()
    app = make_app(fake, ascii=ascii, theme=theme)
    async with app.run_test(size=size) as pilot:
        stage = Stage(app, fake, pilot)
        await stage.until(lambda: any(isinstance(s, LiveScreen) for s in app.screen_stack), "the screen is there")
        stage.live.session.clock = lambda: stage.live.session.heard_at or 0.0  # what silence there is, is the machine's
        if attach:
            fake.attach()
            if censuses:
                await stage.ticks(censuses)
        yield stage
