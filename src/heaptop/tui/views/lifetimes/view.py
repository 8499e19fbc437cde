"""View 6, Lifetimes: how long what is allocated lives, in bytes allocated meanwhile, by type, site or size.

Curves come from :class:`heaptop.analysis.lifetimes.lifetime_table.LifetimeTable` and are drawn by
:mod:`heaptop.tui.charts.curves`; bands by eventual lifetime from :mod:`heaptop.analysis.samples.generations`. This
module keeps what the reader chose, and sees to it that a large heap's figures are made in small steps, and not at
every tick.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Final

from rich.style import Style
from textual.app import ComposeResult

from heaptop.analysis.filters.filters import Filter
from heaptop.analysis.lifetimes.lifetime_table import FEW, MARKS, LifetimeGroup, LifetimeTable
from heaptop.analysis.samples.clock import size_label
from heaptop.analysis.samples.estimate import INTERVAL
from heaptop.analysis.samples.generations import LifetimeChart
from heaptop.analysis.samples.moments import SiteCell
from heaptop.analysis.samples.samples import UNKNOWN_TYPE_NAME
from heaptop.analysis.samples.sampling import GROUPS, Sampling
from heaptop.analysis.text.units import filtered_words, format_bytes, format_count, format_duration_ns
from heaptop.errors import UsageError
from heaptop.protocol.messages import TypeName
from heaptop.tui.charts.chart_style import ChartStyle, letter_of
from heaptop.tui.charts.marks import NONE
from heaptop.tui.charts.raster import EMPTY, ChartBands, StyleRun
from heaptop.tui.charts.sparkline import sparkline
from heaptop.tui.keys.explaining import NHC, SML, STATMEMPROF, FigureHelp
from heaptop.tui.state import drill
from heaptop.tui.state.background import FigureMaker, Throttled
from heaptop.tui.state.messages import ViewChanged
from heaptop.tui.state.sampling_words import UNSAMPLED, not_sampled, now_words
from heaptop.tui.state.session import Display
from heaptop.tui.state.sheet import ALWAYS, WIDE, CellText, Column, Sheet
from heaptop.tui.state.snapshot_client import QuerySubject
from heaptop.tui.views.lifetimes.lifetime_pictures import (
    BandRow,
    band_name,
    band_rows,
    band_series,
    bands_text,
    curve_lines,
    draw_ages,
    draw_curves,
    percent,
    shape,
)
from heaptop.tui.views.table_view import LevelView, next_key
from heaptop.tui.widgets.area_chart import AreaChart
from heaptop.tui.widgets.picture import Picture
from heaptop.tui.widgets.virtual_table import VirtualTable

KEYS: Final = (*GROUPS, "lifetime", "age")
TITLES: Final = {"type": "Type", "site": "Site", "size": "Block size", "lifetime": "Lifetime", "age": "Lifetime"}
LEFTS: Final = {
    "type": "by type",
    "site": "by site",
    "size": "by block size",
    "lifetime": "over time, bands by lifetime",
    "age": "over time, by age",
}
VARIANTS: Final = ("object survival", "object mortality per MB", "nursery mortality per MB")

_FILTERED_BY: Final = {"type": ("type", "module"), "site": ("site",)}

SMALL: Final = 4000
"""As many steps (a living sample is one, a curve some forty) are done at once, whenever there is something new."""
STEPS_A_CURVE: Final = 40
SORTED: Final = 300
"""Groups whose curves are made to sort by them; the others have fewer samples, and come last."""


@dataclass(frozen=True, slots=True)
class LifetimesLevel(drill.Level):
    """What is shown, and of which group where it is bands of one."""

    group: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class JointAges:
    """Living bytes by time and age."""

    latest: int
    """Where time ends, in allocated bytes."""
    matrix: list[list[int]]


class LifetimesView(LevelView[LifetimesLevel]):
    """Chart, two lines of words, and table."""

    NAME = "lifetimes"
    NUMBER = 6
    TITLE = "Lifetimes"
    ABOUT = "how long they live"
    SHOWS = (
        "How long allocated blocks live, measured in bytes that the program allocated meanwhile: an idle program "
        "does not age them. A is the total, B the row under the cursor; the lines below the chart show both as "
        "figures."
    )
    EXPLAINS = (
        FigureHelp(
            ("object survival", "% ≥…"),
            f"The share of allocations that reach that age, with the {INTERVAL} (43 35–51): a Kaplan-Meier "
            "estimate, in which live blocks count up to their age.",
            SML.at("§1.1, fig. 2"),
        ),
        FigureHelp(
            ("object mortality per MB", "at"),
            "Of the blocks that reached that age, the share that dies within the next megabyte. Smoothed, then "
            "differentiated; both axes are logarithmic.",
            SML.at("§1.1, §2.5, fig. 2"),
        ),
        FigureHelp(("≤",), "At the end of a mortality axis: smaller values are drawn there too."),
        FigureHelp(
            ("nursery mortality per MB",),
            "What a young generation of that size would gain from one more megabyte.",
            SML.at("§1.1"),
        ),
        FigureHelp(
            ("Dead", "Live", "≈Bytes dead", "≈Bytes live"),
            f"Dead and live samples, and the bytes they represent. Rows with fewer than {FEW} samples have no figures.",
            STATMEMPROF.at("“Sampling allocations”"),
        ),
        FigureHelp(
            ("≈Median", "≈Time", ">", "≈"),
            "The age that half of the bytes reach, in bytes allocated and in time at the mean rate so far. >: more "
            "than the oldest block.",
        ),
        FigureHelp(
            ("1 kB … 1 GB",),
            "Each row's survival over that range of ages, from all to none, on one common scale.",
            SML.at("fig. 5"),
        ),
        FigureHelp(
            ("Type", "Site", "Block size"),
            "What samples are grouped by (key b). Of dead blocks only sums are kept.",
            SML.at("§3.2"),
        ),
        FigureHelp(
            ("Lifetime", "≈Mean", "≈Share", "≈Peak", "≈Now", "Trend"),
            "Bands by lifetime show, for every moment, how long the blocks that were live then lived in the end; "
            "live blocks count by age. Mean is over the chart; share is of that mean; peak is the maximum; now is "
            "the current value.",
            NHC.at("§2, figs. 8–10"),
        ),
        FigureHelp(
            ("over time, by age", "░▒▓█"),
            "Time runs across and age upwards, both in allocated bytes: the darker, the more bytes of that age "
            "were live. The line below the chart explains the shades.",
            SML.at("fig. 1"),
        ),
    )
    HELP = (
        "Ages are in kB and MB (1000), as you type them (lifetime>10MB); memory is in KiB and MiB "
        "(1024).\n\nFilters: by type, type: and module:; by site, site:. Of dead blocks only sums are kept, so "
        "only one at a time."
    )
    MEANS: ClassVar[Mapping[str, str]] = {
        "cycle_key": "by type, site, block size; bands by lifetime; by age",
        "variant": "survival, object mortality, nursery mortality",
        "drill": "bands by lifetime of one row",
    }
    OFFERS = (
        "cycle_key",
        "variant",
        "filter",
        "drill",
        "pause",
        "rate",
        "sort_column(-1)",
        "sort_column(1)",
        "invert",
        "follow",
    )
    DEFAULT_CSS = """
    LifetimesView > #curves, LifetimesView > #bands { height: 3fr; }
    LifetimesView > #bands { display: none; }
    LifetimesView.banded > #bands { display: block; }
    LifetimesView.banded > #curves { display: none; }
    LifetimesView > #said { height: 2; }
    LifetimesView > VirtualTable { height: 2fr; }
    """

    def __init__(self) -> None:
        super().__init__(LifetimesLevel())
        self._variant = 0
        self._maker = FigureMaker(LifetimeTable, self.set_timer, self._is_small, self._needed, self._ready)
        self._charts: Throttled[LifetimeChart | None] = Throttled()
        self._joint: Throttled[JointAges] = Throttled()
        self._count = self._hidden = 0

    def compose(self) -> ComposeResult:
        yield Picture(id="curves")
        yield AreaChart(id="bands")
        yield Picture(id="said")
        yield VirtualTable()

    # -- drawing ---------------------------------------------------------------------------------------------

    def show(self, display: Display, look: ChartStyle) -> None:
        self._shown = (display, look)
        if not self.size.width:
            return
        sampling, level = display.sampling, self._level
        self.set_class(level.key == "lifetime", "banded")
        if sampling is None or not _anything(sampling):
            self._show_nothing(not_sampled(sampling) if sampling is None or not sampling.follows else "", look)
        elif level.key in GROUPS:
            self._maker.prepare(display, sampling)
            self._show_groups(look)
        else:
            self._show_bands(display, sampling, look)

    def moved(self) -> None:
        """The curve of another row is to be drawn."""
        if self._shown is not None and self._figures is not None and self._level.key in GROUPS:
            self._show_curves(self._figures, self._shown[1])

    def _show_nothing(self, text: str, look: ChartStyle) -> None:
        self._count = 0
        self.query_one("#curves", Picture).show(lambda width, height: [], look)
        self.query_one(AreaChart).show_series(ChartBands([], [], [], []), 0.0, look)
        self.query_one("#said", Picture).show(lambda width, height: [], look)
        self._show_table([], look, text or "Waiting for the first samples.")

    # -- figures, which are made in small steps ----------------------------------------------------------------

    @property
    def _figures(self) -> LifetimeTable | None:
        return self._maker.figures

    def _is_small(self, figures: LifetimeTable) -> bool:
        """By how many curves the screen needs."""
        curves = min(figures.group_count, SORTED if self._sort in _BY_CURVE else self.list.page_rows)
        return self._variant != 1 and figures.steps + STEPS_A_CURVE * curves <= SMALL

    def _needed(self, figures: LifetimeTable) -> Iterator[None]:
        key = self._level.key
        if key not in GROUPS:
            return
        yield from figures.work(key)
        groups = self._ordered(figures)
        top = int(self.list.scroll_y)
        for group in groups[top : top + self.list.page_rows]:
            figures.figures(group.key)
            yield
        figures.survival(mortality=self._variant == 1)
        yield

    def _ready(self) -> None:
        self._again()
        self.post_message(ViewChanged())

    # -- curves ----------------------------------------------------------------------------------------------

    def _show_groups(self, look: ChartStyle) -> None:
        figures = self._figures
        if figures is None:
            self._show_nothing("Computing lifetimes.", look)
            return
        groups = self._ordered(figures)
        where = self._level.where
        self._show_table(groups, look, f"No sample matches {where}." if where else "")
        self._show_curves(figures, look)

    def _show_curves(self, figures: LifetimeTable, look: ChartStyle) -> None:
        mortality = self._variant == 1
        keys: list[tuple[str, str] | None] = [None]
        if self.list.row_key is not None:
            keys.append((self._level.key, self.list.row_key))
        found = [(number, figures.survival(key, mortality=mortality)) for number, key in enumerate(keys)]
        drawn = [(number, curve) for number, curve in found if curve is not None]
        self.query_one("#curves", Picture).show(
            partial(draw_curves, drawn, self._variant, look), look, key=(figures, self._variant, *keys)
        )
        self._said(partial(curve_lines, figures, keys, self._variant), 3, look)

    def _said(self, lines: Callable[[int, ChartStyle], list[list[StyleRun]]], height: int, look: ChartStyle) -> None:
        """What is drawn, in figures: lines of the view's width."""
        picture = self.query_one("#said", Picture)
        picture.styles.height = height
        picture.show(lambda width, _: lines(width, look), look)

    def _ordered(self, figures: LifetimeTable) -> list[LifetimeGroup]:
        level, sort = self._level, self._sort
        groups = list(figures.groups(level.key))
        if level.where:
            names = {} if self._shown is None or self._shown[0].sampling is None else _types(self._shown[0].sampling)
            everything = len(groups)
            groups = [group for group in groups if _fits(level.where, level.key, group, names)]
            self._hidden = everything - len(groups)
        if sort in _BY_CURVE:
            with_curve = [group for group in groups[:SORTED] if not group.few and figures.figures(group.key)]
            rest = [group for group in groups if group not in set(with_curve)]
            with_curve.sort(key=partial(_by_figures, figures, sort), reverse=self._descending)
            return with_curve + rest
        if sort == "name":
            return sorted(groups, key=lambda group: group.name, reverse=self._descending)
        return sorted(groups, key=_NUMBERS[sort], reverse=self._descending)

    # -- bands -----------------------------------------------------------------------------------------------

    def _show_bands(self, display: Display, sampling: Sampling, look: ChartStyle) -> None:
        group, small = self._level.group, sampling.samples.live_block_count <= SMALL
        chart = self._charts.get(
            display, group, lambda: sampling.lifetime_bands.chart(group, sampling.alive(group)), small=small
        )
        rows = band_rows(chart) if chart is not None else []
        if chart is not None and self._level.key == "lifetime":
            origin, times = display.origin_ns / 1e9, display.times(look.times)
            self.query_one(AreaChart).show_series(band_series(chart, rows), origin, look, times)
        elif self._level.key == "age":
            joint = self._joint.get(display, None, lambda: JointAges(sampling.timeline.latest, sampling.by_age()))
            self.query_one("#curves", Picture).show(
                partial(draw_ages, joint.matrix, joint.latest, look), look, key=joint
            )
        lines = [bands_text(rows, group)]
        if self._level.key == "age":
            lines.append(" across: bytes allocated since sampling began; up: age; darker: more live")
        self._said(
            lambda width, look: [[StyleRun(look.text(text)[:width], EMPTY, EMPTY)] for text in lines], len(lines), look
        )
        nothing = "Nothing is kept of this group."
        if chart is not None and sampling.lives.ended(group)[0]:
            nothing = "They die between two ticks: none was live at any tick."
        self._show_table(self._ordered_bands(rows), look, nothing if chart is None or not rows else "")

    def _ordered_bands(self, rows: list[BandRow]) -> list[BandRow]:
        sort = self._sort
        if not sort:
            return rows[:: 1 if self._descending else -1]
        return sorted(rows, key=_BAND_NUMBERS[sort], reverse=self._descending)

    # -- the table -------------------------------------------------------------------------------------------

    def _show_table(self, rows: Sequence[LifetimeGroup] | Sequence[BandRow], look: ChartStyle, nothing: str) -> None:
        self._count = len(rows)
        groups = self._level.key in GROUPS
        columns, draw = self._group_columns(look) if groups else self._band_columns(look)
        self.list.show(
            Sheet(
                columns=columns,
                rows=rows,
                key=(lambda group: group.name) if groups else (lambda row: row.band.label),
                draw=draw,
                look=look,
                sort=self._sort,
                descending=self._descending,
                nothing=nothing or "Waiting for the first samples.",
            )
        )

    def _group_columns(self, look: ChartStyle) -> tuple[tuple[Column, ...], Callable[[LifetimeGroup], list[CellText]]]:
        wide, figures = self.size.width >= WIDE, self._figures
        columns = [
            Column("name", TITLES[self._level.key], 0, right=False, keep_tail=True),
            Column("dead", "Dead", 7),
            Column("alive", "Live", 7),
            Column("dead_bytes", "≈Bytes dead", 11),
            Column("alive_bytes", "≈Bytes live", 12),
            Column("median", "≈Median", 8),
            Column("time", "≈Time", 8),
            *(Column(key, f"% ≥{size_label(mark)}", 10) for key, mark in zip(_MARK_COLUMNS, MARKS, strict=True)),
            Column("curve", "1 kB … 1 GB", 16, right=False, rank=0),
        ]
        left_out = set() if wide else {"dead_bytes", "alive_bytes", "time", "curve"}
        kept = [place for place, column in enumerate(columns) if column.key not in left_out]

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
            return [pieces[place] for place in kept]

        return tuple(columns[place] for place in kept), draw

    def _band_columns(self, look: ChartStyle) -> tuple[tuple[Column, ...], Callable[[BandRow], list[CellText]]]:
        spark = 16 if self.size.width >= WIDE else 8
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

    @property
    def sampled(self) -> bool:
        return True

    @property
    def words(self) -> tuple[str, str]:
        level = self._level
        left = f"{self.TITLE} {LEFTS[level.key]}"
        if level.key in GROUPS:
            left += f" · {VARIANTS[self._variant]}"
        left += now_words(self.now.sampling_status)
        return left + self.trail, self._place(self._count)

    @property
    def filtered(self) -> str:
        return filtered_words(self._hidden) if self._level.where and self._count + self._hidden else ""

    @property
    def since_words(self) -> str:
        return "lifetimes cover allocations from {since} on"

    @property
    def age_ns(self) -> int:
        if self._shown is None:
            return 0
        display, key = self._shown[0], self._level.key
        if key not in GROUPS:
            return max(self._charts.age_ns(display), self._joint.age_ns(display) if key == "age" else 0)
        return self._maker.age_ns(display)

    def _crumb(self, outer: LifetimesLevel, level: LifetimesLevel) -> str:
        return level.group[1] if level.group is not None else super()._crumb(outer, level)

    # -- what the keys do ------------------------------------------------------------------------------------

    def _check_filter(self, where: Filter) -> None:
        check_filter(self._level.key, where)

    @property
    def bys(self) -> Mapping[str, str]:
        return {key: LEFTS[key] for key in KEYS if self._goes(key)}

    @property
    def by(self) -> str:
        return self._level.key

    def _goes(self, key: str) -> bool:
        """Whether it goes together with the filter."""
        try:
            check_filter(key, self.where)
        except UsageError:
            return False
        return True

    def action_cycle_key(self) -> bool:
        level = self._level
        self._levels = [LifetimesLevel(next_key(KEYS, level.key, self._goes), level.where)]
        self._again()
        return self._level.key != level.key

    def action_variant(self) -> bool:
        """The next kind of curve."""
        if self._level.key not in GROUPS:
            return False
        self._variant = (self._variant + 1) % len(VARIANTS)
        self._again()
        return True

    @property
    def subject(self) -> QuerySubject | None:
        key, name = self._level.key, self.list.row_key
        if name is None:
            return None
        if key == "type" and name != UNKNOWN_TYPE_NAME.full:
            return QuerySubject(name, types=(name,))
        return self._of_site(name) if key == "site" else None

    @property
    def unavailable(self) -> str:
        return UNSAMPLED if self._level.key == "site" and self.list.row_key is not None else super().unavailable

    def action_drill(self) -> bool:
        """Bands by eventual lifetime of the row under the cursor."""
        key, name = self._level.key, self.list.row_key
        if key not in GROUPS or name is None:
            return False
        self._enter(LifetimesLevel("lifetime", group=(key, name)))
        return True

    @property
    def _sorted_as(self) -> str:
        return self._level.key

    @property
    def _sortable(self) -> Sequence[str]:
        return _columns_of(self._level.key)

    @property
    def _first_sort(self) -> tuple[str, bool]:
        """Bands are in their own order at first."""
        return ("dead" if self._level.key in GROUPS else ""), True


