"""Every view of a real session, in both sizes, with and without colours, and in ASCII; texts and pictures of some.

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
from heaptop.recordings.recordable_source import RecordableSource
from heaptop.tui.app import make_app
from heaptop.tui.charts.palette import PALETTES
from heaptop.tui.screens.live import LiveScreen
from heaptop.tui.state.background import Throttled
from heaptop.tui.views import VIEWS
from heaptop.tui.widgets.virtual_table import VirtualTable
from tests.support.real_session import HEARD, MAKE_VARIABLE, check_neutral, heard_live
from tests.support.transcript import NotHeard, Transcript, TranscriptSource
from tests.tui.support import LARGE, SMALL, Stage, check_golden
from tests.tui.test_recording import opened

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
            return not (live.hunting.is_busy or live.client.is_busy or live.draw_due or live.state.inbox._events)

        await self.until(is_calm, "all is answered")
        live.redraw_words()
        live.state.status.until = 0.0  # how long a key's outcome stands there is no matter of this
        live.redraw_words()
        await self.settled()

    async def keys(self, *keys: str) -> None:
        for key in keys:
            await self.press(key)
            await self.calm()

    async def step(self, censuses: int) -> None:
        self.told.advance(censuses)
        await self.calm()


GOLDENS = {
    ("leaks", LARGE, "unicode"): "real-leaks-200x50-unicode",
    ("suspect", SMALL, "unicode"): "real-suspect-80x24-unicode",
    ("why", SMALL, "ascii"): "real-why-80x24-ascii",
    ("memory", LARGE, "no_color"): "real-memory-200x50-no_color",
}
"""Of what state, and how drawn; of others there are pictures."""


@asynccontextmanager
async def on_session(told: TranscriptSource, way: Way = WAYS[0], record: Path | None = None) -> AsyncIterator[Watched]:
    """After three marks; or recorded, after two."""
    source = RecordableSource(told, wall=lambda: 1_750_000_000.0)
    app = make_app(source, ascii=way.ascii, theme="dark")
    async with app.run_test(size=SMALL) as pilot:
        stage = Watched(app, told, pilot)  # type: ignore[arg-type]  # which is no fake to be driven
        await stage.until(lambda: any(isinstance(s, LiveScreen) for s in app.screen_stack), "the screen is there")
        session = stage.live.session
        session.clock = lambda: session.heard_at or 0.0
        stage.live.client.clock = stage.live.state.memory.clock = lambda: 0.0  # nothing is asked again by and by
        if record:
            source.begin_recording(str(record))
        for number, censuses in enumerate(CENSUSES[: 2 if record else 3]):
            await stage.step(censuses)
            await stage.keys(*("4" if number == 0 else ""), "m")
        yield stage


STATES: dict[str, tuple[str, ...]] = {name: (str(view.NUMBER % 10),) for name, view in VIEWS.items()}
STATES |= {"suspect": ("4", "enter"), "why": ("escape", "1", "w")}
"""Keys that lead to each from the one before it."""


async def test_every_view_in_each_size_and_way(sources: Sources, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables say the same with colours and without them, and in ASCII nothing else is on the screen."""
    differences: list[str] = []
    tables: dict[str, list[list[str]]] = {}
    for way in WAYS:
        if way.colourless:
            monkeypatch.setenv("NO_COLOR", "1")  # for the rest: it is the last way
        tables[way.name] = []
        async with on_session(sources(), way) as stage:
            for size in (SMALL, LARGE):
                await stage.pilot.resize_terminal(*size)
                for state, keys in STATES.items():
                    await stage.keys(*keys)
                    tables[way.name].append(table_of(stage))
                    assert stage.text.isascii() is way.ascii, state
                    with collected(differences):
                        if golden := GOLDENS.get((state, size, way.name)):
                            check_golden(golden, stage.app)
                    if size == SMALL and way.name == "unicode" and state in DRAWN:
                        check_picture(f"{state}-dark", stage, differences)
                await stage.keys("escape", "1")
                await check_themes(stage, size, way, differences)
    assert not differences, "\n\n".join(differences)
    assert tables["unicode"] == tables["no_color"]
    assert sum(map(len, tables["unicode"])) > 200


async def check_themes(stage: Watched, size: tuple[int, int], way: Way, differences: list[str]) -> None:
    """The pictures of the first view, which all themes have."""
    if size == LARGE or way.ascii:
        return
    if way.colourless:
        check_picture("bands-mono", stage, differences)
        return
    for theme in (*THEMES, "dark"):
        stage.app.use_palette(PALETTES[theme])
        await stage.calm()
        check_picture(f"bands-{theme}", stage, differences)


def table_of(stage: Stage) -> list[str]:
    """What the first rows of the tables of the view say, but for bars and letters."""
    sheets = [table.sheet for table in stage.live.view.query(VirtualTable) if table.display]
    rows = [(sheet, row) for sheet in sheets if sheet is not None for row in sheet.rows[:40]]
    return [
        "  ".join(cell.text for column, cell in zip(sheet.columns, sheet.draw(row), strict=True) if column.title)
        for sheet, row in rows
    ]


async def test_the_session_comes_to_the_leak_that_the_shop_has(sources: Sources) -> None:
    async with on_session(sources()) as stage:
        assert "! LEAK" in stage.text
        assert "shop.models.Session" in stage.text
        assert "module shop.sessions → .ACTIVE (dict)" in stage.text


async def test_a_recording_tells_what_was_found_as_the_session_did(sources: Sources, tmp_path: Path) -> None:
    """But for what only the keys of a process can do."""
    path = tmp_path / "shop.heaptop"
    async with on_session(sources(), record=path) as stage:
        live = [await found_lines(stage, size) for size in (SMALL, LARGE)]
        await stage.step(CENSUSES[-1])
    async with opened(path) as again:
        await again.until(lambda: again.live.state.display.records, "a moment is shown")
        recorded = [await found_lines(again, size) for size in (SMALL, LARGE)]
    for of_live, of_recording in zip(live, recorded, strict=True):
        added = [line.strip() for line in of_recording if line not in of_live]
        later = "go to a later moment, or record for longer: it takes more intervals"
        words = " ".join(line.removeprefix("Next").strip() for line in added)
        assert words.replace(later, "").split() == ["a", "recording", "has", "no", "single", "objects"]
        missing = [line for line in of_live if line not in of_recording]
        assert all(line.strip().startswith(("m checks and sets", "▸ ", "Next  ")) for line in missing), missing


async def found_lines(stage: Stage, size: tuple[int, int]) -> list[str]:
    """The suspects, and all of the first."""
    await stage.pilot.resize_terminal(size[0], LARGE[1])
    found = []
    for key in ("4", "enter"):
        await stage.press(key)
        await stage.settled()
        end = stage.live.view.region.bottom  # below are the names of views and, of a recording, its whole course
        found += [line.partition("; w: ")[0] for line in stage.lines(3, end) if line]
    await stage.press("escape")
    return found


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
