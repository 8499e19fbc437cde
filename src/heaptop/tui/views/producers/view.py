"""View 2, Producers: who allocated what lives, as a table, as a tree of callers and callees, and as an icicle.

The rows are :mod:`heaptop.analysis.callers.producer_table`, the paths :mod:`heaptop.analysis.callers.call_paths`; they
are drawn by :mod:`heaptop.tui.views.producers.producer_sheets` and :mod:`heaptop.tui.charts.icicle`. This module only
keeps what the reader chose: level, key, filter, sort, what is expanded.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial
from typing import ClassVar, Final, TypeVar, cast

from textual.app import ComposeResult

from heaptop.analysis.callers.call_paths import Amounts, Measure
from heaptop.analysis.callers.function_parts import FunctionPart, parts_of
from heaptop.analysis.callers.producer_table import (
    TABLE_KEYS,
    Callee,
    OlderThanSampling,
    ProducerGroup,
    ProducerRow,
    ProducerTables,
    RecentMoments,
    moments_since,
    older_at,
)
from heaptop.analysis.filters.filters import LIVE_BLOCKS, Filter, parse_filter
from heaptop.analysis.filters.kept_samples import KeptBlocks, KeptSamples, retainer_term
from heaptop.analysis.filters.predicates import NameTerm
from heaptop.analysis.samples.estimate import INTERVAL
from heaptop.analysis.samples.moments import SiteSnapshot
from heaptop.analysis.samples.producers import NO_SITE, NO_SITE_MEANS
from heaptop.analysis.samples.samples import SampledBlocks, Tally
from heaptop.analysis.text.units import filtered_words, format_bytes, format_duration_ns
from heaptop.errors import UsageError
from heaptop.protocol.messages import TRACEMALLOC
from heaptop.protocol.text import printable
from heaptop.tui.charts.chart_style import ChartStyle
from heaptop.tui.charts.icicle import BoxStyle
from heaptop.tui.charts.palette import REST_SLOT
from heaptop.tui.keys.bindings import Key
from heaptop.tui.keys.explaining import BEE, CPYTHON, MPROF, STATMEMPROF, FigureHelp
from heaptop.tui.state import drill
from heaptop.tui.state.background import Background, Throttled
from heaptop.tui.state.drill import exact_term
from heaptop.tui.state.messages import ViewChanged
from heaptop.tui.state.sampling_words import WITHOUT_C, by_words, not_sampled, now_words
from heaptop.tui.state.session import Display
from heaptop.tui.state.snapshot_client import QuerySubject
from heaptop.tui.state.source_lines import SourceLines
from heaptop.tui.views.producers.call_rows import CallRow, CallTree, ExpandedCalls, part_rows
from heaptop.tui.views.producers.producer_sheets import (
    KnownBlocks,
    ProducerFacts,
    StackLine,
    Trend,
    box_figures,
    columns_of,
    handed_on,
    no_site_words,
    sorted_rows,
    spread,
    stack_lines,
    stack_sheet,
    table_sheet,
    tree_columns,
    tree_sheet,
    whole,
)
from heaptop.tui.views.producers.selecting import SampleSelector, check_bound
from heaptop.tui.views.table_view import LevelView
from heaptop.tui.widgets.cursor import Cursor
from heaptop.tui.widgets.icicle_chart import IcicleChart, IcicleScene
from heaptop.tui.widgets.virtual_table import VirtualTable

T = TypeVar("T")

SMALL: Final = 2000
"""With no more tallies than this, all is made anew whenever there is something new."""
REST: Final = 20
"""Beyond, it rests for so many times as long as it took: five percent of a core."""
TRIES: Final = 3
"""So often what is made in steps is begun anew when something was said meanwhile; then what is left is made at once."""
MOST_ASKED: Final = 4000
"""Stacks that one question about an image has room for."""
SLOTS: Final = 10
"""Colours of the user's own modules in the icicle; all libraries have one together."""


class FigureShape(Enum):
    """How the figures of a level are shown."""

    TABLE = "table"
    TREE = "tree"
    ICICLE = "icicle"
    STACKS = "stacks"


