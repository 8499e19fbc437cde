"""What is drawn reaches the terminal, also what was drawn while the terminal was not free."""

from __future__ import annotations

import asyncio
import io
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace

import pytest
from textual import events, messages
from textual.app import ComposeResult
from textual.drivers._writer_thread import WriterThread
from textual.drivers.linux_driver import LinuxDriver
from textual.screen import Screen as TextualScreen
from textual.widgets import Static

from heaptop.tui.terminal.terminal import TerminalApp, TerminalDriver, TerminalOutput
from tests.support.pty_terminal import Screen

WIDTH, HEIGHT = 20, 4


class Lines(TerminalApp[None]):
    """Two lines of text, on a terminal that keeps what was written to it."""

    has_terminal = False

    @property
    def is_headless(self) -> bool:
        return not self.has_terminal

    def compose(self) -> ComposeResult:
        yield Static("one", id="one")
        yield Static("two", id="two")

    def say(self, which: str, text: str) -> None:
        self.query_one(f"#{which}", Static).update(text)


@contextmanager
def seen(app: Lines, monkeypatch: pytest.MonkeyPatch) -> Iterator[Screen]:
    """What stands on its terminal, from all that is written to it."""
    screen = Screen(WIDTH, HEIGHT)
    assert app._driver is not None
    monkeypatch.setattr(app._driver, "write", lambda text: screen.feed(text.encode()))
    app.has_terminal = True
    app.action_redraw()
    yield screen
    app.has_terminal = False


async def stands(screen: Screen, *lines: str) -> bool:
    for _ in range(100):
        if screen.lines[: len(lines)] == list(lines):
            return True
        await asyncio.sleep(0.02)
    return False


async def test_what_changes_while_a_frame_is_owed_is_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    app = Lines()
    async with app.run_test(size=(WIDTH, HEIGHT)):
        with seen(app, monkeypatch) as screen:
            assert await stands(screen, "one", "two")
            app.say("one", "1")
            assert await stands(screen, "1", "two")
            with monkeypatch.context() as late:  # the screen does not come to look at what has changed
                late.setattr(app.screen._update_timer, "resume", lambda: None)
                app.say("two", "2")
                while app.query_one("#two") not in app.screen._dirty_widgets:
                    await asyncio.sleep(0.001)
                app._pay()
            assert await stands(screen, "1", "2")


async def test_what_is_drawn_in_a_batch_is_written_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    app = Lines()
    async with app.run_test(size=(WIDTH, HEIGHT)):
        with seen(app, monkeypatch) as screen:
            assert await stands(screen, "one", "two")
            app._frame_at = float("-inf")
            shown: TextualScreen[object] = app.screen
            with app.batch_update():
                app.say("one", "1")
                await asyncio.sleep(0.05)
                shown._compositor.update_widgets({app.query_one("#one")})
                shown._compositor_refresh()
                assert screen.lines[0] == "one"
            assert await stands(screen, "1", "two")


async def test_what_changes_before_a_layout_in_a_batch_is_drawn_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The screen hears of it after the layout, and displays that later: then it forgets what it has heard of."""
    app = Lines()
    async with app.run_test(size=(WIDTH, HEIGHT)) as pilot:
        with seen(app, monkeypatch) as screen:
            assert await stands(screen, "one", "two")
            await pilot.pause(0.3)  # nothing else is to be drawn
            two = app.query_one("#two", Static)
            with app.batch_update():
                two.update("2", layout=False)
                two._repaint_required = False
                app.screen.post_message(messages.Update(two))
                app.screen._refresh_layout()
                await asyncio.sleep(0.05)
            assert await stands(screen, "one", "2")


def test_of_changes_of_the_size_the_last_is_said_last() -> None:
    """A signal may come in the middle of another one's handler, also in the one of ours."""
    driver = TerminalDriver.__new__(TerminalDriver)
    size, later, said = [(80, 24)], list[Callable[[], None]](), list[events.Resize]()
    driver._in_band_window_resize = False
    driver._loop = SimpleNamespace(  # type: ignore[assignment]
        call_soon=later.append, call_soon_threadsafe=lambda call, what: later.append(partial(call, what))
    )
    driver._app = SimpleNamespace(post_message=said.append)  # type: ignore[assignment]

    def changed() -> tuple[int, int]:
        before = size[-1]
        if before == (80, 24):
            size.append((120, 30))
            driver._sigwinch(signal.SIGWINCH, None)
        return before

    driver._get_terminal_size = changed  # type: ignore[method-assign]
    driver._sigwinch(signal.SIGWINCH, None)
    while later:
        later.pop(0)()
    assert said[-1].size == (120, 30)


@pytest.mark.parametrize("when", ["as it is read", "later"])
async def test_a_change_of_the_size_at_the_start_is_said_last(monkeypatch: pytest.MonkeyPatch, when: str) -> None:
    """A window that has just opened takes its size while the app begins."""
    master, terminal = os.openpty()
    driver = TerminalDriver.__new__(TerminalDriver)
    size, said = [(80, 24)], list[events.Resize]()

    async def post(event: events.Resize) -> None:
        said.append(event)

    driver.fileno, driver.line, driver.input_tty, driver._mouse = (
        terminal,
        TerminalOutput(terminal, "utf-8"),
        False,
        False,
    )
    driver._file = driver.line  # type: ignore[assignment]
    driver._in_band_window_resize = driver._must_signal_resume = False
    driver._loop = asyncio.get_running_loop()
    driver._app = SimpleNamespace(post_message=said.append, _post_message=post)  # type: ignore[assignment]

    def change() -> None:
        size.append((120, 30))
        signal.raise_signal(signal.SIGWINCH)

    def read() -> tuple[int, int]:
        found = size[-1]
        if when == "as it is read" and len(size) == 1:
            change()
        return found

    driver._get_terminal_size = read  # type: ignore[method-assign]
    monkeypatch.setattr(driver, "_run_input_thread", lambda: None)
    before = signal.getsignal(signal.SIGWINCH)
    try:
        driver.start_application_mode()
        if when == "later":
            change()
        for _ in range(10):
            await asyncio.sleep(0)
        assert said[-1].size == (120, 30)
    finally:
        signal.signal(signal.SIGWINCH, before)
        driver.close()
        os.close(master)
        os.close(terminal)


def test_who_is_let_go_on_in_the_background_writes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Textual begins nothing there, and is stopped again: what is written would wait for nobody, until that is full."""
    driver = TerminalDriver.__new__(TerminalDriver)
    driver._app = SimpleNamespace(_exit=False)  # type: ignore[assignment]
    driver._loop = SimpleNamespace(call_soon_threadsafe=lambda *_: None, call_soon=None)  # type: ignore[assignment]
    driver._in_band_window_resize, driver._mouse, driver.attrs_before, driver._stands = False, False, None, True
    monkeypatch.setattr(driver, "disable_input", lambda: None)
    monkeypatch.setattr(LinuxDriver, "start_application_mode", lambda self: None)
    driver._writer_thread = thread = WriterThread(io.StringIO())
    thread.start()
    driver.close()
    before = signal.getsignal(signal.SIGWINCH)
    try:
        for _ in range(2):
            driver._resume()
    finally:
        signal.signal(signal.SIGWINCH, before)
    assert thread._queue.empty()
