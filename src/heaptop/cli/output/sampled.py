"""Prints what sampling for some time found, or tracemalloc: ``heaptop census --by producer`` and its like."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from heaptop.analysis.filters.filters import Filter
from heaptop.analysis.reports.sampled_report import REPORTS, ReportRow, report_filtered, report_json, report_rows
from heaptop.analysis.samples.estimate import INTERVAL, Estimate
from heaptop.analysis.samples.producers import NO_SITE, NO_SITE_MEANS
from heaptop.analysis.samples.sampling import NEVER_SAMPLED, Sampling
from heaptop.analysis.samples.tracing import TELLS_NOT
from heaptop.analysis.text.units import filtered_words, format_bytes, format_count
from heaptop.cli.counting import census_notices
from heaptop.cli.terminal import table
from heaptop.tui.charts.marks import about_bytes, estimate_text
from heaptop.tui.state.sampling_words import rate_text
from heaptop.watching.source_watch import CensusResult

if TYPE_CHECKING:
    from heaptop.documents import SampledJson


def sampled_json(
    taken: CensusResult, sampling: Sampling, by: str, where: Filter, seconds: float, top: int | None
) -> SampledJson:
    """The document of ``--json``, with at most ``top`` rows (all for None)."""
    target, hello = taken.attached.target, taken.attached.hello
    rows = _rows(taken, sampling, by, where)
    return report_json(
        by,
        rows,
        sampling,
        taken.record,
        pid=target.pid,
        python=hello.python,
        where=where,
        seconds=seconds,
        top=top,
    )


def sampled_lines(
    taken: CensusResult, sampling: Sampling, by: str, where: Filter, seconds: float, top: int | None
) -> list[str]:
    """A table of at most ``top`` rows (all for None) and that of what has no site, and what the figures are worth."""
    report = REPORTS[by]
    # What nobody is named for stands last, however many are left out: it is often most of the heap.
    rows = _rows(taken, sampling, by, where)
    sites = [row for row in rows if row.name != NO_SITE]
    shown = [*sites[:top], *(row for row in rows if row.name == NO_SITE)]
    hidden, out = report_filtered(by, rows, sampling, taken.record, where)
    filtered = filtered_words(hidden, out, about="" if sampling.samples.is_traced else "≈")
    if sampling.samples.is_traced:
        return _traced_lines(taken, sampling, shown, len(rows), report.title, where, filtered, seconds)
    flow = ("allocated", "freed") if report.allocated and where.lifetime is None else ()
    size = "LIVE" if report.alive else "BYTES"
    header = (*map(str.upper, flow), "BLOCKS", size, INTERVAL.upper(), "SAMPLES", report.title.upper())
    cells = [(*(_flow(row, name) for name in flow), *_figures(row.live), row.name) for row in shown]
    lines = table(header, cells, left=frozenset({len(header) - 1}))
    if len(rows) > len(shown):
        lines.append(f"({len(rows) - len(shown)} more)")
    return [*lines, "", *_notices(taken, sampling, where, filtered, seconds)]


def _traced_lines(
    taken: CensusResult,
    sampling: Sampling,
    rows: Sequence[ReportRow],
    number: int,
    title: str,
    where: Filter,
    filtered: str,
    seconds: float,
) -> list[str]:
    """A table of these rows out of ``number``, and what the figures are worth."""
    cells = [
        (format_count(row.live.count) if row.live.samples else "", format_bytes(row.live.bytes), row.name)
        for row in rows
    ]
    lines = table(("OBJECTS", "LIVE", title.upper()), cells, left=frozenset({2}))
    if number > len(rows):
        lines.append(f"({number - len(rows)} more)")
    state = sampling.state
    frames = state.depth if state else 0
    notices = [
        *census_notices(taken, where, 0, filtered),
        f"traced by tracemalloc for {seconds:g} s, at most {frames} frames per stack: files and lines only",
        f"live objects allocated since then; {TELLS_NOT}",
    ]
    return [*lines, "", *notices]


def _rows(taken: CensusResult, sampling: Sampling, by: str, where: Filter) -> list[ReportRow]:
    return report_rows(by, sampling, taken.record, where)


def _flow(row: ReportRow, name: str) -> str:
    size, low, high = (row.more[f"{name}_{part}"] for part in ("bytes", "low", "high"))
    if size is None:
        return "unknown"
    return format_bytes(size) if size and low == high else about_bytes(size)


def _figures(live: Estimate) -> tuple[str, str, str, str]:
    interval = "" if live.exact else f"{format_bytes(live.low)} – {format_bytes(live.high)}"
    if not live.samples:
        return "", estimate_text(live), interval, ""
    return estimate_text(live, blocks=True), estimate_text(live), interval, format_count(live.samples)


def _notices(taken: CensusResult, sampling: Sampling, where: Filter, filtered: str, seconds: float) -> list[str]:
    state = sampling.state
    notices = census_notices(taken, where, 0, filtered)
    allocated = format_bytes(sampling.timeline.latest)
    every = " to ".join(rate_text(interval) for interval in sampling.samples.intervals) or "?"
    notices.append(f"sampled for {seconds:g} s: sampling interval {every}, {allocated} allocated")
    notices.append(f"estimates with {INTERVAL}s; {NO_SITE}: {NO_SITE_MEANS}")
    notices.append(f"not sampled: {NEVER_SAMPLED}")
    if state and state.approximate:
        notices.append(f"estimated: sites of {', '.join(state.approximate)}, which free lists reuse")
    if sampling.samples.dropped:
        notices.append(f"partial: {format_count(sampling.samples.dropped)} samples were lost")
    return notices