@dataclass(frozen=True)
class ProducersLevel(drill.Level):
    """One level of drilling: what it shows, of what, and what the reader did there."""

    key: str = "site"
    shape: FigureShape = FigureShape.TABLE
    name: str = ""
    """The row that is looked into, by its key; of stacks."""
    title: str = ""
    """What it is called."""
    function: int | None = None
    """Whose callers and callees a tree shows; None for all paths from the outermost function."""
    measure: Measure = "live"
    expanded: ExpandedCalls = field(default_factory=ExpandedCalls)
    cursor: int = 0
    """Where the cursor stood when the next level was opened."""


class ProducersView(LevelView[ProducersLevel]):
    """One level at a time; the widgets stay, and one of them is shown."""

    NAME = "producers"
    NUMBER = 2
    TITLE = "Producers"
    ABOUT = "allocation sites"
    SHOWS = (
        "Where live memory was allocated: as a table, a tree of callers and callees, and an icicle (key v). "
        "Figures are estimated from samples since the attach."
    )
    EXPLAINS = (
        FigureHelp(
            ("Site", "Function", "Module", "›"),
            "A site is the innermost line of your own code on the call stack (not a library's); in stacks › marks "
            "it. Functions and modules are distinguished by name and file.",
            BEE.at("§4.1"),
        ),
        FigureHelp(
            ("Live", "≈Live", "≈", "exact", "no samples", "unsampled"),
            "What is live of what was allocated there. ≈ marks a column of estimates (exact where every such block "
            "is sampled). No samples does not mean zero; memory that C code takes from malloc or PyMem_RawMalloc "
            "(such as zlib contexts) is never sampled.",
            STATMEMPROF.at("“Sampling allocations”"),
        ),
        FigureHelp(
            ("±", INTERVAL, "Samples", ">999"),
            f"± is the larger side of the {INTERVAL}, in percent of the figure; Samples is how many it is based "
            "on. With few samples it is uncertain; key r samples more.",
            STATMEMPROF.at("“Sampling allocations”"),
        ),
        FigureHelp(
            ("?",),
            "At least a tenth of the figure is of types with free lists: the site may be that of an earlier object "
            "at the same address.",
            CPYTHON.at("Objects/dictobject.c and others with free lists"),
        ),
        FigureHelp(
            ("≈Blocks", "Objects"),
            "Memory blocks; an object may have several. With tracemalloc they are objects, and figures are exact.",
        ),
        FigureHelp(
            ("≈Share", "Share", "≈Share", "█"),
            "Share of all live bytes; in a tree, of all that was sampled. Bars are relative to the largest row.",
        ),
        FigureHelp(
            ("≈Change…", "Change…", "Trend"),
            "Both cover the last 16 ticks, as long as the heading says; in a recording also all since the census "
            "before. Change is allocated minus freed.",
        ),
        FigureHelp(
            ("≈Self", "Self", "Total", "≈Total"),
            "Self is what a function allocates itself, total includes its callees. Both are summed from whole call "
            "stacks, not estimated per callee.",
            BEE.at("§3.1.2 and §3.2.2, fig. 3"),
        ),
        FigureHelp(
            ("≈Alloc'd", "≈Freed"),
            "Allocated since sampling began, and freed of that. The difference is live.",
            MPROF.at("the direct allocation table"),
        ),
        FigureHelp(
            ("≈% by size",),
            "Percent of its allocated bytes in small (s, up to 32 bytes), medium (m, 256), large (l, 2048) and "
            "extra large blocks (x), the largest share first.",
            MPROF.at("the direct allocation table"),
        ),
        FigureHelp(
            ("Call stack, innermost first", "Kept"),
            "The leak table: what each call stack allocated, freed and kept (not freed).",
            MPROF.at("the memory leak table"),
        ),
        FigureHelp(
            ("≈Part", "▸", "▾", "(self)"),
            "In the tree, the share of the line above; (self) is what a function allocates itself; functions that "
            "call each other are one line. ▸ opens with Enter, ▾ is open.",
            BEE.at("fig. 4"),
        ),
        FigureHelp(
            ("a › b", "… 7 library frames"),
            "Calls below one another are one row where their figures are the same, and where all are frames of the "
            "standard library or of packages. Key u shows each on a row of its own, or folds them again.",
        ),
        FigureHelp(
            ("the icicle",),
            "A box is as wide as its share of the total; below it are its callees. Colours are your modules; "
            "libraries share one. The table beside it lists the boxes in the same order; › is the selected one in "
            "both.",
            MPROF.at("the allocation call graph"),
        ),
        FigureHelp(
            (NO_SITE,),
            f"What a census counted beyond the samples: {NO_SITE_MEANS}. It is the "
            "last row, and its share of all is above the table. As a remainder of estimates it shows no change.",
        ),
        FigureHelp(
            ("Frames, innermost first; › is the site",),
            "The call stacks of one site, with source lines where they can be read; below, the types and sizes "
            "allocated there.",
            BEE.at("§4.1"),
        ),
    )
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
        "cycle_key": "site, function, module, call stack; tree, icicle: live or allocated",
        "variant": "table, tree of calls, icicle",
        "drill": "stacks of a site; callers and callees; zooms the icicle in",
    }
    OFFERS = (
        "cycle_key",
        "variant",
        "filter",
        "drill",
        "why",
        "sort_column(-1)",
        "sort_column(1)",
        "rate",
        "unfold",
        "pause",
        "depth=depth",
        "invert",
        "follow",
    )
    DEFAULT_CSS = """
    ProducersView VirtualTable { height: 1fr; }
    ProducersView IcicleChart { display: none; }
    ProducersView.icicle VirtualTable { display: none; }
    ProducersView.icicle IcicleChart { display: block; }
    """

    def __init__(self) -> None:
        super().__init__(ProducersLevel())
        self._columns: tuple[str, ...] = ()
        self._tables: ProducerTables | None = None
        self._past = RecentMoments()
        self._approximate: frozenset[int] = frozenset()
        """Types that free lists hand on."""
        self._choices = 0
        """How often the reader has chosen anything."""
        self._drawn: Throttled[None] = Throttled(rest=REST)
        self._made_of: Display | None = None
        self._made: dict[Hashable, object] = {}
        self._background = Background(self.set_timer)
        self._asked: Hashable = None
        """As what the table that is being made will be remembered."""
        self._rows: Sequence[ProducerRow] = ()
        self._calls: Sequence[CallRow] = ()
        self._tree = CallTree((), "live")
        self._slots: dict[str, int] = {}
        self._faces: dict[int, BoxStyle] = {}
        self._source: tuple[int, SourceLines] | None = None
        self._count = 0
        self._filtered = ""
        self._no_site = ""
        """How much of all that is live the last row is, which may be off the screen."""
        self._zooms: list[tuple[int, ...]] = []
        """What the icicle was zoomed to before, the last one last."""
        self._selector = SampleSelector(self.set_timer, self._ready)

    def compose(self) -> ComposeResult:
        yield VirtualTable()
        yield IcicleChart()

    # -- drawing ---------------------------------------------------------------------------------------------

    def show(self, display: Display, look: ChartStyle) -> None:
        """A large session's figures rest between two displays; a choice of the reader's is drawn at once."""
        self._shown = (display, look)
        if not self.size.width:
            return
        samples = display.samples
        small = samples is None or samples.tally_count <= SMALL
        asked = (self._choices, self.size, look, display.sampling_status.on, display.held)
        if not small and self._is_table_of_groups and self._drawn.has_rested(display, asked):
            self._asked = asked
            if not self._background.is_busy:
                self._background.start(self._prepare_shown(), self._prepared, soon=True)
            return
        self._background.drop()
        self._drawn.get(display, asked, lambda: self._draw(display, look), small=small)

    @property
    def _is_table_of_groups(self) -> bool:
        return self._level.shape is FigureShape.TABLE and self._level.key != "function"

    def _prepare_shown(self) -> Iterator[None]:
        """Prepare the display that is shown; anew where another one is meanwhile, but not forever."""
        for tries in range(1, TRIES + 1):
            display = self.now
            for _ in self._prepare(display):
                yield
                if self.now is not display and tries < TRIES:
                    break
            else:
                return

    def _prepared(self, spent: float) -> None:
        display = self.now
        if self._shown is not None:
            look = self._shown[1]
            self._drawn.get(display, self._asked, lambda: self._draw(display, look), spent=spent)
            self.post_message(ViewChanged())

    def _prepare(self, display: Display) -> Iterator[object]:
        """Make what :meth:`_draw` needs of this display, in steps of a few milliseconds."""
        yield display.moments  # what was said last is worked in
        self._begin(display)
        samples = self._samples(display)
        if samples is None:
            return
        yield from self._find_rows(samples, self._tallies(samples), display)
        yield self._trend(display)
        yield self._sorted_rows(display)

    def _begin(self, display: Display) -> None:
        """What is made from now on is of this display."""
        if self._made_of is not display:
            self._made_of = display
            self._made.clear()

    def _again(self) -> None:
        self._choices += 1
        super()._again()

    def _ready(self) -> None:
        self._made_of = None
        self._again()
        self.post_message(ViewChanged())

    def _draw(self, display: Display, look: ChartStyle) -> None:
        self._begin(display)
        level = self._level
        self._no_site = ""
        self.set_class(level.shape is FigureShape.ICICLE, "icicle")
        samples = self._samples(display)
        if samples is None:
            self.set_class(False, "icicle")
            self._count, self._filtered = 0, ""
            self.list.show(
                table_sheet(
                    (), ProducerFacts(level.key, self.size.width, look, nothing=self._nothing, known=self._known)
                )
            )
            return
        self._approximate = self._made_by.approximate(samples) or self._approximate  # off, the sampler names none
        if level.shape is FigureShape.TABLE:
            self._show_table(samples, look)
        elif level.shape is FigureShape.STACKS:
            self._show_stacks(samples, look)
        elif level.shape is FigureShape.TREE:
            self._show_tree(samples, look)
        else:
            self._show_icicle(samples, look)
        self._report_filtered(samples)

    def _samples(self, display: Display) -> SampledBlocks | None:
        """What to sum up; None where nothing was ever sampled, or what lives long is not known, or not yet."""
        sampling = display.sampling
        if sampling is None or sampling.state is None or not (sampling.on or display.moments):
            return None
        if self._tables is None or self._tables.sites is not sampling.sites:
            self._tables = ProducerTables(sampling.samples, sampling.sites)
            self._faces.clear()
        samples, term = self._selector.samples(display, self._level.where), self.kept_by
        if samples is None or term is None:
            return samples
        kept = self._kept(term)
        if kept is None or kept.parts is None:
            return None
        parts = kept.parts
        return self._once("kept", lambda: KeptSamples(samples, parts))

    def _kept(self, term: NameTerm) -> KeptBlocks | None:
        kept = self.now.graph.kept
        return kept if kept is not None and kept.term == term else None

    def restyle(self) -> None:
        self._choices += 1
        super().restyle()

    @property
    def _made_by(self) -> ProducerTables:
        assert self._tables is not None
        return self._tables

    def _tallies(self, samples: SampledBlocks) -> list[Tally]:
        where = self._level.where
        known = where.without("retainer")
        return self._once(("tallies", where.text), lambda: self._made_by.tallies(samples, known))

    def _show_table(self, samples: SampledBlocks, look: ChartStyle) -> None:
        display = self.now
        level = self._level
        for _ in self._find_rows(samples, self._tallies(samples), display):
            pass
        rows, total = self._made_rows
        self._columns = columns_of(level.key, self.size.width, KnownBlocks.of(samples))
        column, descending = self._chosen
        self._rows = self._sorted_rows(display)
        self._count = len(self._rows)
        self._no_site = no_site_words(self._rows[-1:], total)
        times = [moment.time_ns for moment in self._trend_moments(display)]
        facts = ProducerFacts(
            level.key,
            self.size.width,
            look,
            sort=column,
            descending=descending,
            total=total,
            largest=max((row.weight for row in rows), default=0),
            approximate=self._approximate,
            trend=self._trend(display),
            change_ns=times[-1] - times[0] if times else 0,
            nothing=self._nothing,
            known=KnownBlocks.of(samples),
            place=lambda row: self._made_by.place(row, level.key),
        )
        self.list.show(table_sheet(self._rows, facts))

    @property
    def _rows_key(self) -> tuple[Hashable, ...]:
        return "rows", self._level.key, self._level.where.text

    @property
    def _made_rows(self) -> tuple[list[ProducerRow], int]:
        """The rows of the table in no order, and the living bytes of all."""
        return cast("tuple[list[ProducerRow], int]", self._made[self._rows_key])

    def _find_rows(self, samples: SampledBlocks, tallies: Sequence[Tally], display: Display) -> Iterator[object]:
        """Make these, in steps of a few milliseconds."""
        if self._rows_key in self._made:
            return
        level, tables = self._level, self._made_by
        rows: list[ProducerRow] = []
        total = sum([tally.live.bytes for tally in tallies])
        if level.key == "function":
            rows += tables.callees(tables.amounts(tables.paths(), tallies))
        else:
            yield from tables.find_groups(tallies, level.key, rows)
        older = None if level.where or level.key == "chain" else older_at(samples, display.moments)
        if older is not None:
            rows.append(older)
            total += older.figure("live")
        self._made[self._rows_key] = rows, total
        yield rows

    def _sorted_rows(self, display: Display) -> Sequence[ProducerRow]:
        column, descending = self._chosen
        key = (*self._rows_key, column, descending)
        return self._once(key, lambda: sorted_rows(self._made_rows[0], column, descending, self._trend(display)))

    def _trend(self, display: Display) -> Trend | None:
        level = self._level
        if level.key not in ("site", "module"):
            return None
        return self._past.trend(self._trend_moments(display), level.key, level.where)

    def _trend_moments(self, display: Display) -> Sequence[SiteSnapshot]:
        """Those that changes and trends are over."""
        void_ns = display.sampling_status.void_ns or 0  # what lived before is in other rows, and has not gone
        since_ns = display.now_ns
        if display.shown is not None and len(display.snapshots) > 1:
            # A jump of a recorded heap is known at the census after it, which may be long after it.
            since_ns = display.snapshots[-2].time_ns
        return [moment for moment in moments_since(display.moments, since_ns) if moment.time_ns >= void_ns]

    def _show_stacks(self, samples: SampledBlocks, look: ChartStyle) -> None:
        level, tables = self._level, self._made_by
        tallies = self._tallies(samples)

        def lines() -> list[StackLine]:
            group = next((one for one in tables.groups(tallies, level.key) if one.key == level.name), None)
            stacks = tables.stacks(group) if group is not None else []
            return stack_lines(stacks, group, tables.sites, KnownBlocks.of(samples))

        made = self._once(("stacks", level.key, level.name, level.where.text), lines)
        self._count = len(made)
        source = self._source_lines().line
        self.list.show(stack_sheet(made, self.size.width, look, source))

    def _source_lines(self) -> SourceLines:
        target = self.now.target
        # a recording's pid may be another's by now
        pid = target.pid if target is not None and self.now.shown is None else 0
        if self._source is None or self._source[0] != pid:
            self._source = (pid, SourceLines(partial(self.read_file, pid)))
        return self._source[1]

    def _show_tree(self, samples: SampledBlocks, look: ChartStyle) -> None:
        level, tables, measure = self._level, self._made_by, self._measure
        tallies = self._tallies(samples)

        def sections() -> tuple[Amounts, ...]:
            if level.function is None:
                return (tables.amounts(tables.paths(merged=True), tallies),)
            return tuple(tables.amounts(tables.around(level.function, above=above), tallies) for above in (True, False))

        self._tree = CallTree(
            self._once(("sections", level.function, level.where.text), sections), measure, tables.is_library
        )
        self._expand_first()
        parts: Sequence[FunctionPart] = ()
        if level.function is not None:
            parts = self._once(
                ("parts", level.function, level.where.text, measure),
                lambda: parts_of(self._tree.sections[-1].tallies(), samples, measure),
            )
        self._calls = [*self._tree.rows(level.expanded), *part_rows(parts)]
        self._count = len(self._calls)
        self._columns = tree_columns(self.size.width, KnownBlocks.of(samples))
        self.list.show(
            tree_sheet(
                self._calls, self._tree, tables, self.size.width, look, self._nothing,
                parts=parts, known=KnownBlocks.of(samples), approximate=self._approximate,
            )
        )  # fmt: skip

    def _expand_first(self) -> None:
        """A tree that is new is open as far as there is only one way to go."""
        expanded = self._level.expanded
        if expanded.open or expanded.limits:
            return
        for section, amounts in enumerate(self._tree.sections):
            if amounts.total(0, self._measure):
                self._tree.expand(section, str(section), 0, -1, expanded)

    def _show_icicle(self, samples: SampledBlocks, look: ChartStyle) -> None:
        level, tables = self._level, self._made_by
        tallies = self._tallies(samples)
        amounts = self._once(("icicle", level.where.text), lambda: tables.amounts(tables.paths(), tallies))
        measure, about = self._measure, "" if samples.is_traced else "≈"

        def detail(node: int) -> str:
            mine, all_of_it = amounts.total(node, measure), amounts.total(0, measure) or 1
            above = amounts.total(amounts.paths.parents[node], measure) or 1
            live = amounts.live([node]).estimate(amounts.missed) if measure == "live" and about else None
            unsure = f" {spread(live)}" if live is not None else ""
            own = amounts.own(node, measure)
            itself = f" ({format_bytes(whole(own))} itself)" if own else ""
            parts = f", {mine / above:.1%} of its caller's, {mine / all_of_it:.1%} of all" if node else ""
            mark = handed_on(partial(amounts.total, node), self._approximate) if measure == "live" else ""
            return f"{measure} {mark or about}{format_bytes(whole(mine))}{unsure}{itself}{parts}"

        self._count = len(amounts.paths.parents)
        title = f"everything {about}{format_bytes(whole(amounts.total(0, measure)))}"
        figures = box_figures(amounts, measure, self._approximate, known=KnownBlocks.of(samples))
        scene = IcicleScene(amounts, measure, self._face, title, detail, figures)
        self.query_one(IcicleChart).show_scene(scene, look)

    def _face(self, function: int) -> BoxStyle:
        """A function's name, and the colour of its module: all libraries have one together."""
        face = self._faces.get(function)
        if face is None:
            tables, slot = self._made_by, REST_SLOT
            if tables.is_user(function):
                slot = self._slots.setdefault(tables.module(function), len(self._slots) % SLOTS)
            face = self._faces[function] = BoxStyle(tables.function(function), slot)
        return face

    def _once(self, key: Hashable, make: Callable[[], T]) -> T:
        """What is made once for a display, however often it is drawn."""
        if key not in self._made:
            self._made[key] = make()
        return cast("T", self._made[key])

    @property
    def _is_traced(self) -> bool:
        """Whether figures are tracemalloc's."""
        return self.now.sampling is not None and self.now.sampling.samples.is_traced

    @property
    def _known(self) -> KnownBlocks:
        if self._is_traced:
            return KnownBlocks.TRACED
        return (
            KnownBlocks.LIVE_BLOCKS
            if self._level.where.lifetime is not None or self.kept_by is not None
            else KnownBlocks.ALL
        )

    @property
    def _measure(self) -> Measure:
        """What tree and icicle show: what was allocated is not always known."""
        return self._level.measure if self._known is KnownBlocks.ALL else "live"

    @property
    def _nothing(self) -> str:
        sampling = self.now.sampling
        if sampling is None or sampling.state is None or not (sampling.on or sampling.moments.snapshots):
            return not_sampled(sampling)
        if self.kept_by is not None and not self._is_traced:
            return self._nothing_kept(self.kept_by)
        return self._selector.nothing(self.now, self._level.where)

    def _nothing_kept(self, term: NameTerm) -> str:
        graph, kept = self.now.graph, self._kept(term)
        if kept is None:
            return f"No graph census: {graph.failure}." if graph.failure else "Waiting for a graph census."
        if kept.failure:
            return f"No answer about kept blocks: {kept.failure}."
        if not kept.retainers:
            return f"No retainer matches {self._level.where}."
        return f"No sample that is kept this way matches {self._level.where}."

    @property
    def sampled(self) -> bool:
        return True

    @property
    def kept_by(self) -> NameTerm | None:
        return retainer_term(self._level.where)

    @property
    def wants_graph(self) -> bool:
        return self.kept_by is not None

    @property
    def note(self) -> str:
        term = self.kept_by
        kept = self._kept(term) if term is not None else None
        if term is None or kept is None:
            return super().note or (self.now.graph.words if term is not None else "")
        ago = format_duration_ns(max(self.now.now_ns - kept.time_ns, 0))
        return f"≈ the part of each stack that was kept {ago} ago · {self.now.graph.words}"

    @property
    def words(self) -> tuple[str, str]:
        level = self._level
        sampling_status = self.now.sampling_status
        then = now_words(sampling_status)
        what = {
            FigureShape.TABLE: by_words(level.key, sampling_status)
            if level.key != "chain"
            else f"≈ leak table, by call stack{then}",
            FigureShape.STACKS: f"≈ stacks{then}",
            FigureShape.TREE: f"≈ tree, {self._measure}{then}",
            FigureShape.ICICLE: f"≈ icicle, {self._measure}{then}",
        }[level.shape]
        if sampling_status.means == TRACEMALLOC:
            what = what.removeprefix("≈ ")
        elif self._count and not self.trail:
            what += WITHOUT_C
        left = f"{self.TITLE} {what}{self.trail}"
        if not self._count or level.shape is FigureShape.ICICLE:
            return left, ""
        return left, " · ".join(part for part in (self._no_site, self._place(self._count)) if part)

    @property
    def age_ns(self) -> int:
        return max(one.age_ns(self.now) for one in (self._drawn, self._selector))

    @property
    def filtered(self) -> str:
        return self._filtered

    def _report_filtered(self, samples: SampledBlocks) -> None:
        """What the filter hides of all that lives: bytes, and rows of a table."""
        level, everything, self._filtered = self._level, self.now.samples, ""
        if not level.where or everything is None:
            return
        key = level.key if level.shape is FigureShape.TABLE and level.key != "function" else ""
        rows, size = self._once(("whole", key), lambda: self._whole(everything, key))
        passing = whole(sum(tally.live.bytes for tally in self._tallies(samples)))
        about = "" if self._is_traced else "≈"
        self._filtered = filtered_words(rows - self._count if key else 0, size - passing, about=about)

    def _whole(self, samples: SampledBlocks, key: str) -> tuple[int, int]:
        """Rows by a key, and bytes, without a filter."""
        tallies = [*samples.tallies()]
        rows = len(self._made_by.groups(tallies, key)) if key else 0
        return rows, whole(sum(tally.live.bytes for tally in tallies))

    def _crumb(self, outer: ProducersLevel, level: ProducersLevel) -> str:
        return level.title or super()._crumb(outer, level)

    @property
    def crumbs(self) -> tuple[str, ...]:
        """In the icicle, what was zoomed in to comes last."""
        found = super().crumbs
        if self._level.shape is not FigureShape.ICICLE or self._tables is None:
            return found
        zooms = [*self._zooms[1:], self.query_one(IcicleChart).zoom]
        return (*found, *(self._tables.function(zoom[-1]) for zoom in zooms if zoom))

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
            return printable(self.query_one(IcicleChart).said)
        sheet = self.list.sheet
        if shape is not FigureShape.STACKS or sheet is None or not sheet.rows:
            return super().copied
        heads = [place for place, line in enumerate(sheet.rows) if line.frame is None]
        first = max(place for place in heads if place <= self.list.cursor)
        end = next((place for place in heads if place > first), len(sheet.rows))
        texts = (self._level.title, *(line.text for line in sheet.rows[first:end]))
        return "\n".join(printable(text) for text in texts)

    # -- what the keys do ------------------------------------------------------------------------------------

    @property
    def table(self) -> Cursor:
        return self.query_one(IcicleChart) if self.has_class("icicle") else self.list

    def set_where(self, where: Filter) -> None:
        where.allow((*LIVE_BLOCKS, "retainer"), "Producers")
        if retainer_term(where) is not None and self._is_traced:
            raise UsageError(
                "Traces have no retainers.", why="tracemalloc does not report which object a trace belongs to."
            )
        check_bound(self.now, where)
        self._levels[-1] = replace(self._level, where=where)
        self._again()

    @property
    def bys(self) -> Mapping[str, str]:
        if self._level.shape is FigureShape.TABLE:
            return {key: {"chain": "by call stack, the leak table"}.get(key, f"by {key}") for key in TABLE_KEYS}
        is_open = self._level.shape in (FigureShape.TREE, FigureShape.ICICLE) and self._known is KnownBlocks.ALL
        return {"live": "live memory", "allocated": "all allocations"} if is_open else {}

    @property
    def by(self) -> str:
        return self._level.key if self._level.shape is FigureShape.TABLE else self._level.measure

    def action_cycle_key(self) -> bool:
        """By the next key; in tree and icicle, what lives or all that was allocated."""
        level = self._level
        if level.shape is FigureShape.STACKS or (
            level.shape is not FigureShape.TABLE and self._known is not KnownBlocks.ALL
        ):
            return False
        if level.shape is FigureShape.TABLE:
            key = TABLE_KEYS[(TABLE_KEYS.index(level.key) + 1) % len(TABLE_KEYS)]
            self._levels[-1] = replace(level, key=key)
        else:
            self._levels[-1] = replace(level, measure="allocated" if level.measure == "live" else "live")
        self._again()
        return True

    def action_variant(self) -> bool:
        """Table, tree, icicle; what was looked into is left."""
        shapes = (FigureShape.TABLE, FigureShape.TREE, FigureShape.ICICLE)
        level = self._level
        if level.shape is FigureShape.STACKS or level.function is not None:
            self._levels.pop()
            level = self._level
        shape = shapes[(shapes.index(level.shape) + 1) % len(shapes)]
        # Of what is sorted by what it allocates, the largest may well keep nothing: in what lives it has no line.
        churns = level.shape is FigureShape.TABLE and self._sort in ("allocated", "freed")
        self._levels[-1] = replace(level, shape=shape, measure="allocated" if churns else level.measure)
        self._again()
        if shape is not FigureShape.ICICLE:
            self.list.move_to(0)
        return True

    @property
    def subject(self) -> QuerySubject | None:
        row = self._rows[self.list.cursor] if self._level.shape is FigureShape.TABLE and self._count else None
        samples = self.now.samples
        if not isinstance(row, ProducerGroup) or samples is None:
            return None
        weighty = sorted(row.tallies, key=lambda tally: -tally.live.bytes)[:MOST_ASKED]
        return QuerySubject(row.name, stacks=samples.reported_stacks({tally.stack for tally in weighty})[:MOST_ASKED])

    @property
    def unavailable(self) -> str:
        if self._level.shape is not FigureShape.TABLE:
            return "w works on a site of the table: press Esc or v first"
        if not self._count:
            return f"no site to select yet: {self._nothing[:1].lower()}{self._nothing[1:].rstrip('.…')}"
        if isinstance(self._rows[self.list.cursor], OlderThanSampling):
            return "its site is unknown: view 3 shows by type what keeps it"
        return super().unavailable

    def action_drill(self) -> bool:
        if self._shown is None or not self._count:
            return False
        shape = self._level.shape
        if shape is FigureShape.ICICLE:
            return self._zoom()
        if shape is FigureShape.TREE:
            return self._toggle()
        return shape is FigureShape.TABLE and self._into(self._rows[self.list.cursor])

    def _into(self, row: ProducerRow) -> bool:
        level = self._level
        if isinstance(row, OlderThanSampling):
            return False
        if isinstance(row, Callee):
            inner = replace(
                level, shape=FigureShape.TREE, function=row.function, title=row.name, expanded=ExpandedCalls()
            )
        elif level.key == "module":
            where = level.where & parse_filter(exact_term("producer-module", row.name))
            inner = ProducersLevel(key="site", where=where)
        else:
            inner = replace(level, shape=FigureShape.STACKS, name=row.key, title=row.name)
        self._levels[-1] = replace(level, cursor=self.list.cursor)
        self._enter(inner)
        return True

    def _toggle(self) -> bool:
        if not self._tree.toggle(self._calls[self.list.cursor], self._level.expanded):
            return False
        self._again()
        return True

    def action_unfold(self) -> bool:
        """Give each call of a line of the tree its own, or fold them again."""
        if self._level.shape is not FigureShape.TREE or not self._count:
            return False
        if not self._tree.unfold(self._calls[self.list.cursor], self._level.expanded):
            return False
        self._again()
        return True

    def _zoom(self) -> bool:
        chart = self.query_one(IcicleChart)
        if chart.chosen == chart.zoom:
            return False
        chosen = chart.chosen
        self._zooms = [zoom for zoom in (*self._zooms, chart.zoom) if chosen[: len(zoom)] == zoom and zoom != chosen]
        chart.zoom_into(chosen)
        return True

    def back(self) -> bool:
        depth = self.depth
        if self._level.shape is FigureShape.ICICLE and self._zooms:
            self.query_one(IcicleChart).zoom_into(self._zooms.pop())
            return True
        if not super().back():
            return False
        if self.depth < depth:
            self.list.move_to(self._level.cursor)
        return True

    @property
    def _sorted_as(self) -> str:
        return self._level.key

    @property
    def _sortable(self) -> Sequence[str]:
        return self._columns if self._level.shape is FigureShape.TABLE else ()

    @property
    def _first_sort(self) -> tuple[str, bool]:
        return "live", True
