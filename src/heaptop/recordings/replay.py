"""A recording as a source: the same front end looks at any of its moments as it looks at a process.

What only a process could answer, fails with a sentence.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence

from heaptop.analysis.heap.history import History
from heaptop.errors import HeaptopError
from heaptop.protocol.images import FIRST_ID, Question
from heaptop.protocol.messages import Failure, Message, Tick
from heaptop.protocol.source import Behind, Deliver, Ended, Event, Received, TargetInfo, WholeCourse, never_behind
from heaptop.recordings.reader import Recording, naming_file, target_of

NO_PROCESS = "this is a recording: there is no process to query"


class ReplaySource:
    """A :class:`~heaptop.protocol.source.Player` of one recording, which it closes at its end. It shows the last moment
    first, and continues until it is closed."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self._ids = itertools.count(FIRST_ID)
        self._deliver: Deliver = lambda event: None
        self._thread: threading.Thread | None = None
        self._course_told = False
        self._wakes = threading.Condition()
        # Guarded by the condition:
        self._wanted: tuple[int, int | None] | None = recording.last_ns, None
        """The moment to show next, and from when on every stored message is sent again."""
        self._answers: list[Event] = []
        self._closing = False

    @property
    def target(self) -> TargetInfo:
        return target_of(self.recording.about)

    @property
    def path(self) -> str:
        return self.recording.path

    @property
    def moments(self) -> Sequence[int]:
        return self.recording.moments

    def open(self, deliver: Deliver, behind: Behind = never_behind) -> None:
        self._deliver = deliver
        self._thread = threading.Thread(target=self._play, name="heaptop-player", daemon=True)
        self._thread.start()

    def seek(self, time_ns: int, since_ns: int | None = None) -> None:
        """Of several that wait only the last is shown."""
        with self._wakes:
            self._wanted = time_ns, since_ns
            self._wakes.notify()

    def close(self, timeout: float = 5.0) -> None:
        with self._wakes:
            self._closing = True
            self._wakes.notify()
        if self._thread is None:
            self.recording.close()
        else:
            self._thread.join(timeout)

    def cancel(self) -> None:
        """Nothing waits here."""

    # -- what only a process could answer ------------------------------------------------------------------------

    def census_now(self) -> None:
        """Ignored, as what follows is; only a request that waits for an answer fails."""

    def memory_now(self) -> None: ...

    def sample(self, interval: int, depth: int, tracer: bool = False, target: int = 0) -> None: ...

    def decide(self, accept: bool, stop: bool = False) -> None: ...

    def give_up(self, id: int) -> None: ...

    def close_snapshot(self) -> None: ...

    def request(self, make: Callable[[int], Message]) -> int:
        return self._refuse()

    def image(self, keep: float, memory: int = 0) -> int:
        return self._refuse()

    def ask(self, image: int, question: Question) -> int:
        return self._refuse()

    def _refuse(self) -> int:
        id = next(self._ids)
        with self._wakes:
            self._answers.append(Received(Failure(id, NO_PROCESS)))
            self._wakes.notify()
        return id

    # -- its thread ------------------------------------------------------------------------------------------------

    def _play(self) -> None:
        error: HeaptopError | None = None
        try:
            while (wanted := self._next()) is not None:
                moment, answers = wanted
                for answer in answers:
                    self._deliver(answer)
                if moment is not None:
                    self._show(*moment)
                    self._tell_course()
        except HeaptopError as failed:
            error = failed
        self.recording.close()
        self._deliver(Ended(error))

    def _next(self) -> tuple[tuple[int, int | None] | None, list[Event]] | None:
        """What to show and to answer, once there is something; None for the end."""
        with self._wakes:
            self._wakes.wait_for(lambda: self._closing or self._wanted is not None or self._answers)
            if self._closing:
                return None
            wanted = self._wanted, self._answers
            self._wanted, self._answers = None, []
            return wanted

    def _tell_course(self) -> None:
        """Once: how all of it went."""
        if self._course_told:
            return
        self._course_told = True
        history = History()
        shown: dict[int, int] = {}
        with naming_file(self.recording.path):
            for event in self.recording.events():
                if self._closing:
                    return
                if isinstance(event, Received):
                    history.feed(event.message)
                    if isinstance(event.message, Tick) and history.latest is not None:
                        shown.setdefault(history.latest.time_ns, event.message.time_ns)
        heap = [(record.time_ns, record.total.bytes) for record in history.records]
        rss = [(tick.time_ns, tick.rss) for tick in history.ticks if tick.rss is not None]
        self._deliver(WholeCourse(tuple(heap), tuple(rss), shown))

    def _show(self, time_ns: int, since_ns: int | None) -> None:
        with naming_file(self.recording.path):
            for event in self.recording.events(time_ns, since_ns):
                self._deliver(event)
                if self._closing:  # read without the lock: it is only ever set
                    return
