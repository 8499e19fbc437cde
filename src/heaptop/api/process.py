"""A running process, attached to: each method asks, waits, and answers with plain data."""

from __future__ import annotations

import contextlib
import logging
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from pathlib import Path
from threading import Event
from types import TracebackType
from typing import Any, Final

from heaptop.analysis.reports.sampled_report import report_rows
from heaptop.analysis.rss.memory import MemoryByUse, explain_counted
from heaptop.analysis.samples.sampling import Sampling
from heaptop.api.figures import AllocationSite, CensusTable, allocation_site, census_table
from heaptop.api.snapshot import HeapSnapshot
from heaptop.choices import ADAPTIVE, HUNTING, ROUNDS, TIMEOUT, SamplingRate
from heaptop.errors import (
    HeaptopError,
    SamplerRefused,
    TargetExited,
    UnresponsiveTarget,
    UsageError,
)
from heaptop.injector.api import AttachOptions, attach_source
from heaptop.protocol.findings import Findings
from heaptop.protocol.images import FIRST_ID
from heaptop.protocol.messages import Core, Decision, Failure, Message, Sampler
from heaptop.recordings.recordable_source import RecordableSource
from heaptop.watching.hunting import Hunter, HuntWatch, Plan
from heaptop.watching.progress import ProgressReport
from heaptop.watching.recording import check_written
from heaptop.watching.source_watch import TURN, SourceWatch, sampler_refused

NEVER: Final = 86_400.0
"""Seconds between censuses that nobody asks for."""
SHARE: Final = 0.05
SITES: Final = ("producer", "producer-module", "handler")
WRITTEN: Final = 10.0
"""Seconds in which the end of a recording is on the disk."""
STARTED: Final = 10.0
"""Seconds in which sampling begins, or is refused."""
_log = logging.getLogger("heaptop")


class _Progress(ProgressReport):
    """Passes on what is being waited for, to who asked for that; what stays in a process is logged."""

    def __init__(self, show: Callable[[str], None] | None) -> None:
        self._show = show

    def show(self, text: str) -> None:
        if self._show is not None:
            self._show(text)

    def notice(self, text: str) -> None:
        _log.warning("%s", text)


class _Watch(HuntWatch):
    """One that another thread can interrupt, and that goes on after a refusal."""

    cancelled: Event
    counting = False
    """A census, or what memory is used for, is waited for."""

    def _take(self, message: Message) -> None:
        match message:
            case Core() if not message.loaded:
                return  # censuses are taken without; a snapshot is refused with the reason
            case Failure() if self.counting and message.request < FIRST_ID:
                raise self._failed(message)
        super()._take(message)

    def _undecided(self, decision: Decision) -> HeaptopError:
        """Nobody is here to ask: it is declined, so that other calls are answered."""
        self.close()
        self._source.decide(False)
        if decision.request < FIRST_ID:
            return SourceWatch._undecided(self, decision)
        return super()._undecided(decision)

    def _next(self) -> Message | None:
        if self.cancelled.is_set():
            raise CancelledError
        return super()._next()


