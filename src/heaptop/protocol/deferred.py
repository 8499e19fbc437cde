"""A source that is made, and opened, only when it may begin: one of several processes that wait for their turn.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from heaptop.errors import AttachCancelled, HeaptopError, fault
from heaptop.protocol.images import Question
from heaptop.protocol.messages import Message
from heaptop.protocol.source import Behind, Deliver, Ended, Source, TargetInfo, never_behind


class DeferredSource:
    """A :class:`~heaptop.protocol.source.Source` around one that is not there yet.

    What is asked of it before it has delivered Attached is lost: there is nothing to ask then.
    """

    def __init__(self, target: TargetInfo, connect: Callable[[], Source]) -> None:
        """``connect`` may take a moment and is called in a thread; what it raises, the source ends with."""
        self._target = target
        self._connect = connect
        self._deliver: Deliver = lambda event: None
        self._behind: Behind = never_behind
        self._source: Source | None = None
        self._lock = threading.Lock()  # Guards what follows, and that Ended is delivered once
        self._begun = False
        self._over = False  # It ended before there was a source, or is to

    @property
    def target(self) -> TargetInfo:
        return self._target if self._source is None else self._source.target

    @property
    def begun(self) -> bool:
        """Whether it may begin, or has ended without."""
        return self._begun or self._over

    def open(self, deliver: Deliver, behind: Behind = never_behind) -> None:
        self._deliver, self._behind = deliver, behind

    def begin(self) -> None:
        """Make the source and open it, once. After :meth:`open`."""
        with self._lock:
            if self._begun or self._over:
                return
            self._begun = True
        threading.Thread(target=self._begin, name="heaptop-late", daemon=True).start()

    def _begin(self) -> None:
        try:
            source = self._connect()
        except HeaptopError as error:
            self._end(error.about(self._target.pid))
            return
        except Exception as caught:  # a fault of heaptop's own is reported like any other
            self._end(fault(caught, HeaptopError))
            return
        with self._lock:  # who closes it meanwhile closes one that is open, or none
            if not self._over:
                source.open(self._deliver, self._behind)
                self._source = source

    def _end(self, error: HeaptopError | None) -> bool:
        """End it where there is no source; whether there is none."""
        with self._lock:
            if self._source is not None:
                return False
            first, self._over = not self._over, True
        if first:
            self._deliver(Ended(error))
        return True

    def census_now(self) -> None:
        if self._source is not None:
            self._source.census_now()

    def memory_now(self) -> None:
        if self._source is not None:
            self._source.memory_now()

    def sample(self, interval: int, depth: int, tracer: bool = False, target: int = 0) -> None:
        if self._source is not None:
            self._source.sample(interval, depth, tracer, target)

    def decide(self, accept: bool, stop: bool = False) -> None:
        if self._source is not None:
            self._source.decide(accept, stop)

    def image(self, keep: float, memory: int = 0) -> int:
        return self._source.image(keep, memory) if self._source is not None else 0

    def ask(self, image: int, question: Question) -> int:
        return self._source.ask(image, question) if self._source is not None else 0

    def give_up(self, id: int) -> None:
        if self._source is not None:
            self._source.give_up(id)

    def close_snapshot(self) -> None:
        if self._source is not None:
            self._source.close_snapshot()

    def request(self, make: Callable[[int], Message]) -> int:
        return self._source.request(make) if self._source is not None else 0

    def cancel(self) -> None:
        cancelled = AttachCancelled(f"The attach to process {self._target.pid} was cancelled.")
        if not self._end(cancelled) and self._source is not None:
            self._source.cancel()

    def close(self, timeout: float = 5.0) -> None:
        if not self._end(None) and self._source is not None:
            self._source.close(timeout)