# -- words and numbers ---------------------------------------------------------------------------------------


def check_filter(key: str, where: Filter) -> None:
    """Raises UsageError where the filter asks for what is not kept of the dead."""
    where.allow(_FILTERED_BY.get(key, ()), f"Lifetimes {LEFTS[key].partition(',')[0]}")


def _types(sampling: Sampling) -> dict[str, TypeName]:
    return {name.full: name for name in sampling.samples.types}


def _fits(where: Filter, key: str, group: LifetimeGroup, names: dict[str, TypeName]) -> bool:
    kind = names.get(group.name, TypeName("", group.name)) if key == "type" else TypeName("", "")
    return where.matches(SiteCell(kind, group.name if key == "site" else "", "", 0, group.alive, group.alive_bytes))


def _anything(sampling: Sampling) -> bool:
    return bool(sampling.samples.live_block_count or sampling.lives.ended()[0])


def _by_figures(figures: LifetimeTable, sort: str, group: LifetimeGroup) -> float:
    known = figures.figures(group.key)
    if known is None:
        return -1.0
    if sort == "median":
        return known.median if known.median is not None else 1e18 + known.oldest
    point = known.marks[_MARK_COLUMNS.index(sort)]
    return point.object_survival if point is not None else -1.0


_MARK_COLUMNS: Final = tuple(f"at{mark}" for mark in MARKS)
_BY_CURVE: Final = ("median", *_MARK_COLUMNS)
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


def _columns_of(key: str) -> list[str]:
    return ["name", "dead", "alive", "median", *_MARK_COLUMNS] if key in GROUPS else [*_BAND_NUMBERS]
