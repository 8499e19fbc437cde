"""The hop from the source's thread to the app's: a bounded burst of events becomes one message.

This module never draws and never waits: the source's thread is not held up by a slow terminal. It says when the app is
behind, so that the source asks for nothing more and no more than a tick or two ever wait here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from threading import Lock

from heaptop.protocol.source import Event, Waiting, is_tick


class Inbox:
    """Events in order, put by one thread and drained by another.

    ``wake`` is called at most once between two drains. Of several :class:`Waiting` in a row only the last is kept.
    """

    def __init__(self, wake: Callable[[], object]) -> None:
        self._wake = wake
        self._lock = Lock()
        self._events: deque[Event] = deque()
        self._ticks = 0

    def is_behind(self) -> bool:
        """Whether a tick, or a census, waits to be drained, with all that came with it: no other is wanted then."""
        return self._ticks > 0

    def put(self, event: Event) -> None:
        with self._lock:
            first = not self._events
            self._ticks += is_tick(event)
            if self._events and isinstance(event, Waiting) and isinstance(self._events[-1], Waiting):
                self._events[-1] = event
            else:
                self._events.append(event)
        if first:
            self._wake()

    def drain(self) -> list[Event]:
        with self._lock:
            events = list(self._events)
            self._events.clear()
            self._ticks = 0
        return events
