"""One-shot timers that always go off.

Textual (8.2) drops one that it comes to only after it was to go off: always with a delay of nothing, and on a busy
machine now and then. What waits for it would wait for ever. This module never draws, and leaves repeated timers alone.
"""

from __future__ import annotations

from functools import partial

from textual.message_pump import MessagePump
from textual.timer import Timer, TimerCallback


class OnTime(MessagePump):
    """To be put before the class of Textual whose timers they are."""

    def set_timer(
        self, delay: float, callback: TimerCallback | None = None, *, name: str | None = None, pause: bool = False
    ) -> Timer:
        """As Textual's own, but late rather than never."""
        call = None if callback is None else partial(self.call_next, callback)
        timer = Timer(self, delay, name=name, callback=call, repeat=0, skip=False, pause=pause)
        timer._start()
        self._timers.add(timer)
        return timer
