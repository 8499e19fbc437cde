"""The host agent's loop: attaches to the chosen processes one at a time, and detaches from those that no longer are.

Whatever a process, its session or one round of the loop fails with is counted, and the loop continues.
"""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from heaptop.analysis.reports.stack_sums import LIVE, MOST_TEXT
from heaptop.choices import ADAPTIVE
from heaptop.errors import HeaptopError, InjectionFailed, ProcessNotFound, RecordingTooLarge, fault
from heaptop.fleet.audit import audit
from heaptop.fleet.configuration import FleetConfig, PushConfig
from heaptop.fleet.figures import ServiceCounters, add_rows, add_suspects, label
from heaptop.fleet.hunts import LeakHunts
from heaptop.fleet.metrics import HostMeters, ServiceCollector, ServiceFigures
from heaptop.fleet.scanning import seen_processes
from heaptop.fleet.selection import ChosenProcess, ProcessKey, SeenProcess, choose
from heaptop.fleet.session import MOST_NAMES, FleetSession
from heaptop.fleet.session_guard import HostGuards
from heaptop.injector.api import AttachOptions, attach_source
from heaptop.injector.inspect.process import is_same_process
from heaptop.protocol.messages import GcEvents
from heaptop.protocol.source import Source
from heaptop.recordings.exports.pprof import ProfileWriter

if TYPE_CHECKING:
    from heaptop.documents import AttachedProcessJson, FleetHuntJson, FleetJson, FleetProcessJson

ROUND: Final = 10.0  # Seconds between two looks at which processes there are, at least
SCAN_SHARE: Final = 0.02
"""Of one core, that these looks may take: on a host with thousands of processes one takes seconds."""
SETTLE_PATIENCE: Final = 30.0  # Seconds that a first census may take before the next process is attached to
FIRST_REST: Final = 60.0  # Seconds until a refused process is tried again: each time twice as many, up to LONGEST_REST
LONGEST_REST: Final = 3600.0
CLOSERS: Final = 8  # Processes that are detached from at the same time at the end
HUNT_PATIENCE: Final = 5.0  # Seconds for a hunt to see at the end that its session has ended
TURN: Final = 0.05
TRIM_SECONDS: Final = 60.0  # Between two returns of free memory to the kernel

M_ARENA_MAX: Final = -8  # A number of glibc's `malloc.h`; another C library ignores it

_libc = ctypes.CDLL(None)


@dataclass(frozen=True, slots=True)
class RefusedProcess:
    """A process that could not be attached to, or whose session failed."""

    chosen: ChosenProcess
    name: str  # Of the error's class
    message: str
    times: int
    again_at: float  # By `time.monotonic`


