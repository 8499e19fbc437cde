"""What view 2 shows of the samples: rows, trends, stacks, and sums by call path, each made once for a display."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import TypeVar, cast

from heaptop.analysis.callers.call_paths import Amounts, Measure
from heaptop.analysis.callers.function_parts import FunctionPart, parts_of
from heaptop.analysis.callers.producer_table import ProducerRow, ProducerTables, RecentMoments, moments_since, older_at
from heaptop.analysis.filters.kept_samples import KeptBlocks, KeptSamples
from heaptop.analysis.samples.moments import SiteRecord
from heaptop.analysis.samples.sampled_blocks import SampledBlocks
from heaptop.analysis.samples.tallies import Tally
from heaptop.analysis.text.units import filtered_words
from heaptop.tui.state.sampling_words import not_sampled
from heaptop.tui.state.session import Display
from heaptop.tui.views.producers.call_rows import CallTree
from heaptop.tui.views.producers.producer_levels import ProducersLevel
from heaptop.tui.views.producers.producer_sheets import KnownBlocks, StackLine, Trend, sorted_rows, stack_lines, whole
from heaptop.tui.views.producers.selecting import SampleSelector

T = TypeVar("T")


class ProducerFigures:
    """Of the display and the level that :meth:`begin` was given last."""

    def __init__(self, later: Callable[[float, Callable[[], None]], object], ready: Callable[[], None]) -> None:
        """As for :class:`SampleSelector`."""
        self.selector = SampleSelector(later, self._selected)
        self._ready = ready
        self._display = Display()
        self._level = ProducersLevel()
        self._made: dict[Hashable, object] = {}
        self._past = RecentMoments()
        self.approximate: frozenset[int] = frozenset()  # Types that free lists hand on
        self._samples: SampledBlocks | None = None
        self._tables: ProducerTables | None = None

    @property
    def samples(self) -> SampledBlocks:
        assert self._samples is not None, "only where begin was True"
        return self._samples

    @property
    def tables(self) -> ProducerTables:
        assert self._tables is not None, "only where begin was True"
        return self._tables

    def begin(self, display: Display, level: ProducersLevel) -> bool:
        """Take what follows from these. False where there is nothing to sum up: nothing was ever sampled, or what
        lives long, or is kept, is not known, or not yet."""
        if self._display is not display:
            self._display = display
            self._made.clear()
        self._level = level
        self._samples = self._find_samples()
        if self._samples is None:
            return False
        # Once sampling is off, the sampler names none.
        self.approximate = self.tables.approximate(self._samples) or self.approximate
        return True

    def _find_samples(self) -> SampledBlocks | None:
        display, level = self._display, self._level
        sampling = display.sampling
        if sampling is None or sampling.state is None or not (sampling.on or display.moments):
            return None
        if self._tables is None or self._tables.sites is not sampling.sites:
            self._tables = ProducerTables(sampling.samples, sampling.sites)
        samples = self.selector.samples(display, level.where)
        if samples is None or level.kept_by is None:
            return samples
        kept = kept_blocks(display, level)
        parts = kept.parts if kept is not None else None
        if parts is None:
            return None
        return self._once(("kept", level.where.text), lambda: KeptSamples(samples, parts))

    def _selected(self) -> None:
        self._made.clear()
        self._ready()

    def _once(self, key: Hashable, make: Callable[[], T]) -> T:
        """What is made once for a display, however often it is drawn."""
        if key not in self._made:
            self._made[key] = make()
        return cast("T", self._made[key])

    @property
    def known(self) -> KnownBlocks:
        return KnownBlocks.of(self.samples)

    @property
    def tallies(self) -> list[Tally]:
        """What the filter lets through."""
        where = self._level.where
        return self._once(
            ("tallies", where.text), lambda: self.tables.tallies(self.samples, where.without("retainer"))
        )

    # -- tables ----------------------------------------------------------------------------------------------

    @property
    def _rows_key(self) -> tuple[Hashable, ...]:
        return "rows", self._level.key, self._level.where.text

    @property
    def rows(self) -> tuple[list[ProducerRow], int]:
        """The rows of the table in no order, and the living bytes of all."""
        for _ in self.find_rows():
            pass
        return cast("tuple[list[ProducerRow], int]", self._made[self._rows_key])

    def find_rows(self) -> Iterator[object]:
        """Make these, in steps of a few milliseconds."""
        if self._rows_key in self._made:
            return
        level, tables, tallies = self._level, self.tables, self.tallies
        rows: list[ProducerRow] = []
        total = sum([tally.live.bytes for tally in tallies])
        if level.key == "function":
            rows += tables.callees(tables.amounts(tables.paths(), tallies))
        else:
            yield from tables.find_groups(tallies, level.key, rows)
        older = None if level.where or level.key == "chain" else older_at(self.samples, self._display.moments)
        if older is not None:
            rows.append(older)
            total += older.figure("live")
        self._made[self._rows_key] = rows, total
        yield rows

    def prepare(self, display: Display, level: ProducersLevel, column: str, descending: bool) -> Iterator[object]:
        """Make what a table sorted so is drawn of, in steps of a few milliseconds."""
        yield display.moments  # includes the latest messages
        if self.begin(display, level):
            yield from self.find_rows()
            yield self.trend
            yield self.sorted_rows(column, descending)

    def sorted_rows(self, column: str, descending: bool) -> Sequence[ProducerRow]:
        key = (*self._rows_key, column, descending)
        return self._once(key, lambda: sorted_rows(self.rows[0], column, descending, self.trend))

    @property
    def trend(self) -> Trend | None:
        level = self._level
        return self._past.trend(self._moments, level.key, level.where) if level.key in ("site", "module") else None

    @property
    def change_ns(self) -> int:
        """How long ago what :attr:`trend` begins with was."""
        moments = self._moments
        return moments[-1].time_ns - moments[0].time_ns if moments else 0

    @property
    def _moments(self) -> Sequence[SiteRecord]:
        """Those that changes and trends are over."""
        display = self._display
        void_ns = display.sampling_status.void_ns or 0  # what lived before is in other rows, and has not gone
        since_ns = display.now_ns
        if display.shown is not None and len(display.records) > 1:
            # A jump of a recorded heap is known at the census after it, which may be long after it.
            since_ns = display.records[-2].time_ns
        return [moment for moment in moments_since(display.moments, since_ns) if moment.time_ns >= void_ns]

    def filtered(self, shown: int) -> str:
        """What the filter hides of all that lives: bytes, and rows of a table, of which there are ``shown``."""
        level, everything = self._level, self._display.samples
        if not level.where or everything is None:
            return ""
        key = level.key if level.has_groups else ""
        rows, size = self._once(("whole", key), lambda: self._whole(everything, key))
        passing = whole(sum(tally.live.bytes for tally in self.tallies))
        return filtered_words(rows - shown if key else 0, size - passing, about="" if everything.is_traced else "≈")

    def _whole(self, samples: SampledBlocks, key: str) -> tuple[int, int]:
        """Rows by a key, and bytes, without a filter."""
        tallies = [*samples.tallies()]
        rows = len(self.tables.groups(tallies, key)) if key else 0
        return rows, whole(sum(tally.live.bytes for tally in tallies))

    # -- stacks and paths ------------------------------------------------------------------------------------

    @property
    def stacks(self) -> list[StackLine]:
        """Of the row that is looked into."""
        level = self._level
        return self._once(("stacks", level.key, level.name, level.where.text), self._find_stacks)

    def _find_stacks(self) -> list[StackLine]:
        level, tables = self._level, self.tables
        group = next((one for one in tables.groups(self.tallies, level.key) if one.key == level.name), None)
        return stack_lines(tables.stacks(group) if group is not None else [], group, tables.sites, self.known)

    def tree(self, measure: Measure) -> CallTree:
        """Of the callers and callees of the level's function, or of all paths."""
        level = self._level
        sections = self._once(("sections", level.function, level.where.text), self._sections)
        return CallTree(sections, measure, self.tables.is_library)

    def _sections(self) -> tuple[Amounts, ...]:
        function, tables, tallies = self._level.function, self.tables, self.tallies
        if function is None:
            return (tables.amounts(tables.paths(merged=True), tallies),)
        return tuple(tables.amounts(tables.around(function, above=above), tallies) for above in (True, False))

    def parts(self, tree: CallTree) -> Sequence[FunctionPart]:
        """What the allocations of the level's function, and of its callees, are made of."""
        level, measure = self._level, tree.measure
        if level.function is None:
            return ()
        return self._once(
            ("parts", level.function, level.where.text, measure),
            lambda: parts_of(tree.sections[-1].tallies(), self.samples, measure),
        )

    @property
    def amounts(self) -> Amounts:
        """On all paths, for the icicle."""
        return self._once(
            ("icicle", self._level.where.text), lambda: self.tables.amounts(self.tables.paths(), self.tallies)
        )

    # -- words -----------------------------------------------------------------------------------------------

    def nothing(self, display: Display, level: ProducersLevel) -> str:
        """Why there is no row."""
        sampling = display.sampling
        if sampling is None or sampling.state is None or not (sampling.on or sampling.moments.records):
            return not_sampled(sampling)
        if level.kept_by is not None and not sampling.samples.is_traced:
            return _nothing_kept(display, level)
        return self.selector.nothing(display, level.where)


def kept_blocks(display: Display, level: ProducersLevel) -> KeptBlocks | None:
    """What is known of the blocks that the level's retainers keep."""
    kept = display.graph.kept
    return kept if kept is not None and kept.term == level.kept_by else None


def _nothing_kept(display: Display, level: ProducersLevel) -> str:
    graph, kept = display.graph, kept_blocks(display, level)
    if kept is None:
        return f"No graph census: {graph.failure}." if graph.failure else "Waiting for a graph census."
    if kept.failure:
        return f"No answer about kept blocks: {kept.failure}."
    if not kept.retainers:
        return f"No retainer matches {level.where}."
    return f"No sample that is kept this way matches {level.where}."
