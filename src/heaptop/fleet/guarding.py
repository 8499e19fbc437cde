"""The guard: watches one process, and writes reports and heap dumps, hunts for leaks and keeps a recording when a
trigger fires.

It asks no questions: what would pause the process for too long, or needs memory that is not there, is not done,
and the report has the reason. A report is written first, from what is known, before anything is asked of the process.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from heaptop.analysis.text.units import format_bytes, format_number
from heaptop.dumps.captured_source import CapturedSource
from heaptop.dumps.writer import DumpFile
from heaptop.errors import DumpFailed, HeaptopError, ImageLost, ImageRefused, TargetExited, UnresponsiveTarget
from heaptop.fleet.alerts import ALERTS_PATH, alert
from heaptop.fleet.guard_hunts import GuardHunts
from heaptop.fleet.guard_ring import GuardRing
from heaptop.fleet.reports import GuardReport, ReportFolder
from heaptop.fleet.sending import COMMAND_SECONDS, LAST_SECONDS, Sender, call, post
from heaptop.fleet.triggers import GuardRule, ProcessReadings, RssTrend, Trigger, readings_words
from heaptop.injector.api import memory_limit
from heaptop.injector.inspect.process import rss_bytes
from heaptop.protocol.findings import GROWING, Findings
from heaptop.protocol.messages import Census, Decision, Message
from heaptop.protocol.source import Event, Recordable, RecordingStatus, Source
from heaptop.watching.dumping import write_dump
from heaptop.watching.hunting import Hunter
from heaptop.watching.progress import ProgressReport
from heaptop.watching.recording import RecordWatch

ENDINGS: Final = ("json", "txt", "heaptop")
"""Of the names of a report's files that are not removed for the quota until the next report. A heap dump is one of
these only while it is written: two may have no room together."""
TURN: Final = 1.0  # Seconds between two readings
CENSUS_SECONDS: Final = 10.0  # For so long a report waits for a census of its own
DUMP_SECONDS: Final = 300.0  # For so long a heap dump may take, and its snapshot stay
LEAST_DUMP: Final = 2.0
SECONDS_AN_OBJECT: Final = 3e-6  # What a heap dump takes: 22.5 s of 10 million objects were measured


class GuardWatch(RecordWatch):
    """A process that is guarded: what cannot be done now may be possible later, and no question is asked."""

    counted_at: float | None = None
    """When the last census came, on our clock: the clock of a process that was stopped shows no ages."""

    def _not_frozen(self, reason: str) -> None:
        """There may be room for a snapshot later: each request decides for itself."""

    def _take(self, message: Message) -> None:
        if isinstance(message, Decision):
            self._decline(message)
            return
        super()._take(message)
        if isinstance(message, Census):
            self.counted_at = time.monotonic()

    def _receive(self, event: Event) -> None:
        if isinstance(event, RecordingStatus):
            if event.error and not self.recording_status.error:
                self._progress.notice(f"the recording {event.path} ended: {event.error}")
            self.recording_status = event


class Guard:
    """One guarded process, from its first census to its end."""

    def __init__(
        self,
        watch: GuardWatch,
        source: Source,
        rule: GuardRule,
        folder: ReportFolder,
        sender: Sender,
        progress: ProgressReport,
        *,
        captured: CapturedSource | None = None,
        acting: threading.Lock | None = None,
        service: str = "",
    ) -> None:
        """``source``: a Recordable where the rule wants recordings. ``captured``: what it is made around, where the
        rule wants heap dumps. ``acting``: held for a census, a heap dump or a hunt, so that of several guards one at a
        time asks anything of its process. ``service``: for reports."""
        self._watch = watch
        self._source = source
        self._recorder = source if isinstance(source, Recordable) else None
        self._captured = captured
        self._rule = rule
        self._folder = folder
        self._sender = sender
        self._progress = progress
        self._acting = acting if acting is not None else threading.Lock()
        self._service = service
        self.left_to_send = COMMAND_SECONDS  # Seconds for it at the guard's end
        self._trend = RssTrend()
        self._ring = GuardRing(watch, self._recorder if rule.records else None, folder, progress)
        note = self._recorder.note if self._recorder is not None else lambda found: None
        self._hunts = GuardHunts(self._acting, watch, rule, progress, self._complete, self._judge, note)
        self._began = time.monotonic()
        self._fired_at: dict[Trigger, float] = {}
        self._quiet_until = self._began
        self.fired = 0

    def begin_ring(self, pid: int) -> None:
        """Record from now on, where the rule wants recordings. Errors: RecordingFailed, RecordingExists, OSError."""
        self._ring.begin(pid)

    def run(self) -> str:
        """Until the process ends, ctrl+C or SIGTERM, or the last firing; why it ended, in a few words.

        Errors: as :class:`GuardWatch`. Ctrl+C before the first census is passed on.
        """
        self._watch.ready()
        self._began = self._quiet_until = time.monotonic()
        self._hunts.begin()
        try:
            with self._watch.patience():
                while self.fired < self._rule.at_most or self._hunts.is_for_report:
                    self._turn()
            why = f"fired {_times(self.fired)}, as often as allowed"
        except KeyboardInterrupt:
            why, self.left_to_send = "you stopped it", LAST_SECONDS
        except HeaptopError as error:
            self._ring.leave()
            if not isinstance(error, TargetExited):
                raise
            why = error.message.rstrip(".")
        finally:
            self._hunts.abandon("the guard ended meanwhile")
        return why

    def close(self) -> None:
        """Remove the recording that nothing was kept of; the source is closed."""
        self._ring.close()

    # -- turns -------------------------------------------------------------------------------------------------

    def _turn(self) -> None:
        self._watch.renew()
        self._watch.wait(TURN, self._words)
        now = self._readings()
        self._hunts.turn(now)
        if not self._may_fire:
            return
        for trigger in self._rule.triggers:
            if trigger.fires(now, time.monotonic() - self._fired_at.get(trigger, self._began)):
                self._fire(trigger, now)
                return
        self._hunts.begin_due(self._time_left(now))

    @property
    def _may_fire(self) -> bool:
        return time.monotonic() >= self._quiet_until and self.fired < self._rule.at_most

    def _readings(self) -> ProcessReadings:
        """What is known now: memory by /proc, so that of a process that does not answer it is known too."""
        watch, pid = self._watch, self._watch.attached.target.pid
        rss = rss_bytes(pid) or watch.resident
        if rss is not None:
            self._trend.add(time.monotonic(), rss)
        limit = memory_limit(pid)
        ticks = watch.history.ticks
        now = ProcessReadings(rss=rss, growth=self._trend.growth, garbage=ticks[-1].garbage if ticks else None)
        if limit is None:
            return now
        return replace(now, limit=limit.bytes, limit_of=limit.of, left=limit.left, pressure=limit.pressure)

    def _time_left(self, now: ProcessReadings) -> float:
        """Seconds until the limit, by how much was taken in the last seconds; infinite where that is not known."""
        seconds = None if now.left is None else self._trend.seconds_until(now.left)
        return float("inf") if seconds is None else seconds

    def _words(self, left: float) -> str:
        resident = self._watch.resident
        rss = "" if resident is None else f", RSS {format_bytes(resident)}"
        hunting = ", hunting for leaks" if self._hunts.is_on else ""
        return f"guarding process {self._watch.attached.target.pid}{rss}, fired {_times(self.fired)}{hunting}"

    # -- firing ------------------------------------------------------------------------------------------------

    def _fire(self, trigger: Trigger, now: ProcessReadings, hunted: Hunter | None = None) -> None:
        """Act. The order is that of what may be lost: the limit may be a moment away."""
        watch = self._watch
        self.fired += 1
        self._fired_at[trigger] = time.monotonic()
        self._quiet_until = time.monotonic() + self._rule.cooldown
        self._progress.notice(f"{trigger}: {readings_words(now)}")
        wall, pid = time.time(), watch.attached.target.pid
        stem = self._folder.new_stem(pid, wall)
        report = GuardReport(stem, watch.attached, trigger, wall, now, watch.history, watch.sampling, self._service)
        if watch.no_checks:
            report.notes.append(f"no snapshot: {watch.no_checks}")
        if hunted is not None:
            report.findings = hunted.found
        is_written = self._write(report) is not None
        try:
            self._wait_for_census(now, report)
            self._ring.keep_for(report, self._words)
        except BaseException:
            report.recording = report.recording or self._ring.leave()
            raise
        finally:  # also where the process exits just now, or the guard is stopped
            content = self._write(report, again=is_written)
            if content is not None:
                self._send(report, content)
        if self._captured is not None:
            self._dump_for(report, self._captured, now)
        if self._rule.hunts and hunted is None:
            self._hunt_for(report, now)

    def _write(self, report: GuardReport, *, again: bool = False) -> bytes | None:
        """Its JSON; None where it cannot be written."""
        path, counted_at = self._folder.path / report.stem, self._watch.counted_at
        report.census_age = None if counted_at is None else round(self._fired_at[report.trigger] - counted_at, 1)
        self._keep(report)
        try:
            content = self._folder.write(report, again=again)
        except OSError as error:
            self._progress.notice(f"the report {path}.json cannot be written: {error.strerror or error}")
            return None
        if not again:
            self._progress.notice(f"report {path}.json")
        return content

    def _keep(self, report: GuardReport, *more: str) -> None:
        """The report's files, and ``more``, are not removed for the quota."""
        self._folder.keep(self._ring.name, report.recording, *(f"{report.stem}.{end}" for end in ENDINGS), *more)

    def _wait_for_census(self, now: ProcessReadings, report: GuardReport) -> None:
        """A newer one, as long as there is time: at most half of what is left until the limit."""
        watch, before = self._watch, self._watch.history.latest
        seconds = min(CENSUS_SECONDS, self._time_left(now) / 2)
        end = time.monotonic() + seconds
        with self._turn_to_act(end) as is_ours:
            if not is_ours:
                report.notes.append(f"no newer census: another process was examined for {seconds:.0f} s")
                return
            self._source.census_now()
            while watch.history.latest is before:
                if time.monotonic() >= end:
                    why = f"it took more than the {seconds:.0f} s that there was time for"
                    report.notes.append(f"no newer census: {why}")
                    return
                watch.wait(0.1, self._words)

    @contextmanager
    def _turn_to_act(self, end: float) -> Iterator[bool]:
        """Whether no other guard acts now, or ends to until then; none does meanwhile. A hunt has the turn already."""
        has = self._hunts.is_on
        takes = not has and self._acting.acquire(blocking=False)
        while not has and not takes and time.monotonic() < end:
            self._watch.wait(0.1, self._words)
            takes = self._acting.acquire(blocking=False)
        try:
            yield has or takes
        finally:
            if takes:
                self._acting.release()

    def _dump_for(self, report: GuardReport, source: CapturedSource, now: ProcessReadings) -> None:
        """Write a heap dump, for a report that was sent, and send that once more."""
        name = f"{report.stem}.heapdump"
        refused = "the process exited, or the guard was stopped"
        self._keep(report, name)
        try:
            refused = self._dump(str(self._folder.path / name), source, now)
        finally:
            if refused:
                report.notes.append(f"no heap dump: {refused}")
                self._progress.notice(f"no heap dump: {refused}")
            else:
                report.dump = name
                self._progress.notice(f"heap dump {self._folder.path / name}")
            if (content := self._write(report, again=True)) is not None:
                self._send(report, content)

    def _dump(self, path: str, source: CapturedSource, now: ProcessReadings) -> str:
        """Why there is no heap dump, where there is none. What needs more memory than there is, is refused as a
        snapshot; here it is time, and room on the disk."""
        watch, latest = self._watch, self._watch.history.latest
        objects = latest.total.count if latest is not None else 0
        left = self._time_left(now)
        seconds = min(DUMP_SECONDS, left / 2)
        if watch.no_checks:
            return watch.no_checks
        if seconds < LEAST_DUMP + objects * SECONDS_AN_OBJECT:
            return f"the memory limit is expected in about {left:.0f} s"
        state = watch.sampling.state
        sampled = time.monotonic() - self._began if state is not None and state.on else 0.0
        watch.renew()
        with self._turn_to_act(time.monotonic() + CENSUS_SECONDS) as is_ours:
            if not is_ours:
                return "another process is examined"
            try:
                with DumpFile(path, make_room=self._folder.dump_room(objects)) as file:
                    write_dump(watch, source, file, "sizes", self._progress, sampled=sampled, keep=seconds)
            except OSError as error:
                return str(error.strerror or error)
            except (DumpFailed, ImageLost, ImageRefused, UnresponsiveTarget) as error:
                return error.message.rstrip(".")
            finally:
                watch.close()
        return ""

    def _send(self, report: GuardReport, content: bytes) -> None:
        rule, path = self._rule, str(self._folder.path / f"{report.stem}.json")
        if rule.webhook:
            self._sender.put(lambda: post(rule.webhook, content))
        if rule.alertmanager:
            url = rule.alertmanager.rstrip("/") + ALERTS_PATH
            body = alert(report, path, rule.cooldown)
            self._sender.put(lambda: post(url, body, "Alertmanager"))
        if rule.command:
            self._sender.put(lambda: call(rule.command, content, path, self._sender.stop))

    def _hunt_for(self, report: GuardReport, now: ProcessReadings) -> None:
        missing = self._hunts.hunt_for(report, self._time_left(now))
        if missing:
            report.notes.append(missing)
            self._write(report, again=True)

    def _complete(self, report: GuardReport, found: Findings | None) -> None:
        report.findings = found
        if (content := self._write(report, again=True)) is not None:
            self._send(report, content)

    def _judge(self, hunter: Hunter, found: Findings, now: ProcessReadings) -> None:
        """Fire where the verdict of a hunt is a leak."""
        if found.verdict in GROWING and self._may_fire:
            verdict = next(trigger for trigger in self._rule.triggers if trigger.figure == "verdict")
            self._fire(verdict, replace(now, verdict_is_leak=True), hunter)


def _times(number: int) -> str:
    return format_number(number, "time")