class Process:
    """A process that heaptop is attached to, within a ``with`` statement; made by :func:`attach`.

    One thread at a time may call it. Every method raises :class:`~heaptop.errors.HeaptopError`: TargetExited when the
    process has ended, AgentLost when the connection was lost, PauseTooLong where a pause is above the budget,
    UnresponsiveTarget when an answer takes longer than ``timeout``.
    """

    def __init__(
        self,
        source: RecordableSource,
        share: float,
        timeout: float,
        progress: Callable[[str], None] | None,
        user_code: Sequence[str] = (),
    ) -> None:
        self._source = source
        self._share = share
        self._progress = _Progress(progress)
        self._sampling = Sampling(user_code)
        self._watch = _Watch(
            source, self._progress, f"heaptop attach {source.target.pid}", self._sampling, timeout=timeout
        )
        self._watch.cancelled = Event()

    def __enter__(self) -> Process:
        self._watch.__enter__()
        try:
            self._watch.census()
        except BaseException:
            self._watch.__exit__(*sys.exc_info())
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._watch.__exit__(kind, error, at)

    @property
    def pid(self) -> int:
        return self._source.target.pid

    @property
    def command(self) -> str:
        """Its command line."""
        return self._source.target.command

    @property
    def is_others(self) -> bool:
        """Whether it runs as another user than heaptop; known before ``with``."""
        return self._source.target.is_others

    @property
    def python(self) -> str:
        """Its version of Python: ``3.12.1``."""
        return self._watch.attached.hello.python

    @property
    def rss(self) -> int | None:
        """Resident bytes, as last heard; None where that is not known."""
        return self._watch.resident

    def census(self, by: str = "type", where: str = "") -> CensusTable:
        """Count all live objects now, by ``type``, ``module``, ``generation`` or ``interpreter``; ``where`` is a filter
        as of ``heaptop census --where``. Raises UsageError where they are wrong."""
        self._begin()
        with self._counting():
            return census_table(self._watch.census().record, by, where)

    def watch(self, every: float = 10.0, by: str = "type", where: str = "") -> Iterator[CensusTable]:
        """A census every so many seconds, until the process ends; less often where they would cost more than the share
        of a core that was given to :func:`attach`."""
        try:
            while True:
                began = time.monotonic()
                census = self.census(by, where)
                yield census
                wait = max(every - (time.monotonic() - began), census.duration / self._share)
                self._watch.wait(wait, lambda left: "")
        except TargetExited:
            return

    def memory(self) -> MemoryByUse:
        """What its resident memory is used for; rows add up to ``rss``. Raises UnresponsiveTarget where the kernel
        does not let heaptop see it."""
        self._begin()
        with self._counting():
            taken = self._watch.census()
            found = explain_counted(self._watch.memory(), taken.record)
        if found is None:
            raise UnresponsiveTarget(
                f"The resident memory of process {self.pid} cannot be explained.",
                why="/proc/PID/smaps is not readable for this user.",
                fix="Run the program as root, or as the user of the process.",
            )
        return found

    def sites(self, seconds: float = 10.0, by: str = "producer") -> tuple[AllocationSite, ...]:
        """Sample allocations for a while, then report which lines allocated what is alive, largest first: ``by`` is
        ``producer`` for lines, ``producer-module`` for modules, ``handler`` for requests, tasks and threads. Raises
        SamplerRefused.

        The row ``(allocated before heaptop attached)`` has what is older than the samples.
        """
        if by not in SITES:
            raise UsageError(f"There are no sites by {by!r}.", fix=f"Choose one of: {', '.join(SITES)}.")
        with self._sampled(ADAPTIVE):
            self._begin()
            self._watch.sample(seconds)
            state = self._sampling.state
            if state is None or not state.on:
                raise sampler_refused(state, self.pid) if state is not None else SamplerRefused("Nothing was sampled.")
            with self._counting():
                heap = self._watch.census().record
            return tuple(allocation_site(row) for row in report_rows(by, self._sampling, heap))

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[HeapSnapshot]:
        """Freeze the heap in a clone, which answers within the ``with`` statement. One at a time.

        Raises ImageRefused, PauseTooLong.
        """
        self._begin()
        try:
            image = self._watch.freeze()
            yield HeapSnapshot(self._watch, image, self._begin)
        finally:
            self._watch.close()

    def hunt(self, seconds: float = 30.0, marks: int = 4, *, collect: bool = False) -> Findings:
        """Hunt for leaks, as ``heaptop leaks``: compare snapshots at so many ``marks`` within ``seconds``. With
        ``collect`` a full collection runs in the process before each.

        Raises ImageRefused, ImageLost, PauseTooLong.
        """
        with self._sampled(HUNTING):
            self._begin()
            hunter = Hunter(self._watch, Plan(seconds, marks, collect), self._progress)
            try:
                hunter.run(patient=False)
            finally:
                self._watch.close()
        assert hunter.found is not None
        return hunter.found

    @contextlib.contextmanager
    def rounds(self, *, names: bool = False) -> Iterator[Rounds]:
        """Hunt over rounds of work that the caller has the process do, within the ``with`` statement.

        A check after each round compares with those before; rounds count alike, however long they take. With ``names``
        what is new is grouped by the name that leads to it, and not by the object where it collects.
        """
        before = self._sampling.state
        with self._sampled(ROUNDS):
            self._begin()
            self._await_sampler(before)
            hunter = Hunter(self._watch, Plan(0.0, 2, rounds=True, names=names), self._progress)
            try:
                yield Rounds(self._watch, hunter, self._begin)
            finally:
                self._watch.close()

    def record(self, path: str | Path, seconds: float, *, every: float = 10.0, force: bool = False) -> None:
        """Record for so many seconds into a new file, with a census every so many; ``force`` replaces a file.

        The recording is complete when this returns. It ends early, without an error, when the process ends.
        Raises RecordingExists, RecordingFailed.
        """
        self._source.begin_recording(str(path), force=force)
        end = time.monotonic() + seconds
        try:
            with self._sampled(ADAPTIVE):
                for census in self.watch(every):
                    left = end - time.monotonic()
                    if left < max(every, census.duration / self._share):
                        self._watch.wait(max(left, 0.0), lambda left: "")
                        break
        except TargetExited:
            pass
        finally:
            self._source.end_recording()
            self._await_written()
        check_written(path, self._watch.recording_status)

    def _await_sampler(self, before: Sampler | None) -> None:
        """Until allocations are sampled, or the agent has reported why not: the first round is sampled from its
        beginning. ``before``: its report of an earlier time."""
        end = time.monotonic() + STARTED
        while time.monotonic() < end:
            state = self._sampling.state
            if state is not before and state is not None and (state.on or state.text):
                return
            self._watch.wait(TURN, lambda left: "starting to sample allocations")

    def _await_written(self) -> None:
        """Until a recording that was ended is on the disk."""
        end = time.monotonic() + WRITTEN
        with contextlib.suppress(TargetExited):
            while self._watch.recording_status.on and time.monotonic() < end:
                self._watch.wait(TURN, lambda left: "")

    def cancel(self) -> None:
        """From another thread: the call that runs raises ``concurrent.futures.CancelledError`` soon."""
        self._watch.cancelled.set()

    @contextlib.contextmanager
    def _counting(self) -> Iterator[None]:
        """Ask for a census of now, and let its failure be one."""
        self._watch.forget()
        self._source.census_now()
        self._watch.counting = True
        try:
            yield
        finally:
            self._watch.counting = False

    def _begin(self) -> None:
        """A call of its own begins, with all of the time for its answer."""
        self._watch.cancelled.clear()
        self._watch.renew()

    @contextlib.contextmanager
    def _sampled(self, rate: SamplingRate) -> Iterator[None]:
        """Allocations are sampled meanwhile."""
        depth = AttachOptions().sample_depth
        self._source.sample(rate.interval, depth, target=rate.target)
        try:
            yield
        finally:
            self._source.sample(0, depth)


