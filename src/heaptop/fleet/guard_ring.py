"""The recording that a guard keeps going: what led to a report is in it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from heaptop.errors import HeaptopError
from heaptop.fleet.reports import RING, GuardReport, ReportFolder
from heaptop.protocol.source import Recordable
from heaptop.watching.progress import ProgressReport
from heaptop.watching.recording import RecordWatch

SECONDS: Final = 5.0  # For what waits to be written to a recording that is kept


class GuardRing:
    """At most one recording at a time; with each report it ends, and another one begins."""

    def __init__(
        self, watch: RecordWatch, recorder: Recordable | None, folder: ReportFolder, progress: ProgressReport
    ) -> None:
        """``recorder`` is None where the rule wants no recordings."""
        self._watch = watch
        self._recorder = recorder
        self._folder = folder
        self._progress = progress
        self.name = ""  # The file's name, without its folder; empty where nothing is recorded

    def begin(self, pid: int) -> None:
        """Record from now on. Errors: RecordingFailed, RecordingExists, OSError."""
        if self._recorder is None:
            return
        ring = self._folder.new_stem(pid, time.time()) + RING
        self._folder.keep_ring(ring)
        try:
            self._recorder.begin_recording(str(self._folder.path / ring))
        except (HeaptopError, OSError):
            self._folder.keep()
            raise
        self.name = ring

    def keep_for(self, report: GuardReport, words: Callable[[float], str]) -> None:
        """Give the recording so far to the report, and begin another one."""
        if not self.name or self._recorder is None:
            return
        watch, ring, name = self._watch, self.name, f"{report.stem}.heaptop"
        self._recorder.end_recording()
        end = time.monotonic() + SECONDS
        while watch.recording_status.on and time.monotonic() < end:
            watch.wait(0.1, words)
        status = watch.recording_status
        lost = status.error or ("the disk is too slow" if status.on else "")
        try:
            self._folder.move(ring, name)
            report.recording = name
            self._progress.notice(f"recording {self._folder.path / name}")
        except OSError as error:
            lost = lost or str(error.strerror or error)
        if lost:
            report.notes.append(f"the recording is incomplete: {lost}")
            self._progress.notice(f"the recording {ring} is incomplete: {lost}")
        self.name = ""
        try:
            self.begin(watch.attached.target.pid)
        except (HeaptopError, OSError) as error:
            self._progress.notice(f"nothing is recorded any more: {getattr(error, 'message', None) or error}")

    def leave(self) -> str:
        """End the recording, and keep it under its own name; that name, empty where there is none."""
        ring, self.name = self.name, ""
        if ring and self._recorder is not None:
            self._recorder.end_recording()
            self._progress.notice(f"its last minutes are in {self._folder.path / ring}")
        return ring

    def close(self) -> None:
        """Remove the recording that nothing was kept of."""
        if self.name:
            if self._recorder is not None:
                self._recorder.end_recording()
            self._folder.remove(self.name)
