"""One attached process of the fleet: its session, and what was read of it."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from heaptop.analysis.heap.history import History
from heaptop.analysis.reports.recorded import Recorded
from heaptop.analysis.reports.stack_sums import StackSum
from heaptop.analysis.samples.sampled_blocks import SampledBlocks
from heaptop.analysis.samples.sampling import Sampling
from heaptop.choices import HUNTING
from heaptop.errors import HeaptopError, PauseTooLong, SamplerRefused, TargetExited
from heaptop.fleet.audit import audit
from heaptop.fleet.figures import HuntResult, TargetFigures, label, target_figures
from heaptop.fleet.growth import GrowthWatch
from heaptop.fleet.memory import ServedMemory
from heaptop.fleet.metrics import HostMeters
from heaptop.fleet.selection import ChosenProcess
from heaptop.injector.api import AttachOptions
from heaptop.protocol.images import FIRST_ID, Image
from heaptop.protocol.messages import Census, Decision, Failure, GcEvents, Memory, Message, Sampler, Tick, Types
from heaptop.protocol.source import Attached, Behind, Deliver, Ended, Event, Received, Source, never_behind
from heaptop.protocol.source_wrapper import SourceWrapper
from heaptop.recordings.exports.pprof import ProfileWriter

NO_CENSUS: Final = "NoCensus"
"""The class of a failure that is no error of the session: a census, or a tick, that the agent could not do."""

MOST_NAMES: Final = 10_000
"""Types, and pieces of code, that are distinguished of one process: there are many, any of which may be hostile."""
MOST_STACKS: Final = 1 << 16  # Frames of stacks, likewise
MOST_TALLIES: Final = 1 << 13  # Sums of freed blocks by stack, type and class of sizes, likewise: 5 MB

OnStacks = Callable[[Sequence[StackSum]], Sequence[StackSum]]  # Makes of a process's stacks what a profile has of them
Allocated = Mapping[str, int]
OnAllocated = Callable[["FleetSession", Allocated, Allocated], None]
"""Takes what a session's process had allocated by site at the last reading, and at this one."""
OnCollections = Callable[["FleetSession", GcEvents], None]


