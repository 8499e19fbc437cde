"""Attaches to targets through heaptop's own session, as its commands do, and waits for what must come.

Nothing here asserts on a target: tests do. Whatever is attached when a ``with`` block ends is detached there.
"""

from __future__ import annotations

import contextlib
import queue
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, TypeVar

from heaptop.errors import HeaptopError
from heaptop.injector.api import AttachOptions, attach_source
from heaptop.injector.inspect.threads import agent_thread
from heaptop.protocol.messages import Census, Failure, Message, Tick
from heaptop.protocol.source import Attached, Ended, Event, Received, Source, Waiting
from tests.support.processes import GLIBC_SIGNALS, PATIENCE, SETXID_SIGNAL, Facts, eventually

E = TypeVar("E", bound=Event)
M = TypeVar("M", bound=Message)

QUIET: Final = 3600.0
"""A census interval that leaves a session with its first census, and those it is asked for."""


class Silent(Exception):
    """What was waited for did not come."""


class Attachment:
    """A source that was opened, and its events in order."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.waited: list[Waiting] = []
        self.ended: Ended | None = None
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        source.open(self._events.put)

    def event(self, kind: type[E], patience: float = PATIENCE) -> E:
        """The next event of that kind. Raises the error the source ended with, or :class:`Silent`."""
        end = time.monotonic() + patience
        while self.ended is None:
            try:
                event = self._events.get(timeout=max(0.0, end - time.monotonic()))
            except queue.Empty:
                raise Silent(f"no {kind.__name__} within {patience:g} s") from None
            if isinstance(event, Waiting):
                self.waited.append(event)
            if isinstance(event, Ended):
                self.ended = event
            if isinstance(event, kind):
                return event
        if self.ended.error is not None:
            raise self.ended.error
        raise Silent(f"the source ended before any {kind.__name__}")

    def message(self, kind: type[M], patience: float = PATIENCE) -> M:
        """The agent's next message of that kind; raises like :meth:`event`."""
        end = time.monotonic() + patience
        while True:
            message = self.event(Received, max(0.0, end - time.monotonic())).message
            if isinstance(message, kind):
                return message
            if isinstance(message, Failure):
                raise Silent(f"no {kind.__name__}, but: {message.text}")

    @property
    def behind(self) -> bool:
        """Whether there are events that nobody has taken."""
        return not self._events.empty()

    def census(self) -> Census:
        """Ask for one more census, and wait for the next that comes."""
        self.source.census_now()
        return self.message(Census)

    def tick(self) -> Tick:
        return self.message(Tick)

    def error(self, patience: float = PATIENCE) -> HeaptopError | None:
        """What the source ended with, once it has ended."""
        if self.ended is None:
            self.event(Ended, patience)
        assert self.ended is not None
        return self.ended.error

    def close(self) -> HeaptopError | None:
        """Detach, and return what the source ended with."""
        self.source.close(PATIENCE)
        return self.error()


@contextlib.contextmanager
def opened(pid: int, **options: Any) -> Iterator[Attachment]:
    """Begin to attach; whatever comes of it is closed at the end of the block. A pause is allowed that a loaded machine
    makes long: nobody here would answer a question about the next one."""
    usual: dict[str, Any] = {"interval": QUIET, "wait": PATIENCE, "pause_budget": 60.0}
    attachment = Attachment(attach_source(pid, AttachOptions(**{**usual, **options})))
    try:
        yield attachment
    finally:
        attachment.source.close(PATIENCE)


@contextlib.contextmanager
def attached(pid: int, **options: Any) -> Iterator[Attachment]:
    """Attached for the length of the block; raises the error that an attach ends with."""
    with opened(pid, **options) as attachment:
        attachment.event(Attached)
        yield attachment


def is_whole(census: Census) -> bool:
    """Whether it counted all that its mode can see: Python mode is never complete, and says what it leaves out."""
    return census.complete or (census.mode == "python" and census.cut.startswith("left out: "))


def attach_once(pid: int, *, census: bool = False, **options: Any) -> None:
    """One cycle: attach, perhaps wait for a census, detach, and see the agent's thread go: on a loaded machine that may
    last longer than heaptop waits. Raises what went wrong with any of them."""
    with attached(pid, **options) as attachment:
        if census:
            counted = attachment.message(Census)
            assert is_whole(counted), counted.cut
            assert sum(row.count for row in counted.rows) > 1000
        error = attachment.close()
        if error is not None:
            raise error
    eventually(lambda: agent_thread(pid) is None)


def resting(pid: int) -> Facts:
    """Facts of a target in which no agent's thread is on its way out, and no thread is in glibc's handler of a setuid:
    who called that is told so before the others have left it. The first thread, where it has ended and others live on,
    blocks all signals for good, and so both of glibc's."""

    def rests() -> bool:
        masks = [int(mask, 16) for mask in Facts.of(pid).blocked.values()]
        return agent_thread(pid) is None and not any(mask & GLIBC_SIGNALS == SETXID_SIGNAL for mask in masks)

    eventually(rests)
    return Facts.of(pid)


def is_held(pid: int) -> bool:
    """Whether any thread of the process is stopped, or has a tracer."""
    for folder in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            text = (folder / "status").read_text()
            if "\nTracerPid:\t0\n" not in text or "\nState:\tT" in text or "\nState:\tt" in text:
                return True
    return False
