"""``heaptop record``."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING

from heaptop.cli.options import (
    add_attach_options,
    add_census_pace,
    add_recording_options,
    add_report_options,
    add_sampling_options,
    add_target,
    attach_options,
    duration,
    mark_count,
    target_pid,
)
from heaptop.cli.terminal import ProgressLine, may_replace, notice
from heaptop.protocol.text import printable

if TYPE_CHECKING:
    from heaptop.documents import RecordJson
    from heaptop.watching.recording import Recorder, RecordWatch

INTERVAL = 10.0
MARKS = 12
"""Leak checks: with intervals that double, they cover a day and a half."""


class Record:
    """Record a process's heap into a file, for `heaptop open FILE` and `heaptop report FILE`.

    It needs no terminal. It ends when the process exits, after --for, or on Ctrl+C, SIGTERM or SIGHUP (use nohup to
    log out meanwhile). The file can be read at any time, also when heaptop was killed. Now and then it checks for
    leaks, as `heaptop leaks` does: findings are in the recording, and on stderr.

    heaptop record PID -o night.heaptop --for 8h
    nohup heaptop record PID --max-size 1GiB &
    """

    name = "record"

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        add_target(parser)
        parser.add_argument(
            "--for",
            dest="seconds",
            type=duration,
            metavar="TIME",
            help="seconds, or 90m, 8h, 1h30m (default: until the process exits or you press Ctrl+C)",
        )
        add_census_pace(parser, INTERVAL, 0.05)
        parser.add_argument(
            "--marks",
            type=_marks_or_none,
            default=MARKS,
            metavar="N",
            help="number of leak checks: evenly over --for, else after 1, 3, 7 … minutes; 0: none (default "
            "%(default)s)",
        )
        add_recording_options(parser, "-o", "--output")
        add_report_options(parser)
        add_sampling_options(parser)
        add_attach_options(parser)

    def run(self, args: argparse.Namespace) -> int:
        from heaptop.analysis.samples.sampling import Sampling
        from heaptop.analysis.text.recorded_times import file_name
        from heaptop.injector.api import attach_source
        from heaptop.recordings.recordable_source import RecordableSource
        from heaptop.watching.hunting import Plan
        from heaptop.watching.recording import Recorder, RecordWatch, check_written, ended_by_signals

        pid, progress = target_pid(args), ProgressLine()
        path = args.output or file_name(pid, time.time())
        source = RecordableSource(attach_source(pid, attach_options(args)), max_size=args.max_size)
        source.begin_recording(path, force=may_replace(Path(path), force=args.force))
        plan = Plan(args.seconds or float("inf"), args.marks) if args.marks else None
        with ended_by_signals():
            watch = RecordWatch(
                source, progress, f"heaptop record {pid}", Sampling(args.user_code), timeout=args.timeout
            )
            recorder = Recorder(watch, source, progress, plan)
            with watch:
                notice(f"recording process {pid} into {path}")
                why = recorder.run(args.seconds)
        print(_result(recorder, watch, why, args), flush=True)
        check_written(path, watch.recording_status)
        return 0


def _result(recorder: Recorder, watch: RecordWatch, why: str, args: argparse.Namespace) -> str:
    """What has become of it, as two lines or JSON."""
    from heaptop.analysis.leaks.findings_report import findings_json
    from heaptop.analysis.text.units import format_bytes, format_duration_ns
    from heaptop.watching.recording import summary

    recording_status, hunter = watch.recording_status, recorder.hunter
    found = hunter.found if hunter is not None else None
    if args.json:
        document: RecordJson = {
            "schema": "heaptop.record",
            "version": 1,
            "file": recording_status.path,
            "pid": watch.attached.target.pid,
            "seconds": round(recorder.seconds, 3),
            "bytes": recording_status.bytes,
            "thinned": recording_status.thinned,
            "ended": why,
            "no_looks": watch.no_checks,
            "leaks": findings_json(found, pid=hunter.pid, python=hunter.python, top=None)
            if hunter is not None and found is not None
            else None,
        }
        return json.dumps(document, indent=2)
    lasted = format_duration_ns(round(recorder.seconds * 1e9))
    thinned = ", older ticks dropped" if recording_status.thinned else ""
    size = format_bytes(recording_status.bytes)
    line = f"recorded {lasted} of process {watch.attached.target.pid}, {size}{thinned}; {why}"
    hunted = summary(hunter) if hunter is not None else ""
    if watch.no_checks:
        hunted = f"no leak hunt: {watch.no_checks}"
    return "\n".join([printable(recording_status.path), line, *([hunted] if hunted else [])])


def _marks_or_none(text: str) -> int:
    return 0 if text == "0" else mark_count(text)
