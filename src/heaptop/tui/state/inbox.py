"""The hop from the source's thread to the app's: a bounded burst of events becomes one message.

It reports when the app is behind, so that the source asks for nothing more, and no more than a tick or two ever wait
here; of an agent that sends what nobody asked for the source's thread reads no more until there is room.
"""

from __future__ import annotations

from collections.abc import Callable

from heaptop.protocol.event_queue import EventQueue
from heaptop.protocol.source import Event, Waiting


class Inbox(EventQueue):
    """Events in order, put by one thread and drained by another.

    ``wake`` is called at most once between two drains. Of several :class:`Waiting` in a row only the last is kept.
    """

    def __init__(self, wake: Callable[[], object]) -> None:
        super().__init__()
        self._wake = wake

    def receive(self, event: Event) -> None:
        if not (isinstance(event, Waiting) and self.replace_last(event, Waiting)) and self.put(event):
            self._wake()