class FleetSession:
    """A source from its opening to its end. Nobody is here to answer a question: a census that would pause the process
    for longer than the budget is not taken, and counted as refused."""

    def __init__(
        self,
        chosen: ChosenProcess,
        source: Source,
        meters: HostMeters,
        options: AttachOptions,
        on_allocated: OnAllocated,
        on_collections: OnCollections,
    ) -> None:
        """``options``: those that the source was made with."""
        self.chosen = chosen
        self.attached: Attached | None = None
        self.ended: Ended | None = None
        self.settled = threading.Event()  # The attach is over, and the first census, or it has ended
        self.figures = TargetFigures()
        self.rss = 0
        self.mode = ""  # Of the last census; empty before the first, and where no other one comes
        self.exact = True  # Of the last census: it is complete, and of one moment
        self.objects = 0  # Of the last census
        self.growth = 0.0  # Bytes a second of the type that grows the fastest, if any grows steadily
        self.memory = ServedMemory(chosen.seen.pid, options.pause_budget)
        self.hunt: HuntResult | None = None
        self.hunt_again_at = 0.0  # By `time.monotonic`
        self.source = source
        self.lock = threading.Lock()  # Held while what was received is added to, or read
        self._counted_at: float | None = None
        self._readers: tuple[tuple[Deliver, Behind], ...] = ()
        self._growth = GrowthWatch()
        self._options = options
        self._receive_cpu = 0.0  # CPU time of the source's thread when the last event had been taken
        self._meters = meters
        self._on_allocated = on_allocated
        self._on_collections = on_collections
        self._recorded = Recorded(f"process {chosen.seen.pid}", history=History(limit=2), sampling=bounded_sampling())
        self._began_at = self._read_at = time.monotonic()
        self._paused = 0.0  # Seconds that its process has claimed to have been paused for
        self._agent_cpu = 0
        self._folded = 0
        self._refused: set[str] = set()

    def open(self) -> None:
        """Begin to attach."""
        self.source.open(self._receive, self._is_behind)

    def close(self) -> None:
        """Detach, and wait for that."""
        self.source.cancel()
        self.source.close()

    @property
    def pid(self) -> int:
        return self.chosen.seen.pid

    @property
    def service(self) -> str:
        return self.chosen.service

    @property
    def error(self) -> HeaptopError | None:
        """What the session failed with; None where it continues, was ended on purpose, or its process has exited."""
        error = self.ended.error if self.ended is not None else None
        return None if isinstance(error, TargetExited) else error

    @property
    def census_age(self) -> float | None:
        """Seconds since the last census came; None before the first, and where no other one comes."""
        return time.monotonic() - self._counted_at if self._counted_at is not None else None

    @property
    def sampling(self) -> Sampling:
        return self._recorded.sampling

    @property
    def agent_seconds(self) -> float:
        """CPU time of the agent and its clones."""
        return self._agent_cpu / 1e9

    def join(self, deliver: Deliver, behind: Behind) -> None:
        """Deliver all events to another reader too, from now on, after what the rest cannot be read without."""
        with self.lock:
            if self.attached is not None:
                deliver(self.attached)
            if types := tuple(self._recorded.history.types):
                deliver(Received(Types(0, types)))
            if self.ended is not None:
                deliver(self.ended)
            self._readers = *self._readers, (deliver, behind)

    def leave(self, deliver: Deliver) -> None:
        """Deliver no more to that one."""
        with self.lock:
            self._readers = tuple(reader for reader in self._readers if reader[0] != deliver)

    def sample_densely(self) -> None:
        """Sample as a leak hunt wants it, unless nothing is sampled."""
        options = self._options
        if options.sample_interval:
            self.source.sample(options.sample_interval, options.sample_depth, target=HUNTING.target)

    def sample_as_configured(self) -> None:
        """Sample as before the leak hunt."""
        options = self._options
        if options.sample_interval:
            self.source.sample(options.sample_interval, options.sample_depth, target=options.sample_target)

    def add_to(self, profile: ProfileWriter, most_text: int, change: OnStacks | None = None) -> int:
        """Add the process's stacks, with its labels, or as ``change`` wants them, without; returns how many characters
        they take. Raises RecordingTooLarge."""
        labels = {"service": label(self.service), "pid": str(self.pid)} if change is None else {}
        with self.lock:
            older = self._counted_at is not None
            return profile.add(self._recorded, labels, most_text, older=older, change=change)

    # -- on the source's thread --------------------------------------------------------------------------------

    def _is_behind(self) -> bool:
        return any(behind() for _, behind in self._readers)

    def _receive(self, event: Event) -> None:
        with self.lock:
            if isinstance(event, Received):
                self._recorded.take(event.message)
            elif isinstance(event, Ended):
                self.ended = event
            readers = self._readers
        for deliver, _ in readers:
            deliver(event)
        match event:
            case Attached():
                self.attached = event
                self._meters.attaches.inc()
                self._meters.pauses.observe(event.stopped_ns / 1e9)
                audit("attach", pid=self.pid, service=self.service, user=self.chosen.seen.user, way=event.backend)
            case Ended():
                self._end(event)
            case Received(message):
                self._take(message)
        self._receive_cpu = time.thread_time()

    def _end(self, event: Ended) -> None:
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
                self._pause(message.pause_ns)
                self.mode, self.exact = message.mode, message.exact
                self._counted_at = time.monotonic()
                self.objects = sum(row.count for row in message.rows)
                self._read()
                self._watch_growth()
                if self.memory.is_due(self.rss, self.mode):
                    self.source.memory_now()
                self.settled.set()
            case Image():
                self._pause(message.pause_ns)
            case Decision() | Failure() if message.request >= FIRST_ID:
                pass  # of a snapshot: who asked for it knows what to do
            case Tick():
                self._tick(message)
            case Memory():
                self._use(message)
            case GcEvents():
                self._on_collections(self, message)
            case Decision():
                self._forget_census()
                self._refuse(PauseTooLong.__name__)
            case Sampler() if not message.on and message.text:
                self._refuse(SamplerRefused.__name__)
            case Failure() if message.request < FIRST_ID:
                self._meters.refuse(NO_CENSUS)
                self.settled.set()

    @property
    def _seconds(self) -> float:
        """Since the session began."""
        return time.monotonic() - self._began_at

    def _pause(self, nanoseconds: int) -> None:
        """Count a pause. Its process claims it: all of them are no longer than the session."""
        seconds = min(max(nanoseconds / 1e9, 0.0), max(self._seconds - self._paused, 0.0))
        self._paused += seconds
        self._meters.pauses.observe(seconds)

    def _tick(self, tick: Tick) -> None:
        if tick.rss is not None:
            self.rss = tick.rss
            self.memory.tick(tick.rss)
        used = min(tick.agent_cpu_ns, round(self._seconds * (os.cpu_count() or 1) * 1e9))  # as its process claims
        self._meters.agent_cpu.inc(max(used - self._agent_cpu, 0) / 1e9)
        self._agent_cpu = max(used, self._agent_cpu)
        if time.monotonic() - self._read_at > 1.5 * self._options.interval:
            self._read()  # no census has come: what is sampled is read without

    def _use(self, memory: Memory) -> None:
        took = time.thread_time() - self._receive_cpu
        with self.lock:
            latest = self._recorded.history.latest
            if latest is not None and self._counted_at is not None:
                self.memory.take(memory, latest, took)

    def _watch_growth(self) -> None:
        self._growth.add(time.monotonic(), self.figures.types)
        self.growth = max(self._growth.growth.values(), default=0.0)

    def _forget_census(self) -> None:
        """No other one comes: its figures would pass for what is there now."""
        self._counted_at, self.mode = None, ""
        self._growth.clear()
        self.growth = 0.0
        self.memory.clear()
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
        with self.lock:
            self.figures = target_figures(self._recorded, counted=self._counted_at is not None)
            folded, self._folded = self._folded, self.sampling.samples.folded
        self._meters.folded.inc(self._folded - folded)
        self._on_allocated(self, before.allocated, self.figures.allocated)


def bounded_sampling() -> Sampling:
    """What is kept of one process's samples: the figures of now, within limits for a host of many."""
    return Sampling(samples=bounded_samples(), keeps_past=False)


def bounded_samples() -> SampledBlocks:
    """What is known of one process's samples, within the same limits."""
    return SampledBlocks(MOST_TALLIES, MOST_STACKS, MOST_NAMES, exact_sizes=False)


class SharedSource(SourceWrapper):
    """A session's source for one more reader: its opening joins the session, its end leaves it, without a detach."""

    def __init__(self, session: FleetSession) -> None:
        super().__init__(session.source)
        self._session = session
        self._deliver: Deliver | None = None

    def open(self, deliver: Deliver, behind: Behind = never_behind) -> None:
        self._deliver = deliver
        self._session.join(deliver, behind)

    def cancel(self) -> None:
        """The attach is the session's."""

    def close(self, timeout: float = 5.0) -> None:
        if self._deliver is not None:
            self._session.leave(self._deliver)
