"""View 8, GC: what the collector did, over time, under the program's own phases (KPROF, fig. 5).

All figures come from :class:`heaptop.census.gc_profile.GcProfile`, which is fed whether anything is sampled or not;
curves are drawn by :mod:`heaptop.tui.curves`, phases by :mod:`heaptop.tui.lanes`. This module never asks for a
collection.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from rich.style import Style
from textual.app import ComposeResult

from heaptop.census.filters import EVERYTHING, Filter
from heaptop.census.gc_profile import Collection, GcSeries, GcTotals, GenerationTotals, Span
from heaptop.census.history import Cell
from heaptop.census.sampling import Sampling
from heaptop.census.units import format_bytes, format_count, format_duration_ns
from heaptop.protocol.messages import TypeName
from heaptop.tui import curves, lanes
from heaptop.tui.curves import Curve, Scale
from heaptop.tui.look import Look, letter_of
from heaptop.tui.messages import ViewChanged
from heaptop.tui.pacing import Paced
from heaptop.tui.raster import AXIS, EMPTY, INK, Run, byte_axis, window_for
from heaptop.tui.sampling_words import standing_text
from heaptop.tui.session import Display
from heaptop.tui.views.base import View
from heaptop.tui.widgets.picture import Picture
from heaptop.tui.widgets.virtual_table import Column, Piece, Sheet, VirtualTable, clip

WIDE: Final = 120
"""From this many columns on what was allocated has a chart of its own, below."""
SMALL: Final = 1000
LANES: Final = 4
"""Lines of phases above the chart, at most."""

KEYS: Final = ("collection", "generation", "phase")
VARIANTS: Final = ("blocks", "bytes", "allocated")
"""What the chart is of: heap and live in blocks, resident bytes, or bytes allocated between collections."""
HEAP, LIVE, ALLOCATED = range(3)
"""The slots of the curves."""


@dataclass(frozen=True, slots=True)
class Profile:
    """All figures of one moment."""

    rows: tuple[Collection, ...]
    totals: GcTotals
    series: tuple[GcSeries, ...]
    spans: tuple[Span, ...]
    phases_lost: int
    sampled: bool
    """Whether allocations were sampled at any time, so that it is known how much was allocated."""

    def of(self, name: str, unit: str) -> GcSeries:
        """One curve."""
        return next(one for one in self.series if (one.name, one.unit) == (name, unit))


class GcView(View):
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
        self._sorts = {"collection": "time", "generation": "name", "phase": "begin"}
        self._down = {"collection": True, "generation": False, "phase": True}
        self._made: Paced[Profile] = Paced()
        self._count = 0

    def compose(self) -> ComposeResult:
        yield Picture(id="chart")
        yield Picture(id="allocated")
        yield Picture(id="said")
        yield VirtualTable()

    def on_resize(self) -> None:
        self.set_class(self.size.width >= WIDE, "wide")
        self._again()
        self.post_message(ViewChanged())

    # -- drawing ---------------------------------------------------------------------------------------------

    def show(self, display: Display, look: Look) -> None:
        self._shown = (display, look)
        if not self.size.width or display.sampling is None:
            return
        sampling = display.sampling
        profile = self._made.get(display, None, partial(take, sampling), small=len(sampling.gc.rows) <= SMALL)
        origin, wide = display.origin_ns, self.size.width >= WIDE
        variants = VARIANTS[:2] if wide else VARIANTS
        variant = variants[self._variant % len(variants)]
        self.query_one("#chart", Picture).show(partial(_draw, profile, variant, origin, look, phases=True), look)
        if wide:
            below = partial(_draw, profile, "allocated", origin, look, phases=False)
            self.query_one("#allocated", Picture).show(below, look)
        lines = [_curves_said(profile, variant, wide=wide), [Run(_totals_said(profile), AXIS, EMPTY)]]
        self.query_one("#said", Picture).show(lambda width, height: [_fit(line, width, look) for line in lines], look)
        self._show_table(profile, origin, look)

    def restyle(self) -> None:
        for picture in self.query(Picture):
            picture.restyle()
        self.table.restyle()

    def _show_table(self, profile: Profile, origin: int, look: Look) -> None:
        sheet = _TABLES[self._key]
        rows = sorted(
            (row for row in sheet.rows(profile) if self._passes(row)),
            key=sheet.numbers[self._sorts[self._key]],
            reverse=self._down[self._key],
        )
        self._count = len(rows)
        wide = self.size.width >= WIDE
        kept = [place for place, column in enumerate(sheet.columns) if wide or column.key not in sheet.wide]

        def draw(row: Any) -> list[Piece]:
            pieces = sheet.draw(row, origin)
            return [pieces[place] for place in kept]

        nothing = f"No collection matches {self._where}." if self._where else sheet.nothing
        self.table.show(
            Sheet(
                columns=tuple(sheet.columns[place] for place in kept),
                rows=rows,
                key=sheet.key,
                draw=draw,
                look=look,
                sort=self._sorts[self._key],
                descending=self._down[self._key],
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
        age = self._made.age_ns(self._shown[0]) if self._shown is not None else 0
        old = f"as of {format_duration_ns(age)} ago · " if age else ""
        follow = "following · " if self.table.follow else ""
        return left, f"{old}{follow}row {self.table.cursor + 1:,} of {self._count:,}" if self._count else ""

    # -- what the keys do ------------------------------------------------------------------------------------

    @property
    def table(self) -> VirtualTable:
        return self.query_one(VirtualTable)

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

    def sort_by(self, column: str) -> None:
        if column not in _TABLES[self._key].numbers:
            return
        same = column == self._sorts[self._key]
        self._down[self._key] = not self._down[self._key] if same else column != "name"
        self._sorts[self._key] = column
        self._again()

    def move_sort(self, step: int) -> None:
        names = list(_TABLES[self._key].numbers)
        self.sort_by(names[(names.index(self._sorts[self._key]) + step) % len(names)])

    def invert(self) -> None:
        self._down[self._key] = not self._down[self._key]
        self._again()


def take(sampling: Sampling) -> Profile:
    """The figures of now, which stay as they are."""
    profile = sampling.gc
    return Profile(
        tuple(profile.rows),
        profile.totals,
        profile.series(),
        profile.spans(sampling.timeline if sampling.timeline.pairs else None),
        profile.phases_lost,
        bool(sampling.timeline.pairs),
    )


# -- tables --------------------------------------------------------------------------------------------------

_QUIET: Final = Style(dim=True)


@dataclass(frozen=True, slots=True)
class _Table:
    """What is shown by one key."""

    rows: Callable[[Profile], Sequence[Any]]
    key: Callable[[Any], str]
    columns: tuple[Column, ...]
    draw: Callable[[Any, int], list[Piece]]
    """From a row and the moment that times count from."""
    numbers: dict[str, Callable[[Any], Any]]
    """What it can be sorted by."""
    wide: frozenset[str]
    """Columns of wide screens only."""
    nothing: str


def _known(number: int | None, form: Callable[[int], str]) -> Piece:
    return Piece("-", _QUIET) if number is None else Piece(form(number))


def _at(time_ns: int, origin: int) -> str:
    """Seconds since the attach, with as many decimals as tell collections apart."""
    seconds = (time_ns - origin) / 1e9
    whole = int(seconds)
    return f"{seconds:.3f} s" if whole < 600 else f"{whole // 60}m {whole % 60:02d}s"


def _draw_collection(row: Collection, origin: int) -> list[Piece]:
    return [
        Piece(_at(row.time_ns, origin)),
        Piece(str(row.generation), Style(bold=row.generation == 2)),
        Piece(format_duration_ns(row.duration_ns)),
        Piece(format_count(row.collected)),
        Piece(format_count(row.uncollectable), Style(bold=row.uncollectable > 0)),
        _known(row.allocated, format_bytes),
        _known(row.live_blocks, format_count),
        _known(row.heap_blocks, format_count),
        _known(row.rss, format_bytes),
        Piece(""),
    ]


def _draw_generation(row: GenerationTotals, origin: int) -> list[Piece]:
    each = row.duration_ns // row.collections
    return [
        Piece(f"generation {row.generation}"),
        Piece(format_count(row.collections)),
        Piece(format_duration_ns(row.duration_ns)),
        Piece(format_duration_ns(each)),
        Piece(format_duration_ns(row.longest_ns)),
        Piece(format_count(row.collected)),
        Piece(format_count(row.uncollectable)),
    ]


def _draw_phase(row: Span, origin: int) -> list[Piece]:
    return [
        Piece(row.name),
        Piece(_at(row.begin_ns, origin)),
        Piece(format_duration_ns(row.end_ns - row.begin_ns) + (" …" if row.open else "")),
        Piece(format_count(row.collections)),
        Piece(format_duration_ns(row.gc_ns)),
        _known(row.allocated, format_bytes),
    ]


def _or_least(number: int | None) -> int:
    return -1 if number is None else number


_TABLES: Final = {
    "collection": _Table(
        rows=lambda profile: profile.rows,
        key=lambda row: str(row.number),
        columns=(
            Column("time", "At", 9),
            Column("generation", "Gen", 4),
            Column("duration", "Took", 8),
            Column("collected", "Collected", 10),
            Column("uncollectable", "Uncollectable", 14),
            Column("allocated", "≈Allocated", 11),
            Column("live", "Live after", 11),
            Column("heap", "Heap blocks", 12),
            Column("rss", "RSS", 9),
            Column("", "", 0),
        ),
        draw=_draw_collection,
        numbers={
            "time": lambda row: row.time_ns,
            "generation": lambda row: (row.generation, row.time_ns),
            "duration": lambda row: row.duration_ns,
            "collected": lambda row: row.collected,
            "uncollectable": lambda row: row.uncollectable,
            "allocated": lambda row: _or_least(row.allocated),
            "live": lambda row: _or_least(row.live_blocks),
        },
        wide=frozenset({"heap", "rss"}),
        nothing="No collection yet.",
    ),
    "generation": _Table(
        rows=lambda profile: profile.totals.generations,
        key=lambda row: str(row.generation),
        columns=(
            Column("name", "Generation", 0, right=False),
            Column("collections", "Collections", 11),
            Column("duration", "Time", 8),
            Column("each", "Each", 8),
            Column("longest", "Longest", 8),
            Column("collected", "Collected", 9),
            Column("uncollectable", "Uncoll.", 8),
        ),
        draw=_draw_generation,
        numbers={
            "name": lambda row: row.generation,
            "collections": lambda row: row.collections,
            "duration": lambda row: row.duration_ns,
            "each": lambda row: row.duration_ns / row.collections,
            "longest": lambda row: row.longest_ns,
            "collected": lambda row: row.collected,
            "uncollectable": lambda row: row.uncollectable,
        },
        wide=frozenset(),
        nothing="No collection yet.",
    ),
    "phase": _Table(
        rows=lambda profile: profile.spans,
        key=lambda row: f"{row.begin_ns} {row.name}",
        columns=(
            Column("name", "Phase", 0, right=False),
            Column("begin", "Begins at", 9),
            Column("duration", "Takes", 10),
            Column("collections", "Collections", 11),
            Column("gc", "In them", 8),
            Column("allocated", "≈Allocated", 11),
        ),
        draw=_draw_phase,
        numbers={
            "name": lambda row: row.name,
            "begin": lambda row: row.begin_ns,
            "duration": lambda row: row.end_ns - row.begin_ns,
            "collections": lambda row: row.collections,
            "gc": lambda row: row.gc_ns,
            "allocated": lambda row: _or_least(row.allocated),
        },
        wide=frozenset(),
        nothing="The program names no phases. It does so by: with heaptop.phase('load'): …",
    ),
}


# -- words ---------------------------------------------------------------------------------------------------


def _curves_said(profile: Profile, variant: str, *, wide: bool) -> list[Run]:
    """The curves by their letters, with the last value of each."""
    wanted = {"blocks": [HEAP, LIVE], "bytes": [HEAP], "allocated": [ALLOCATED]}[variant]
    if wide:
        wanted = [*wanted, ALLOCATED]
    line: list[Run] = []
    for slot in wanted:
        line += [
            Run(f" {letter_of(slot)} ", INK, slot),
            Run(f" {_last(profile, slot, variant)}  ", EMPTY, EMPTY),
        ]
    return line


def _last(profile: Profile, slot: int, variant: str) -> str:
    if slot == ALLOCATED:
        values = profile.of("allocated", "bytes").values
        if not values:
            why = "no collection since" if profile.sampled else "not known: not sampled, key r"
            return f"allocated between collections ({why})"
        return f"allocated before the last collection ≈{format_bytes(values[-1])}"
    if slot == LIVE:
        values = profile.of("live", "blocks").values
        return f"live after a full collection {format_count(values[-1])}" if values else "live (no full collection yet)"
    values = profile.of("heap", variant).values
    if variant == "bytes":
        return f"RSS {format_bytes(values[-1])}" if values else "RSS (not known)"
    return f"heap {format_count(values[-1])} blocks" if values else "heap (no tick yet)"


def _totals_said(profile: Profile) -> str:
    totals = profile.totals
    if not totals.collections:
        return " no collection yet"
    parts = [f"{format_count(totals.collections)} collections"]
    if totals.per_second is not None and totals.time_share is not None:
        parts.append(f"{totals.per_second:.3g}/s")
        parts.append(f"{totals.time_share:.2%} of time")
    parts.append(f"longest {format_duration_ns(max(one.longest_ns for one in totals.generations))}")
    if totals.allocated_each is not None:
        parts.append(f"every ≈{format_bytes(round(totals.allocated_each))}")
    uncollectable = sum(one.uncollectable for one in totals.generations)
    if uncollectable:
        parts.append(f"{format_count(uncollectable)} uncollectable")
    if totals.lost:
        parts.append(f"{format_count(totals.lost)} lost")
    if profile.phases_lost:
        parts.append(f"{format_count(profile.phases_lost)} phases lost")
    return " " + " · ".join(parts)


def _fit(line: list[Run], width: int, look: Look) -> list[Run]:
    """A line that is too long loses its end."""
    out, room = [], width
    for run in line:
        if room <= 0:
            break
        out.append(Run(look.text(clip(run.text, room)), run.fg, run.bg))
        room -= len(run.text)
    return out


# -- pictures ------------------------------------------------------------------------------------------------


def _draw(
    profile: Profile, variant: str, origin: int, look: Look, width: int, height: int, *, phases: bool
) -> list[list[Run]]:
    """The chart, and above it the phases on the same axis."""
    spans = profile.spans if phases else ()
    above = min(1 + max((span.lane for span in spans), default=-1), LANES, max(height - 6, 0))
    drawn = _drawn_curves(profile, variant, origin)
    rows = max(height - above - 2, 1)
    peak = max((value for curve in drawn for _, value in curve.points), default=0.0)
    axis = byte_axis(peak, rows)
    y = curves.count_scale(peak, rows) if variant == "blocks" else Scale(0.0, axis.top, axis.ticks)
    gutter = max(curves.gutter_of(y), 9)
    x = _time_scale(profile, origin, width - gutter)
    chart = curves.picture(drawn, x, y, width, height - above, look.ink, gutter=gutter)
    if not above or width - gutter < curves.LEAST_PLOT:
        return chart
    stretches = [
        lanes.Stretch(span.name, (span.begin_ns - origin) / 1e9, (span.end_ns - origin) / 1e9, span.lane, span.open)
        for span in spans
    ]
    return [*lanes.picture(stretches, x, width, above, look.ink, gutter), *chart]


def _time_scale(profile: Profile, origin: int, plot: int) -> Scale:
    last = max((one.times_ns[-1] for one in profile.series if one.times_ns), default=origin)
    last = max([last, *(span.end_ns for span in profile.spans)])
    window = window_for(0.0, (last - origin) / 1e9, max(plot, 1))
    return Scale(window.start, window.start + window.span, window.ticks)


def _drawn_curves(profile: Profile, variant: str, origin: int) -> list[Curve]:
    wanted = {
        "blocks": [("heap", "blocks", HEAP), ("live", "blocks", LIVE)],
        "bytes": [("heap", "bytes", HEAP)],
        "allocated": [("allocated", "bytes", ALLOCATED)],
    }[variant]
    return [
        Curve(
            [((time - origin) / 1e9, float(value)) for time, value in zip(one.times_ns, one.values, strict=True)],
            slot,
            letter_of(slot),
        )
        for name, unit, slot in wanted
        if (one := profile.of(name, unit)).times_ns
    ]
