"""Hunts for leaks in a process that is watched: a look at its frozen heap, some seconds, another look, and so on.

Callers parse the command line and attach; only progress is printed here. Questions and verdicts are
:class:`~heaptop.analysis.leaks.hunting.LeakHunt`'s.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

from heaptop.analysis.leaks.hunting import LeakHunt
from heaptop.analysis.samples.sampling import Sampling
from heaptop.analysis.snapshot.asking import NotAnswered
from heaptop.analysis.text.units import format_change, format_duration_ns
from heaptop.choices import TIMEOUT
from heaptop.errors import AgentLost, HeaptopError, ImageLost, ImageRefused, RecordingFailed
from heaptop.protocol.findings import UNCLEAR, Findings
from heaptop.protocol.messages import Collected, CollectRequest, Failure, Message, Sampler
from heaptop.protocol.source import Event, RecordingStatus, Source
from heaptop.watching.progress import ProgressReport
from heaptop.watching.snapshot_watch import SnapshotWatch

FIRST_INTERVAL: Final = 60.0
"""Seconds from the first mark to the second where its end is not known; each interval is twice the last."""
LEAST_SHARE: Final = 0.5
"""Of the time that is given, so much lies between the first mark and the last look, as far as that ends in time."""
COMPARING: Final = 1.6  # So much longer than the first mark, which has nothing to compare with, a check takes
LATE_SHARE: Final = 1.1
LATE_SECONDS: Final = 3.0
"""The last look ends after so many times the time that is given, and so many seconds, at the latest."""
LAST_CHECK: Final = 1.5
"""Seconds that the last check may take after Ctrl+C: in a process that is busy it may take twenty."""
AGAIN: Final = 0.25  # Seconds from one such interrupt to the next
LAST_WORDS: Final = "stopping: one last check of the heap; press ctrl+c again to end without"


@dataclass(frozen=True, slots=True)
class Plan:
    """What a person wants."""

    seconds: float  # For all of it, from the attach to the last answer
    marks: int  # Moments at which the heap is examined, the last one among them: 2 at least
    collect: bool = False  # Have garbage collected right before each
    allowed: tuple[str, ...] = ()  # Names of lints that are not to be reported
    begun: float | None = None  # When the time that is given began, on the monotonic clock; None: with the hunt
    rounds: bool = False  # The process does the same work from each check to the next, and nothing else
    names: bool = False  # Group what is new by the name that leads to it, and not by the object where it collects


def marks_at(seconds: float | None, marks: int) -> Iterator[float]:
    """When to look, after the beginning: evenly until the end, which is another look; without one ever more rarely."""
    if seconds is None:
        yield from (FIRST_INTERVAL * (2**number - 1) for number in range(marks))
    else:
        yield from (seconds * number / (marks - 1) for number in range(marks - 1))


@contextmanager
def _interrupted_after(seconds: float) -> Iterator[None]:
    """KeyboardInterrupt after so long (0: never), whatever is being waited for or computed then; again and again, for
    Python drops it in a finalizer."""
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, seconds, AGAIN if seconds else 0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class HuntWatch(SnapshotWatch):
    """A source that is watched from mark to mark. Where allocations cannot be sampled, it continues without."""

    def __init__(
        self, source: Source, progress: ProgressReport, again: str, sampling: Sampling, *, timeout: float = TIMEOUT
    ) -> None:
        super().__init__(source, progress, again, sampling, timeout=timeout)
        self.sampling = sampling
        self._collection = -1
        self._collected: Collected | None = None
        self._interrupted = False
        self.recording_status = RecordingStatus("", 0, True)  # How it goes, where it is recorded

    @contextmanager
    def patience(self) -> Iterator[None]:
        """Within this, ctrl+C is raised between two messages: messages are taken whole, for there is more to do. A
        second one does not wait for that."""

        def note(*_: object) -> None:
            if self._interrupted:
                raise KeyboardInterrupt
            self._interrupted = True

        before = signal.getsignal(signal.SIGINT)
        if before is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, note)
        try:
            yield
        finally:
            self._interrupted = False
            signal.signal(signal.SIGINT, before)

    @property
    def resident(self) -> int | None:
        """Bytes, as the last tick has it."""
        ticks = self.history.ticks
        return ticks[-1].rss if ticks else None

    @property
    def live(self) -> int | None:
        """Bytes of the last census."""
        return self.history.latest.total.bytes if self.history.latest else None

    def collect(self) -> None:
        """Have garbage collected, and wait for it. Errors: AgentLost, and as :class:`SourceWatch`."""
        self._collected = None
        self._id = self._collection = self._source.request(CollectRequest)
        since = time.monotonic()
        while self._collected is None:
            self._next()
            self._progress.show(f"collecting garbage {time.monotonic() - since:.1f} s")

    def _next(self) -> Message | None:
        if self._interrupted:
            raise KeyboardInterrupt
        return super()._next()

    def _take(self, message: Message) -> None:
        match message:
            case Collected():
                self._collected = message
        super()._take(message)

    def _receive(self, event: Event) -> None:
        if isinstance(event, RecordingStatus):
            self.recording_status = event
            if event.error:
                raise RecordingFailed(f"The recording {event.path} ended: {event.error}.")

    def _receive_after(self, event: Event) -> None:
        if isinstance(event, RecordingStatus):
            self.recording_status = event

    def _sampler_is_off(self, state: Sampler) -> None:
        """The findings report that."""

    def _failed(self, failure: Failure) -> HeaptopError:
        if failure.request == self._collection:
            text = f"The agent could not collect garbage: {failure.text}."
            return AgentLost(text, why=f"heaptop detaches; process {self._pid} continues.", fix="Leave --collect out.")
        return super()._failed(failure)


class Hunter:
    """One hunt, as planned. :attr:`found` is what is known so far, also when it ends by an error."""

    def __init__(self, watch: HuntWatch, plan: Plan, progress: ProgressReport) -> None:
        self.found: Findings | None = None
        self._watch = watch
        self._plan = plan
        self._progress = progress
        self._hunt = LeakHunt(rounds=plan.rounds, names=plan.names)
        self._missed: list[str] = []
        self._left_out = 0  # Marks for which there was no time
        self._pauses: list[int] = []
        self._begin = self._marked = 0.0
        self._mark_seconds = self._check_seconds = 0.0
        """How long they took at most: marks with nothing to compare with, or not compared, and checks."""
        self._first: tuple[int | None, int | None] = None, None

    def run(self, *, patient: bool = True) -> None:
        """All of it. Ctrl+C before the last look has that taken at once, and left where it takes long; once more, and
        heaptop ends. Where it is not ``patient``, Ctrl+C is as ever.

        Errors: as :class:`HuntWatch`, where nothing is known, or nothing more.
        """
        watch, plan = self._watch, self._plan
        self._begin = time.monotonic() if plan.begun is None else plan.begun
        watch.ready()
        self.check("start")
        self._marked = time.monotonic()
        self._first = watch.resident, watch.live
        window = max(self._last_check() - self._marked, 0.0)
        try:
            with watch.patience() if patient else nullcontext():
                for at in islice(marks_at(window, plan.marks), 1, None):
                    self._wait(min(self._marked + at, self._latest_mark()))
                    self._try_to_check(f"{at:.3g} s")
                self._wait(self._last_check())
        except KeyboardInterrupt:
            if not patient:
                raise
            watch.close()
            self._progress.show(LAST_WORDS)
            if why := self.last_check(LAST_CHECK, lambda: self.check(None)):
                self.miss_last_check(why)
        else:
            self.check(None)

    @property
    def notices(self) -> list[str]:
        """Whose heap it was, and what looking at it cost."""
        times = f"paused {self.checks} times for at most {format_duration_ns(self.pause_ns)}"
        command = self._watch.attached.target.command
        return [f"{command} (pid {self.pid}, Python {self.python})", f"{times}, and checked in clones"]

    @property
    def checks(self) -> int:
        """How often the heap was frozen."""
        return len(self._pauses)

    @property
    def has_marks(self) -> bool:
        """Whether a last check has anything to compare with."""
        return bool(self._hunt.marks)

    @property
    def pid(self) -> int:
        return self._watch.attached.target.pid

    @property
    def python(self) -> str:
        return self._watch.attached.hello.python

    @property
    def pause_ns(self) -> int:
        """The longest pause of the target for a check."""
        return max(self._pauses, default=0)

    @property
    def expected(self) -> float:
        """How many seconds the next check takes, by the earlier ones."""
        return self._check_seconds or self._mark_seconds * COMPARING

    def _latest_mark(self) -> float:
        """When another mark must begin, for the last check to end in time. The second mark is the one that a verdict
        needs: it may take all the time there is, and the last check is assumed to be no longer than it."""
        if len(self._hunt.marks) == 1:
            return self._latest_end - 2 * self._mark_seconds
        return self._planned_end - self._mark_seconds - self.expected

    def _last_check(self) -> float:
        """When it begins: the time that a person gives is for all of it."""
        seconds, expected = self._plan.seconds, self.expected
        some = min(self._marked + seconds * LEAST_SHARE, self._planned_end - expected)
        return max(self._begin + seconds - expected, some)

    @property
    def _planned_end(self) -> float:
        """Half of what it may be late is left for a check that takes longer than expected."""
        return (self._begin + self._plan.seconds + self._latest_end) / 2

    @property
    def _latest_end(self) -> float:
        return self._begin + self._plan.seconds * LATE_SHARE + LATE_SECONDS

    def _wait(self, until: float) -> None:
        self._watch.wait(until - time.monotonic(), self._words)

    def _words(self, left: float) -> str:
        """``mark 2 of 4, 14 s left: RSS +1.20 MiB, live +3.10 MiB; so far: leak``"""
        pairs = zip(("RSS", "live"), self._first, (self._watch.resident, self._watch.live), strict=True)
        grown = [
            f"{name} {format_change(now - before)}"
            for name, before, now in pairs
            if before is not None and now is not None
        ]
        so_far = f"; so far: {self.found.verdict}" if self.found else ""
        end = max(0.0, self._plan.seconds - (time.monotonic() - self._begin))
        return f"mark {len(self._hunt.marks)} of {self._plan.marks}, {end:.0f} s left: {', '.join(grown)}{so_far}"

    def _try_to_check(self, name: str) -> None:
        """One moment of several: without it, less is known. Where there is no time to compare it, it is only marked;
        where the last check would end too late, it is left out."""
        if self._latest_mark() < time.monotonic():
            self._left_out += 1
            return
        left = self._latest_end - time.monotonic()
        try:
            self.check(name, compares=left >= 2 * self.expected)
        except (ImageLost, ImageRefused) as error:
            self._watch.close()
            self._missed.append(f"the mark at {name} is missing: {error.message}".rstrip("."))

    def check(self, name: str | None, *, compares: bool = True) -> None:
        """Take a mark of this name (None: none, it is the last moment), and report what was found, unless a later check
        does that."""
        watch, plan, begin = self._watch, self._plan, time.monotonic()
        if plan.collect:
            watch.collect()
        is_end = name is None or not self._hunt.marks
        if is_end:
            watch.ask_memory()
        image = watch.freeze()
        self._pauses.append(image.pause_ns)
        asking = self._hunt.check(
            image,
            watch.types,
            watch.history,
            watch.sampling,
            mark=name,
            collected=plan.collect,
            memory=watch.reported if is_end else None,
            allowed=plan.allowed,
            compares=compares,
        )
        is_compared = compares and self.has_marks
        try:
            found = watch.run(asking)
        except NotAnswered as error:
            raise ImageLost(f"The snapshot could not answer: {error}.") from None
        watch.close()
        took = time.monotonic() - begin
        if is_compared:
            self._check_seconds = max(self._check_seconds, took)
        else:
            self._mark_seconds = max(self._mark_seconds, took)
        if found is not None:
            self.found = replace(found, notes=(*found.notes, *self._missed, *self._left_out_words))

    @property
    def _left_out_words(self) -> list[str]:
        number = self._left_out
        marks = f"{number} marks are" if number > 1 else "a mark is"
        return [f"{marks} missing: a check takes {self.expected:.2g} s; use a longer --for"] if number else []

    def last_check(self, limit: float, check: Callable[[], None]) -> str:
        """Take it, in at most so many seconds (0: however long it takes). Why it is missing; empty where it is not. A
        Ctrl+C meanwhile is passed on."""
        begin = time.monotonic()
        try:
            with _interrupted_after(limit):
                check()
        except KeyboardInterrupt:
            self._watch.close()
            if not limit or time.monotonic() - begin < limit:
                raise
            return f"it takes more than {limit:g} s"
        return ""

    def miss_last_check(self, why: str) -> Findings:
        """End without it: what was found before stays, with a note. Where nothing was, the verdict is unclear."""
        marks = tuple(mark.facts for mark in self._hunt.marks)
        before = self.found or Findings(marks[-1].time_ns, marks, UNCLEAR, 0, 0, (), (), ())
        self.found = replace(before, notes=(*before.notes, f"the last check is missing: {why}"))
        return self.found
