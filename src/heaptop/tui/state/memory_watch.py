"""When it is asked what memory is used for: while somebody looks at that, and the seldomer the longer it takes."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Final

from heaptop.analysis.rss.memory_history import interval
from heaptop.protocol.messages import Memory
from heaptop.protocol.source import Event, Received, Source

OVERDUE: Final = 60.0  # Seconds after which an answer is not waited for any more


class MemoryWatch:
    """The asking of one screen."""

    def __init__(self, source: Source, clock: Callable[[], float] = monotonic) -> None:
        self._source = source
        self.clock = clock
        self._due = float("-inf")
        self._asked: float | None = None

    def turn(self, wanted: bool) -> None:
        """Called about once a second, and when a view is opened: ask if it is due, and somebody looks."""
        now = self.clock()
        waits = self._asked is not None and now - self._asked < OVERDUE
        if wanted and not waits and now >= self._due:
            self.ask()

    def ask(self) -> None:
        """At once."""
        self._asked = self.clock()
        self._source.memory_now()

    def feed(self, event: Event) -> None:
        """Take one event, whoever has asked for it."""
        match event:
            case Received(Memory() as memory):
                self._asked = None
                self._due = self.clock() + interval(memory)
