"""What the guard writes: a report as JSON and as text, in a folder with a quota.

A report has names of types, files and functions, sizes and counts. It has no value of any object, and no argument of
the program.
"""

from __future__ import annotations

import json
import os
import re
import socket
import stat
import threading
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from heaptop import __version__, files
from heaptop.analysis.bands.census_growth import CountedGrowth, growth_since
from heaptop.analysis.bands.report import census_json, census_rows
from heaptop.analysis.bands.series import SeriesCache
from heaptop.analysis.filters.filters import EVERYTHING
from heaptop.analysis.heap.history import History
from heaptop.analysis.leaks.findings_report import findings_json, findings_lines
from heaptop.analysis.reports.sampled_report import ReportRow, report_rows
from heaptop.analysis.samples.producers import NO_SITE
from heaptop.analysis.samples.sampling import Sampling
from heaptop.analysis.text.recorded_times import utc
from heaptop.analysis.text.units import format_bytes, format_change, format_count, format_duration_ns
from heaptop.errors import SaveFailed
from heaptop.fleet.triggers import ProcessReadings, Trigger, readings_words
from heaptop.protocol.findings import Findings
from heaptop.protocol.source import Attached
from heaptop.protocol.text import printable

if TYPE_CHECKING:
    from heaptop.documents import GuardJson, ReadingsJson

ROWS: Final = 20  # Of each table
RING: Final = "-ring.heaptop"  # The end of the name of a running recording
LEAST_RING: Final = 1 << 20
LARGEST_RING: Final = 64 << 20
RINGS_PART: Final = 4  # One part in so many of the quota is for running recordings
DUMP_PART: Final = 2  # One part in so many of the quota, and of what the disk has free, is for a heap dump
REPORTS_ROOM: Final = 1 << 20  # Bytes of the quota that a heap dump leaves to reports
LEAST_DUMPED: Final = 1.5  # Bytes of a heap dump for each object, at least: of very regular heaps
_OURS: Final = re.compile(
    r"guard-\d+-\d{8}-\d{6}(-\d+)?(-ring)?\.(json|txt|heapdump|heaptop(\.thinner)?)(\.[0-9a-f]{8}\.new)?"
)


