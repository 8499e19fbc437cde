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
from typing import Any, ClassVar, Final

from textual.app import ComposeResult

from heaptop.analysis.filters.filters import Filter
from heaptop.analysis.lifetimes.lifetime_table import LifetimeGroup, LifetimeTable
from heaptop.analysis.lifetimes.live_groups import alive, volume_by_age
from heaptop.analysis.samples.generations import LifetimeChart
from heaptop.analysis.samples.sampled_blocks import UNKNOWN_TYPE_NAME
from heaptop.analysis.samples.sampling import GROUPS, Sampling
from heaptop.analysis.text.units import filtered_words
from heaptop.errors import UsageError
from heaptop.tui.charts.chart_style import ChartStyle
from heaptop.tui.charts.raster import EMPTY, ChartBands, StyleRun
from heaptop.tui.state import drill
from heaptop.tui.state.background import FigureMaker, Throttled
from heaptop.tui.state.sampling_words import UNSAMPLED, not_sampled, now_words
from heaptop.tui.state.session import Display
from heaptop.tui.state.sheet import WIDE, Sheet
from heaptop.tui.state.snapshot_client import QuerySubject
from heaptop.tui.views.lifetimes.lifetime_help import EXPLAINED
from heaptop.tui.views.lifetimes.lifetime_pictures import (
    BandRow,
    band_rows,
    band_series,
    bands_text,
    curve_lines,
    draw_ages,
    draw_curves,
)
from heaptop.tui.views.lifetimes.lifetime_tables import (
    BY_CURVE,
    SORTED,
    WIDE_ONLY,
    band_columns,
    group_columns,
    passing,
    sort_columns,
    sorted_bands,
    sorted_groups,
)
from heaptop.tui.views.table_view import LevelView
from heaptop.tui.widgets.area_chart import AreaChart
from heaptop.tui.widgets.picture import Picture
from heaptop.tui.widgets.virtual_table import VirtualTable

KEYS: Final = (*GROUPS, "lifetime", "age")
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


@dataclass(frozen=True, slots=True)
class LifetimesLevel(drill.Level):
    """What is shown, and of which group where it is bands of one."""

    group: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class JointAges:
    """Living bytes by time and age."""

    latest: int  # Where time ends, in allocated bytes
    matrix: list[list[int]]


class LifetimesView(LevelView[LifetimesLevel]):
    """Chart, two lines of words, and table."""

    NAME = "lifetimes"
    NUMBER = 6
    SAMPLED = True
    TITLE = "Lifetimes"
    ABOUT = "how long they live"
    SHOWS = (
        "How long allocated blocks live, measured in bytes that the program allocated meanwhile: an idle program "
        "does not age them. A is the total, B the row under the cursor; the lines below the chart show both as "
        "figures."
    )
    EXPLAINS = EXPLAINED
    HELP = (
        "Ages are in kB and MB (1000), as you type them (lifetime>10MB); memory is in KiB and MiB "
        "(1024).\n\nFilters: type: and module: when grouped by type; site: when grouped by site. They cannot be "
        "combined, because heaptop keeps only sums of dead blocks, by type and by site."
    )
    MEANS: ClassVar[Mapping[str, str]] = {
        "cycle_key": "by type, site, block size; bands by lifetime; by age",
        "variant": "survival, object mortality, nursery mortality",
        "drill": "bands by lifetime of one row",
    }
    OFFERS = (
        "cycle_key", "variant", "filter", "drill", "pause", "rate", "sort_column(-1)", "sort_column(1)", "invert",
        "follow",
    )  # fmt: skip
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

    def _draw(self, display: Display, look: ChartStyle) -> None:
        sampling, level = display.sampling, self._level
        self.set_class(level.key == "lifetime", "banded")
        if sampling is None or not (sampling.samples.live_block_count or sampling.lives.ended()[0]):
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
        curves = min(figures.group_count, SORTED if self._sort in BY_CURVE else self.list.page_rows)
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
        level, everything = self._level, figures.groups(self._level.key)
        groups = passing(everything, level.key, level.where, self.now.sampling)
        self._hidden = len(everything) - len(groups)
        return sorted_groups(groups, figures, *self._chosen)

    # -- bands -----------------------------------------------------------------------------------------------

    def _show_bands(self, display: Display, sampling: Sampling, look: ChartStyle) -> None:
        group, small = self._level.group, sampling.samples.live_block_count <= SMALL
        chart = self._charts.get(
            display, group, lambda: sampling.lifetime_bands.chart(group, alive(sampling, group)), small=small
        )
        rows = band_rows(chart) if chart is not None else []
        if chart is not None and self._level.key == "lifetime":
            origin, times = display.origin_ns / 1e9, display.times(look.times)
            self.query_one(AreaChart).show_series(band_series(chart, rows), origin, look, times)
        elif self._level.key == "age":
            joint = self._joint.get(display, None, lambda: JointAges(sampling.timeline.latest, volume_by_age(sampling)))
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
        self._show_table(sorted_bands(rows, *self._chosen), look, nothing if chart is None or not rows else "")

    # -- the table -------------------------------------------------------------------------------------------

    def _show_table(self, rows: Sequence[LifetimeGroup] | Sequence[BandRow], look: ChartStyle, nothing: str) -> None:
        self._count = len(rows)
        key, wide = self._level.key, self.size.width >= WIDE
        groups = key in GROUPS
        columns, draw = group_columns(key, self._figures, look) if groups else band_columns(look, wide=wide)
        sheet: Sheet[Any] = Sheet(
            columns=columns,
            rows=rows,
            key=(lambda group: group.name) if groups else (lambda row: row.band.label),
            draw=draw,
            look=look,
            sort=self._sort,
            descending=self._descending,
            nothing=nothing or "Waiting for the first samples.",
        )
        self.list.show(sheet if wide else sheet.without(WIDE_ONLY))

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

    def _goes(self, key: str) -> bool:
        """Whether it goes together with the filter."""
        try:
            check_filter(key, self.where)
        except UsageError:
            return False
        return True

    def show_by(self, key: str) -> None:
        self._levels = [LifetimesLevel(key, self.where)]
        self._again()

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
        return sort_columns(self._level.key)

    @property
    def _first_sort(self) -> tuple[str, bool]:
        """Bands are in their own order at first."""
        return ("dead" if self._level.key in GROUPS else ""), True


# -- words and numbers ---------------------------------------------------------------------------------------


def check_filter(key: str, where: Filter) -> None:
    """Raises UsageError where the filter asks for what is not kept of the dead."""
    where.allow(_FILTERED_BY.get(key, ()), f"Lifetimes {LEFTS[key].partition(',')[0]}")
