"""What the front end knows of one attach: its phase, the target, the history, and what the screen must admit.

Events go in, figures come out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from time import monotonic, time
from typing import Final

from heaptop.analysis.heap.history import CensusRecord, History
from heaptop.analysis.rss.memory_history import MemoryFacts, MemoryHistory
from heaptop.analysis.samples.moments import SiteRecord
from heaptop.analysis.samples.sampled_blocks import SampledBlocks
from heaptop.analysis.samples.sampling import Sampling
from heaptop.analysis.samples.sampling_status import SamplingStatus
from heaptop.analysis.text.time_words import Times
from heaptop.choices import SamplingRate
from heaptop.errors import HeaptopError, ProtocolError, TargetExited
from heaptop.protocol.images import FIRST_ID
from heaptop.protocol.messages import NATIVE, Census, Decision, Failure, MallocSites, Memory, Message, Sampler, Tick
from heaptop.protocol.source import (
    Attached,
    Ended,
    Event,
    Forecast,
    IntervalChanged,
    Received,
    RecordingStatus,
    Seek,
    TargetInfo,
    Waiting,
)
from heaptop.tui.state.graph_watch import GraphFacts
from heaptop.tui.state.hunting import CheckResult, Hunting
from heaptop.tui.state.sampling_words import rate_of, sampling_notices
from heaptop.tui.state.snapshot_client import SnapshotClient


class AttachPhase(Enum):
    """The state of an attach."""

    WAITING = "waiting"
    LIVE = "live"
    EXITED = "exited"  # The target ended; what was seen of it stays
    ENDED = "detached"
    FAILED = "failed"


OVER: Final = (AttachPhase.EXITED, AttachPhase.ENDED, AttachPhase.FAILED)  # Nothing comes any more
USED_NS: Final = 500_000_000
"""Over less, what the agent used is no part of a core: ticks come as they are needed too, right after a census."""
AVERAGED_NS: Final = 10_000_000_000
"""Over so long: a second with a census in it, and the next one without, say little each."""
MOST_AVERAGED: Final = 64  # Ticks; a target that reports more in that time is averaged over less


@dataclass(frozen=True, slots=True)
class ProcessCounts:
    """Of how many processes something is the sum."""

    live: int
    known: int  # Those too that ended, or are not attached to


@dataclass
class AttachSession:
    """One attach, from the first event to the last."""

    target: TargetInfo
    phase: AttachPhase = AttachPhase.WAITING
    waiting: Waiting = field(default_factory=lambda: Waiting("attaching", 0.0))
    attached: Attached | None = None
    history: History = field(default_factory=History)
    sampling: Sampling = field(default_factory=Sampling)
    memory: MemoryHistory = field(default_factory=MemoryHistory)
    censuses: int = 0  # How many were received; the history may keep fewer
    interval_ns: int | None = None  # Between the beginnings of the last two censuses
    tick: Tick | None = None
    cpu_share: float | None = None
    """Part of one core that the agent used in the last :data:`AVERAGED_NS`, 0 to 1; more where clones counted beside
    it."""
    averaged: deque[Tick] = field(default_factory=lambda: deque(maxlen=MOST_AVERAGED))
    """The ticks that this is counted from."""
    notice: str = ""  # The last census that failed, until one succeeds
    rate: SamplingRate | None = None  # As it is or last was while it was sampled; None before
    forecast: Forecast | None = None
    paced: IntervalChanged | None = None
    recording_status: RecordingStatus | None = None  # The status of this session's recording, if one was ever begun
    decision: Decision | None = None  # What the person has to decide before anything is counted
    error: HeaptopError | None = None
    clock: Callable[[], float] = monotonic
    heard_at: float | None = None  # When the agent last sent anything, by clock
    shown: Seek | None = None  # The moment that a recording is at; None where a process is examined
    path: str = ""  # Of the recording that is shown; empty for a process
    company: ProcessCounts | None = None  # Where this is the sum of several processes: of how many

    wall: Callable[[], float] = time
    zero_wall: float | None = None  # Seconds since 1970 at which the target's clock was 0; None until it is known

    @property
    def silence(self) -> float:
        """Seconds since the agent last spoke: a tick is asked for every second, so a long silence is a busy target."""
        if self.phase is not AttachPhase.LIVE or self.heard_at is None or self.shown is not None or self.is_dump:
            return 0.0
        return self.clock() - self.heard_at

    @property
    def is_dump(self) -> bool:
        """What is looked at is a heap dump: nothing changes."""
        return self.target.file is not None

    def restart_silence(self) -> None:
        """Silence restarts: the agent was asked for nothing until now."""
        self.heard_at = self.clock() if self.heard_at is not None else None

    def feed(self, event: Event) -> None:
        """Take one event. Nothing after the end changes anything."""
        if self.phase in OVER:
            return
        match event:
            case Waiting():
                self.waiting = event
            case Attached():
                self.heard_at = self.clock()
                self.attached, self.target, self.phase = event, event.target, AttachPhase.LIVE
            case Seek():
                self.shown, self.zero_wall = event, event.wall - event.time_ns / 1e9
            case Forecast():
                self.forecast = event
            case IntervalChanged():
                self.paced = event
            case Received():
                self._received(event.message)
            case RecordingStatus():
                self.recording_status = event
            case Ended():
                self.end(event.error)

    def end(self, error: HeaptopError | None) -> None:
        """The session is over, and why."""
        self.error = error
        if error is None:
            self.phase = AttachPhase.ENDED
        else:
            self.phase = AttachPhase.EXITED if isinstance(error, TargetExited) else AttachPhase.FAILED

    def _received(self, message: Message) -> None:
        self.heard_at = self.clock()
        try:
            self.history.feed(message)
            self.sampling.feed(message)
        except ProtocolError as error:
            self.end(error.of_a_file(self.path) if self.path else error)
            return
        match message:
            case Census():
                self._census()
            case Tick():
                self._ticked(message)
            case Decision():
                self.decision = message
            case Failure() if message.request < FIRST_ID and not self.is_dump:  # of a file no census can fail
                self.notice = message.text
            case Failure() if self.decision is not None and message.request == self.decision.request:
                self.decision = None  # its snapshot was given up
            case Sampler() if message.interval and message.means == NATIVE:
                self.rate = rate_of(message)
            case Memory():
                self.memory.feed(message, self.history.records)

    def _census(self) -> None:
        self.censuses += 1
        self.notice = ""
        if self.decision is not None and self.decision.request < FIRST_ID:  # a snapshot's pause is still to be decided
            self.decision = None
        latest, previous = self.history.latest, self.history.previous
        if latest is not None:
            self.memory.counted(latest)
        if latest is not None and previous is not None:
            self.interval_ns = latest.time_ns - previous.time_ns

    def _ticked(self, tick: Tick) -> None:
        ticks = self.averaged
        if ticks and (tick.agent_cpu_ns < ticks[-1].agent_cpu_ns or tick.time_ns <= ticks[-1].time_ns):
            ticks.clear()  # another agent's, or another moment of a recording
        ticks.append(tick)
        while len(ticks) > 1 and tick.time_ns - ticks[1].time_ns >= AVERAGED_NS:
            ticks.popleft()
        passed = tick.time_ns - ticks[0].time_ns
        if passed >= USED_NS:
            self.cpu_share = (tick.agent_cpu_ns - ticks[0].agent_cpu_ns) / passed
        if self.zero_wall is None:
            self.zero_wall = self.wall() - tick.time_ns / 1e9
        self.tick = tick

    @property
    def notices(self) -> str:
        """In full, a line each: why no better mode, what is missing from the last census, what failed since."""
        latest = self.history.latest
        lines = []
        if latest is not None and latest.census.mode_reason:
            lines.append(f"Census in {latest.census.mode} mode: {latest.census.mode_reason}.")
        if latest is not None and latest.census.cut:
            lines.append(f"The last census is partial: {latest.census.cut}.")
        if self.notice:
            lines.append(f"The last census failed: {self.notice}.")
        return "\n".join(lines + sampling_notices(self.sampling))

    @property
    def origin_ns(self) -> int | None:
        """The moment that times on the screen count from, on the target's clock: the attach."""
        if self.attached is None:
            return None
        first = self.history.records[0].time_ns if self.history.records else self.attached.hello.time_ns
        return min(self.attached.hello.time_ns, first)


