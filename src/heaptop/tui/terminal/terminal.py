"""The line to the terminal: never more frames than it takes, stopping and going on, and what is done when it is lost.

Textual hands everything to a thread that writes, over a queue of thirty. A terminal that is not read for a while (a
slow ssh, a multiplexer's copy mode) would fill that queue, and then stop the whole app: no key, no signal, no event of
the source would be taken any more. So nothing is drawn while the last frame is still being written; what changes
meanwhile is drawn once, later, as it is then. The same gate keeps frames a tenth of a second apart.

This module never draws. It leans on names that Textual (8.2) keeps to itself, and is not loaded where one of them has
moved (:mod:`~heaptop.tui.terminal.contract`).
"""

from __future__ import annotations

import os
import select
import signal
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, Generic

from rich.color import ColorSystem
from rich.console import Console
from textual import events
from textual._compositor import ChopsUpdate, CompositorUpdate
from textual.drivers.linux_driver import LinuxDriver
from textual.geometry import Region, Size

from heaptop.tui.terminal.plain import PlainApp, Result, has_hung_up
from heaptop.tui.terminal.shown_cells import ShownCells

if TYPE_CHECKING:
    from rich.console import RenderableType
    from textual.driver import Driver
    from textual.screen import Screen
    from textual.timer import Timer

FRAME_SECONDS: Final = 0.1  # From one frame to the next, at least


class TerminalOutput:
    """What the writing thread writes to. A terminal that is gone takes everything and shows nothing."""

    def __init__(self, fileno: int, encoding: str) -> None:
        self._fileno = fileno
        self._encoding = encoding
        self.writing = False  # Whether the terminal has not yet taken all that it was given
        self.lost = False

    def fileno(self) -> int:
        return self._fileno

    def flush(self) -> None:
        """Nothing waits here."""

    def write(self, text: str) -> None:
        rest = memoryview(text.encode(self._encoding, "replace"))
        self.writing = True
        try:
            while rest and not self.lost:
                rest = rest[self._write(rest) :]
        finally:
            self.writing = False

    def _write(self, data: memoryview) -> int:
        try:
            return os.write(self._fileno, data)
        except BlockingIOError:  # another program has left the terminal so
            poll = select.poll()
            poll.register(self._fileno, select.POLLOUT)
            poll.poll()
        except OSError:
            self.lost = True
        return 0


