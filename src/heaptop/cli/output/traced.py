"""Prints the allocation sites of live memory, from tracemalloc: ``heaptop census --by producer --tracemalloc``.

This module never reads the command line and never attaches by itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from heaptop.analysis.filters.filters import Filter
from heaptop.analysis.reports.sampled_report import ReportRow
from heaptop.analysis.samples.estimate import Estimate
from heaptop.analysis.samples.sampling import Sampling
from heaptop.analysis.samples.tracing import TELLS_NOT
from heaptop.analysis.text.units import format_bytes, format_count
from heaptop.cli.counting import census_notices
from heaptop.cli.terminal import table
from heaptop.watching.source_watch import CensusResult


def traced_lines(
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
    lines = table(("OBJECTS", "LIVE", title.upper()), [(*_figures(row.live), row.name) for row in rows], left=_LAST)
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


_LAST = frozenset({2})


def _figures(live: Estimate) -> tuple[str, str]:
    return format_count(live.count) if live.samples else "", format_bytes(live.bytes)
