"""Native allocation sites in view 2: which rows pass the filter, their table, and the stack of one.

Figures are :mod:`heaptop.analysis.rss.malloc_sites`' of what the kernel and the preloaded library reported last.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from rich.style import Style

from heaptop.analysis.filters.filters import Filter
from heaptop.analysis.filters.predicates import FilterFigures
from heaptop.analysis.rss.malloc_sites import NativeGroup, by_site, notes
from heaptop.analysis.samples.estimate import INTERVAL
from heaptop.analysis.samples.producers import Frame
from heaptop.analysis.text.units import filtered_words, format_bytes, format_count
from heaptop.protocol.messages import MallocFrame, MallocSites
from heaptop.protocol.text import printable
from heaptop.tui.charts.chart_style import ChartStyle
from heaptop.tui.charts.sparkline import meter
from heaptop.tui.state.session import Display
from heaptop.tui.state.sheet import WIDE, CellText, Column, Sheet
from heaptop.tui.views.producers.producer_sheets import StackLine, span, spread

FIELDS: Final = ("site", "size")  # What a filter can ask of native memory: it has no type
SORTS: Final[Mapping[str, Callable[[NativeGroup], object]]] = {
    "name": lambda row: row.line,
    "caller": lambda row: row.caller,
    "live": lambda row: row.estimate.bytes,
    "error": lambda row: row.estimate.error / (row.estimate.bytes or 1),
    "samples": lambda row: row.estimate.samples,
}
_NARROW: Final = (
    Column("name", "Python line", 0, right=False, keep_tail=True),
    Column("caller", "Called by", 26, right=False, rank=2),
    Column("live", "≈Live", 9, rank=9),
    Column("error", "±", 5, rank=8),
    Column("share", "≈Share", 7, rank=3),
)


def row_key(row: NativeGroup) -> str:
    return f"{row.line} {row.library} {row.largest.symbol}"


def native_rows(found: MallocSites | None, where: Filter, column: str, descending: bool) -> list[NativeGroup]:
    """The sites that pass the filter, sorted."""
    rows = [row for row in by_site(found) if _passes(row, where)] if found is not None else []
    return sorted(rows, key=SORTS[column], reverse=descending)  # type: ignore[arg-type]


def _passes(row: NativeGroup, where: Filter) -> bool:
    names = (f"{row.line} {row.caller}", row.line, row.caller, row.library)
    found = where.given(lambda attribute: names if attribute == "site" else ())
    return found if isinstance(found, bool) else found(FilterFigures(row.estimate.bytes, row.estimate.count))


def native_sheet(
    rows: Sequence[NativeGroup], look: ChartStyle, width: int, sort: str, descending: bool, nothing: str
) -> Sheet[NativeGroup]:
    """Lines and libraries with what they hold."""
    columns = _columns(width)
    total = sum(row.estimate.bytes for row in rows)
    largest = max((row.estimate.bytes for row in rows), default=0)

    def draw(row: NativeGroup) -> list[CellText]:
        live = row.estimate.bytes
        cells = {
            "name": CellText(printable(row.line), Style(dim=row.frame is None)),
            "caller": CellText(printable(row.caller)),
            "live": CellText(format_bytes(live)),
            "error": CellText(spread(row.estimate)),
            "range": CellText("" if row.estimate.exact else span(row.estimate), Style(dim=True)),
            "share": CellText(f"{live / (total or 1):.1%}"),
            "bar": CellText(
                meter(live / (largest or 1), width // 12, ascii_only=look.ascii_only),
                Style.parse(look.palette.band(0)),
            ),
            "samples": CellText(format_count(row.estimate.samples)),
        }
        return [cells[column.key] for column in columns]

    return Sheet(
        columns=columns,
        rows=rows,
        key=row_key,
        draw=draw,
        look=look,
        sort=sort,
        descending=descending,
        nothing=nothing,
        exact=_EXACT,
    )


def _columns(width: int) -> tuple[Column, ...]:
    if width < WIDE:
        return _NARROW
    name, caller, live, error, share = _NARROW
    return (
        name, replace(caller, width=40, rank=7), live, error,
        Column("range", INTERVAL, 23), share, Column("bar", "", width // 12, right=False),
        Column("samples", "Samples", 8),
    )  # fmt: skip


_EXACT: Final[Sequence[tuple[str, Callable[[NativeGroup], str | int]]]] = (
    ("file", lambda row: row.frame.file if row.frame is not None else ""),
    ("line", lambda row: row.frame.line if row.frame is not None else ""),
    ("function", lambda row: row.frame.function if row.frame is not None else ""),
    ("library", lambda row: row.library),
    ("live_bytes", lambda row: row.estimate.bytes),
    ("live_bytes_low", lambda row: row.estimate.low),
    ("live_bytes_high", lambda row: row.estimate.high),
    ("samples", lambda row: row.estimate.samples),
)


def native_stack(row: NativeGroup) -> list[StackLine]:
    """The call in the library, and the frames above it; of sites that differ only further out, of the largest."""
    live = f"{format_bytes(row.estimate.bytes)} {spread(row.estimate)} live"
    lines = [StackLine("call", f"Called by {printable(row.caller)}: {live}")]
    frames = [*map(_frame, row.largest.stack)]
    lines += [StackLine(str(place), f"    {frame.label}", frame) for place, frame in enumerate(frames)]
    return lines if frames else [*lines, StackLine("none", f"    ({row.no_stack})")]


def _frame(found: MallocFrame) -> Frame:
    return Frame(found.file, printable(found.file), found.line, printable(found.function), "", is_user=True)


# -- words -----------------------------------------------------------------------------------------------------------


def filtered_native(found: MallocSites | None, shown: Sequence[NativeGroup]) -> str:
    """How many sites the filter hides."""
    return filtered_words(len(by_site(found)) - len(shown) if found is not None else 0)


def nothing_native(display: Display, where: Filter) -> str:
    """Why there is no row."""
    if display.native_sites is not None:
        return f"Nothing matches {where}." if where else "No sampled block of native memory is live."
    if display.memory.unsaid:
        return "The kernel does not report this process's memory: native samples cannot be read."
    if display.memory.latest is None:
        return "Waiting for figures of native memory."
    return "No native samples: their table could not be read, or the program has replaced itself."


def native_notes(display: Display) -> Sequence[str]:
    """What must be known of all figures."""
    return [*notes(display.native_sites)] if display.native_sites is not None else []


def native_note(display: Display) -> str:
    """The first of these, and how many more there are."""
    said = native_notes(display)
    return said[0] + (f" ({len(said) - 1} more, press ?)" if len(said) > 1 else "") if said else ""


def native_age_ns(display: Display) -> int:
    latest = display.memory.latest
    return max(display.now_ns - latest.memory.time_ns, 0) if latest is not None else 0
