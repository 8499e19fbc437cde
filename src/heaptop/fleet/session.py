"""One attached process of the fleet: its session, and what was read of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Final

from heaptop.analysis.heap.history import History
from heaptop.analysis.reports.recorded import Recorded
from heaptop.analysis.samples.samples import SampledBlocks
from heaptop.analysis.samples.sampling import Sampling
from heaptop.errors import HeaptopError, PauseTooLong, SamplerRefused, TargetExited
from heaptop.fleet.audit import audit
from heaptop.fleet.figures import TargetFigures, target_figures
from heaptop.fleet.metrics import HostMeters
from heaptop.fleet.selection import ChosenProcess
from heaptop.protocol.messages import Census, Decision, Failure, GcEvents, Message, Sampler, Tick
from heaptop.protocol.source import Attached, Ended, Event, Received, Source
from heaptop.recordings.exports.pprof import ProfileWriter

NO_CENSUS: Final = "NoCensus"
"""The class of a failure that is no error of the session: a census, or a tick, that the agent could not do."""

UNREAD: Final = (Tick, GcEvents)
"""Of these the analysis makes histories, megabytes a process, that nobody reads here."""

MOST_NAMES: Final = 10_000
"""Types, and pieces of code, that are distinguished of one process: there are many, any of which may be hostile."""
MOST_STACKS: Final = 1 << 16
"""Frames of stacks, likewise."""
MOST_TALLIES: Final = 1 << 15
"""Sums of freed blocks by stack, type and size, likewise."""

Allocated = Mapping[str, int]
OnAllocated = Callable[["FleetSession", Allocated, Allocated], None]
"""Takes what a session's process had allocated by site at the last reading, and at this one."""


class FleetSession:
    """A source from its opening to its end. Nobody is here to answer a question: a census that would pause the process
    for longer than the budget is not taken, and counted as refused."""

    def __init__(
        self, chosen: ChosenProcess, source: Source, meters: HostMeters, interval: float, on_allocated: OnAllocated
    ) -> None:
        """``interval``: seconds between two readings of a process of which there are no censuses."""
        self.chosen = chosen
        self.attached: Attached | None = None
        self.ended: Ended | None = None
        self.settled = threading.Event()
        """The attach is over, and the first census, or it has ended."""
        self.figures = TargetFigures()
        self.rss = 0
        self.mode = ""
        """Of the last census; empty before the first, and where no other one comes."""
        self.exact = True
        """Of the last census: it is complete, and of one moment."""
        self._counted_at: float | None = None
        self._source = source
        self._meters = meters
        self._interval = interval
        self._on_allocated = on_allocated
        self._lock = threading.Lock()
        samples = SampledBlocks(MOST_TALLIES, MOST_STACKS, MOST_NAMES)
        self._recorded = Recorded(
            f"process {chosen.seen.pid}", history=History(limit=2), sampling=Sampling(samples=samples)
        )
        self._read_at = time.monotonic()
        self._agent_cpu = 0
        self._refused: set[str] = set()

    def open(self) -> None:
        """Begin to attach."""
        self._source.open(self._receive)

    def close(self) -> None:
        """Detach, and wait for that."""
        self._source.cancel()
        self._source.close()

    @property
    def pid(self) -> int:
        return self.chosen.seen.pid

    @property
    def service(self) -> str:
        return self.chosen.service

    @property
    def error(self) -> HeaptopError | None:
        """What the session failed with; None where it goes on, was ended on purpose, or its process has exited."""
        error = self.ended.error if self.ended is not None else None
        return None if isinstance(error, TargetExited) else error

    @property
    def census_age(self) -> float | None:
        """Seconds since the last census came; None before the first, and where no other one comes."""
        return time.monotonic() - self._counted_at if self._counted_at is not None else None

    def add_to(self, profile: ProfileWriter, most_text: int) -> int:
        """Add the process's stacks; returns how many characters they take. Raises RecordingTooLarge."""
        labels = {"service": self.service, "pid": str(self.pid)}
        with self._lock:
            return profile.add(self._recorded, labels, most_text, older=self._counted_at is not None)

    # -- on the source's thread --------------------------------------------------------------------------------

    def _receive(self, event: Event) -> None:
        match event:
            case Attached():
                self.attached = event
                self._meters.attaches.inc()
                self._meters.pauses.observe(event.stopped_ns / 1e9)
                audit("attach", pid=self.pid, service=self.service, user=self.chosen.seen.user, way=event.backend)
            case Ended():
                self._end(event)
            case Received(message):
                if not isinstance(message, UNREAD):
                    with self._lock:
                        self._recorded.take(message)
                self._take(message)

    def _end(self, event: Ended) -> None:
        self.ended = event
        if self.attached is not None:
            error = event.error
            audit(
                "detach",
                pid=self.pid,
                service=self.service,
                reason=type(error).__name__ if error is not None else "asked",
                **({"message": error.message} if error is not None else {}),
                **({"left": event.left} if event.left else {}),
            )
        self.settled.set()

    def _take(self, message: Message) -> None:
        match message:
            case Census():
                self._meters.censuses.inc()
                self._meters.pauses.observe(message.pause_ns / 1e9)
                self.mode, self.exact = message.mode, message.exact
                self._counted_at = time.monotonic()
                self._read()
                self.settled.set()
            case Tick():
                self._tick(message)
            case Decision():
                self._forget_census()
                self._refuse(PauseTooLong.__name__)
            case Sampler() if not message.on and message.text:
                self._refuse(SamplerRefused.__name__)
            case Failure():
                self._meters.refuse(NO_CENSUS)
                self.settled.set()

    def _tick(self, tick: Tick) -> None:
        self.rss = tick.rss or self.rss
        self._meters.agent_cpu.inc(max(tick.agent_cpu_ns - self._agent_cpu, 0) / 1e9)
        self._agent_cpu = max(tick.agent_cpu_ns, self._agent_cpu)
        if time.monotonic() - self._read_at > 1.5 * self._interval:
            self._read()  # no census has come: what is sampled is read without

    def _forget_census(self) -> None:
        """No other one comes: its figures would pass for what is there now."""
        self._counted_at, self.mode = None, ""
        self._read()

    def _refuse(self, name: str) -> None:
        """Once a session: the agent repeats it."""
        if name not in self._refused:
            self._refused.add(name)
            self._meters.refuse(name)
            audit("refused", pid=self.pid, service=self.service, reason=name)
        self.settled.set()

    def _read(self) -> None:
        """Make figures of all that was received."""
        before, self._read_at = self.figures, time.monotonic()
        with self._lock:
            self.figures = target_figures(self._recorded, counted=self._counted_at is not None)
            self._recorded.sampling.samples.forget_changes()  # they are kept for charts over time
        self._on_allocated(self, before.allocated, self.figures.allocated)
