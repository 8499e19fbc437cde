"""Recordings of the fake agent, for tests and benchmarks: as many ticks as wanted, in simulated time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from heaptop.analysis.reports.recorded import Recorded
from heaptop.protocol.findings import UNCLEAR, Findings, MarkFacts
from heaptop.protocol.messages import Message, Tick
from heaptop.protocol.source import Event, Received, RecordingStatus
from heaptop.recordings.reader import Recording
from heaptop.recordings.recordable_source import RecordableSource
from heaptop.recordings.writer import MAX_SIZE
from tests.fakes.source import SECOND, FakeSource

WALL = 1_700_000_000
"""Seconds since 1970 when the fake target's clock is 0."""


class Made:
    """A recording that is being made: a fake source with a tape around it, and one who watches."""

    def __init__(self, path: Path, *, sampled: bool = True, max_size: int = MAX_SIZE, watch: bool = True) -> None:
        """``watch``: keep all that is delivered, and take it in."""
        self.path = path
        self.fake = FakeSource()
        wall = lambda: WALL + self.fake.agent.time_ns / SECOND  # noqa: E731
        self.source = RecordableSource(self.fake, max_size=max_size, wall=wall)
        self.events: list[Event] = []
        self.tapings: list[RecordingStatus] = []
        self.watched = Recorded("live")
        self.on_tick: Callable[[Recorded], None] = lambda watched: None
        """Called with what is known right after a tick."""
        self._watch = watch
        self.source.open(self._take)
        if sampled:
            self.fake.sample(65_536, 32)

    def _take(self, event: Event) -> None:
        if isinstance(event, RecordingStatus):
            self.tapings.append(event)
        elif self._watch:
            self.events.append(event)
            self.watched.feed(event)
            if isinstance(event, Received) and isinstance(event.message, Tick):
                self.on_tick(self.watched)

    def begin(self) -> Made:
        self.source.begin_recording(str(self.path))
        return self

    def run(self, ticks: int) -> Made:
        """Attach where that was not done yet, and tick."""
        if not self.fake.agent.ticks:
            self.fake.attach()
        self.fake.tick(ticks)
        return self

    def end(self) -> Made:
        """Close it, after a last tick that no census follows: all that was said is of a moment then."""
        if self.fake.agent.ticks:
            self.fake.tick(census=False)
        self.source.close()
        return self

    @property
    def last(self) -> RecordingStatus:
        return self.tapings[-1]


def played(recording: Recording, until: int | None = None, since: int | None = None) -> Recorded:
    """What one knows who is told a moment of it."""
    told = Recorded(recording.path)
    for event in recording.events(until, since):
        told.feed(event)
    return told


def received(events: Iterable[Event]) -> list[Message]:
    return [event.message for event in events if isinstance(event, Received)]


def findings(time_ns: int) -> Findings:
    """Of a hunt that found nothing."""
    mark = MarkFacts("first", time_ns, 1, 1)
    return Findings(time_ns, (mark, mark), UNCLEAR, 0, 0, (), (), ())
