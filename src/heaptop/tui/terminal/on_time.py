"""One-shot timers that always go off.

Textual (8.2) drops one that it comes to only after it was to go off: always with a delay of nothing, and on a busy
machine now and then. What waits for it would wait forever.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from textual.message_pump import MessagePump
from textual.timer import Timer, TimerCallback

from heaptop.tui.terminal import contract

SHORTEST: Final = 0.05
"""Seconds: by public names alone a delay is one turn of a repeated timer, and those that are too late are left out."""


class OnTime(MessagePump):
    """To be put before the class of Textual whose timers they are."""

    def set_timer(
        self, delay: float, callback: TimerCallback | None = None, *, name: str | None = None, pause: bool = False
    ) -> Timer:
        """As Textual's own, but late rather than never."""
        call = None if callback is None else partial(self.call_next, callback)
        if contract.broken():
            return self._first_turn(max(delay, SHORTEST), call, name, pause)
        timer = Timer(self, delay, name=name, callback=call, repeat=0, skip=False, pause=pause)
        timer._start()
        self._timers.add(timer)
        return timer

    def _first_turn(self, delay: float, call: Callable[[], object] | None, name: str | None, pause: bool) -> Timer:
        def once() -> None:
            timer.stop()
            if call is not None:
                call()

        timer = self.set_interval(delay, once, name=name, pause=pause)
        return timer