@dataclass(frozen=True)
class Display:
    """What is on the screen at one moment: the session's figures, live or as they were when it was paused."""

    records: tuple[CensusRecord, ...] = ()
    sampling: Sampling | None = None  # Everything that is known of samples; while the display is held, as it was then
    sampling_status: SamplingStatus = field(default_factory=SamplingStatus)  # Whether it was sampled then
    held: bool = False  # Whether nothing of it moves any more
    live: bool = False  # Whether the process can be asked
    target: TargetInfo | None = None
    origin_ns: int = 0
    zero_wall: float | None = None  # Seconds since 1970 at which the target's clock was 0, as far as it is known
    tick: Tick | None = None
    ticks: tuple[Tick, ...] = ()
    memory: MemoryFacts = field(default_factory=MemoryFacts)
    """What resident memory was used for, as far as somebody asked."""
    native: bool = False  # The process was started with `--native`, as far as the attach saw
    cpu_share: float | None = None
    interval_ns: int | None = None
    censuses: int = 0
    client: SnapshotClient | None = None
    """The open snapshot. It is frozen already, so holding the display changes nothing of it."""
    graph: GraphFacts = field(default_factory=GraphFacts)  # Graph censuses, and what they cost
    hunting: Hunting | None = None  # The leak hunt: its marks, and what it does now
    found: CheckResult | None = None  # What it has found last
    shown: Seek | None = None  # The moment of a recording that this is; None where it is of a process

    @property
    def latest(self) -> CensusRecord | None:
        return self.records[-1] if self.records else None

    @property
    def is_file(self) -> bool:
        """It is of a heap dump or core file: nothing changes."""
        return self.target is not None and self.target.file is not None

    @cached_property
    def moments(self) -> tuple[SiteRecord, ...]:
        """What was sampled and lived, over the same time."""
        return tuple(self.sampling.moments.records) if self.sampling is not None else ()

    @property
    def now_ns(self) -> int:
        """The target's clock at the last tick."""
        return self.tick.time_ns if self.tick is not None else 0

    @property
    def samples(self) -> SampledBlocks | None:
        """What to sum up: as it is now, or was when the display was held."""
        return self.sampling.samples if self.sampling is not None else None

    def times(self, chosen: str) -> Times:
        """How moments since the attach are written."""
        return Times.of(chosen, None if self.zero_wall is None else self.zero_wall + self.origin_ns / 1e9)

    @property
    def native_sites(self) -> MallocSites | None:
        """Where native memory was allocated, as reported last."""
        outside = self.memory.latest.memory.outside if self.memory.latest is not None else None
        return outside.native if outside is not None else None

    @property
    def is_native(self) -> bool:
        """Whether native memory is sampled, or was when a recording was made."""
        return self.native or self.native_sites is not None

    def freeze(self) -> Display:
        """The same display, of which nothing moves when more is received."""
        return replace(self, held=True, sampling=self.sampling.freeze() if self.sampling is not None else None)

    @classmethod
    def of(
        cls,
        session: AttachSession,
        client: SnapshotClient | None = None,
        graph: GraphFacts | None = None,
        hunting: Hunting | None = None,
    ) -> Display:
        return cls(
            hunting=hunting,
            found=hunting.found if hunting is not None else None,
            client=client,
            graph=graph or GraphFacts(),
            live=session.phase is AttachPhase.LIVE and session.shown is None,
            target=session.target,
            records=tuple(session.history.records),
            sampling=session.sampling,
            sampling_status=session.sampling.sampling_status,
            origin_ns=session.origin_ns or 0,
            zero_wall=session.zero_wall,
            tick=session.tick,
            ticks=tuple(session.history.ticks),
            memory=session.memory.facts,
            native=session.attached is not None and session.attached.native,
            cpu_share=session.cpu_share,
            interval_ns=session.interval_ns,
            censuses=session.censuses,
            shown=session.shown,
        )
