"""Leak hunts of the host agent: in one process at a time, and only where the cheap watch sees growth.

A hunt listens to the session that is there already. It pauses the process no longer than a census may, and is refused
where memory is short.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import Final, TypeVar
from weakref import WeakKeyDictionary, ref

from heaptop.analysis.heap.history import History
from heaptop.analysis.snapshot.asking import Asking
from heaptop.analysis.text.units import format_count
from heaptop.errors import HeaptopError, ImageRefused, PauseTooLong
from heaptop.fleet.audit import audit
from heaptop.fleet.configuration import FleetConfig
from heaptop.fleet.figures import HuntResult, suspect_rows
from heaptop.fleet.guard_hunts import LEAST_HUNT
from heaptop.fleet.metrics import HostMeters
from heaptop.fleet.session import FleetSession, SharedSource
from heaptop.injector.api import snapshot_shortage
from heaptop.protocol.findings import GROWING, NO_LEAK, Findings
from heaptop.protocol.images import FIRST_ID, Image, Question
from heaptop.protocol.messages import Decision, Message
from heaptop.protocol.source import Behind, Deliver, never_behind
from heaptop.watching.hunting import Hunter, HuntWatch, Plan
from heaptop.watching.progress import ProgressReport
from heaptop.watching.snapshot_watch import KEEP

MARKS: Final = 4
MOST_OBJECTS: Final = 10_000_000
"""Of a process: heaptop keeps two marks at a time, which take 2.6 bytes an object each, and 17 of a hostile agent."""
MOST_CELLS: Final = 200_000
"""Of the censuses during a hunt, likewise."""
MOST_OF_ONE: Final = 0.5
"""Of the budget, that the process which was hunted in may use up."""
REFUSED: Final = "refused"
FAILED: Final = "failed"
"""Outcomes beside the verdicts."""

M = TypeVar("M", bound=Message)
T = TypeVar("T")


class _HuntedSource(SharedSource):
    """The source of a session, which samples densely meanwhile."""

    def open(self, deliver: Deliver, behind: Behind = never_behind) -> None:
        super().open(deliver, behind)
        self._session.sample_densely()
        self.census_now()

    def close(self, timeout: float = 5.0) -> None:
        self._session.sample_as_configured()
        super().close(timeout)


class SessionHuntWatch(HuntWatch):
    """A session's process while it is hunted in. What is sampled is the session's, which continues to feed it."""

    def __init__(self, session: FleetSession) -> None:
        super().__init__(_HuntedSource(session), ProgressReport(), "", session.sampling)
        self._sampling = None  # fed by the session already
        self._history = History(cell_limit=MOST_CELLS)
        self._lock = session.lock
        self._session = session

    def ask_memory(self) -> None:
        """As of any watch, where the process does not wait too long for that."""
        if self._session.memory.may_ask(self._session.rss, self._session.mode):
            super().ask_memory()

    def freeze(self, keep: float = KEEP) -> Image:
        """As of any watch; refused where it has too many objects. Errors: as :class:`HuntWatch`."""
        image = super().freeze(keep)
        if image.objects > MOST_OBJECTS:
            self.close()
            raise self._refused(f"it has {format_count(image.objects)} objects, too many for the host agent to mark")
        return image

    def run(self, asking: Asking[T]) -> T:
        """As of any watch. Samples are read in between: none is added meanwhile."""
        with self._lock:
            return super().run(asking)

    def ask(self, question: Question, kind: type[M]) -> M:
        """Within :meth:`run`. The session takes its messages while an answer is waited for."""
        self._lock.release()
        try:
            return super().ask(question, kind)
        finally:
            self._lock.acquire()

    def _take(self, message: Message) -> None:
        if isinstance(message, Decision) and message.request >= FIRST_ID:
            self._source.decide(False)  # censuses continue, and the snapshot is refused
        else:
            super()._take(message)


class LeakHunts:
    """Begins hunts. Its methods are called by the host's loop."""

    def __init__(
        self,
        meters: HostMeters,
        shortage: Callable[[int, int], str] = snapshot_shortage,
        acting: threading.Lock | None = None,
    ) -> None:
        """``shortage``: why there is too little memory for a snapshot of a pid with so many objects. ``acting``: held
        during a hunt, so that no guard examines a process meanwhile."""
        self._meters = meters
        self._acting = acting if acting is not None else threading.Lock()
        self._shortage = shortage
        self._thread: threading.Thread | None = None
        self._began = float("-inf")
        """When the last hunt did."""
        self._used_before: WeakKeyDictionary[FleetSession, float] = WeakKeyDictionary()
        """What the agent of each had used of the processors by then, in seconds."""
        self._hunted: ref[FleetSession] | None = None
        """Where the last one did."""

    def begin_due(self, sessions: Iterable[FleetSession], config: FleetConfig) -> None:
        """Begin a hunt where one is due and the budget has room for it."""
        now, sessions = time.monotonic(), list(sessions)
        if not config.hunt or (self._thread is not None and self._thread.is_alive()):
            return
        if self._used(sessions, config, now - self._began) >= config.budget * (now - self._began):
            return
        session = next_hunted(sessions, now)
        if session is None or not self._acting.acquire(blocking=False):
            return
        session.hunt_again_at = now + config.hunt_cooldown
        seconds, why = self._seconds_for(session, config.hunt)
        if why:
            self._acting.release()
            self._report(session, REFUSED, why)
            return
        self._began, self._used_before = now, WeakKeyDictionary({each: each.agent_seconds for each in sessions})
        self._hunted = ref(session)
        self._thread = threading.Thread(
            target=self._hunt, args=(session, seconds, config), name="heaptop-hunt", daemon=True
        )
        try:
            self._thread.start()
        except RuntimeError as error:  # no more threads
            self._acting.release()
            self._report(session, FAILED, f"{error}")

    def _used(self, sessions: Iterable[FleetSession], config: FleetConfig, seconds: float) -> float:
        """Seconds that the agents have used since the last hunt began, so many seconds ago, as their processes claim:
        of each at most its share, of the one that was hunted in at most half of the budget. So hostile ones keep no
        other from being hunted in, unless nearly all are hostile."""
        hunted = self._hunted() if self._hunted is not None else None

        def most(session: FleetSession) -> float:
            return (MOST_OF_ONE * config.budget if session is hunted else config.share) * seconds

        return sum(min(each.agent_seconds - self._used_before.get(each, 0.0), most(each)) for each in sessions)

    def join(self, timeout: float) -> None:
        """Wait for the running hunt: it ends with its session."""
        if self._thread is not None:
            self._thread.join(timeout)

    def _seconds_for(self, session: FleetSession, wanted: float) -> tuple[float, str]:
        """How long to hunt: at most half of the time until the process reaches its memory limit; or why not to."""
        if why := self._shortage(session.pid, session.objects):
            return 0.0, why
        left = session.memory.seconds_left
        seconds = wanted if left is None else min(wanted, left / 2)
        if left is not None and seconds < min(LEAST_HUNT, wanted):
            return 0.0, f"the memory limit is expected in about {left:.0f} s"
        return seconds, ""

    def _hunt(self, session: FleetSession, seconds: float, config: FleetConfig) -> None:
        """On a thread of its own, which has the lock."""
        try:
            self._hunt_alone(session, seconds, config)
        finally:
            self._acting.release()

    def _hunt_alone(self, session: FleetSession, seconds: float, config: FleetConfig) -> None:
        used = session.agent_seconds
        audit("hunt", pid=session.pid, service=session.service, result="began", growth=f"{session.growth:.0f} B/s")
        try:
            self._end(session, hunt(session, seconds))
        except (ImageRefused, PauseTooLong) as error:
            self._report(session, REFUSED, error.message)
        except HeaptopError as error:
            self._report(session, FAILED, error.message)
        except Exception as error:  # a fault of heaptop's own ends no thread without a word
            self._report(session, FAILED, f"{type(error).__name__}: {error}")
        rest = max(config.hunt_cooldown, (session.agent_seconds - used) / config.share)
        session.hunt_again_at = time.monotonic() + rest

    def _end(self, session: FleetSession, found: Findings) -> None:
        sentences = tuple(each.sentence for each in found.suspects if each.verdict != NO_LEAK)
        session.hunt = HuntResult(found.verdict, time.monotonic(), suspect_rows(found), sentences)
        self._report(session, found.verdict, "; ".join(sentences[:1]))

    def _report(self, session: FleetSession, outcome: str, message: str) -> None:
        self._meters.hunts.labels(outcome).inc()
        about = {"message": message} if message else {}
        audit("hunt", pid=session.pid, service=session.service, result=outcome, **about)


def next_hunted(sessions: Iterable[FleetSession], now: float) -> FleetSession | None:
    """Where to hunt next: where something grows the fastest; else where the last hunt found a leak, which may have
    ended."""
    due = [
        each
        for each in sessions
        if each.mode not in ("", "python")
        and each.objects <= MOST_OBJECTS
        and each.hunt_again_at <= now
        and (each.growth or (each.hunt is not None and each.hunt.verdict in GROWING))
    ]
    return max(due, key=lambda each: each.growth, default=None)


def hunt(session: FleetSession, seconds: float) -> Findings:
    """Hunt for so long.

    Errors: as :class:`~heaptop.watching.hunting.HuntWatch`; the session ends by none of them.
    """
    progress = ProgressReport()
    watch = SessionHuntWatch(session)
    hunter = Hunter(watch, Plan(seconds, MARKS), progress)
    with watch:
        try:
            hunter.run(patient=False)
        finally:
            watch.close()
    assert hunter.found is not None
    return hunter.found
