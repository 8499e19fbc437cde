"""The first frame: it is what the live screen shows while it waits, and whatever becomes of it ends in order."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from heaptop.errors import ImageLost, ImageRefused, NotADump, NotPython, PtraceDenied, PyPyTarget, all_errors
from heaptop.protocol.source import Source
from heaptop.tui.app import HeaptopApp, make_app
from heaptop.tui.screens.live import LiveScreen
from heaptop.tui.screens.opening import OpeningScreen
from heaptop.tui.state.opening import Opening
from heaptop.tui.widgets.panel import error_title
from tests.fakes.source import FakeSource
from tests.tui.support import SIZES, SMALL, Stage, on_stage, screen_text


def opened(connect: Callable[[], Source], *, ascii: bool = False) -> HeaptopApp:
    target = FakeSource().target
    opening = Opening(target.pid, target.command, target.python, target.user, connect)
    return make_app(opening=opening, ascii=ascii, theme="dark")


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("ascii", [False, True], ids=["unicode", "ascii"])
async def test_it_looks_as_the_wait_does(size: tuple[int, int], *, ascii: bool) -> None:
    source = FakeSource()
    frames: list[str] = []

    def connect() -> Source:
        assert isinstance(app.screen, OpeningScreen)
        frames.append(screen_text(app))
        return source

    app = opened(connect, ascii=ascii)
    async with app.run_test(size=size) as pilot:
        stage = Stage(app, source, pilot)
        await stage.until(lambda: isinstance(app.screen, LiveScreen) and stage.text.strip(), "the live screen is there")
        await stage.settled()
        assert frames == [stage.text]
        source.attach()
        await stage.ticks(1)
        assert "● live" in stage.text or "* live" in stage.text
    async with on_stage(size=size, attach=False, ascii=ascii) as stage:
        assert frames == [stage.text]


async def test_a_program_that_is_yet_to_be_started_has_no_pid() -> None:
    lines: list[str] = []

    def connect() -> Source:
        lines.extend(screen_text(app).splitlines())
        raise PtraceDenied("No.")

    opening = Opening(0, "python prog.py", "", "shop", connect, "output in out.log")
    app = make_app(opening=opening, theme="dark")
    await app.run_async(headless=True, size=SMALL)
    assert lines[0].split() == ["heaptop", "python", "prog.py", "○", "attaching"]
    assert "Starting the program" in "".join(lines)
    assert "user shop. output in out.log" in "".join(lines)


async def test_what_stands_in_the_way_ends_the_app_and_is_told_by_it() -> None:
    error = PtraceDenied("No.")

    def connect() -> Source:
        raise error

    app = opened(connect)
    assert await app.run_async(headless=True) is error


async def test_who_leaves_before_there_is_a_source_attaches_to_nothing() -> None:
    made: list[Source] = []

    def connect() -> Source:
        made.append(FakeSource())
        return made[-1]

    app = opened(connect)
    go_on = app._connect_loaded

    def leave_first(opening: Opening) -> None:
        app.action_leave()
        go_on(opening)

    app._connect_loaded = leave_first  # type: ignore[method-assign]
    assert await app.run_async(headless=True) is None
    assert made == []


async def test_q_leaves_at_once_while_the_screens_are_still_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    loading, may_end = threading.Event(), threading.Event()
    made: list[Source] = []

    def load() -> None:
        loading.set()
        may_end.wait(60)

    def connect() -> Source:
        made.append(FakeSource())
        return made[-1]

    monkeypatch.setattr("heaptop.tui.app.load_screens", load)
    app = opened(connect)
    async with app.run_test(size=SMALL) as pilot:
        stage = Stage(app, FakeSource(), pilot)
        await stage.until(loading.is_set, "the screens are being loaded")
        await pilot.press("q")
        try:
            await stage.until(lambda: app.ending, "it ends")
            assert not may_end.is_set(), "without what is loaded"
        finally:
            may_end.set()
    assert made == [], "nothing is attached to"


async def test_keys_typed_while_the_screens_are_loaded_are_kept_for_the_live_screen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loading, may_end = threading.Event(), threading.Event()
    source = FakeSource()

    def load() -> None:
        loading.set()
        may_end.wait(60)

    monkeypatch.setattr("heaptop.tui.app.load_screens", load)
    app = opened(lambda: source)
    async with app.run_test(size=SMALL) as pilot:
        stage = Stage(app, source, pilot)
        await stage.until(loading.is_set, "the screens are being loaded")
        await pilot.press("2", "m")
        assert isinstance(app.screen, OpeningScreen)
        may_end.set()
        await stage.until(lambda: isinstance(app.screen, LiveScreen), "the live screen is there")
        await stage.until(lambda: "not attached yet" in stage.text, "a key that has no meaning yet is refused")
        source.attach()
        await stage.ticks(1)
        assert stage.live.views.name == "producers"


async def test_a_fault_behind_the_first_frame_ends_the_app() -> None:
    def connect() -> Source:
        raise ZeroDivisionError

    app = opened(connect)
    with pytest.raises(ZeroDivisionError):
        await shown_until_it_ends(app)


async def shown_until_it_ends(app: HeaptopApp) -> None:
    async with app.run_test(size=SMALL) as pilot:
        for _ in range(500):
            await pilot.pause(0.02)


def test_the_title_of_an_error_is_in_the_words_of_the_screens() -> None:
    kinds = (ImageRefused, ImageLost, NotADump, NotPython, PyPyTarget, PtraceDenied)
    shown = ["Snapshot refused", "Snapshot lost", "Not a heap dump", "Not Python", "PyPy target", "Ptrace denied"]
    assert [error_title(kind) for kind in kinds] == shown
    assert [title for title in map(error_title, all_errors()) if "image" in title.lower()] == []
