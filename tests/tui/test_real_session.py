"""Every view of a real session, in both sizes, with and without colours, and in ASCII: texts, and pictures of some.

The session is played from ``real_session.heard``. It, goldens and pictures are made anew by
``python -m tests.support.real_session``; goldens and pictures alone with HEAPTOP_UPDATE_GOLDENS=1.
"""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from heaptop.protocol.images import GROUPS, Question
from heaptop.protocol.messages import CollectRequest
from heaptop.tui.app import make_app
from heaptop.tui.charts.palette import PALETTES
from heaptop.tui.screens.live import LiveScreen
from heaptop.tui.state.background import Throttled
from heaptop.tui.views import VIEWS
from tests.support.real_session import HEARD, MAKE_VARIABLE, check_neutral, heard_live
from tests.support.transcript import NotHeard, Transcript, TranscriptSource
from tests.tui.support import LARGE, SMALL, Stage, check_golden

pytestmark = pytest.mark.usefixtures("plain_environment", "utc", "nothing_rests")

SNAPSHOTS = Path(__file__).parent / "snapshots"
DRAWN = ("bands", "producers", "retainers", "leaks", "heap_map")
"""Views that are kept as pictures too."""
THEMES = ("light", "ansi", "colour-blind")
"""In which the first view is, beside the usual one and none."""
CENSUSES = (12, 6, 6)
"""Before the first mark, and from each to the next."""

Sources = Callable[[], TranscriptSource]


@dataclass(frozen=True)
class Way:
    """Of drawing."""

    name: str
    ascii: bool = False
    colourless: bool = False


WAYS = (Way("unicode"), Way("ascii", ascii=True), Way("no_color", colourless=True))


@pytest.fixture(scope="module")
def sources(request: pytest.FixtureRequest) -> Iterator[Sources]:
    if not os.environ.get(MAKE_VARIABLE):
        transcript = Transcript.load(HEARD)
        yield lambda: TranscriptSource(transcript)
        return
    with heard_live() as (transcript, source):
        yield source
        if not request.session.testsfailed:
            check_neutral(transcript)
            transcript.save(HEARD)


