"""View 2, Producers: who allocated what lives, as a table, as a tree of callers and callees, and as an icicle.

The rows are :mod:`heaptop.analysis.callers.producer_table`, the paths :mod:`heaptop.analysis.callers.call_paths`; they
are drawn by :mod:`heaptop.tui.views.producers.producer_sheets` and :mod:`heaptop.tui.charts.icicle`. This module only
keeps what the reader chose: level, key, filter, sort, what is expanded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import ClassVar, Final

from textual.app import ComposeResult

from heaptop.analysis.callers.call_paths import Measure
from heaptop.analysis.callers.producer_table import OlderThanSampling, ProducerGroup
from heaptop.analysis.filters.filters import LIVE_BLOCKS, Filter
from heaptop.analysis.filters.kept_samples import retainer_term
from heaptop.analysis.filters.predicates import NameTerm
from heaptop.analysis.text.units import format_duration_ns
from heaptop.errors import UsageError
from heaptop.protocol.messages import TRACEMALLOC
from heaptop.protocol.text import printable
from heaptop.tui.charts.chart_style import ChartStyle
from heaptop.tui.keys.bindings import Key
from heaptop.tui.state.background import Background, Throttled
from heaptop.tui.state.messages import ViewChanged
from heaptop.tui.state.sampling_words import WITHOUT_C
from heaptop.tui.state.session import Display
from heaptop.tui.state.snapshot_client import QuerySubject
from heaptop.tui.state.source_lines import SourceLines
from heaptop.tui.views.producers.call_rows import CallTree, part_rows
from heaptop.tui.views.producers.native_sheets import (
    FIELDS,
    SORTS,
    filtered_native,
    native_age_ns,
    native_note,
    native_notes,
    native_rows,
    native_sheet,
    native_stack,
    nothing_native,
    row_key,
)
from heaptop.tui.views.producers.producer_figures import ProducerFigures, kept_blocks
from heaptop.tui.views.producers.producer_help import EXPLAINED
from heaptop.tui.views.producers.producer_icicle import BoxStyles, icicle_scene
from heaptop.tui.views.producers.producer_levels import FigureShape, ProducersLevel
from heaptop.tui.views.producers.producer_sheets import (
    KnownBlocks,
    ProducerFacts,
    columns_of,
    no_site_words,
    stack_sheet,
    stack_texts,
    table_sheet,
    tree_sheet,
)
from heaptop.tui.views.producers.selecting import check_bound
from heaptop.tui.views.table_view import LevelView
from heaptop.tui.widgets.cursor import Cursor
from heaptop.tui.widgets.icicle_chart import IcicleChart
from heaptop.tui.widgets.virtual_table import VirtualTable

SMALL: Final = 2000  # With no more tallies than this, all is made anew whenever there is something new
REST: Final = 20  # Beyond, it rests for so many times as long as it took: five percent of a core
TRIES: Final = 3
"""Restarts of what is made in steps, when messages arrived meanwhile; then what is left is made at once."""
MOST_ASKED: Final = 4000  # Stacks that one question about an image has room for


class ProducersView(LevelView[ProducersLevel]):
    """One level at a time; the widgets stay, and one of them is shown."""

    NAME = "producers"
    NUMBER = 2
    SAMPLED = True
    TITLE = "Producers"
    ABOUT = "allocation sites"
    SHOWS = (
        "Where live memory was allocated: as a table, a tree of callers and callees, and an icicle (key v). "
        "Figures are estimated from samples since the attach."
    )
    EXPLAINS = EXPLAINED
    HELP = (
        "Filters: site:views  producer-module:app  type:Session  size>1MB  !module:re  lifetime>10MB (live blocks "
        "that are older than 10 MB of allocation; lifetime>10s: than that time)  retainer:cache (what it keeps, "
        "alone or not, estimated per stack from a snapshot of the object graph)"
    )
    KEYS = (
        Key(
            *("u", "u", "unfold", "tree: unfold this row, or fold", "View"),
            word="unfold",
            otherwise="this row is not folded",
        ),
    )
    MEANS: ClassVar[Mapping[str, str]] = {
        "cycle_key": "site, function, module, stack, handler, native; tree: live, allocated",
        "variant": "table, tree of calls, icicle",
        "drill": "stacks of a site; callers and callees; zooms the icicle in",
    }
    OFFERS = (
        "cycle_key", "variant", "filter", "drill", "why", "sort_column(-1)", "sort_column(1)", "rate", "unfold",
        "pause", "depth=depth", "invert", "follow",
    )  # fmt: skip
    DEFAULT_CSS = """
    ProducersView VirtualTable { height: 1fr; }
    ProducersView IcicleChart { display: none; }
    ProducersView.icicle VirtualTable { display: none; }
    ProducersView.icicle IcicleChart { display: block; }
    """

    def __init__(self) -> None:
        super().__init__(ProducersLevel())
        self._columns: tuple[str, ...] = ()
        self._figures = ProducerFigures(self.set_timer, self._ready)
        self._choices = 0  # How often the reader has chosen anything
        self._drawn: Throttled[None] = Throttled(rest=REST)
        self._background = Background(self.set_timer)
        self._asked: tuple[object, ...] = ()  # As what the table that is being made will be remembered
        self._tree = CallTree((), "live")
        self._styles = BoxStyles()
        self._source: tuple[int, SourceLines] | None = None
        self._count = 0
        self._no_site = ""  # How much of all that is live the last row is, which may be off the screen

    def compose(self) -> ComposeResult:
        yield VirtualTable()
        yield IcicleChart()

    # -- drawing ---------------------------------------------------------------------------------------------

    def _draw(self, display: Display, look: ChartStyle) -> None:
        """A large session's figures rest between two displays; a choice of the reader's is drawn at once."""
        samples = display.samples
        small = samples is None or samples.tally_count <= SMALL
        asked = (self._choices, self.size, look, display.sampling_status.on, display.held)
        if not small and self._level.has_groups and self._drawn.has_rested(display, asked):
            self._asked = asked
            if not self._background.is_busy:
                self._background.start(self._prepare_shown(), self._prepared, soon=True)
            return
        self._background.drop()
        self._drawn.get(display, asked, lambda: self._draw_now(display, look), small=small)

    def _prepare_shown(self) -> Iterator[None]:
        """Prepare the display that is shown; anew where another one is meanwhile, but not forever."""
        for tries in range(1, TRIES + 1):
            display = self.now
            for _ in self._figures.prepare(display, self._level, *self._chosen):
                yield
                if self.now is not display and tries < TRIES:
                    break
            else:
                return

    def _prepared(self, spent: float) -> None:
        display = self.now
        if self._shown is not None:
            look = self._shown[1]
            self._drawn.get(display, self._asked, lambda: self._draw_now(display, look), spent=spent)
            self.post_message(ViewChanged())

    def _again(self) -> None:
        self._choices += 1
        super()._again()

    def restyle(self) -> None:
        self._choices += 1
        super().restyle()

    def _draw_now(self, display: Display, look: ChartStyle) -> None:
        level, figures = self._level, self._figures
        self._no_site = self._filtered = ""
        if level.is_native:
            self.remove_class("icicle")
            self._show_native(display, look)
            return
        is_begun = figures.begin(display, level)
        self.set_class(is_begun and level.shape is FigureShape.ICICLE, "icicle")
        if not is_begun:
            self._rows, self._count = (), 0
            self.list.show(table_sheet((), self._facts(look)))
        elif level.shape is FigureShape.ICICLE:
            self._show_icicle(look)
        else:
            shown = {FigureShape.TABLE: self._show_table, FigureShape.STACKS: self._show_stacks}
            shown.get(level.shape, self._show_tree)(look)
            self._count = len(self._rows)
        if is_begun:
            self._filtered = figures.filtered(self._count)

    def _facts(self, look: ChartStyle) -> ProducerFacts:
        """What a table is drawn with, as far as it is known without one."""
        return ProducerFacts(self._level.key, self.size.width, look, nothing=self._nothing, known=self._known)

    def _show_table(self, look: ChartStyle) -> None:
        figures, key = self._figures, self._level.key
        self._columns = columns_of(key, self.size.width, figures.known)
        column, descending = self._chosen
        rows, total = figures.rows
        self._rows = figures.sorted_rows(column, descending)
        self._no_site = no_site_words(self._rows[-1:], total)
        facts = replace(
            self._facts(look),
            sort=column,
            descending=descending,
            total=total,
            largest=max((row.weight for row in rows), default=0),
            approximate=figures.approximate,
            trend=figures.trend,
            change_ns=figures.change_ns,
            known=figures.known,
            place=lambda row: figures.tables.place(row, key),
        )
        self.list.show(table_sheet(self._rows, facts))

    def _show_stacks(self, look: ChartStyle) -> None:
        self._rows = self._figures.stacks
        self.list.show(stack_sheet(self._rows, self.size.width, look, self._source_lines().line))

    def _show_native(self, display: Display, look: ChartStyle) -> None:
        """Sites of native memory, or the stack of one."""
        found, level = display.native_sites, self._level
        column, descending = self._chosen
        everything = native_rows(found, level.where, column, descending)
        if level.is_table:
            self._rows = everything
            self._filtered = filtered_native(found, everything) if level.where else ""
            self.list.show(native_sheet(everything, look, self.size.width, column, descending, self._nothing))
        else:
            row = next((row for row in everything if row_key(row) == level.name), None)
            self._rows = native_stack(row) if row is not None else []
            self.list.show(stack_sheet(self._rows, self.size.width, look, self._source_lines().line))
        self._count = len(self._rows)

    def _source_lines(self) -> SourceLines:
        target = self.now.target
        # a recording's pid may be another's by now
        pid = target.pid if target is not None and self.now.shown is None else 0
        if self._source is None or self._source[0] != pid:
            self._source = (pid, SourceLines(partial(self.read_file, pid)))
        return self._source[1]

    def _show_tree(self, look: ChartStyle) -> None:
        figures, expanded = self._figures, self._level.expanded
        self._tree = tree = figures.tree(self._measure)
        tree.expand_first(expanded)
        parts = figures.parts(tree)
        self._rows = [*tree.rows(expanded), *part_rows(parts)]
        self.list.show(
            tree_sheet(
                self._rows, tree, figures.tables, self.size.width, look, self._nothing,
                parts=parts, known=figures.known, approximate=figures.approximate,
            )
        )  # fmt: skip

    def _show_icicle(self, look: ChartStyle) -> None:
        figures = self._figures
        self._count = len(figures.amounts.paths.parents)
        style = partial(self._styles.of, figures.tables)
        scene = icicle_scene(figures.amounts, self._measure, style, figures.approximate, figures.known)
        self.query_one(IcicleChart).show_scene(scene, look)

    # -- words -----------------------------------------------------------------------------------------------

    @property
    def _is_traced(self) -> bool:
        """Whether figures are tracemalloc's."""
        return self.now.sampling is not None and self.now.sampling.samples.is_traced

    @property
    def _known(self) -> KnownBlocks:
        return self._level.known(is_traced=self._is_traced)

    @property
    def _measure(self) -> Measure:
        return self._level.measure(self._known)

    @property
    def _nothing(self) -> str:
        if self._level.is_native:
            return nothing_native(self.now, self.where)
        return self._figures.nothing(self.now, self._level)

    @property
    def kept_by(self) -> NameTerm | None:
        return self._level.kept_by

    @property
    def wants_graph(self) -> bool:
        return self.kept_by is not None

    @property
    def wants_memory(self) -> bool:
        return self._level.is_native

    @property
    def sampled(self) -> bool:
        return not self._level.is_native

    @property
    def notices(self) -> str:
        return "\n".join(native_notes(self.now)) if self._level.is_native else ""

    @property
    def note(self) -> str:
        if self._level.is_native:
            return native_note(self.now)
        kept = kept_blocks(self.now, self._level) if self.wants_graph else None
        if kept is None:
            return super().note or (self.now.graph.words if self.wants_graph else "")
        ago = format_duration_ns(max(self.now.now_ns - kept.time_ns, 0))
        return f"≈ the part of each stack that was kept {ago} ago · {self.now.graph.words}"

    @property
    def words(self) -> tuple[str, str]:
        level, status = self._level, self.now.sampling_status
        what = level.words(status, self._measure)
        if status.means != TRACEMALLOC and not level.is_native and self._count and not self.trail:
            what += WITHOUT_C
        left = f"{self.TITLE} {what}{self.trail}"
        if not self._count or level.shape is FigureShape.ICICLE:
            return left, ""
        return left, " · ".join(part for part in (self._no_site, self._place(self._count)) if part)

    @property
    def age_ns(self) -> int:
        if self._level.is_native:
            return native_age_ns(self.now)
        return max(one.age_ns(self.now) for one in (self._drawn, self._figures.selector))

    def _crumb(self, outer: ProducersLevel, level: ProducersLevel) -> str:
        return level.title or super()._crumb(outer, level)

    @property
    def crumbs(self) -> tuple[str, ...]:
        """In the icicle, what was zoomed in to comes last."""
        if self._level.shape is not FigureShape.ICICLE:
            return super().crumbs
        zooms = self.query_one(IcicleChart).zooms
        return (*super().crumbs, *(self._figures.tables.function(zoom[-1]) for zoom in zooms))

    @property
    def picture(self) -> str:
        return "the icicle" if self._level.shape is FigureShape.ICICLE else ""

    @property
    def unsortable(self) -> str:
        if self._level.shape is FigureShape.TREE:
            return "key b sorts the tree"
        return super().unsortable

    @property
    def copied(self) -> str:
        """A site's stack as a whole, and in the icicle the way to the box."""
        shape = self._level.shape
        if shape is FigureShape.ICICLE:
            return printable(self.query_one(IcicleChart).chosen_text)
        if shape is not FigureShape.STACKS or not self._rows:
            return super().copied
        return "\n".join(map(printable, (self._level.title, *stack_texts(self._rows, self.list.cursor))))

    # -- what the keys do ------------------------------------------------------------------------------------

    @property
    def table(self) -> Cursor:
        return self.query_one(IcicleChart) if self.has_class("icicle") else self.list

    def _check_filter(self, where: Filter) -> None:
        if self._level.is_native:
            where.allow(FIELDS, "Native memory")
            return
        where.allow((*LIVE_BLOCKS, "retainer"), "Producers")
        if retainer_term(where) is not None and self._is_traced:
            raise UsageError(
                "Traces have no retainers.", why="tracemalloc does not report which object a trace belongs to."
            )
        check_bound(self.now, where)

    @property
    def bys(self) -> Mapping[str, str]:
        return self._level.bys(self._known, native=self.now.is_native)

    @property
    def by(self) -> str:
        return self._level.by

    def show_by(self, key: str) -> None:
        self._levels[-1] = self._level.shown_by(key)
        self._again()

    def action_variant(self) -> bool:
        """Table, tree, icicle; what was looked into is left."""
        if self._level.shape is FigureShape.STACKS or self._level.function is not None:
            self._levels.pop()
        self._levels[-1] = self._level.next_shape(self._sort)
        self._again()
        if not self.picture:
            self.list.move_to(0)
        return True

    @property
    def subject(self) -> QuerySubject | None:
        row, samples = self._row if self._level.is_table else None, self.now.samples
        if not isinstance(row, ProducerGroup) or samples is None:
            return None
        weighty = sorted(row.tallies, key=lambda tally: -tally.live.bytes)[:MOST_ASKED]
        return QuerySubject(row.name, stacks=samples.reported_stacks({tally.stack for tally in weighty})[:MOST_ASKED])

    @property
    def unavailable(self) -> str:
        if not self._level.is_table:
            return "w works on a site of the table: press Esc or v first"
        if not self._count:
            return f"no site to select yet: {self._nothing[:1].lower()}{self._nothing[1:].rstrip('.…')}"
        if isinstance(self._row, OlderThanSampling):
            return "its site is unknown: view 3 shows by type what keeps it"
        return super().unavailable

    def action_drill(self) -> bool:
        if self._level.shape is FigureShape.ICICLE:
            return bool(self._count) and self.query_one(IcicleChart).zoom_in()
        if self._level.shape is FigureShape.TREE:
            return self._changed(self._row is not None and self._tree.toggle(self._row, self._level.expanded))
        inner = self._level.inside(self._row) if self._level.is_table and self._row is not None else None
        if inner is not None:
            self._enter(inner)
        return inner is not None

    def action_unfold(self) -> bool:
        """Give each call of a line of the tree its own, or fold them again."""
        is_call = self._level.shape is FigureShape.TREE and self._row is not None
        return self._changed(is_call and self._tree.unfold(self._row, self._level.expanded))

    def _changed(self, is_changed: bool) -> bool:
        """Draw the tree again, if it is changed."""
        if is_changed:
            self._again()
        return is_changed

    def back(self) -> bool:
        is_icicle = self._level.shape is FigureShape.ICICLE
        return (is_icicle and self.query_one(IcicleChart).zoom_out()) or super().back()

    @property
    def _sorted_as(self) -> str:
        return self._level.key

    @property
    def _sortable(self) -> Sequence[str]:
        if self._level.is_native:
            return tuple(SORTS) if self._level.is_table else ()
        return self._columns if self._level.is_table else ()

    @property
    def _first_sort(self) -> tuple[str, bool]:
        return "live", True
