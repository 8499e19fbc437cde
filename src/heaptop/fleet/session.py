"""One attached process of the fleet: its session, and what was read of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from heaptop.analysis.heap.history import History
from heaptop.analysis.reports.recorded import Recorded
from heaptop.analysis.rss.memory import explain_counted
from heaptop.analysis.samples.gc_profile import GcProfile
from heaptop.analysis.samples.samples import SampledBlocks
from heaptop.analysis.samples.sampling import Sampling
from heaptop.choices import HUNTING
from heaptop.errors import HeaptopError, PauseTooLong, SamplerRefused, TargetExited
from heaptop.fleet.audit import audit
from heaptop.fleet.figures import HuntResult, MemoryUse, TargetFigures, target_figures
from heaptop.fleet.growth import GrowthWatch
from heaptop.fleet.metrics import HostMeters
from heaptop.fleet.selection import ChosenProcess
from heaptop.fleet.triggers import ProcessReadings, RssTrend
from heaptop.injector.api import AttachOptions, memory_limit
from heaptop.protocol.images import FIRST_ID, Image
from heaptop.protocol.messages import Census, Decision, Failure, GcEvents, Memory, Message, Sampler, Tick, Types
from heaptop.protocol.source import Attached, Behind, Deliver, Ended, Event, Received, Source
from heaptop.recordings.exports.pprof import ProfileWriter

NO_CENSUS: Final = "NoCensus"
"""The class of a failure that is no error of the session: a census, or a tick, that the agent could not do."""

UNREAD: Final = (Tick, GcEvents)
"""Of these the analysis makes histories, megabytes a process, that nobody reads here. A leak hunt makes its own."""
COLLECTIONS: Final = 2
"""Rows that are kept of them: their sums are all that is read."""

LIMIT_SECONDS: Final = 10.0
"""Between two readings of the memory limit."""
QUIET_SECONDS: Final = 30.0
"""Without a tick for so long, growth is that of the past."""
MEMORY_SHARE: Final = 0.001
"""Of one core, that heaptop takes to read what the memory of one process is used for: 0.8 ms a MB were measured."""
MAPPINGS_NS: Final = 0.1
"""The kernel lists the mappings of a process in so many nanoseconds a resident byte (74 to 135 ms for 1 GB were
measured), and its mmap waits meanwhile."""

MOST_NAMES: Final = 10_000
"""Types, and pieces of code, that are distinguished of one process: there are many, any of which may be hostile."""
MOST_STACKS: Final = 1 << 16
"""Frames of stacks, likewise."""
MOST_TALLIES: Final = 1 << 15
"""Sums of freed blocks by stack, type and size, likewise."""

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
        self.settled = threading.Event()
        """The attach is over, and the first census, or it has ended."""
        self.figures = TargetFigures()
        self.rss = 0
        self.mode = ""
        """Of the last census; empty before the first, and where no other one comes."""
        self.exact = True
        """Of the last census: it is complete, and of one moment."""
        self.objects = 0
        """Of the last census."""
        self.growth = 0.0
        """Bytes a second of the type that grows the fastest, if any grows steadily."""
        self.memory_use: MemoryUse | None = None
        """None where it was not read yet, and where it is not."""
        self.hunt: HuntResult | None = None
        self.hunt_again_at = 0.0
        """By ``time.monotonic``."""
        self.source = source
        self.lock = threading.Lock()
        """Held while what was received is added to, or read."""
        self._counted_at: float | None = None
        self._listener: tuple[Deliver, Behind] | None = None
        self._growth = GrowthWatch()
        self._trend = RssTrend()
        self._readings = ProcessReadings()
        self._options = options
        self._ticked_at = self._limit_at = self._memory_at = float("-inf")
        self._receive_cpu = 0.0
        """CPU time of the source's thread when the last event had been taken."""
        self._meters = meters
        self._on_allocated = on_allocated
        self._on_collections = on_collections
        samples = SampledBlocks(MOST_TALLIES, MOST_STACKS, MOST_NAMES)
        self._recorded = Recorded(
            f"process {chosen.seen.pid}", history=History(limit=2), sampling=Sampling(samples=samples)
        )
        self.sampling.gc = GcProfile(row_limit=COLLECTIONS, phase_limit=COLLECTIONS)
        self._read_at = time.monotonic()
        self._agent_cpu = 0
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
        """What the session failed with; None where it goes on, was ended on purpose, or its process has exited."""
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

    @property
    def seconds_left(self) -> float | None:
        """Until the memory limit, by the growth of the last seconds; None where that is not known, or does not grow."""
        left = self._readings.left
        with self.lock:
            return self._trend.seconds_until(left) if left is not None else None

    @property
    def readings(self) -> ProcessReadings:
        """Its memory limit and its growth, as they were some seconds ago: who scrapes does not wait for a hunt."""
        is_quiet = time.monotonic() - self._ticked_at > QUIET_SECONDS
        return replace(self._readings, growth=None) if is_quiet else self._readings

    def listen(self, deliver: Deliver, behind: Behind) -> None:
        """Deliver all events to another one too, from now on, after what the rest cannot be read without."""
        with self.lock:
            if self.attached is not None:
                deliver(self.attached)
            deliver(Received(Types(0, tuple(self._recorded.history.types))))
            if self.ended is not None:
                deliver(self.ended)
            self._listener = deliver, behind

    def unlisten(self) -> None:
        """Deliver to nobody else any longer."""
        with self.lock:
            self._listener = None

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

    def add_to(self, profile: ProfileWriter, most_text: int) -> int:
        """Add the process's stacks; returns how many characters they take. Raises RecordingTooLarge."""
        labels = {"service": self.service, "pid": str(self.pid)}
        with self.lock:
            return profile.add(self._recorded, labels, most_text, older=self._counted_at is not None)

    # -- on the source's thread --------------------------------------------------------------------------------

    def _is_behind(self) -> bool:
        listener = self._listener
        return listener is not None and listener[1]()

    def _receive(self, event: Event) -> None:
        with self.lock:
            if isinstance(event, Received):
                self._add(event.message)
            elif isinstance(event, Ended):
                self.ended = event
            listener = self._listener
        if listener is not None:
            listener[0](event)
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

    def _add(self, message: Message) -> None:
        if isinstance(message, GcEvents):
            self.sampling.gc.feed(message)
        elif not isinstance(message, UNREAD):
            self._recorded.take(message)
        if isinstance(message, Tick) and message.rss is not None:
            self._ticked_at = time.monotonic()
            self._trend.add(self._ticked_at, message.rss)

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
                self._meters.pauses.observe(message.pause_ns / 1e9)
                self.mode, self.exact = message.mode, message.exact
                self._counted_at = time.monotonic()
                self.objects = sum(row.count for row in message.rows)
                self._read()
                self._watch_growth()
                self._ask_memory()
                self.settled.set()
            case Image():
                self._meters.pauses.observe(message.pause_ns / 1e9)
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
            case Failure():
                self._meters.refuse(NO_CENSUS)
                self.settled.set()

    def _tick(self, tick: Tick) -> None:
        self.rss = tick.rss or self.rss
        self._meters.agent_cpu.inc(max(tick.agent_cpu_ns - self._agent_cpu, 0) / 1e9)
        self._agent_cpu = max(tick.agent_cpu_ns, self._agent_cpu)
        if time.monotonic() - self._limit_at > LIMIT_SECONDS:
            self._read_limit()
        if time.monotonic() - self._read_at > 1.5 * self._options.interval:
            self._read()  # no census has come: what is sampled is read without

    def _read_limit(self) -> None:
        self._limit_at = time.monotonic()
        found, now = memory_limit(self.pid), ProcessReadings(growth=self._trend.growth)
        if found is not None:
            now = replace(now, limit=found.bytes, limit_of=found.of, left=found.left)
        self._readings = now

    def _ask_memory(self) -> None:
        """Have resident memory read by use where that is due. Nothing is asked where the process might wait for that
        longer than a census may pause it, as where one in a clone would."""
        if self.mode != "clone" or self.rss * MAPPINGS_NS > self._options.pause_budget * 1e9:
            self.memory_use = None
        elif time.monotonic() >= self._memory_at:
            self.source.memory_now()

    def _use(self, memory: Memory) -> None:
        now, took = time.monotonic(), time.thread_time() - self._receive_cpu
        is_quick = memory.duration_ns <= self._options.pause_budget * 1e9  # threads wait for malloc's locks
        self._memory_at = now + took / MEMORY_SHARE if is_quick else float("inf")
        with self.lock:
            latest = self._recorded.history.latest
            found = explain_counted(memory, latest) if latest is not None else None
        if found is not None and self.census_age is not None:
            self.memory_use = MemoryUse({row.key: row.bytes for row in found.rows}, now)

    def _watch_growth(self) -> None:
        self._growth.add(time.monotonic(), self.figures.types)
        self.growth = max(self._growth.growth.values(), default=0.0)

    def _forget_census(self) -> None:
        """No other one comes: its figures would pass for what is there now."""
        self._counted_at, self.mode = None, ""
        self._growth.clear()
        self.growth, self.memory_use = 0.0, None
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
            self._recorded.sampling.samples.forget_changes()  # they are kept for charts over time
        self._on_allocated(self, before.allocated, self.figures.allocated)