class FleetHost:
    """All sessions of one ``heaptop serve``. :meth:`run` is one thread's; the other methods may be called from any."""

    def __init__(
        self,
        load: Callable[[], FleetConfig],
        meters: HostMeters,
        *,
        scan: Callable[[], list[SeenProcess]] = seen_processes,
        attach: Callable[[int, AttachOptions], Source] = attach_source,
    ) -> None:
        """``load`` reads the configuration. Raises what it raises: ConfigError."""
        self._load = load
        self._config = load()
        self._meters = meters
        self._scan = scan
        self._attach_source = attach
        self._sessions: dict[ProcessKey, FleetSession] = {}
        self._refused: dict[ProcessKey, RefusedProcess] = {}
        self._counters: dict[str, ServiceCounters] = {}
        self._lock = threading.Lock()  # Of the three tables above
        self.guards = HostGuards(meters)
        self._hunts = LeakHunts(meters, acting=self.guards.acting)
        self._scan_seconds = 0.0
        self._trimmed_at = time.monotonic()
        self._stopping = threading.Event()
        self._awake = threading.Event()
        meters.registry.register(ServiceCollector(self))

    # -- from any thread ---------------------------------------------------------------------------------------

    @property
    def top(self) -> int:
        return self._config.top

    @property
    def push(self) -> PushConfig | None:
        return self._config.push

    def reload(self) -> None:
        """Read the configuration again. Raises ConfigError; the one before stays in force then."""
        self._config = self._load()
        self._awake.set()

    def stop(self) -> None:
        """Let :meth:`run` detach from all processes, and return."""
        self._stopping.set()
        self._awake.set()

    def services(self) -> list[ServiceFigures]:
        """All services that have attached processes, by name."""
        found: dict[str, ServiceFigures] = {}
        for session in self.attached():
            name = label(session.service)
            one = found.setdefault(name, ServiceFigures(name))
            age, figures = session.census_age, session.figures
            one.processes += 1
            one.rss += session.rss
            if age is not None:
                one.counted += 1
                one.inexact += not session.exact
                one.oldest_census = max(one.oldest_census or 0.0, age)
            add_rows(one.types, figures.types)
            add_rows(one.sites, figures.sites)
            one.readings.append(session.memory.readings)
            if (use := session.memory.use) is not None:
                one.uses.update(use.bytes)
                one.used += 1
                one.oldest_use = max(one.oldest_use or 0.0, time.monotonic() - use.at)
            if session.hunt is not None:
                add_suspects(one.suspects, session.hunt.suspects)
                since = time.monotonic() - session.hunt.at
                one.hunt_age = min(since, one.hunt_age if one.hunt_age is not None else since)
        with self._lock:
            for name, one in found.items():
                if name in self._counters:
                    one.allocated = dict(self._counters[name].sites.bytes)
                    one.gc = self._counters[name].gc.copy()
        return [found[name] for name in sorted(found)]

    def profile(self, of: str = LIVE, service: str | None = None, pid: int | None = None) -> bytes:
        """A pprof profile of the attached processes, or those of one service, or one pid. Of several, one with too many
        stacks is left out. Raises RecordingTooLarge where it is the only one."""
        writer = ProfileWriter(flows=True)
        sessions = [
            session
            for session in self.attached()
            if (service is None or label(session.service) == service) and (pid is None or session.pid == pid)
        ]
        left = MOST_TEXT
        for place, session in enumerate(sessions):
            try:
                left -= session.add_to(writer, left // (len(sessions) - place))
            except RecordingTooLarge:
                if len(sessions) == 1:
                    raise
                writer.add_notice(f"process {session.pid} is left out: its stacks take too many characters")
        return writer.content(of, time.time_ns())

    def processes(self) -> FleetJson:
        """What is attached to, and what was refused."""
        now = time.monotonic()
        with self._lock:
            refused = [one for key, one in self._refused.items() if key not in self._sessions]
        return {
            "schema": "heaptop.processes",
            "version": 1,
            "attached": [_session_json(session) for session in self.attached()],
            "refused": [
                {
                    **_process_json(one.chosen),
                    "class": one.name,
                    "message": one.message,
                    "times": one.times,
                    "again_in_seconds": round(max(one.again_at - now, 0.0), 1),
                }
                for one in refused
            ],
        }

    def attached(self) -> list[FleetSession]:
        """All sessions of processes that are attached."""
        with self._lock:
            sessions = list(self._sessions.values())
        return [session for session in sessions if session.attached is not None and session.ended is None]

    # -- the loop ----------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Until :meth:`stop`. Then every process is detached from."""
        try:
            while not self._stopping.is_set():
                try:
                    self._round()
                except Exception as error:
                    self._meters.refuse(type(error).__name__)
                    audit("error", reason=type(error).__name__, message=str(error))
                self._awake.wait(rest_after(self._scan_seconds))
                self._awake.clear()
        finally:
            self._detach_all()

    def _round(self) -> None:
        config = self._config
        self._drop_ended()
        began = _cpu_seconds()
        seen = self._scan()
        self._scan_seconds = _cpu_seconds() - began
        self._forget_refusals({one.key for one in seen})
        now = time.monotonic()
        resting = {key for key, one in self._refused.items() if one.again_at > now}
        candidates = [one for one in seen if one.key not in resting]
        chosen = {one.key: one for one in choose(config.rules, candidates, config.most_attached, self._sessions)}
        for key, session in list(self._sessions.items()):
            if key in chosen:
                session.chosen = chosen[key]
            else:
                session.close()
                self._drop(key)
        for key, one in chosen.items():
            if self._awake.is_set() or self._stopping.is_set():
                return
            if key not in self._sessions:
                self._attach(one, config)
        self._hunts.begin_due(self.attached(), config)
        if time.monotonic() - self._trimmed_at >= TRIM_SECONDS:
            self._trimmed_at = time.monotonic()
            trim_memory()

    def _attach(self, chosen: ChosenProcess, config: FleetConfig) -> None:
        """Attach to one process, and wait until that is over: no other is attached to meanwhile."""
        options = attach_options(config)
        try:
            source = self._attach_source(chosen.seen.pid, options)
        except ProcessNotFound:
            return
        except Exception as error:
            self._refuse(chosen, error if isinstance(error, HeaptopError) else fault(error, InjectionFailed))
            return
        if not is_same_process(*chosen.key):  # now, so that it was that one which the source has looked at
            return
        session = FleetSession(chosen, source, self._meters, options, self._add_allocated, self._add_collections)
        self.guards.watch(session, config)
        with self._lock:
            self._sessions[chosen.key] = session
        session.open()
        while session.attached is None and session.ended is None and not self._stopping.is_set():
            session.settled.wait(TURN)
        end = time.monotonic() + SETTLE_PATIENCE
        while not session.settled.wait(TURN) and not self._stopping.is_set() and time.monotonic() < end:
            pass
        if session.ended is not None:
            self._drop(chosen.key)

    def _drop_ended(self) -> None:
        for key, session in list(self._sessions.items()):
            if session.ended is not None:
                self._drop(key)

    def _drop(self, key: ProcessKey) -> None:
        """Forget a session that has ended, and its service's counters with the last one. What failed rests for a
        while."""
        with self._lock:
            session = self._sessions.pop(key)
            services = {label(each.service) for each in self._sessions.values()}
            for service in self._counters.keys() - services:
                del self._counters[service]
            if session.attached is not None and session.error is None:
                self._refused.pop(key, None)
        if session.error is not None and not isinstance(session.error, ProcessNotFound):
            self._refuse(session.chosen, session.error)

    def _refuse(self, chosen: ChosenProcess, error: HeaptopError) -> None:
        name, before = type(error).__name__, self._refused.get(chosen.key)
        times = before.times + 1 if before is not None else 1
        rest = min(FIRST_REST * 2.0 ** min(times - 1, 30), LONGEST_REST)
        with self._lock:
            self._refused[chosen.key] = RefusedProcess(chosen, name, error.message, times, time.monotonic() + rest)
        self._meters.refuse(name)
        audit("refused", pid=chosen.seen.pid, service=chosen.service, reason=name, message=error.message)

    def _forget_refusals(self, there: set[ProcessKey]) -> None:
        with self._lock:
            for key in self._refused.keys() - there:
                del self._refused[key]

    def _detach_all(self) -> None:
        with ThreadPoolExecutor(CLOSERS) as closers:
            list(closers.map(_close, self._sessions.values()))
        self._hunts.join(HUNT_PATIENCE)
        self.guards.close()

    def _add_allocated(self, session: FleetSession, before: Mapping[str, int], now: Mapping[str, int]) -> None:
        """On a session's thread."""
        top = self._config.top
        with self._lock:
            counters = self._counters_of(session)
            if counters is None:
                return
            folded = counters.sites.add(before, now, top)
        rows = session.figures.types, session.figures.sites
        self._meters.dropped.inc(folded + sum(max(len(each) - top, 0) for each in rows))

    def _add_collections(self, session: FleetSession, message: GcEvents) -> None:
        """On a session's thread."""
        with self._lock:
            counters = self._counters_of(session)
            if counters is not None:
                counters.gc.add(message)

    def _counters_of(self, session: FleetSession) -> ServiceCounters | None:
        """Of its service, with the lock held; None where it was dropped, and perhaps its service's counters with it."""
        if self._sessions.get(session.chosen.key) is not session:
            return None
        return self._counters.setdefault(label(session.service), ServiceCounters())


def rest_after(scan_seconds: float) -> float:
    """Seconds until the next look at which processes there are, after one that took so much of a processor."""
    return max(ROUND, scan_seconds / SCAN_SHARE)


def use_one_arena() -> None:
    """Have all threads that are started later take memory from one arena of malloc's, where the C library can: by
    default each session's thread has one of its own, whose free memory no other thread uses. They all wait for the GIL
    anyway."""
    set_option = getattr(_libc, "mallopt", None)
    if set_option is not None:
        set_option(M_ARENA_MAX, 1)


def trim_memory() -> None:
    """Return what malloc has free to the kernel, where the C library can: what sessions keep lies between the messages
    that their threads have read, so that little of its free memory is at an end, which it returns by itself."""
    trim = getattr(_libc, "malloc_trim", None)
    if trim is not None:
        trim(0)


def _cpu_seconds() -> float:
    """Of this thread, and of all helpers that have ended. To wait, as on a busy machine, costs nothing."""
    used = os.times()
    return time.thread_time() + used.children_user + used.children_system


def attach_options(config: FleetConfig) -> AttachOptions:
    """How each process is attached to: without waiting for long, and without anything that a person would be asked."""
    return AttachOptions(
        interval=config.interval,
        max_share=config.share,
        pause_budget=config.pause_budget,
        sample_interval=ADAPTIVE.interval if config.rate else 0,
        sample_target=config.rate,
        most_types=MOST_NAMES,
    )


def _close(session: FleetSession) -> None:
    try:
        session.close()
    except Exception as error:  # the others are detached from all the same
        audit("error", pid=session.pid, reason=type(error).__name__, message=str(error))


def _process_json(chosen: ChosenProcess) -> FleetProcessJson:
    seen = chosen.seen
    return {"pid": seen.pid, "service": label(chosen.service), "user": seen.user, "unit": seen.unit}


def _session_json(session: FleetSession) -> AttachedProcessJson:
    attached, age = session.attached, session.census_age
    return {
        **_process_json(session.chosen),
        "python": attached.hello.python if attached is not None else "",
        "way": attached.backend if attached is not None else "",
        "rss": session.rss,
        "census_age_seconds": round(age, 1) if age is not None else None,
        "mode": session.mode,
        "exact": session.exact if age is not None else None,
        "hunt": _hunt_json(session),
    }


def _hunt_json(session: FleetSession) -> FleetHuntJson | None:
    found = session.hunt
    if found is None:
        return None
    age = round(time.monotonic() - found.at, 1)
    return {"verdict": found.verdict, "age_seconds": age, "suspects": list(found.sentences)}
