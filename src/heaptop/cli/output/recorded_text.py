"""What ``heaptop report`` and ``heaptop diff`` print about a recording: lines and tables.

This module never opens a file and computes no figure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from heaptop.analysis.leaks.findings_report import findings_lines
from heaptop.analysis.reports.census_timeline import CensusTimeline
from heaptop.analysis.reports.jumps import RecordedJump
from heaptop.analysis.reports.moments_diff import Changed, changed_rows, grown, most_changed, total
from heaptop.analysis.reports.recorded import Recorded
from heaptop.analysis.samples.estimate import INTERVAL
from heaptop.analysis.samples.producers import NO_SITE, NO_SITE_MEANS
from heaptop.analysis.text.recorded_times import RecordedSpan
from heaptop.analysis.text.units import format_bytes, format_change, format_count, format_duration_ns
from heaptop.cli.terminal import table
from heaptop.protocol.findings import Findings
from heaptop.tui.charts.sparkline import sparkline

PARTS: Final = 2  # Types, and lines, of a jump
SPARK: Final = 32  # Columns of a line's course
_NAMES: Final = {"type": "TYPE", "module": "MODULE", "producer": "ALLOCATED AT"}


def report_lines(
    before: Recorded, after: Recorded, course: CensusTimeline, top: int | None, jumps: Sequence[RecordedJump] = ()
) -> list[str]:
    """What happened in a recording."""
    lines = [*_whose(after), "", *_course(course), *_left_out(after), ""]
    if jumps:
        lines += ["Largest jumps (live heap, RSS):", *(line for jump in jumps for line in _jump(jump)), ""]
    elif len(course.points) > 1:
        lines += ["No jumps of live heap or RSS.", ""]
    for by, title in (("type", "What grew most, by type"), ("producer", "By allocation site (estimates)")):
        rows = grown(before, after, by, top)
        if rows:
            lines += [f"{title}:", *_rows(rows, by, "AT END"), *(_beyond_heap(after) if by == "producer" else ()), ""]
    for checks in after.hunts:
        lines += [*_hunt(checks, after), ""]
    if not after.findings:
        lines += ["No leak hunt was recorded.", ""]
    return [*lines, *(after.notices or ["the recording is complete"])]


def _beyond_heap(recorded: Recorded) -> list[str]:
    """Why sites may sum to more than the live heap has grown."""
    hidden = _hidden(recorded)
    attributes = f", and attributes stored without a dict ({format_bytes(hidden)} at the end)" if hidden else ""
    reasons = f"they include what replaced memory from before the recording{attributes}"
    return [f"sites can sum to more than live heap grew: {reasons}"]


def _left_out(recorded: Recorded) -> list[str]:
    """Why leak hunts may report more growth than the live heap shows."""
    hidden = _hidden(recorded)
    words = "live heap leaves out attributes stored without a dict"
    return [f"{words} ({format_bytes(hidden)} at the end); leak hunts include them"] if hidden else []


def _hidden(recorded: Recorded) -> int:
    """Bytes of attributes stored without a dict, at the last census."""
    latest = recorded.history.latest
    return sum(cell.hidden for cell in latest.cells) if latest is not None else 0


def _whose(recorded: Recorded) -> list[str]:
    target, hello, shown = recorded.target, recorded.hello, recorded.shown
    lines = []
    if target is not None:
        python = hello.python if hello is not None else target.python
        lines.append(f"process {target.pid}: {target.command}")
        lines.append(f"Python {python}, user {target.user}")
    if shown is not None:
        span = RecordedSpan.of(shown)
        lasted = format_duration_ns(span.last_ns - span.first_ns)
        lines.append(f"{lasted}, from {span.at(span.first_ns):%Y-%m-%d %H:%M:%S} to {_end(span)}")
    return lines


def _end(span: RecordedSpan) -> str:
    """Without the day where it is the same."""
    first, last = span.at(span.first_ns), span.at(span.last_ns)
    return f"{last:%H:%M:%S}" if first.date() == last.date() else f"{last:%Y-%m-%d %H:%M:%S}"


def _course(course: CensusTimeline) -> list[str]:
    """RSS and the live heap: from, to, and how they went."""
    rss = [point.rss for point in course.points if point.rss is not None]
    heap = [point.total.bytes for point in course.points]
    lines = [_line(name, sizes) for name, sizes in (("RSS", rss), ("live heap", heap)) if sizes]
    return lines or ["No census."]


def _line(name: str, sizes: Sequence[int]) -> str:
    """Each point of the line is one of as many, evenly spread."""
    chosen = [sizes[place * (len(sizes) - 1) // (SPARK - 1)] for place in range(SPARK)] if len(sizes) > SPARK else sizes
    most = f"  at most {format_bytes(max(sizes))}" if max(sizes) > sizes[-1] else ""
    ends = f"{format_bytes(sizes[0]):>8} → {format_bytes(sizes[-1]):>8} {format_change(sizes[-1] - sizes[0]):>9}"
    return f"{name:<9} {ends}  {sparkline(chosen, len(chosen))}{most}"


def _jump(jump: RecordedJump) -> list[str]:
    """When it was, by how much; then of what, and from which lines."""
    if jump.after.shown is None:
        return []
    span = RecordedSpan.of(jump.after.shown)
    lasted = format_duration_ns(jump.end_ns - jump.begin_ns)
    rss = f", RSS {format_change(jump.rss)}" if jump.rss is not None else ""
    lines = [f"{span.clock(jump.begin_ns)} to {span.clock(jump.end_ns)}  {format_change(jump.bytes)} in {lasted}{rss}"]
    types = [f"{format_change(row.bytes)} {row.name}" for row in jump.grown("type", PARTS)]
    lived = jump.grown("producer", PARTS)
    sites = [f"{format_change(row.bytes)} ±{format_bytes(row.error)} {row.name}" for row in lived]
    lines += [f"          of which {', '.join(types)}"] if types else []
    lines += [f"          allocated at {'; '.join(sites)}"] if sites else []
    return lines


def _rows(rows: Sequence[Changed], by: str, later: str) -> list[str]:
    """``later``: what the headings call the second moment."""
    unit = "BLOCKS" if by == "producer" else "OBJECTS"
    errors = any(row.error for row in rows)
    header = ("GROWN", *(("±",) if errors else ()), unit, f"SIZE {later}", f"{unit} {later}", _NAMES[by])
    cells = []
    for row in rows:
        error = (format_bytes(row.error) if row.error else "",) if errors else ()
        figures = (format_change(row.count, bytes_=False), format_bytes(row.after.bytes), format_count(row.after.count))
        cells.append((format_change(row.bytes), *error, *figures, f"{row.name}{_new_or_gone(row, by, later)}"))
    return table(header, cells, left=frozenset({len(header) - 1}))


def _new_or_gone(row: Changed, by: str, later: str) -> str:
    """What a difference adds to a name. Blocks without a sample may still exist."""
    if by == "producer" or later != "AFTER" or (row.before.count and row.after.count):
        return ""
    return " (gone)" if row.before.count else " (new)"


def _hunt(checks: Sequence[Findings], recorded: Recorded) -> list[str]:
    """The last look in full, and how the verdict came about."""
    found = checks[-1]
    when = f" at {RecordedSpan.of(recorded.shown).clock(found.time_ns)}" if recorded.shown is not None else ""
    without = replace(found, growths=())  # what grew over the whole recording is printed above
    lines = [f"Leak hunt{when}, since the first mark ({found.marks[0].name}):", *findings_lines(without)]
    if len(checks) > 1:
        verdicts = Counter(look.verdict for look in checks[:-1])
        said = ", ".join(f"{verdict} ({number})" for verdict, number in verdicts.items())
        lines.append(f"earlier verdicts: {said}")
    return lines


# -- differences ---------------------------------------------------------------------------------------------


def diff_lines(before: Recorded, after: Recorded, by: str, top: int | None) -> list[str]:
    """What changed between two moments, what grew most first; at most ``top`` rows, those that changed most."""
    rows = [row for row in changed_rows(before, after, by) if row.bytes or row.count]
    shown = most_changed(rows, top)
    whole = total(rows)
    lines = [f"before  {_moment(before)}", f"after   {_moment(after)}", ""]
    lines += _rows(shown, by, "AFTER") if rows else ["Nothing changed."]
    if len(rows) > len(shown):
        left = [row for row in rows if row not in shown]
        shrunk = sum(row.bytes < 0 for row in left)
        lines.append(f"({len(left)} more, {shrunk} of them shrank)" if shrunk else f"({len(left)} more)")
    units = "blocks" if by == "producer" else "objects"
    lines += ["", f"total {format_change(whole.bytes)}, {format_change(whole.count, bytes_=False)} {units}"]
    if any(row.error for row in rows):
        lines.append(f"estimates: ± is the larger side of the {INTERVAL}. Not included: {NO_SITE}, {NO_SITE_MEANS}")
    for recorded in (before, after) if before.name != after.name else (after,):
        lines += [f"{recorded.name}: {notice}" for notice in recorded.notices]
    return lines


def _moment(recorded: Recorded) -> str:
    shown, latest = recorded.shown, recorded.history.latest
    words = [recorded.name]
    if shown is not None:
        passed = shown.time_ns - shown.first_ns
        after = format_duration_ns(passed) if passed else "0 s"
        words.append(f"{RecordedSpan.of(shown).at(shown.time_ns):%Y-%m-%d %H:%M:%S} (+{after})")
    if recorded.rss is not None:
        words.append(f"RSS {format_bytes(recorded.rss)}")
    if latest is not None:
        words.append(f"live heap {format_bytes(latest.total.bytes)} in {format_count(latest.total.count)} objects")
        words += [f"partial: {latest.census.cut}"] if latest.census.cut else []
    else:
        words.append("no census by then")
    return ", ".join(words)
