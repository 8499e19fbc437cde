"""Leak hunts of a guard: for a report, or because their verdict is a trigger. One runs at a time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from heaptop.errors import ImageLost, ImageRefused, UnresponsiveTarget
from heaptop.fleet.reports import GuardReport
from heaptop.fleet.triggers import GuardRule, ProcessReadings
from heaptop.protocol.findings import Findings
from heaptop.watching.hunting import Hunter, Plan, marks_at
from heaptop.watching.progress import ProgressReport
from heaptop.watching.recording import RecordWatch, summary

LEAST_HUNT: Final = 8.0  # Seconds: a shorter hunt finds nothing
MARKS: Final = 4
Complete = Callable[[GuardReport, Findings | None], None]  # Adds what a hunt has found to its report
Judge = Callable[[Hunter, Findings, ProcessReadings], None]  # Takes the findings of a hunt that is for no report


@dataclass(slots=True)
class _Hunt:
    hunter: Hunter
    began: float
    left: list[float]  # When the next checks are due, in seconds since it began; the last one ends it
    report: GuardReport | None = None  # Which it is for; None for one whose verdict is a trigger


class GuardHunts:
    """The running hunt, and when the next one is due."""

    def __init__(
        self,
        acting: threading.Lock,
        watch: RecordWatch,
        rule: GuardRule,
        progress: ProgressReport,
        complete: Complete,
        judge: Judge,
        note: Callable[[Findings], None],
    ) -> None:
        """``acting`` is held during a hunt. ``note`` takes all findings, for a recording."""
        self._acting = acting
        self._watch = watch
        self._rule = rule
        self._progress = progress
        self._complete = complete
        self._judge = judge
        self._record = note
        self._hunt: _Hunt | None = None
        self._hunted_at = time.monotonic()

    @property
    def is_on(self) -> bool:
        return self._hunt is not None

    @property
    def is_for_report(self) -> bool:
        return self._hunt is not None and self._hunt.report is not None

    def begin(self) -> None:
        """Compute from now on when the next one is due."""
        self._hunted_at = time.monotonic()

    def begin_due(self, left: float) -> None:
        """Begin one whose verdict is a trigger, where it is due and none is running. ``left``: seconds until the memory
        limit."""
        every = min((trigger.value for trigger in self._rule.triggers if trigger.figure == "verdict"), default=None)
        if self.is_on or every is None or self._acting.locked():
            return
        if time.monotonic() - self._hunted_at >= every:
            self._hunted_at = time.monotonic()
            if refused := self._begin(None, left):
                self._progress.notice(f"no leak hunt: {refused}")

    def hunt_for(self, report: GuardReport, left: float) -> str:
        """Hunt for a report; a note for it where there is no hunt of its own. One that runs for a verdict is as
        good."""
        if self._hunt is not None and self._hunt.report is None:
            self._hunt.report = report
        elif self._hunt is not None:
            return "no leak hunt of its own: that of the previous report is still running"
        elif refused := self._begin(report, left):
            self._progress.notice(f"no leak hunt: {refused}")
            return f"no leak hunt, the report is from what was known: {refused}"
        return ""

    def _begin(self, report: GuardReport | None, left: float) -> str:
        """Take the first mark; the reason where there is no hunt."""
        watch, seconds = self._watch, min(self._rule.hunt_seconds, left / 2)
        if watch.no_checks:
            return watch.no_checks
        if seconds < min(LEAST_HUNT, self._rule.hunt_seconds):
            return f"the memory limit is expected in about {left:.0f} s"
        if not self._acting.acquire(blocking=False):
            return "another process is examined"
        hunter = Hunter(watch, Plan(seconds, MARKS), self._progress)
        _, *due = marks_at(seconds, MARKS)
        self._hunt = _Hunt(hunter, time.monotonic(), [*due, seconds], report)
        if refused := self._check(hunter, "start"):
            self._drop()
        return refused

    def _drop(self) -> None:
        """There is no hunt any more, if there was one: others may act."""
        if self._hunt is not None:
            self._hunt = None
            self._acting.release()

    def _check(self, hunter: Hunter, name: str | None) -> str:
        """Check the heap; the reason where that cannot be done now."""
        self._watch.renew()
        try:
            hunter.check(name)
        except (ImageLost, ImageRefused, UnresponsiveTarget) as error:
            self._watch.close()
            return error.message.rstrip(".")
        return ""

    def turn(self, now: ProcessReadings) -> None:
        """Take the next mark where it is due; with the last one the hunt ends. None is left out where they take long:
        three are needed for a verdict."""
        hunt = self._hunt
        if hunt is None or (passed := time.monotonic() - hunt.began) < hunt.left[0]:
            return
        hunt.left = hunt.left[1:]
        if hunt.left:
            if refused := self._check(hunt.hunter, f"{passed:.3g} s"):
                self._note(hunt, f"the check after {passed:.0f} s is missing: {refused}")
            return
        refused = self._check(hunt.hunter, None)
        self._drop()
        if refused:
            self._end_early(hunt, refused)
        else:
            self._end(hunt, now)

    def _note(self, hunt: _Hunt, text: str) -> None:
        self._progress.notice(text)
        if hunt.report is not None:
            hunt.report.notes.append(text)

    def _end(self, hunt: _Hunt, now: ProcessReadings) -> None:
        found = hunt.hunter.found
        assert found is not None
        self._record(found)
        self._progress.notice(f"leak hunt: {summary(hunt.hunter)}")
        if hunt.report is not None:
            self._complete(hunt.report, found)
        else:
            self._judge(hunt.hunter, found, now)

    def abandon(self, why: str) -> None:
        """End a running hunt; its report has what earlier checks have found."""
        hunt = self._hunt
        self._drop()
        if hunt is not None:
            self._end_early(hunt, why)

    def _end_early(self, hunt: _Hunt, why: str) -> None:
        """The last check is missing: what earlier ones have found goes into the report."""
        self._note(hunt, f"the leak hunt ended early: {why}")
        if hunt.report is not None:
            self._complete(hunt.report, None if hunt.hunter.found is None else hunt.hunter.miss_last_check(why))
