"""Records a process until it exits or the time is over, and hunts for leaks on the way, for an unattended command."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from types import FrameType
from typing import Final

from heaptop.analysis.samples.sampling import Sampling
from heaptop.analysis.text.units import format_bytes, format_duration_ns
from heaptop.choices import TIMEOUT
from heaptop.errors import HeaptopError, ImageLost, ImageRefused, RecordingFailed, TargetExited, UnresponsiveTarget
from heaptop.protocol.findings import NO_LEAK
from heaptop.protocol.images import FIRST_ID
from heaptop.protocol.messages import Core, Decision, Failure, Message
from heaptop.protocol.source import RecordingStatus, Source
from heaptop.recordings.recordable_source import RecordableSource
from heaptop.watching.hunting import LAST_WORDS, Hunter, HuntWatch, Plan, marks_at
from heaptop.watching.progress import ProgressReport
from heaptop.watching.source_watch import enough_ms, pause_too_long

_ENDINGS: Final = (signal.SIGTERM, signal.SIGHUP)
LAST_CHECK: Final = 8.0  # Seconds that the last check may take after a signal: Docker kills 10 s after SIGTERM


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """SIGTERM and SIGHUP are as Ctrl+C, but where they were ignored from the beginning, as by nohup."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        if number == signal.SIGHUP:
            _forget(terminals)
        as_ctrl_c = signal.getsignal(signal.SIGINT)
        if not callable(as_ctrl_c):  # it is ignored, as for a script's job in the background
            raise KeyboardInterrupt
        as_ctrl_c(number, frame)

    terminals = [stream.fileno() for stream in (sys.stdout, sys.stderr) if stream.isatty()]
    before = {number: signal.getsignal(number) for number in _ENDINGS}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _forget(terminals: Iterable[int]) -> None:
    """They have gone: writing there would fail."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for descriptor in terminals:
        os.dup2(nowhere, descriptor)
    os.close(nowhere)


class RecordWatch(HuntWatch):
    """A process that is recorded. Where it cannot be frozen, or not sampled, it is recorded without."""

    def __init__(
        self,
        source: Source,
        progress: ProgressReport,
        again: str,
        sampling: Sampling,
        *,
        timeout: float = TIMEOUT,
    ) -> None:
        super().__init__(source, progress, again, sampling, timeout=timeout)
        self.no_checks = ""  # Why no snapshot can be made, if none can

    def _not_frozen(self, reason: str) -> None:
        self.no_checks = reason

    def _take(self, message: Message) -> None:
        match message:
            case Core() if not message.loaded:
                self.no_checks = message.text
            case Decision() if self._seen is not None:
                self._decline(message)
            case Failure() if self._seen is not None and message.request != self._id:
                pass  # a later census or tick: the next one may be better
            case _:
                super()._take(message)

    def _decline(self, decision: Decision) -> None:
        """Nobody is here to ask."""
        self._source.decide(False)
        self.no_checks = f"a snapshot would pause it for {format_duration_ns(decision.pause_ns)}"
        then = "no checks" if decision.request >= FIRST_ID else "from now on censuses run in slices"
        self._progress.notice(f"{self.no_checks}, which is above the budget: {then}")

    def _undecided(self, decision: Decision) -> HeaptopError:
        fix = (
            f"Allow the pause: `{self._again} --pause-budget {enough_ms(decision.pause_ns)}`. Or run censuses in "
            f"slices, without leak checks: `{self._again} --mode python`."
        )
        return pause_too_long(decision, self._pid, fix)


class Recorder:
    """One recording, from the first census to its end."""

    def __init__(
        self, watch: RecordWatch, source: RecordableSource, progress: ProgressReport, plan: Plan | None
    ) -> None:
        """Without a ``plan`` no leak is hunted for. Its ``seconds`` may be infinite."""
        self._watch = watch
        self._source = source
        self._progress = progress
        self._plan = plan
        self.hunter = Hunter(watch, plan, progress) if plan is not None else None
        self.seconds = 0.0  # How long it took
        self._began = time.monotonic()
        self._next_check: float | None = None

    def run(self, seconds: float | None) -> str:
        """For so long (None: forever), or until the process ends, or a signal comes; why it ended, in a few words.

        Errors: RecordingFailed, and whatever the source ended with. Ctrl+C before the first census is passed on.
        """
        try:
            self._watch.ready()
            self._began = time.monotonic()
            return self._to_the_end(seconds)
        except TargetExited as error:
            if self._watch.history.latest is None:
                raise
            return error.message.rstrip(".")
        finally:
            self.seconds = self._passed

    def _to_the_end(self, seconds: float | None) -> str:
        try:
            with self._watch.patience():
                why = self._wait_until_end(seconds)
        except KeyboardInterrupt:
            self._progress.clear()
            self._watch.close()
            self._last_check(LAST_CHECK)
            return "you stopped it"
        self._last_check(0)
        if seconds is not None:
            with suppress(KeyboardInterrupt):  # all is known: then it ends now
                self._watch.wait(seconds - self._passed, self._words)
        return why

    def _wait_until_end(self, seconds: float | None) -> str:
        """Let the time pass, and look at the heap now and then. Why that ended."""
        marks = self._plan.marks if self._plan is not None else 0
        for at in marks_at(seconds, marks) if marks else ():
            if at and (self._passed > at or (seconds is not None and at + 2 * self._expected > seconds)):
                continue  # there is no time for it, beside the last one
            self._next_check = at
            self._wait(at)
            self._check("start" if not at else format_duration_ns(round(at * 1e9)))
        self._next_check = None
        self._wait(seconds if seconds is None else seconds - self._expected)
        return "the time is up"

    @property
    def _expected(self) -> float:
        """How many seconds of the time a check takes; 0 where there is none."""
        has_last = self.hunter is not None and self.hunter.has_marks and not self._watch.no_checks
        return self.hunter.expected if self.hunter is not None and has_last else 0.0

    def _wait(self, until: float | None) -> None:
        """Until so many seconds after the beginning; None forever."""
        for _ in count() if until is None else range(1):
            left = 3600.0 if until is None else until - self._passed
            self._watch.wait(left, self._words)

    @property
    def _passed(self) -> float:
        return time.monotonic() - self._began

    def _check(self, name: str | None) -> None:
        """Hunt, and note what is found. Where the process cannot be frozen now, the recording continues."""
        hunter = self.hunter
        if hunter is None or self._watch.no_checks:
            return
        self._watch.renew()
        try:
            hunter.check(name)
        except (ImageLost, ImageRefused, UnresponsiveTarget) as error:
            self._watch.close()
            self._progress.notice(f"no check after {self._passed:.0f} s: {error.message}")
            return
        if hunter.found is not None:
            self._source.note(hunter.found)
            self._progress.notice(f"after {format_duration_ns(round(self._passed * 1e9))}: {summary(hunter)}")

    def _last_check(self, limit: float) -> None:
        """At most so many seconds (0: however long it takes), and until a signal comes."""
        hunter = self.hunter
        if hunter is None or self._watch.no_checks or not hunter.has_marks:
            return
        if limit:
            self._progress.notice(LAST_WORDS)
        try:
            why = hunter.last_check(limit, lambda: self._check(None))
        except KeyboardInterrupt:
            why = "it was stopped"
        if why:
            self._source.note(hunter.miss_last_check(why))
            self._progress.notice(f"the last check is missing: {why}")

    def _words(self, left: float) -> str:
        """``recorded 2.5 h, 12.3 MiB: RSS 1.20 GiB, live 810 MiB; so far: leak; next check in 3.1 min``"""
        watch = self._watch
        told = [
            f"{name} {format_bytes(size)}"
            for name, size in (("RSS", watch.resident), ("live", watch.live))
            if size is not None
        ]
        passed = format_duration_ns(round(self._passed * 1e9))
        check = ""
        if self._next_check is not None:
            check = f"; next check in {format_duration_ns(round(max(self._next_check - self._passed, 0) * 1e9))}"
        so_far = f"; so far: {self.hunter.found.verdict}" if self.hunter is not None and self.hunter.found else ""
        return f"recorded {passed}, {format_bytes(watch.recording_status.bytes)}: {', '.join(told)}{so_far}{check}"


def check_written(path: str | os.PathLike[str], recording_status: RecordingStatus) -> None:
    """Raise RecordingFailed where the end of a recording is missing; its source is closed."""
    if lost := missing(recording_status):
        raise RecordingFailed(f"The recording {os.fspath(path)} is incomplete: {lost}.")


def missing(recording_status: RecordingStatus) -> str:
    """What has become of the end of a recording, once its source is closed; empty where it is whole."""
    return recording_status.error or ("not everything was written to disk" if recording_status.on else "")


def summary(hunter: Hunter) -> str:
    """``leak: 1,240 Session (+3.1 MiB) allocated at …``; of what is no leak the verdict alone."""
    found = hunter.found
    if found is None:
        return ""
    suspects = found.suspects[:1] if found.verdict != NO_LEAK else ()
    return ": ".join([found.verdict, *(suspect.sentence for suspect in suspects)])
