"""The levels of view 2: what is looked into, how it is shown, and where keys and rows lead from there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import cast

from heaptop.analysis.callers.call_paths import Measure
from heaptop.analysis.callers.producer_table import TABLE_KEYS, Callee, OlderThanSampling, ProducerRow
from heaptop.analysis.filters.filters import parse_filter
from heaptop.analysis.filters.kept_samples import retainer_term
from heaptop.analysis.filters.predicates import NameTerm
from heaptop.analysis.rss.malloc_sites import NativeGroup
from heaptop.analysis.samples.sampling_status import SamplingStatus
from heaptop.protocol.messages import TRACEMALLOC
from heaptop.tui.state import drill
from heaptop.tui.state.drill import exact_term
from heaptop.tui.state.sampling_words import by_words, now_words
from heaptop.tui.views.producers.call_rows import ExpandedCalls
from heaptop.tui.views.producers.native_sheets import FIELDS, row_key
from heaptop.tui.views.producers.producer_sheets import KnownBlocks

NATIVE_SITES = "native"  # The key of native sites: no sampled block has it


class FigureShape(Enum):
    """How the figures of a level are shown."""

    TABLE = "table"
    TREE = "tree"
    ICICLE = "icicle"
    STACKS = "stacks"


_VARIANTS = (FigureShape.TABLE, FigureShape.TREE, FigureShape.ICICLE)


@dataclass(frozen=True)
class ProducersLevel(drill.Level):
    """One level of drilling: what it shows, of what, and what the reader did there."""

    key: str = "site"
    shape: FigureShape = FigureShape.TABLE
    name: str = ""  # The row that is looked into, by its key; of stacks
    title: str = ""
    function: int | None = None
    """Whose callers and callees a tree shows; None for all paths from the outermost function."""
    chosen: Measure = "live"  # What tree and icicle show, where it is known
    expanded: ExpandedCalls = field(default_factory=ExpandedCalls)

    @property
    def is_table(self) -> bool:
        return self.shape is FigureShape.TABLE

    @property
    def has_groups(self) -> bool:
        """Whether it is a table whose rows are made in steps."""
        return self.is_table and self.key not in ("function", NATIVE_SITES)

    @property
    def is_native(self) -> bool:
        """Whether it shows native sites, or the stack of one."""
        return self.key == NATIVE_SITES and self.shape in (FigureShape.TABLE, FigureShape.STACKS)

    @property
    def kept_by(self) -> NameTerm | None:
        """The retainers whose blocks alone are shown."""
        return retainer_term(self.where)

    def known(self, *, is_traced: bool) -> KnownBlocks:
        if is_traced:
            return KnownBlocks.TRACED
        only_live = self.where.lifetime is not None or self.kept_by is not None
        return KnownBlocks.LIVE_BLOCKS if only_live else KnownBlocks.ALL

    def measure(self, known: KnownBlocks) -> Measure:
        """What tree and icicle show: what was allocated is not always known."""
        return self.chosen if known is KnownBlocks.ALL else "live"

    def bys(self, known: KnownBlocks, *, native: bool = False) -> Mapping[str, str]:
        """Of a table its keys; in tree and icicle, what lives or all that was allocated, where that is known.

        ``native``: the process was started with ``--native``."""
        if self.is_table:
            more = {"chain": "by call stack, the leak table", "handler": "by handler: request, task, thread"}
            keys = {key: more.get(key, f"by {key}") for key in TABLE_KEYS}
            native = native and set(self.where.attributes) <= set(FIELDS)  # else the filter would have to go
            return {**keys, NATIVE_SITES: "native memory, by line and library"} if native else keys
        is_open = self.shape is not FigureShape.STACKS and known is KnownBlocks.ALL
        return {"live": "live memory", "allocated": "all allocations"} if is_open else {}

    @property
    def by(self) -> str:
        return self.key if self.is_table else self.chosen

    def shown_by(self, by: str) -> ProducersLevel:
        if not self.is_table:
            return replace(self, chosen=cast("Measure", by))
        return replace(self, key=by)

    def next_shape(self, sort: str) -> ProducersLevel:
        """Table, tree, icicle. ``sort``: the column that a table is sorted by."""
        shape = _VARIANTS[(_VARIANTS.index(self.shape) + 1) % len(_VARIANTS)]
        if self.is_native:  # no path of sampled blocks leads to them
            return replace(self, key="site", shape=shape)
        # Of what is sorted by what it allocates, the largest may well keep nothing: in what lives it has no line.
        churns = self.is_table and sort in ("allocated", "freed")
        return replace(self, shape=shape, chosen="allocated" if churns else self.chosen)

    def inside(self, row: ProducerRow | NativeGroup) -> ProducersLevel | None:
        """What a row of a table opens; None for nothing."""
        if isinstance(row, NativeGroup):
            return replace(self, shape=FigureShape.STACKS, name=row_key(row), title=row.caller)
        if isinstance(row, OlderThanSampling):
            return None
        if isinstance(row, Callee):
            tree = replace(self, shape=FigureShape.TREE, function=row.function, title=row.name)
            return replace(tree, expanded=ExpandedCalls())
        if self.key == "module":
            return ProducersLevel(where=self.where & parse_filter(exact_term("producer-module", row.name)))
        return replace(self, shape=FigureShape.STACKS, name=row.key, title=row.name)

    def words(self, status: SamplingStatus, measure: Measure) -> str:
        """What is behind the view's name."""
        if self.is_native:
            return "≈ native memory, by line and library" if self.is_table else "≈ native memory"
        if self.is_table and self.key != "chain":
            said = by_words(self.key, status)
        else:
            shape = {"table": "leak table, by call stack", "stacks": "stacks"}.get(self.shape.value)
            sampled = "sampled " if status.on and status.means != TRACEMALLOC else ""
            said = f"≈ {shape or f'{sampled}{self.shape.value}, {measure}'}{now_words(status)}"
        return said.removeprefix("≈ ") if status.means == TRACEMALLOC else said