@dataclass(slots=True)
class GuardReport:
    """One firing of a trigger. It is written at once from what is known, and again when more is."""

    stem: str  # The first part of its files' names
    attached: Attached
    trigger: Trigger
    wall: float  # Seconds since 1970 at which the trigger fired
    readings: ProcessReadings
    history: History
    sampling: Sampling
    service: str = ""  # That the process belongs to; empty where it is guarded by itself
    census_age: float | None = None
    """Seconds from the last census to the trigger, as they came; below 0: it came after it."""
    findings: Findings | None = None  # Of the leak hunt
    recording: str = ""  # The file's name
    dump: str = ""  # The file's name
    notes: list[str] = field(default_factory=list)
    """What was refused, or left out, and why: sentences without their full stops."""

    def document(self) -> GuardJson:
        """For JSON."""
        pid, python = self.attached.target.pid, self.attached.hello.python
        latest, growth = self.history.latest, self._growth()
        return {
            "schema": "heaptop.guard",
            "version": 1,
            "heaptop": __version__,
            "time": utc(self.wall),
            "host": socket.gethostname(),
            "service": self.service or None,
            "pid": pid,
            "python": python,
            "trigger": str(self.trigger),
            "readings": cast("ReadingsJson", {**asdict(self.readings), "seconds_left": self.readings.seconds_left}),
            "notes": self._all_notes,
            "census_age_seconds": self.census_age,
            "census": None if latest is None else census_json(latest, pid=pid, python=python, top=ROWS),
            "grown": [{"name": row.name, "count": row.count, "bytes": row.bytes} for row in growth[:ROWS]],
            "grown_seconds": self._growth_seconds,
            "allocated_at": [
                {"name": row.name, "bytes": row.live.bytes, "low": row.live.low, "high": row.live.high}
                for row in self._sites()
            ],
            "leaks": None if self.findings is None else findings_json(self.findings, pid=pid, python=python, top=ROWS),
            "recording": self.recording or None,
            "dump": self.dump or None,
        }

    def lines(self) -> list[str]:
        """For a person."""
        target, when = self.attached.target, datetime.fromtimestamp(self.wall).astimezone()
        of_service = f" of {self.service}" if self.service else ""
        lines = [
            f"{when:%Y-%m-%d %H:%M:%S %z}: {self.trigger}",
            f"process {target.pid}{of_service}, Python {self.attached.hello.python}, on {socket.gethostname()}",
            readings_words(self.readings) or "memory: not known",
            *(f"note: {note}" for note in self._all_notes),
            *([f"recording: {self.recording}"] if self.recording else []),
            *([f"heap dump: {self.dump}"] if self.dump else []),
            "",
            *(["Leak hunt", *findings_lines(self.findings), ""] if self.findings is not None else []),
            *self._census_lines(),
        ]
        sites = [
            (f"≈{format_bytes(live.bytes)}", f"{format_bytes(live.low)} to {format_bytes(live.high)}", name)
            for name, live in [(row.name, row.live) for row in self._sites()]
        ]
        if sites:
            lines += ["", "Live bytes by site, since the attach (estimated, 95 % interval):", *_columns(sites)]
        return [printable(line) for line in lines]

    @property
    def _all_notes(self) -> list[str]:
        state = self.sampling.state
        if state is not None and state.on:
            return self.notes
        why = state.text if state is not None else "allocations are not sampled"
        return [*self.notes, f"no allocation sites: {why}"]

    def _census_lines(self) -> list[str]:
        latest = self.history.latest
        if latest is None:
            return ["no census yet"]
        mode = f"mode {latest.census.mode}" + (f", {latest.census.mode_reason}" if latest.census.mode_reason else "")
        worth = "" if latest.census.complete else f"; partial: {latest.census.cut}"
        worth += "; estimated: the heap changed meanwhile" if latest.census.mode == "python" else ""
        age = ""
        if self.census_age is not None and abs(self.census_age) >= 0.5:
            age = f", {abs(self.census_age):.0f} s {'before' if self.census_age > 0 else 'after'} the trigger"
        rows = [(format_bytes(row.bytes), format_count(row.count or 0), row.name) for row in census_rows(latest)[:ROWS]]
        lines = [f"Live objects by type ({mode}{age}{worth}):", *_columns(rows)]
        grown = [row for row in self._growth() if row.bytes > 0][:ROWS]
        if grown:
            seconds = format_duration_ns(round(self._growth_seconds * 1e9))
            rows = [(format_change(row.bytes), format_change(row.count, bytes_=False), row.name) for row in grown]
            lines += ["", f"Grown in {seconds}, from the first census to the last, by type:", *_columns(rows)]
        return lines

    def _growth(self) -> Sequence[CountedGrowth]:
        return growth_since(self.history.records, 0, "type", EVERYTHING, SeriesCache()).rows

    @property
    def _growth_seconds(self) -> float:
        records = self.history.records
        return (records[-1].time_ns - records[0].time_ns) / 1e9 if records else 0.0

    def _sites(self) -> list[ReportRow]:
        latest = self.history.latest
        if latest is None or self.sampling.state is None:
            return []
        rows = [row for row in report_rows("producer", self.sampling, latest) if row.name != NO_SITE]
        return rows[:ROWS]


