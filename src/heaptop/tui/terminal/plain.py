"""What heaptop does with its terminal by what Textual offers to everybody.

:class:`~heaptop.tui.terminal.terminal.TerminalApp` adds what needs private names; where those have moved, this is all.
Then a terminal that is not read for a while holds the app up, and every change is sent as Textual sends it.
"""

from __future__ import annotations

import gc
import os
import select
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from textual.app import App

from heaptop.tui.terminal.on_time import OnTime

if TYPE_CHECKING:
    from rich.console import RenderableType

Result = TypeVar("Result")

GONE: Final = select.POLLHUP | select.POLLERR | select.POLLNVAL


def has_hung_up(fileno: int) -> bool:
    """Whether there is no terminal any more: nothing can be drawn, and no key will come."""
    poll = select.poll()
    poll.register(fileno, select.POLLIN)
    return any(event & GONE for _, event in poll.poll(0))


def collect_seldom() -> None:
    """Garbage from now on: what is there stays, and is not looked through again. Nearly all that a tick makes is freed
    by counting; a collection of all that a session knows would be felt at a key."""
    gc.freeze()
    gc.enable()
    gc.set_threshold(50_000, 20, 20)


def can_suspend() -> bool:
    """Whether a shell waits for this program that would see it stop, and could let it continue."""
    parent = os.getppid()
    if parent == 0:
        return False  # in a namespace of processes whose shell is outside
    try:
        return os.getsid(parent) == os.getsid(0) and os.getpgid(parent) != os.getpgrp()
    except OSError:
        return False


class PlainApp(OnTime, App[Result], Generic[Result], inherit_bindings=False):
    """An app that stops and continues as a program in a shell does, and ends when its terminal is lost."""

    ending = False  # Whether it was asked to exit

    def exit(self, result: Result | None = None, return_code: int = 0, message: RenderableType | None = None) -> None:
        self.ending = True
        super().exit(result, return_code, message)

    @property
    def has_terminal(self) -> bool:
        """Whether this process has a terminal: there is none in a test, nor behind a web page."""
        return not (self.is_headless or self.is_web)

    @property
    def is_lost(self) -> bool:
        """Whether the terminal is gone."""
        with suppress(ValueError):  # closed, on the way out
            return sys.__stdin__ is None or has_hung_up(sys.__stdin__.fileno())
        return True

    @property
    def stopped_seconds(self) -> float:
        """How long the process was stopped the last time; 0 where that is not known."""
        return 0.0

    def action_redraw(self) -> None:
        """All of it, whatever is thought to be there."""
        if self.screen_stack:
            self.screen.refresh(layout=True)

    def on_mount(self) -> None:
        self.app_resume_signal.subscribe(self, lambda _: self._resumed())
        if self.has_terminal:
            self.set_interval(1.0, self._watch_line)
        self.all_loaded()

    def all_loaded(self) -> None:
        """What is there now stays; in a terminal the process is the app's, and so is its garbage."""
        if self.has_terminal:
            self.call_after_refresh(collect_seldom)

    def _watch_line(self) -> None:
        if self.is_lost:
            self.lost()

    def lost(self) -> None:
        """The terminal is gone."""
        raise NotImplementedError

    def stop_process(self) -> bool:
        """Stop as ctrl+Z does, until the shell continues it; False where there is no such shell."""
        if not self.has_terminal or not can_suspend():
            return False
        self.action_suspend_process()
        return True

    def _resumed(self) -> None:
        self.action_redraw()
        if self.has_terminal:
            self.resumed(self.stopped_seconds)

    def resumed(self, seconds: float) -> None:
        """The process was stopped for so long; 0 where that is not known."""
