"""View 9, Memory: RSS over time by use, and under it the same as a table that sums to it.

What is known is :class:`heaptop.analysis.rss.memory_history.MemoryFacts`, the chart
:func:`heaptop.tui.charts.raster.picture` of :func:`~heaptop.analysis.rss.memory_history.course`, the tables are
:mod:`heaptop.tui.views.memory.memory_tables`'. :class:`heaptop.tui.state.memory_watch.MemoryWatch` asks for figures
while this view is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from textwrap import wrap
from typing import Any, ClassVar, Final, TypeVar

from textual.app import ComposeResult

from heaptop.analysis.filters.filters import Filter
from heaptop.analysis.filters.predicates import FilterFigures
from heaptop.analysis.rss.memory_history import UNSEEN, LiveBytes, UseHistory, course
from heaptop.analysis.text.units import filtered_words
from heaptop.errors import UsageError
from heaptop.tui.charts.chart_style import ChartStyle, letter_of
from heaptop.tui.charts.palette import REST_SLOT
from heaptop.tui.charts.raster import EMPTY, ChartBands, StyleRun
from heaptop.tui.keys.explaining import BEE, CPYTHON, FigureHelp
from heaptop.tui.state.drill import Level
from heaptop.tui.state.session import Display
from heaptop.tui.state.sheet import WIDE, Sheet
from heaptop.tui.text import clip
from heaptop.tui.views.memory.memory_tables import (
    OWNER,
    PART_SORTS,
    USE,
    USE_SORTS,
    UsePart,
    UseRow,
    arena_size,
    part_columns,
    part_pieces,
    parts,
    rows,
    slots,
    use_columns,
    use_pieces,
)
from heaptop.tui.views.memory.memory_words import about, answer, cadence, missing, name_of, notes
from heaptop.tui.views.table_view import LevelView
from heaptop.tui.widgets.area_chart import AreaChart
from heaptop.tui.widgets.picture import Picture
from heaptop.tui.widgets.virtual_table import VirtualTable

R = TypeVar("R", UseRow, UsePart)
PART: Final = "part"  # The name of the third table, that of what a row is made of


@dataclass(frozen=True, slots=True)
class MemoryLevel(Level):
    """Uses or owners, or what one of them is made of."""

    key: str = USE
    inside: str = ""  # The key of that one; empty for all


def series(shown: UseHistory, key: str, inside: str) -> ChartBands:
    """The course as the raster takes it; with ``inside`` that one alone."""
    letters = {**slots(key), UNSEEN: REST_SLOT}
    picked = [(name, values) for name, values in zip(shown.keys, shown.values, strict=True) if inside in ("", name)]
    if inside not in ("", "live"):  # what was not asked is not nothing; live objects the censuses tell
        unseen = shown.values[shown.keys.index(UNSEEN)] if UNSEEN in shown.keys else (0,) * len(shown.times_ns)
        known = [place for place, hidden in enumerate(unseen) if not hidden]
    else:
        known = list(range(len(shown.times_ns)))
    return ChartBands(
        times=[shown.times_ns[place] / 1e9 for place in known],
        values=[[values[place] for place in known] for _, values in picked],
        slots=[letters[name] for name, _ in picked],
        letters=[letter_of(letters[name]) for name, _ in picked],
    )


def paragraphs(texts: Sequence[str], look: ChartStyle, width: int, height: int) -> list[list[StyleRun]]:
    """Words wrapped into so many lines; what does not fit ends in an ellipsis."""
    room = max(width - 2, 1)
    lines = [line for text in texts for line in wrap(look.text(text), room)]
    if len(lines) > height:
        lines = [*lines[: height - 1], " ".join(lines[height - 1 :])] if height else []
    return [[StyleRun(" " + look.text(clip(line, room)), EMPTY, EMPTY)] for line in lines]


class MemoryView(LevelView[MemoryLevel]):
    """The answer in words, chart, table."""

    NAME = "memory"
    NUMBER = 9
    TITLE = "Memory"
    ABOUT = "what RSS is made of"
    SHOWS = (
        "Resident memory (RSS) by use: the rows add up to it exactly. While this view is shown it is read every "
        "five seconds, from outside the process, less often if reading takes long; key c reads at once."
    )
    EXPLAINS = (
        FigureHelp(
            ("Use", "Owner", "Resident", "Share", "█"),
            "Resident memory and mappings, from the kernel (/proc/PID/smaps). No thread is stopped for it, but "
            "mmap and munmap may wait meanwhile.",
            BEE.at("§3.1.3, fig. 5"),
        ),
        FigureHelp(
            ("≈",),
            "Combined from figures of nearly the same moment, so that all rows add up to RSS. Without ≈ a figure "
            "is the kernel's alone.",
        ),
        FigureHelp(
            ("What it is",),
            "Arena use is read from Python's own tables; the allocator reports what is in use and free (glibc with "
            "mallinfo2; jemalloc and tcmalloc with functions of their own, in rows with their names). Live objects "
            "are from the last census, with their Attributes (view 1).",
            CPYTHON.at("Objects/obmalloc.c"),
        ),
        FigureHelp(
            ("heaptop",),
            "Memory of heaptop in the process: its mappings, from the kernel, and an estimate for the agent's "
            "Python objects in the program's arenas and heaps. Memory that these objects have freed is in the rows "
            "of arenas and malloc.",
        ),
        FigureHelp(
            ("Change…", "Trend"),
            "Change since the first figures of this view; the heading shows how long ago that was. Rows that "
            "appeared later are marked new.",
        ),
        FigureHelp(
            ("the chart", "~"),
            "Letters are the rows' bands in the chart. ~ is memory at times when this view was not shown: then "
            "only RSS and live objects are known.",
            BEE.at("§3.1.3, fig. 5"),
        ),
        FigureHelp(
            ("Name", "Kind", "Size", "Part"),
            "What a row consists of: mappings by name, arenas and their use, malloc's figures. Size is address "
            "space; the share is the resident part of it, or of the arenas. Sites (heaptop run --native): estimated "
            "live bytes by Python line and calling library.",
            CPYTHON.at("Objects/obmalloc.c"),
        ),
    )
    HELP = (
        "Filters: size>1MB (of rows); for a mapping's name, sort by Name. Resident memory has no type, module or "
        "site: a page holds objects of many."
    )
    OFFERS = (
        "cycle_key", "filter", "drill", "census", "pause", "sort_column(-1)", "sort_column(1)", "invert", "follow",
    )  # fmt: skip
    MEANS: ClassVar[Mapping[str, str]] = {"cycle_key": "use, owner"}
    DEFAULT_CSS = """
    MemoryView > #said { height: 3; }
    MemoryView > AreaChart { height: 1fr; }
    MemoryView > VirtualTable { height: 1fr; max-height: 12; }
    MemoryView.inside > #said { height: 5; }
    MemoryView.wide > #said { height: 1; }
    MemoryView.wide.inside > #said { height: 2; }
    MemoryView.inside > VirtualTable { max-height: 100%; }
    """

    def __init__(self) -> None:
        super().__init__(MemoryLevel())
        self._live = LiveBytes()
        self._course = UseHistory((), (), ())
        self._course_of: tuple[object, ...] = ()
        self._hidden = 0  # Rows that the filter does not let through

    def compose(self) -> ComposeResult:
        yield Picture(id="said")
        yield AreaChart()
        yield VirtualTable()

    # -- drawing ---------------------------------------------------------------------------------------------

    def _draw(self, display: Display, look: ChartStyle) -> None:
        level = self._level
        self.set_class(bool(level.inside), "inside")
        self._make_course(display, level.key)
        drawn = series(self._course, level.key, level.inside)
        self.query_one(AreaChart).show_series(drawn, display.origin_ns / 1e9, look)
        self.list.show(self._parts_sheet(display, look) if level.inside else self._uses_sheet(display, look))
        self._say(display, look)

    def _make_course(self, display: Display, key: str) -> None:
        made_of = (display.memory, display.ticks[-1:], display.records[-1:], display.shown, key)
        if len(made_of) == len(self._course_of) and all(map(_same, made_of, self._course_of)):
            return
        live = self._live.of(display.records)
        self._course_of = made_of
        self._course = course(display.memory, display.ticks, live, by_owner=key == OWNER)

    def _say(self, display: Display, look: ChartStyle) -> None:
        self.query_one("#said", Picture).show(partial(paragraphs, self._texts(display), look), look)

    def _texts(self, display: Display) -> list[str]:
        level = self._level
        if lacking := missing(display):
            return [lacking]
        if level.inside:
            return [about(display.memory, level.inside)]
        said = answer(display.memory)
        if self.size.width >= WIDE or not isinstance(self._row, UseRow):
            return [said]
        return [said, f"Row {letter_of(self._row.slot)}: {self._row.meaning}"]

    def _uses_sheet(self, display: Display, look: ChartStyle) -> Sheet[UseRow]:
        key, wide = self._level.key, self.size.width >= WIDE
        found = self._found(rows(display.memory, key), USE_SORTS)
        largest = max((row.bytes for row in found), default=0)
        return Sheet(
            columns=use_columns(key, display.memory.elapsed_ns, wide=wide),
            rows=found,
            key=lambda row: row.key,
            draw=lambda row: use_pieces(row, look, wide=wide, largest=largest),
            look=look,
            sort=self._sort,
            descending=self._descending,
            nothing=self._nothing,
        )

    def _parts_sheet(self, display: Display, look: ChartStyle) -> Sheet[UsePart]:
        wide = self.size.width >= WIDE
        size = arena_size(display.target.python) if display.target is not None else None
        found = self._found(parts(display.memory, self._level.inside, size), PART_SORTS)
        return Sheet(
            columns=part_columns(display.memory.elapsed_ns, wide=wide),
            rows=found,
            key=lambda part: part.key,
            draw=lambda part: part_pieces(part, look, wide=wide),
            look=look,
            sort=self._sort,
            descending=self._descending,
            nothing=self._nothing,
        )

    def _found(self, everything: Sequence[R], sorts: Mapping[str, Callable[[R], Any]]) -> list[R]:
        """What passes the filter, sorted as was chosen."""
        found = [row for row in everything if self._passes(row.bytes or 0)]
        found.sort(key=sorts[self._sort], reverse=self._descending)
        self._rows, self._hidden = found, len(everything) - len(found)
        return found

    @property
    def _nothing(self) -> str:
        return f"Nothing matches {self.where}." if self.where else "No figures yet."

    def _passes(self, size: int) -> bool:
        found = self.where.given(lambda attribute: ())
        return found if isinstance(found, bool) else found(FilterFigures(size, 0))

    def moved(self) -> None:
        if self._shown is not None:
            self._say(*self._shown)

    @property
    def wants_memory(self) -> bool:
        return True

    @property
    def note(self) -> str:
        """The first of what is not known, or does not fit; all of it is on the help page."""
        said = notes(self.now)
        more = f" ({len(said) - 1} more, press ?)" if len(said) > 1 else ""
        return said[0] + more if said else ""

    @property
    def notices(self) -> str:
        return "\n".join(notes(self.now))

    @property
    def words(self) -> tuple[str, str]:
        level = self._level
        unseen = "  ~: not measured" if UNSEEN in self._course.keys and not level.inside else ""
        left = f"{self.TITLE} by {level.key}{unseen}{self.trail}"
        said = (cadence(self.now, wide=self.size.width >= WIDE), self._place(len(self._rows)))
        return left, " · ".join(part for part in said if part)

    @property
    def filtered(self) -> str:
        return filtered_words(self._hidden) if self.where and (self._rows or self._hidden) else ""

    def _crumb(self, outer: MemoryLevel, level: MemoryLevel) -> str:
        latest = self.now.memory.latest
        row = latest.row(level.inside) if latest is not None else None
        return row.name if row is not None else name_of(level.inside)

    # -- what the keys do ------------------------------------------------------------------------------------

    def _check_filter(self, where: Filter) -> None:
        what = "Mappings" if self._level.inside else "Uses of memory"
        if "type" in where.attributes:
            raise UsageError(
                f"{what} have no types.",
                why="A word alone filters by type name, but a page holds objects of many types.",
                fix="Write size>1MB, or sort by name.",
            )
        where.allow(("size",), what)

    @property
    def bys(self) -> Mapping[str, str]:
        return {} if self._level.inside else {USE: "by use", OWNER: "by owner"}

    def show_by(self, key: str) -> None:
        self._levels[-1] = replace(self._level, key=key)
        self._again()

    def action_drill(self) -> bool:
        key = self.list.row_key
        if self._level.inside or key is None:
            return False
        self._enter(MemoryLevel(self._level.key, inside=key))
        return True

    @property
    def _sorted_as(self) -> str:
        return PART if self._level.inside else self._level.key

    @property
    def _sortable(self) -> Sequence[str]:
        return tuple(PART_SORTS if self._level.inside else USE_SORTS)


def _same(one: object, other: object) -> bool:
    """The same thing, or of tuples, the same things in them."""
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(a is b for a, b in zip(one, other, strict=True))
    return one is other