def _columns(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Figures flush right, the name last."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)][:-1]
    return [
        "  ".join([*(cell.rjust(width) for cell, width in zip(row[:-1], widths, strict=True)), row[-1]]) for row in rows
    ]


class ReportFolder:
    """A folder for the files of guards. What is there and is no file of a guard's is never touched."""

    def __init__(self, path: Path, quota: int, guards: int = 1) -> None:
        """``quota`` in bytes: the oldest files of guards are removed for a new one. A running recording counts as
        large as it may get. ``guards``: how many write to it at the same time, each by its :meth:`share`.

        Raises:
            SaveFailed: it cannot be made, or others may write to it.
        """
        self.path = path
        self.quota = quota
        self.ring_size = _ring_size(quota, guards)  # Bytes of a recording
        self._kept: set[str] = set()  # Names that are not removed: of this firing, and of the running recording
        self._sharers = [self]  # All guards that share the folder
        self._lock = threading.RLock()  # Of these, and while room is made
        try:
            files.private_folder(path)
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            raise SaveFailed(
                f"{path} cannot be the folder for reports: {why}.",
                why="It must be a folder of yours that no other user can write to. Nothing was attached to.",
                fix="Choose another one: `--dir DIR`.",
            ) from None

    def resize(self, quota: int, guards: int) -> None:
        """Another quota, for all guards. The size of a recording, for those that share the folder from now on."""
        with self._lock:
            for each in self._sharers:
                each.quota = quota
            self.ring_size = _ring_size(quota, guards)

    def share(self) -> ReportFolder:
        """The same folder for one more guard, with names of its own to keep: `leave` ends that."""
        with self._lock:
            other = copy(self)
            other._kept = set()
            self._sharers.append(other)
        return other

    def leave(self) -> None:
        """Keep nothing any more."""
        with self._lock:
            self._sharers[:] = [each for each in self._sharers if each is not self]

    def new_stem(self, pid: int, wall: float) -> str:
        """The first part of the names of files that are not there yet: ``guard-4711-20261122-041200``."""
        stem = f"guard-{pid}-{datetime.fromtimestamp(wall):%Y%m%d-%H%M%S}"
        there: list[str] = []
        with suppress(OSError):  # without the folder no file can be written: who writes reports that
            there = os.listdir(self.path)
        taken = {name.partition(".")[0].removesuffix("-ring") for name in there}
        number = 1
        while (name := stem if number == 1 else f"{stem}-{number}") in taken:
            number += 1
        return name

    def keep(self, *names: str) -> None:
        """Only these are not removed for the quota from now on."""
        with self._lock:
            self._kept.clear()
            self._kept.update(names)

    def keep_ring(self, name: str) -> None:
        """Keep only this from now on, a running recording: there is room for it, as large as it may get. Errors:
        OSError, also where all running ones would leave too little room for reports."""
        with self._lock:
            rings = [each.ring_size for each in self._sharers if each is not self and each._has_ring]
            if sum(rings) + self.ring_size > self.quota // RINGS_PART:
                many = f"{len(rings) + 1} recordings of {format_bytes(self.ring_size)}"
                quota = format_bytes(self.quota)
                raise OSError(f"the quota of {quota}, of which they have a quarter, is too small for {many}")
            self.make_room(self.ring_size)
            self._kept.clear()
            self._kept.add(name)

    def dump_room(self, objects: int) -> Callable[[int], None]:
        """Makes room for a heap dump of so many objects, as it grows: its file is one that is kept. Errors, of both:
        OSError, where it takes more than its part of the quota and of the disk, or leaves reports too little."""
        disk = os.statvfs(self.path)
        left = most = min(self.quota, disk.f_bavail * disk.f_frsize) // DUMP_PART
        small = OSError(f"{format_bytes(most)}, half of the quota or of what is free on the disk, is too little")
        if objects * LEAST_DUMPED > most:
            raise small

        def make_room(more: int) -> None:
            nonlocal left
            left -= more
            if left < 0:
                raise small
            self.make_room(more + REPORTS_ROOM)

        return make_room

    @property
    def _has_ring(self) -> bool:
        return any(name.endswith(RING) for name in self._kept)

    def write(self, report: GuardReport, *, again: bool = False) -> bytes:
        """Write a report to new files, or ``again`` with more; its JSON. Errors: OSError."""
        content = json.dumps(report.document(), indent=2).encode()
        text = "\n".join([*report.lines(), ""]).encode(errors="replace")
        self.make_room(len(content) + len(text), replaced={f"{report.stem}.json", f"{report.stem}.txt"})
        files.write(str(self.path / f"{report.stem}.json"), content, force=again)
        files.write(str(self.path / f"{report.stem}.txt"), text, force=again)
        return content

    def move(self, old: str, new: str) -> None:
        """Rename a file to a name that is not there. Errors: OSError."""
        if os.path.lexists(self.path / new):
            raise FileExistsError(f"{new} exists already")
        files.rename(str(self.path / old), str(self.path / new))

    def remove(self, name: str) -> None:
        """Remove a file; no effect where there is none."""
        with suppress(FileNotFoundError):
            files.remove(str(self.path / name))

    def make_room(self, size: int, replaced: Collection[str] = ()) -> None:
        """Remove the oldest files of guards until there is so much room within the quota, beside those that are
        ``replaced``. Errors: OSError."""
        with self._lock:
            kept, old = self._files(replaced)
            kept += size
            if kept > self.quota:
                raise OSError(f"the quota of {format_bytes(self.quota)} is too small")
            used = kept + sum(length for _, _, length in old)
            for _, name, length in old:
                if used > self.quota:
                    self.remove(name)
                    used -= length

    def _files(self, replaced: Collection[str]) -> tuple[int, list[tuple[int, str, int]]]:
        """Bytes of those that are kept; time, name and size of the others, the oldest first."""
        kept, old = 0, []
        for name in os.listdir(self.path):
            try:
                status = os.lstat(self.path / name)
            except FileNotFoundError:
                continue  # renamed or removed just now, as another guard does
            if not _OURS.fullmatch(name) or not stat.S_ISREG(status.st_mode) or name in replaced:
                continue
            if (keeper := self._keeper(name)) is None:
                old.append((status.st_mtime_ns, name, status.st_size))
            else:
                kept += keeper.ring_size if name.endswith(RING) else status.st_size
        return kept, sorted(old)

    def _keeper(self, name: str) -> ReportFolder | None:
        """The guard that keeps the file, also where a running recording is rewritten to it."""
        return next((each for each in self._sharers if name.removesuffix(".thinner") in each._kept), None)


def _ring_size(quota: int, guards: int) -> int:
    return max(LEAST_RING, min(LARGEST_RING, quota // RINGS_PART // guards))
