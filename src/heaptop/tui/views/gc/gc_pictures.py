"""View 8 in words and pictures: curves over time, the phases above them, and the words below."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from heaptop.analysis.samples.gc_profile import Collection, PhaseSpan
from heaptop.analysis.text.time_words import ELAPSED, Times
from heaptop.analysis.text.units import format_bytes, format_count, format_duration_ns, format_number
from heaptop.tui.charts import curves, lanes
from heaptop.tui.charts.chart_style import ChartStyle, letter_of
from heaptop.tui.charts.curves import Curve, Scale
from heaptop.tui.charts.raster import EMPTY, INK, StyleRun, byte_axis, window_for
from heaptop.tui.state.sheet import WIDE
from heaptop.tui.text import clip
from heaptop.tui.views.gc.gc_tables import Moment, Profile

LANES: Final = 4  # Lines of phases above the chart, at most
HEAP, LIVE, ALLOCATED = range(3)  # The slots of the curves
DRAWN: Final = {"blocks": [HEAP, LIVE], "bytes": [HEAP], "allocated": [ALLOCATED]}
"""Those of each chart. What is allocated has its letter beside others too, where there is room."""


def curves_text(profile: Profile, variant: str, width: int) -> list[StyleRun]:
    """The curves by their letters, with the last value of each; in fewer words where there is no room for all."""
    wanted = [*DRAWN[variant], ALLOCATED] if width >= WIDE else DRAWN[variant]
    texts = [_last(profile, slot, variant) for slot in wanted]
    if sum(len(text) + 6 for text in texts) > width:
        texts = [_last(profile, slot, variant, short=True) for slot in wanted]
    line: list[StyleRun] = []
    for slot, text in zip(wanted, texts, strict=True):
        line += [StyleRun(f" {letter_of(slot)} ", INK, slot), StyleRun(f" {text}  ", EMPTY, EMPTY)]
    return line


def _last(profile: Profile, slot: int, variant: str, *, short: bool = False) -> str:
    if slot == ALLOCATED:
        values = profile.of("allocated", "bytes").values
        between, before = ("", "") if short else (" between collections", " before the last collection")
        if not values:
            why = "no collection since" if profile.sampled else "not sampled; key r"
            return f"allocated{between} ({why})"
        return f"allocated{before} ≈{format_bytes(values[-1])}"
    if slot == LIVE:
        values = profile.of("live", "blocks").values
        if not values:
            return f"live (no full {'GC' if short else 'collection'} yet)"
        return f"live after {'full GC' if short else 'a full collection'} {format_count(values[-1])}"
    values = profile.of("heap", variant).values
    if variant == "bytes":
        return f"RSS {format_bytes(values[-1])}" if values else "RSS (unknown)"
    return f"heap {format_count(values[-1])} blocks" if values else "heap (no tick yet)"


def collection_text(row: Collection, spans: Sequence[PhaseSpan], at: Moment, variant: str) -> list[StyleRun]:
    """The figures at one collection, those of a curve by its letter, and the phases that it fell into."""
    of_bytes = variant == "bytes"
    heap = row.rss if of_bytes else row.heap_blocks
    known = (
        (HEAP, "" if heap is None else f"RSS {format_bytes(heap)}" if of_bytes else format_count(heap)),
        (LIVE, format_count(row.live_blocks) if row.live_blocks is not None and not of_bytes else ""),
        (ALLOCATED, f"≈{format_bytes(row.allocated)}" if row.allocated is not None else ""),
    )
    line = [StyleRun(f" at {at(row.time_ns)}  ", EMPTY, EMPTY)]
    for slot, figure in known:
        if figure:
            line += [StyleRun(f" {letter_of(slot)} ", INK, slot), StyleRun(f" {figure}  ", EMPTY, EMPTY)]
    rss = f"RSS {format_bytes(row.rss)}  " if row.rss is not None and not of_bytes else ""
    inside = [span.name for span in spans if span.begin_ns <= row.time_ns and (span.open or row.time_ns <= span.end_ns)]
    return [*line, StyleRun(rss + (f"in {', '.join(inside)}" if inside else ""), EMPTY, EMPTY)]


def totals_text(profile: Profile) -> str:
    totals = profile.totals
    if not totals.collections:
        return " no collection yet"
    parts = [format_number(totals.collections, "collection")]
    if totals.per_second is not None and totals.time_share is not None:
        parts.append(f"{totals.per_second:.3g}/s")
        parts.append(f"{totals.time_share:.2%} of time")
    parts.append(f"longest {format_duration_ns(max(one.longest_ns for one in totals.generations))}")
    if totals.allocated_each is not None:
        parts.append(f"every ≈{format_bytes(round(totals.allocated_each))}")
    uncollectable = sum(one.uncollectable for one in totals.generations)
    if uncollectable:
        parts.append(f"{format_count(uncollectable)} uncollectable")
    if totals.lost:
        parts.append(f"{format_count(totals.lost)} lost")
    if profile.phases_lost:
        parts.append(f"{format_count(profile.phases_lost)} phases lost")
    return " " + " · ".join(parts)


def fit(line: list[StyleRun], width: int, look: ChartStyle) -> list[StyleRun]:
    """A line that is too long loses its end."""
    out, room = [], width
    for run in line:
        if room <= 0:
            break
        out.append(StyleRun(look.text(clip(run.text, room)), run.fg, run.bg))
        room -= len(run.text)
    return out


# -- pictures ------------------------------------------------------------------------------------------------


def draw_chart(
    profile: Profile,
    variant: str,
    origin: int,
    look: ChartStyle,
    width: int,
    height: int,
    *,
    phases: bool,
    times: Times = ELAPSED,
    gutter: int = 9,
) -> list[list[StyleRun]]:
    """The chart, and above it the phases on the same axis. ``gutter``: columns for its labels, at least."""
    spans = profile.spans if phases else ()
    above = min(1 + max((span.lane for span in spans), default=-1), LANES, max(height - 6, 0))
    drawn = _drawn_curves(profile, variant, origin)
    rows = max(height - above - 2, 1)
    peak = max((value for curve in drawn for _, value in curve.points), default=0.0)
    axis = byte_axis(peak, rows)
    y = _blocks_scale(peak, rows) if variant == "blocks" else Scale(0.0, axis.top, axis.ticks)
    gutter = max(curves.gutter_of(y), gutter)
    x = _time_scale(profile, origin, width - gutter, times)
    chart = curves.picture(drawn, x, y, width, height - above, look.ink, gutter=gutter)
    if not above or width - gutter < curves.LEAST_PLOT:
        return chart
    intervals = [
        lanes.LaneInterval(
            span.name, (span.begin_ns - origin) / 1e9, (span.end_ns - origin) / 1e9, span.lane, span.open
        )
        for span in spans
    ]
    return [*lanes.picture(intervals, x, width, above, look.ink, gutter), *chart]


def _blocks_scale(peak: float, rows: int) -> Scale:
    """The highest tick names the unit."""
    scale = curves.count_scale(peak, rows)
    *others, (value, text) = scale.ticks
    return replace(scale, ticks=(*others, (value, f"{text} blocks")))


def _time_scale(profile: Profile, origin: int, plot: int, times: Times) -> Scale:
    last = max((one.times_ns[-1] for one in profile.series if one.times_ns), default=origin)
    last = max([last, *(span.end_ns for span in profile.spans)])
    window = window_for(0.0, (last - origin) / 1e9, max(plot, 1), times)
    return Scale(window.start, window.start + window.span, window.ticks)


def _drawn_curves(profile: Profile, variant: str, origin: int) -> list[Curve]:
    wanted = {
        "blocks": [("heap", "blocks", HEAP), ("live", "blocks", LIVE)],
        "bytes": [("heap", "bytes", HEAP)],
        "allocated": [("allocated", "bytes", ALLOCATED)],
    }[variant]
    return [
        Curve(
            [((time - origin) / 1e9, float(value)) for time, value in zip(one.times_ns, one.values, strict=True)],
            slot,
            letter_of(slot),
        )
        for name, unit, slot in wanted
        if (one := profile.of(name, unit)).times_ns
    ]
