"""Events on their way from a source's thread to whoever takes them: in order, and never more than has room.

Whoever puts waits while there is no room, so that an agent that sends without being asked is not read any faster than
it is shown. What was asked for is little, so an honest agent's events never wait here.
"""

from __future__ import annotations

import queue
import time
from collections import deque
from dataclasses import fields, is_dataclass
from threading import Condition
from typing import Final

from heaptop.protocol.bounds import WAITING
from heaptop.protocol.source import Event, Received, is_tick

PATIENCE: Final = 5.0
"""Seconds that one event waits for room: whoever takes them may be the one that waits for the source to end."""


def weight(event: Event) -> int:
    """How many items it holds: rows, names, bytes of packed records."""
    message = getattr(event, "message", None)
    if not is_dataclass(message):
        return 1
    values = (getattr(message, field.name) for field in fields(message))
    return 1 + sum(len(value) for value in values if isinstance(value, (tuple, str, bytes)))


class EventQueue:
    """One thread puts, one takes."""

    def __init__(self, limit: int = WAITING, patience: float = PATIENCE) -> None:
        self._limit = limit
        self._patience = patience
        self._events: deque[Event] = deque()
        self._weight = 0
        self._ticks = 0
        self._changed = Condition()
        self._closed = False

    def put(self, event: Event) -> bool:
        """Wait for room, and put it; whether it was the first one. Where there is no room in time, or the queue was
        closed, the agent's messages are dropped."""
        with self._changed:
            if self._weight > self._limit and not self._closed:
                end = time.monotonic() + self._patience
                while self._weight > self._limit and not self._closed and (left := end - time.monotonic()) > 0:
                    self._changed.wait(left)
            if self._weight > self._limit and isinstance(event, Received):
                return False
            first = not self._events
            self._events.append(event)
            self._weight += weight(event)
            self._ticks += is_tick(event)
            self._changed.notify_all()
            return first

    def replace_last(self, event: Event, kind: type[Event]) -> bool:
        """Put it in the place of the last one if that is of this kind; whether it was."""
        with self._changed:
            if not self._events or not isinstance(self._events[-1], kind):
                return False
            self._events[-1] = event
            return True

    def get(self, timeout: float) -> Event:
        """The next one. Raises queue.Empty where there is none within so many seconds."""
        with self._changed:
            if not self._events and not self._changed.wait_for(lambda: self._events, timeout):
                raise queue.Empty
            event = self._events.popleft()
            self._weight -= weight(event)
            self._ticks -= is_tick(event)
            self._changed.notify_all()
            return event

    def drain(self) -> list[Event]:
        """All that are there."""
        with self._changed:
            events = [*self._events]
            self._events.clear()
            self._weight = self._ticks = 0
            self._changed.notify_all()
            return events

    def is_behind(self) -> bool:
        """Whether a tick, or a census, waits to be taken, with all that came with it: no other is wanted then, or a
        process that sends more than can be taken in the same time would never be read to its end."""
        return self._ticks > 0

    def __len__(self) -> int:
        return len(self._events)

    def close(self) -> None:
        """Nobody waits for room any more."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
