"""View 8, GC: what the collector did, over time, under the program's own phases (KPROF, fig. 5).

All figures come from :class:`heaptop.analysis.samples.gc_profile.GcProfile`, which is fed whether anything is sampled
or not; curves are drawn by :mod:`heaptop.tui.charts.curves`, phases by :mod:`heaptop.tui.charts.lanes`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import ClassVar, Final

from textual.app import ComposeResult

from heaptop.analysis.filters.filters import Filter
from heaptop.analysis.heap.history import Cell
from heaptop.analysis.samples.gc_profile import Collection, GenerationTotals, PhaseSpan
from heaptop.analysis.text.units import filtered_words
from heaptop.errors import UsageError
from heaptop.protocol.messages import TypeName
from heaptop.tui.charts.chart_style import ChartStyle
from heaptop.tui.charts.raster import AXIS, EMPTY, StyleRun
from heaptop.tui.keys.explaining import BEE, CPYTHON, FigureHelp
from heaptop.tui.state.background import Throttled
from heaptop.tui.state.sampling_words import sampling_status_text
from heaptop.tui.state.session import Display
from heaptop.tui.state.sheet import WIDE, Sheet
from heaptop.tui.views.gc.gc_pictures import collection_text, curves_text, draw_chart, fit, totals_text
from heaptop.tui.views.gc.gc_tables import TABLES, Moment, Profile, take
from heaptop.tui.views.table_view import SortedView
from heaptop.tui.widgets.picture import Picture
from heaptop.tui.widgets.virtual_table import VirtualTable

SMALL: Final = 1000

KEYS: Final = ("collection", "generation", "phase")
VARIANTS: Final = ("blocks", "bytes", "allocated")
"""What the chart is of: heap and live in blocks, resident bytes, or bytes allocated between collections."""
_BOTH: Final = 13
"""Columns for the labels of both charts (``999K blocks``), so that the same moment is at the same place in both."""


class GcView(SortedView):
    """Phases, chart, words, table."""

    NAME = "gc"
    NUMBER = 8
    SAMPLED = True
    TITLE = "GC"
    ABOUT = "collections and phases"
    SHOWS = (
        "Garbage collections over time, with the program's own phases. The lines below the chart show each curve "
        "now, and at the collection under the cursor."
    )
    EXPLAINS = (
        FigureHelp(
            ("A", "B", "heap", "live", "Live after", "Heap blocks"),
            "A is the heap at each tick, B what is live after a full collection, both in blocks of Python's "
            "allocator. The gap between them is what the next full collection could free.",
            BEE.at("§3.1.3, fig. 5"),
        ),
        FigureHelp(
            ("C", "≈Allocated"),
            "Bytes allocated from one collection to the next, while sampling is on (key r). every ≈: the mean "
            "number of bytes between two collections.",
            BEE.at("§3.1.3, fig. 5"),
        ),
        FigureHelp(
            ("Gen", "Generation"),
            "The generation collected: 2 is a full collection of everything, 0 only new objects.",
            CPYTHON.at("Python/gc.c, before 3.13 Modules/gcmodule.c"),
        ),
        FigureHelp(
            ("At", "Took", "Collections", "Time", "Each", "Longest"),
            "When a collection began, from the attach, and how long it took; the program waits meanwhile. For a "
            "generation: the sum, mean and longest.",
            CPYTHON.at("gc.callbacks, Python/gc.c"),
        ),
        FigureHelp(
            ("Collected", "Uncollectable", "Uncoll."),
            "Objects in unreachable cycles, freed. Uncollectable: those it could not free; they stay in gc.garbage.",
            CPYTHON.at("gc.callbacks, Python/gc.c"),
        ),
        FigureHelp(
            ("├", "Phase", "Began", "Takes", "In them"),
            "Phases that the program names with heaptop.phase, above the chart. Key b lists them with the "
            "collections in each and their time.",
            BEE.at("§3.1.3, fig. 5"),
        ),
        FigureHelp(("RSS", "-"), "Resident memory at that moment; a curve with key v. -: unknown."),
        FigureHelp(
            ("lost",),
            "Collections that did not fit into the agent's buffer. They are counted, but are in no figure.",
        ),
    )
    HELP = "Filters: generation:2 (of collections)."
    MEANS: ClassVar[Mapping[str, str]] = {
        "cycle_key": "collections, sums of each generation, phases",
        "variant": "chart: blocks, resident bytes, allocated in between",
    }
    OFFERS = (
        "cycle_key", "variant", "filter", "rate", "pause", "sort_column(-1)", "sort_column(1)", "invert", "follow",
    )  # fmt: skip
    DEFAULT_CSS = """
    GcView > #chart { height: 3fr; }
    GcView > #allocated { height: 2fr; display: none; }
    GcView.wide > #allocated { display: block; }
    GcView > #said { height: 2; }
    GcView > VirtualTable { height: 2fr; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._key, self._variant = KEYS[0], 0
        self._made: Throttled[Profile] = Throttled()
        self._hidden = 0

    def compose(self) -> ComposeResult:
        yield Picture(id="chart")
        yield Picture(id="allocated")
        yield Picture(id="said")
        yield VirtualTable()

    # -- drawing ---------------------------------------------------------------------------------------------

    def _draw(self, display: Display, look: ChartStyle) -> None:
        if display.sampling is None:
            return
        sampling = display.sampling
        profile = self._made.get(display, None, partial(take, sampling), small=len(sampling.gc.rows) <= SMALL)
        origin, times, wide = display.origin_ns, display.times(look.times), self.size.width >= WIDE
        variants = VARIANTS[:2] if wide else VARIANTS
        variant = variants[self._variant % len(variants)]
        chosen = self._key, self._where, *self._chosen, self.list.cursor
        if self._is_drawn(profile, variant, chosen, origin, times, self.size, look):
            return
        gutter = _BOTH if wide else 9
        chart = partial(draw_chart, profile, variant, origin, look, phases=True, times=times, gutter=gutter)
        self.query_one("#chart", Picture).show(chart, look)
        if wide:
            below = partial(draw_chart, profile, "allocated", origin, look, phases=False, times=times, gutter=gutter)
            self.query_one("#allocated", Picture).show(below, look)

        def at(time_ns: int) -> str:
            return times.moment((time_ns - origin) / 1e9)

        self._show_table(profile, at, look)
        lines = [curves_text(profile, variant, self.size.width), [StyleRun(totals_text(profile), AXIS, EMPTY)]]
        if isinstance(self._row, Collection):
            lines.insert(1, collection_text(self._row, profile.spans, at, variant))
        said = self.query_one("#said", Picture)
        said.styles.height = len(lines)
        said.show(lambda width, height: [fit(line, width, look) for line in lines], look)

    def _show_table(self, profile: Profile, at: Moment, look: ChartStyle) -> None:
        sheet = TABLES[self._key]
        everything = sheet.rows(profile)
        rows = sorted(
            (row for row in everything if self._passes(row)),
            key=sheet.numbers[self._sort],
            reverse=self._descending,
        )
        self._rows, self._hidden = rows, len(everything) - len(rows)
        nothing = f"No collection matches {self._where}." if self._where else sheet.nothing
        self.list.show(
            Sheet(
                columns=sheet.columns,
                rows=rows,
                key=sheet.key,
                draw=lambda row: sheet.draw(row, at),
                look=look,
                sort=self._sort,
                descending=self._descending,
                nothing=nothing,
            ).without(sheet.wide if self.size.width < WIDE else ())
        )

    def _passes(self, row: Collection | GenerationTotals | PhaseSpan) -> bool:
        if not self._where or isinstance(row, PhaseSpan):
            return True
        return self._where.matches(Cell(TypeName("", ""), row.generation, 1, 1))

    @property
    def note(self) -> str:
        """Collections are known without samples; what was allocated between them is not."""
        sampling_status = self.now.sampling_status
        if sampling_status.why and not sampling_status.ever_on:
            return f"Allocations are not sampled: {sampling_status.why}."
        return sampling_status_text(sampling_status, self.now.now_ns, "allocation since is unknown")

    @property
    def words(self) -> tuple[str, str]:
        left = f"{self.TITLE} by {self._key}{self.trail}"
        return left, self._place(len(self._rows))

    @property
    def since_words(self) -> str:
        return "collections and phases before {since} are not shown here"

    @property
    def age_ns(self) -> int:
        return self._made.age_ns(self.now)

    @property
    def filtered(self) -> str:
        return filtered_words(self._hidden, what=self._key) if self._where else ""

    # -- what the keys do ------------------------------------------------------------------------------------

    def _check_filter(self, where: Filter) -> None:
        check_filter(self._key, where)

    @property
    def bys(self) -> Mapping[str, str]:
        return {key: f"by {key}" for key in KEYS if self._goes(key)}

    @property
    def by(self) -> str:
        return self._key

    def moved(self) -> None:
        """Another collection is chosen in the curves."""
        self._again()

    def show_by(self, key: str) -> None:
        self._key = key
        self._again()

    def _goes(self, key: str) -> bool:
        """Whether it goes together with the filter."""
        try:
            check_filter(key, self._where)
        except UsageError:
            return False
        return True

    def action_variant(self) -> bool:
        """The chart of something else."""
        self._variant = (self._variant + 1) % (2 if self.size.width >= WIDE else len(VARIANTS))
        self._again()
        return True

    @property
    def _sorted_as(self) -> str:
        return self._key

    @property
    def _sortable(self) -> Sequence[str]:
        return tuple(TABLES[self._key].numbers)

    @property
    def _first_sort(self) -> tuple[str, bool]:
        return {"collection": ("time", True), "generation": ("name", False), "phase": ("begin", True)}[self._key]


def check_filter(key: str, where: Filter) -> None:
    """Raises UsageError where rows by this key do not know what the filter asks about."""
    where.allow(() if key == "phase" else ("generation",), {"phase": "Phases"}.get(key, "Collections"))