@pytest.fixture
def nothing_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures are made of what is known now, also those that took long."""
    get = Throttled.get

    def anew(paced: Throttled[object], *args: object, **options: object) -> object:
        paced._due = 0.0
        return get(paced, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Throttled, "get", anew)


class Watched(Stage):
    """A stage whose source is a transcript."""

    @property
    def told(self) -> TranscriptSource:
        assert isinstance(self.source, TranscriptSource)
        return self.source

    async def calm(self) -> None:
        """Wait until all is answered and drawn."""
        live = self.live

        def is_calm() -> bool:
            return not (live.hunting.is_busy or live.client.is_busy or live._draw_due or live.state.inbox._events)

        await self.until(is_calm, "all is answered")
        live._draw_words()
        live.state.status.until = 0.0  # how long a key's outcome stands there is no matter of this
        live._draw_words()
        await self.settled()

    async def keys(self, *keys: str) -> None:
        for key in keys:
            await self.press(key)
            await self.calm()

    async def step(self, censuses: int) -> None:
        self.told.advance(censuses)
        await self.calm()


@asynccontextmanager
async def on_session(source: TranscriptSource, size: tuple[int, int], way: Way) -> AsyncIterator[Watched]:
    """After three marks."""
    app = make_app(source, ascii=way.ascii, theme="dark")
    async with app.run_test(size=size) as pilot:
        stage = Watched(app, source, pilot)  # type: ignore[arg-type]  # which is no fake to be driven
        await stage.until(lambda: any(isinstance(s, LiveScreen) for s in app.screen_stack), "the screen is there")
        session = stage.live.session
        session.clock = lambda: session.heard_at or 0.0
        stage.live.client._clock = stage.live.state.memory._clock = lambda: 0.0  # nothing is asked again by and by
        for number, censuses in enumerate(CENSUSES):
            await stage.step(censuses)
            await stage.keys(*("4" if number == 0 else ""), "m")
        yield stage


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
@pytest.mark.parametrize("size", [pytest.param(SMALL, id="80x24"), pytest.param(LARGE, id="200x50")])
async def test_every_view(sources: Sources, size: tuple[int, int], way: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    if way.colourless:
        monkeypatch.setenv("NO_COLOR", "1")
    differences: list[str] = []
    async with on_session(sources(), size, way) as stage:

        def check(state: str) -> None:
            with collected(differences):
                check_golden(f"real-{state}-{size[0]}x{size[1]}-{way.name}", stage.app)
            assert not way.ascii or stage.text.isascii()

        for name, view in VIEWS.items():
            await stage.keys(str(view.NUMBER % 10))
            check(name)
            if size == SMALL and way.name == "unicode" and name in DRAWN:
                check_picture(f"{name}-dark", stage, differences)
        await stage.keys("4", "enter")
        check("suspect")
        await stage.keys("1", "w")
        check("why")
        await stage.keys("1")
        if size == SMALL and way.name == "unicode":
            for theme in THEMES:
                stage.app.use_palette(PALETTES[theme])
                await stage.calm()
                check_picture(f"bands-{theme}", stage, differences)
        if size == SMALL and way.colourless:
            check_picture("bands-mono", stage, differences)
    assert not differences, "\n\n".join(differences)


async def test_the_session_comes_to_the_leak_that_the_shop_has(sources: Sources) -> None:
    async with on_session(sources(), LARGE, WAYS[0]) as stage:
        assert "! LEAK" in stage.text
        assert "shop.models.Session" in stage.text
        assert "module shop.sessions → .ACTIVE (dict)" in stage.text


def test_what_was_not_asked_in_the_session_is_not_made_up() -> None:
    source = TranscriptSource(Transcript.load(HEARD))
    image = source.image(600.0)
    anew = re.escape("python -m tests.support.real_session")
    with pytest.raises(NotHeard, match=anew):
        source.ask(image, Question(GROUPS, limit=123))
    with pytest.raises(NotHeard, match=anew):
        source.request(CollectRequest)
    for _ in CENSUSES:
        source.advance(1)
    with pytest.raises(NotHeard, match=anew):
        source.advance(1)
    for _ in CENSUSES[1:]:
        source.image(600.0)
    with pytest.raises(NotHeard, match=anew):
        source.image(600.0)


def test_what_is_kept_is_what_was_heard(tmp_path: Path) -> None:
    transcript = Transcript.load(HEARD)
    transcript.save(tmp_path / "again")
    assert Transcript.load(tmp_path / "again") == transcript
    check_neutral(transcript)


@contextmanager
def collected(differences: list[str]) -> Iterator[None]:
    """Keeps a failed comparison, so that the others are made too."""
    try:
        yield
    except pytest.fail.Exception as failed:
        differences.append(str(failed))


def check_picture(name: str, stage: Stage, differences: list[str]) -> None:
    """Compare the screen with ``snapshots/name.svg``."""
    path, now = SNAPSHOTS / f"{name}.svg", picture(stage)
    if os.environ.get("HEAPTOP_UPDATE_GOLDENS"):
        SNAPSHOTS.mkdir(exist_ok=True)
        path.write_text(now, encoding="utf-8")
        return
    kept = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    if kept != now.splitlines():
        new = "\n".join(line for line in now.splitlines() if line not in kept)
        differences.append(f"The screen does not look as in {path.name}; these lines are new:\n{new:.2000}")


def picture(stage: Stage) -> str:
    """The screen as SVG, with names that are the same each time, and a line for each mark."""
    drawn = stage.app.export_screenshot(title="heaptop", simplify=True)
    drawn = re.sub(r"terminal-\d+", "terminal", drawn)
    drawn = re.sub(r"@font-face \{.*?\}\s*", "", drawn, flags=re.DOTALL)
    return re.sub(r">\s*<", ">\n<", drawn).strip() + "\n"
