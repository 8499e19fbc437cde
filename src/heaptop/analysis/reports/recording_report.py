"""What happened in a recording: the document of ``heaptop report --json``, which the JSON export is made from too.

This module never prints and never serializes: it builds plain dicts, lists, strings and numbers. Times are UTC, or
seconds after the recording's beginning.
"""

from __future__ import annotations

from typing import Any

from heaptop.analysis.leaks.findings_report import findings_json
from heaptop.analysis.reports.census_timeline import CensusMoment, CensusTimeline
from heaptop.analysis.reports.moments_diff import Changed, changed_json, changed_rows
from heaptop.analysis.reports.recorded import Recorded
from heaptop.analysis.text.recorded_times import RecordedSpan, utc


def grown(before: Recorded, after: Recorded, by: str, top: int | None) -> list[Changed]:
    """What grew most, at most ``top`` rows (all for None). By producer only what grew by more than it may be wrong."""
    rows = changed_rows(before, after, by)
    return [row for row in rows if row.bytes > row.error][:top]


def report_json(before: Recorded, after: Recorded, course: CensusTimeline, top: int | None) -> dict[str, Any]:
    """The document, of a recording from its first moment to the one it was played to (``at``).

    ``top``: rows of a table, at most; all for None."""
    target, hello = after.target, after.hello
    pid, python = (target.pid if target is not None else 0), (hello.python if hello is not None else "")
    document: dict[str, Any] = {
        "file": after.name,
        "pid": pid,
        "command": target.command if target is not None else "",
        "user": target.user if target is not None else "",
        "python": python,
    }
    shown = after.shown
    if shown is not None:
        span = RecordedSpan.of(shown)
        document["begin"] = utc(span.wall)
        document["end"] = utc(span.wall + span.seconds)
        document["seconds"] = span.seconds
        document["at"] = (shown.time_ns - shown.first_ns) / 1e9
        document["course"] = [point_json(point, span) for point in course.points]
    document["types"] = [changed_json(row) for row in grown(before, after, "type", top)]
    document["producers"] = [changed_json(row) for row in grown(before, after, "producer", top)]
    document["findings"] = [findings_json(one, pid=pid, python=python) for one in after.findings]
    document["remarks"] = list(after.notices)
    return document


def point_json(point: CensusMoment, span: RecordedSpan) -> dict[str, Any]:
    """One moment of the course."""
    return {
        "seconds": (point.time_ns - span.first_ns) / 1e9,
        "rss": point.rss,
        "count": point.total.count,
        "bytes": point.total.bytes,
    }
