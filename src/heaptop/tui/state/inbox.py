"""The hop from the source's thread to the app's: a bounded burst of events becomes one message.

It reports when the app is behind, so that the source asks for nothing more, and no more than a tick or two ever wait
here; of an agent that sends what nobody asked for the source's thread reads no more until there is room.
"""

from __future__ import annotations

from collections.abc import Callable

from heaptop.protocol.event_queue import EventQueue
from heaptop.protocol.source import Event, Waiting


class Inbox:
    """Events in order, put by one thread and drained by another.

    ``wake`` is called at most once between two drains. Of several :class:`Waiting` in a row only the last is kept.
    """

    def __init__(self, wake: Callable[[], object]) -> None:
        self._wake = wake
        self._events = EventQueue()

    def is_behind(self) -> bool:
        """Whether a tick, or a census, waits to be drained, with all that came with it: no other is wanted then."""
        return self._events.is_behind()

    def put(self, event: Event) -> None:
        if isinstance(event, Waiting) and self._events.replace_last(event, Waiting):
            return
        if self._events.put(event):
            self._wake()

    def drain(self) -> list[Event]:
        return self._events.drain()

    def close(self) -> None:
        """The source is about to be closed: it does not wait any more."""
        self._events.close()