class Rounds:
    """A hunt over rounds of work; made by :meth:`Process.rounds`."""

    def __init__(self, watch: HuntWatch, hunter: Hunter, begin: Callable[[], None]) -> None:
        """``begin`` is called before each check."""
        self._watch = watch
        self._hunter = hunter
        self._begin = begin

    def check(self, *, last: bool = False) -> Findings | None:
        """Look at the heap now, while the process does no work; None the first time. After the ``last`` one no other
        may follow.

        Raises ImageRefused, ImageLost, PauseTooLong.
        """
        self._begin()
        try:
            self._hunter.check(None if last else f"round {self._hunter.checks}")
        except BaseException:
            self._watch.close()  # else the next check would find a snapshot that nobody waits for
            raise
        return self._hunter.found


def attach(
    pid: int,
    *,
    wait: float = 10.0,
    pause_budget: float = 0.1,
    share: float = SHARE,
    mode: str = "clone",
    timeout: float = TIMEOUT,
    progress: Callable[[str], None] | None = None,
    user_code: Sequence[str] = (),
    **options: Any,
) -> Process:
    """A running Python process, to be attached to by ``with``: ``with attach(4711) as process:``.

    Args:
        wait: seconds in which its interpreter has to answer.
        pause_budget: seconds for which a census or a snapshot may stop it; above that, PauseTooLong is raised.
        share: of one core, what heaptop may cost it.
        mode: the best way of counting that may be tried: ``clone``, ``stop`` or ``python``.
        timeout: seconds for each answer.
        progress: called with what is being waited for, some ten times a second, on the thread that waits.
        user_code: folders and files of the program's own code: allocation sites are its innermost frames there.
        options: further fields of ``heaptop.injector.api.AttachOptions``.

    It looks at the process, touches nothing, and raises the TargetError that an attach would end with.
    """
    fields = AttachOptions(
        wait=wait, pause_budget=pause_budget, max_share=share, mode=mode, interval=NEVER, sample_interval=0, **options
    )
    return Process(RecordableSource(attach_source(pid, fields)), share, timeout, progress, user_code)
