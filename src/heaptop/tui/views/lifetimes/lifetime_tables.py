"""The tables of view 6: which rows pass the filter, their order, and what they look like."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from rich.style import Style

from heaptop.analysis.filters.filters import Filter
from heaptop.analysis.lifetimes.lifetime_table import MARKS, LifetimeGroup, LifetimeTable
from heaptop.analysis.samples.clock import size_label
from heaptop.analysis.samples.moments import SiteCell
from heaptop.analysis.samples.sampling import GROUPS, Sampling
from heaptop.analysis.text.units import format_bytes, format_count, format_duration_ns
from heaptop.protocol.messages import TypeName
from heaptop.tui.charts.chart_style import ChartStyle, letter_of
from heaptop.tui.charts.marks import NONE
from heaptop.tui.charts.sparkline import sparkline
from heaptop.tui.state.sheet import ALWAYS, CellText, Column
from heaptop.tui.views.lifetimes.lifetime_pictures import BandRow, band_name, percent, shape

TITLES: Final = {"type": "Type", "site": "Site", "size": "Block size"}
SORTED: Final = 300  # Groups whose curves are made to sort by them; the others have fewer samples, and come last
MARK_COLUMNS: Final = tuple(f"at{mark}" for mark in MARKS)
BY_CURVE: Final = ("median", *MARK_COLUMNS)
_NUMBERS: Final[dict[str, Callable[[LifetimeGroup], int]]] = {
    "dead": lambda group: group.deaths,
    "alive": lambda group: group.alive,
    "dead_bytes": lambda group: group.died_bytes,
    "alive_bytes": lambda group: group.alive_bytes,
}
_BAND_NUMBERS: Final[dict[str, Callable[[BandRow], float]]] = {
    "mean": lambda row: row.mean,
    "share": lambda row: row.share,
    "peak": lambda row: max(row.band.bytes, default=0),
    "now": lambda row: row.band.bytes[-1] if row.band.bytes else 0,
}


def sort_columns(key: str) -> list[str]:
    """The columns that rows can be sorted by."""
    return ["name", "dead", "alive", "median", *MARK_COLUMNS] if key in GROUPS else [*_BAND_NUMBERS]


def passing(
    groups: Sequence[LifetimeGroup], key: str, where: Filter, sampling: Sampling | None
) -> Sequence[LifetimeGroup]:
    """Those that the filter lets through."""
    if not where:
        return groups
    names = {name.full: name for name in sampling.samples.types} if sampling is not None else {}
    return [group for group in groups if where.matches(_cell(key, group, names))]


def _cell(key: str, group: LifetimeGroup, names: dict[str, TypeName]) -> SiteCell:
    kind = names.get(group.name, TypeName("", group.name)) if key == "type" else TypeName("", "")
    return SiteCell(kind, group.name if key == "site" else "", "", 0, group.alive, group.alive_bytes)


def sorted_groups(
    groups: Sequence[LifetimeGroup], figures: LifetimeTable, column: str, descending: bool
) -> list[LifetimeGroup]:
    if column in BY_CURVE:
        with_curve = [group for group in groups[:SORTED] if not group.few and figures.figures(group.key)]
        rest = [group for group in groups if group not in set(with_curve)]
        return [*sorted(with_curve, key=partial(_by_figures, figures, column), reverse=descending), *rest]
    if column == "name":
        return sorted(groups, key=lambda group: group.name, reverse=descending)
    return sorted(groups, key=_NUMBERS[column], reverse=descending)


def _by_figures(figures: LifetimeTable, column: str, group: LifetimeGroup) -> float:
    known = figures.figures(group.key)
    if known is None:
        return -1.0
    if column == "median":
        return known.median if known.median is not None else 1e18 + known.oldest
    point = known.marks[MARK_COLUMNS.index(column)]
    return point.object_survival if point is not None else -1.0


def sorted_bands(rows: list[BandRow], column: str, descending: bool) -> list[BandRow]:
    """In their own order where no column is chosen."""
    if not column:
        return rows[:: 1 if descending else -1]
    return sorted(rows, key=_BAND_NUMBERS[column], reverse=descending)


WIDE_ONLY: Final = frozenset({"dead_bytes", "alive_bytes", "time", "curve"})  # Columns of wide screens only


def group_columns(
    key: str, figures: LifetimeTable | None, look: ChartStyle
) -> tuple[tuple[Column, ...], Callable[[LifetimeGroup], list[CellText]]]:
    """Of the table by type, site or size; and how a row is drawn."""
    columns = (
        Column("name", TITLES[key], 0, right=False, keep_tail=True),
        Column("dead", "Dead", 7),
        Column("alive", "Live", 7),
        Column("dead_bytes", "≈Bytes dead", 11),
        Column("alive_bytes", "≈Bytes live", 12),
        Column("median", "≈Median", 8),
        Column("time", "≈Time", 8),
        *(Column(each, f"% ≥{size_label(mark)}", 10) for each, mark in zip(MARK_COLUMNS, MARKS, strict=True)),
        Column("curve", "1 kB … 1 GB", 16, right=False, rank=0),
    )

    def draw(group: LifetimeGroup) -> list[CellText]:
        known = None if figures is None or group.few else figures.figures(group.key)
        quiet = Style(dim=True)
        pieces = [
            CellText(group.name),
            CellText(format_count(group.deaths)),
            CellText(format_count(group.alive)),
            CellText(format_bytes(group.died_bytes) if group.died_bytes else NONE),
            CellText(format_bytes(group.alive_bytes) if group.alive_bytes else NONE),
        ]
        if known is None or figures is None:
            pieces += [CellText("too few", quiet), CellText(""), *(CellText("") for _ in MARKS), CellText("")]
        else:
            median = known.median if known.median is not None else known.oldest
            sign = "" if known.median is not None else ">"
            took = figures.time_ns(median)
            pieces += [
                CellText(sign + size_label(median)),
                CellText(sign + format_duration_ns(took) if took is not None else ""),
                *(CellText(percent(point)) if point is not None else CellText("-", quiet) for point in known.marks),
                CellText(shape(known.shape, look)),
            ]
        return pieces

    return columns, draw


def band_columns(
    look: ChartStyle, *, wide: bool
) -> tuple[tuple[Column, ...], Callable[[BandRow], list[CellText]]]:
    """Of the table of bands; and how one is drawn."""
    spark = 16 if wide else 8
    columns = (
        Column("band", "", 3, right=False, rank=ALWAYS),
        Column("name", "Lifetime", 0, right=False),
        Column("mean", "≈Mean", 9),
        Column("share", "≈Share", 7),
        Column("peak", "≈Peak", 9),
        Column("now", "≈Now", 9),
        Column("trend", "Trend", spark, right=False),
    )

    def draw(row: BandRow) -> list[CellText]:
        values = row.band.bytes
        tint = Style.parse(look.palette.band(row.slot))
        return [
            CellText(f" {letter_of(row.slot)} ", look.swatch(row.slot)),
            CellText(band_name(row.band)),
            CellText(format_bytes(round(row.mean))),
            CellText(f"{row.share:.1%}"),
            CellText(format_bytes(max(values, default=0))),
            CellText(format_bytes(values[-1]) if row.band.fate == "living" else "", Style.null()),
            CellText(sparkline(values, spark, ascii_only=look.ascii_only), tint),
        ]

    return columns, draw
