"""What happened in a recording: the document of ``heaptop report --json``, which the JSON export is made from too.

It builds plain dicts, lists, strings and numbers. Times are UTC, or seconds after the recording's beginning.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from heaptop.analysis.leaks.findings_report import findings_json
from heaptop.analysis.reports.census_timeline import CensusMoment, CensusTimeline
from heaptop.analysis.reports.jumps import RecordedJump
from heaptop.analysis.reports.moments_diff import changed_json, grown
from heaptop.analysis.reports.recorded import Recorded
from heaptop.analysis.text.recorded_times import RecordedSpan, utc

if TYPE_CHECKING:
    from heaptop.documents import CourseJson, JumpJson, ReportJson

PARTS: Final = 5  # Rows of each jump


def report_json(
    before: Recorded,
    after: Recorded,
    course: CensusTimeline,
    top: int | None,
    jumps: Sequence[RecordedJump] | None = None,
) -> ReportJson:
    """The document, of a recording from its first moment to the one it was replayed to (``at``).

    ``top``: rows of a table, at most; all for None. ``jumps``: the largest; None where they were not searched for."""
    target, hello = after.target, after.hello
    pid, python = (target.pid if target is not None else 0), (hello.python if hello is not None else "")
    document: ReportJson = {
        "schema": "heaptop.report",
        "version": 1,
        "file": after.name,
        "pid": pid,
        "command": target.command if target is not None else "",
        "user": target.user if target is not None else "",
        "python": python,
        "types": [changed_json(row) for row in grown(before, after, "type", top)],
        "producers": [changed_json(row) for row in grown(before, after, "producer", top)],
        "findings": [findings_json(one, pid=pid, python=python) for one in after.findings],
        "remarks": list(after.notices),
    }
    shown = after.shown
    if shown is not None:
        span = RecordedSpan.of(shown)
        document["begin"] = utc(span.wall)
        document["end"] = utc(span.wall + span.seconds)
        document["seconds"] = span.seconds
        document["at"] = (shown.time_ns - shown.first_ns) / 1e9
        document["course"] = [point_json(point, span) for point in course.points]
        if jumps is not None:
            document["jumps"] = [jump_json(jump, span) for jump in jumps]
    return document


def jump_json(jump: RecordedJump, span: RecordedSpan) -> JumpJson:
    """When a jump was, by how much, and of what."""
    return {
        "from_seconds": (jump.begin_ns - span.first_ns) / 1e9,
        "seconds": (jump.end_ns - span.first_ns) / 1e9,
        "at_seconds": (jump.at_ns - span.first_ns) / 1e9,
        "bytes": jump.bytes,
        "rss": jump.rss,
        "types": [changed_json(row) for row in jump.grown("type", PARTS)],
        "producers": [changed_json(row) for row in jump.grown("producer", PARTS)],
    }


def point_json(point: CensusMoment, span: RecordedSpan) -> CourseJson:
    """One moment of the course."""
    return {
        "seconds": (point.time_ns - span.first_ns) / 1e9,
        "rss": point.rss,
        "count": point.total.count,
        "bytes": point.total.bytes,
    }
