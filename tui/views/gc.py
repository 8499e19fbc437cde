"""View 8, GC: what the collector did, over time, under the program's own phases (KPROF, fig. 5).

All figures come from :class:`heaptop.census.gc_profile.GcProfile`, which is fed whether anything is sampled or not;
curves are drawn by :mod:`heaptop.tui.curves`, phases by :mod:`heaptop.tui.lanes`. This module never asks for a
collection.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from textual.app import ComposeResult

from heaptop.census.filters import EVERYTHING, Filter
from heaptop.census.gc_profile import Collection, GenerationTotals, Span
from heaptop.census.history import Cell
from heaptop.protocol.messages import TypeName
from heaptop.tui.gc_pictures import curves_said, draw_chart, fit, totals_said
from heaptop.tui.gc_tables import TABLES, Moment, Profile, take
from heaptop.tui.look import Look
from heaptop.tui.pacing import Paced
from heaptop.tui.raster import AXIS, EMPTY, Run
from heaptop.tui.sampling_words import standing_text
from heaptop.tui.session import Display
from heaptop.tui.views.table_view import WIDE, SortedView
from heaptop.tui.widgets.picture import Picture
from heaptop.tui.widgets.virtual_table import Piece, Sheet, VirtualTable

SMALL: Final = 1000

KEYS: Final = ("collection", "generation", "phase")
VARIANTS: Final = ("blocks", "bytes", "allocated")
"""What the chart is of: heap and live in blocks, resident bytes, or bytes allocated between collections."""


class GcView(SortedView):
    """Phases, chart, words, table."""

    NAME = "gc"
    NUMBER = 8
    TITLE = "GC"
    HELP = (
        "The chart shows the heap at each tick (A) and what lives after full collections (B), in blocks of Python's "
        "allocator; key v shows the resident bytes, and what was allocated from one collection to the next (C), which "
        "is known while allocations are sampled (key r); the line below the chart says after how many allocated bytes "
        "there is a collection, on average. Phases are what the program names itself by heaptop.phase: they stand "
        "above the chart. Key b shows collections, the sums of each generation, or the phases with what the collector "
        "did meanwhile. Collections that were lost because the agent's list was full are counted, and in no figure."
        "\n\n"
        "Filters: generation:2 (of collections)."
    )
    DEFAULT_CSS = """
    GcView > #chart { height: 3fr; }
    GcView > #allocated { height: 2fr; display: none; }
    GcView.wide > #allocated { display: block; }
    GcView > #said { height: 2; }
    GcView > VirtualTable { height: 2fr; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._key, self._where, self._variant = KEYS[0], EVERYTHING, 0
        self._made: Paced[Profile] = Paced()
        self._count = 0

    def compose(self) -> ComposeResult:
        yield Picture(id="chart")
        yield Picture(id="allocated")
        yield Picture(id="said")
        yield VirtualTable()

    # -- drawing ---------------------------------------------------------------------------------------------

    def show(self, display: Display, look: Look) -> None:
        self._shown = (display, look)
        if not self.size.width or display.sampling is None:
            return
        sampling = display.sampling
        profile = self._made.get(display, None, partial(take, sampling), small=len(sampling.gc.rows) <= SMALL)
        origin, times, wide = display.origin_ns, display.times(look.times), self.size.width >= WIDE
        variants = VARIANTS[:2] if wide else VARIANTS
        variant = variants[self._variant % len(variants)]
        chart = partial(draw_chart, profile, variant, origin, look, phases=True, times=times)
        self.query_one("#chart", Picture).show(chart, look)
        if wide:
            below = partial(draw_chart, profile, "allocated", origin, look, phases=False, times=times)
            self.query_one("#allocated", Picture).show(below, look)
        lines = [curves_said(profile, variant, wide=wide), [Run(totals_said(profile), AXIS, EMPTY)]]
        self.query_one("#said", Picture).show(lambda width, height: [fit(line, width, look) for line in lines], look)
        self._show_table(profile, lambda time_ns: times.moment((time_ns - origin) / 1e9), look)

    def _show_table(self, profile: Profile, at: Moment, look: Look) -> None:
        sheet = TABLES[self._key]
        rows = sorted(
            (row for row in sheet.rows(profile) if self._passes(row)),
            key=sheet.numbers[self._sort],
            reverse=self._descending,
        )
        self._count = len(rows)
        wide = self.size.width >= WIDE
        kept = [place for place, column in enumerate(sheet.columns) if wide or column.key not in sheet.wide]

        def draw(row: Any) -> list[Piece]:
            pieces = sheet.draw(row, at)
            return [pieces[place] for place in kept]

        nothing = f"No collection matches {self._where}." if self._where else sheet.nothing
        self.table.show(
            Sheet(
                columns=tuple(sheet.columns[place] for place in kept),
                rows=rows,
                key=sheet.key,
                draw=draw,
                look=look,
                sort=self._sort,
                descending=self._descending,
                nothing=nothing,
            )
        )

    def _passes(self, row: Collection | GenerationTotals | Span) -> bool:
        if not self._where or isinstance(row, Span):
            return True
        return self._where.fits_name(Cell(TypeName("", ""), row.generation, 1, 1))

    @property
    def sampled(self) -> bool:
        return True

    @property
    def note(self) -> str:
        """Collections are known without samples; what was allocated between them is not."""
        standing = self.now.standing
        if standing.why and not standing.ever_on:
            return f"Allocations are not sampled: {standing.why}."
        return standing_text(standing, self.now.now_ns, "what was allocated since is not known")

    @property
    def words(self) -> tuple[str, str]:
        left = f"{self.TITLE} by {self._key}" + (f"  ›  {self._where}" if self._where else "")
        return left, self._place(self._count, self._made.age_ns(self.now))

    # -- what the keys do ------------------------------------------------------------------------------------

    @property
    def table(self) -> VirtualTable:
        return self.list

    @property
    def where(self) -> Filter:
        return self._where

    def set_where(self, where: Filter) -> None:
        where.allow(("generation",), "Collections")
        self._where = where
        self._again()

    def cycle_key(self) -> None:
        self._key = KEYS[(KEYS.index(self._key) + 1) % len(KEYS)]
        self._again()

    def variant(self) -> None:
        """The chart of something else."""
        self._variant = (self._variant + 1) % (2 if self.size.width >= WIDE else len(VARIANTS))
        self._again()

    def back(self) -> bool:
        if not self._where:
            return False
        self._where = EVERYTHING
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