class TerminalDriver(LinuxDriver):
    """Textual's driver on a :class:`TerminalOutput`, whose signals are handled by the event loop.

    As Textual has it they are handled wherever the main thread stands, with the queue locked perhaps, or in the middle
    of the one before: of two changes of the size the older comes last then, and stays. And SIGCONT after a SIGSTOP
    from elsewhere begins everything a second time beside the first.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        assert self._file is not None, "heaptop needs a terminal"
        self.line = TerminalOutput(self._file.fileno(), self._file.encoding)
        self._file = self.line  # type: ignore[assignment]
        self.stopped_seconds = 0.0  # How long it was stopped the last time
        self._stands = False

    @property
    def is_free(self) -> bool:
        """Whether the terminal has taken all that was drawn."""
        thread = self._writer_thread
        return not self.line.writing and (thread is None or thread._queue.empty())

    @property
    def is_lost(self) -> bool:
        """Whether there is no terminal any more: nothing can be drawn, and no key will come."""
        return self.line.lost or has_hung_up(self.fileno)

    def start_application_mode(self) -> None:
        super().start_application_mode()  # type: ignore[no-untyped-call]  # Textual has no type for it
        signal.signal(signal.SIGWINCH, self._sigwinch)
        self._sigwinch()  # what Textual has read may be old by now

    def _run_input_thread(self) -> None:
        with suppress(OSError):  # is_lost reports it
            self.run_input_thread()

    def _sigwinch(self, *_: object) -> None:
        with suppress(RuntimeError):  # the app has ended
            # In two turns, as Textual reports the size that it reads at the start: in one, this would overtake it.
            self._loop.call_soon_threadsafe(self._loop.call_soon, self._resize)

    def _resize(self) -> None:
        if not self._in_band_window_resize:
            size = Size(*self._get_terminal_size())
            self._app.post_message(events.Resize(size, size))

    def _sigtstp_application(self, *_: object) -> None:
        try:
            self._loop.call_soon_threadsafe(self._stop)
        except RuntimeError:  # the app has ended
            os.kill(os.getpid(), signal.SIGSTOP)

    def _sigcont_application(self, *_: object) -> None:
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._resume)

    def _stop(self) -> None:
        if not self._stands and not self._app._exit:
            self.suspend_application_mode()
            self._stands = True
        began = monotonic()
        os.kill(os.getpid(), signal.SIGSTOP)
        self.stopped_seconds = monotonic() - began

    def _resume(self) -> None:
        if self._app._exit:
            return
        if not self._stands:  # it was stopped from elsewhere, nobody knows when
            self.suspend_application_mode()
            self.stopped_seconds = 0.0
        self._must_signal_resume = True
        self.resume_application_mode()
        thread = self._writer_thread  # the one that has ended, where this was in the background: nothing has begun
        self._stands = thread is None or not thread.is_alive()


class _Frame(CompositorUpdate):
    """What is to be written, as it is."""

    def __init__(self, text: str) -> None:
        self._text = text

    def render_segments(self, console: Console) -> str:
        return self._text


class TerminalApp(PlainApp[Result], Generic[Result], inherit_bindings=False):
    """An app that draws only what its terminal takes."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._frame_at = self._resized_at = float("-inf")
        self._due_frame: Timer | None = None  # Runs while something is to be drawn that was not yet
        self._shown = ShownCells()

    def get_driver_class(self) -> type[Driver]:
        usual = super().get_driver_class()
        return TerminalDriver if usual is LinuxDriver else usual

    @property
    def has_terminal(self) -> bool:
        return isinstance(self._driver, TerminalDriver)

    @property
    def is_lost(self) -> bool:
        return isinstance(self._driver, TerminalDriver) and self._driver.is_lost

    @property
    def stopped_seconds(self) -> float:
        return self._driver.stopped_seconds if isinstance(self._driver, TerminalDriver) else 0.0

    # -- frames ----------------------------------------------------------------------------------------------

    def _frame_wait(self) -> float:
        """Seconds until a frame may be drawn."""
        if self._batch_count or (isinstance(self._driver, TerminalDriver) and not self._driver.is_free):
            return FRAME_SECONDS  # in a batch Textual writes nothing
        return self._frame_at + FRAME_SECONDS - monotonic()

    def _display(self, screen: Screen[object], renderable: RenderableType | None) -> None:
        if self.is_headless or not isinstance(renderable, CompositorUpdate | None):
            super()._display(screen, renderable)
            return
        compositor, wait = screen._compositor, self._frame_wait()
        dirty = compositor._dirty_regions
        # What was marked since this was made is forgotten by whoever displays it: it is in the next frame.
        compositor.update_widgets(screen._dirty_widgets)
        if renderable is not None and wait <= 0:
            colours = self.console._color_system or ColorSystem.TRUECOLOR
            text = self._shown.update(renderable, compositor.size, colours)
            if text:
                self._frame_at = monotonic()
                super()._display(screen, _Frame(text))
        elif isinstance(renderable, ChopsUpdate):
            dirty.update(Region(left, y, right - left, 1) for y, left, right in renderable.spans)
        elif renderable is not None:
            dirty.add(compositor.size.region)
        if dirty and self._due_frame is None:
            self._due_frame = self.set_timer(max(self._frame_wait(), 0.0), self._pay)

    def _pay(self) -> None:
        self._due_frame = None
        screen = self.screen
        # A refresh forgets what has changed since the screen last looked: that is a part of this frame.
        screen._compositor.update_widgets(screen._dirty_widgets)
        screen._compositor_refresh()

    def _check_resize(self) -> None:
        """A window that is being dragged changes its size many times a second: each is a layout of everything."""
        wait = self._resized_at + FRAME_SECONDS - monotonic()
        if wait > 0 and not self.is_headless:
            if self._resize_timer is not None:
                self._resize_timer.stop()
            self._resize_timer = self.set_timer(wait, self._check_resize)
            return
        self._resized_at = monotonic()
        self.action_redraw()
        super()._check_resize()

    def action_redraw(self) -> None:
        self._shown.forget()
        super().action_redraw()
