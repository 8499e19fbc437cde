"""View 7, Sizes: how much of each block size was allocated and freed, and lives (mprof's allocation bins).

The table is :func:`heaptop.analysis.samples.bins.bins`; a size's producers are the same tallies by site. This module
keeps what the reader chose: by size or by class, filter, sort, the size looked into.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Final

from rich.style import Style
from textual.app import ComposeResult

from heaptop.analysis.filters.filters import EVERYTHING, LIVE_BLOCKS, Filter
from heaptop.analysis.filters.selection import TallyFilter, tally_filter
from heaptop.analysis.samples.bins import Bin, bins
from heaptop.analysis.samples.estimate import INTERVAL, Estimate, Sums
from heaptop.analysis.samples.producers import Sites
from heaptop.analysis.samples.sampled_blocks import UNKNOWN_TYPE_NAME, SampledBlocks
from heaptop.analysis.samples.sampling import Sampling
from heaptop.analysis.samples.sizes import CLASSES, bin_label, class_of
from heaptop.analysis.samples.tallies import Tally
from heaptop.analysis.text.units import filtered_words, format_bytes, format_count
from heaptop.protocol.messages import TRACEMALLOC
from heaptop.tui.charts.chart_style import ChartStyle
from heaptop.tui.charts.marks import estimate_text
from heaptop.tui.charts.raster import AXIS, EMPTY, INK, StyleRun
from heaptop.tui.charts.sparkline import meter
from heaptop.tui.keys.explaining import MPROF, STATMEMPROF, FigureHelp
from heaptop.tui.state import drill
from heaptop.tui.state.background import Throttled
from heaptop.tui.state.sampling_words import UNSAMPLED, WITHOUT_C, by_words, not_sampled
from heaptop.tui.state.session import Display
from heaptop.tui.state.sheet import WIDE, CellText, Column, Sheet
from heaptop.tui.state.snapshot_client import QuerySubject
from heaptop.tui.views.producers.selecting import SampleSelector, check_bound
from heaptop.tui.views.table_view import LevelView
from heaptop.tui.widgets.picture import Picture
from heaptop.tui.widgets.virtual_table import VirtualTable

SMALL: Final = 2000  # With no more tallies than this the table is made anew whenever there is something new
KEYS: Final = ("size", "class")
CLASS_WORDS: Final = ("small", "medium", "large", "extra large")


@dataclass(frozen=True, slots=True)
class SizesLevel(drill.Level):
    """What is shown: sizes, or the sites of one of them."""

    key: str = "size"
    number: int | None = None  # The bin looked into; of a class −1 − its position, as analysis.samples.sizes has it
    whole_class: bool = False


@dataclass(frozen=True, slots=True)
class SizeRow:
    """One row of either table."""

    key: str
    name: str
    order: int
    allocated: Estimate
    freed: Estimate
    kept: Estimate
    share: float  # Of the kept bytes of all rows
    types: str = ""


@dataclass(frozen=True, slots=True)
class SizesFigures:
    """All figures of one moment."""

    rows: tuple[SizeRow, ...]
    classes: tuple[Bin, ...]
    total: Bin
    whole: SizesFigures | None = None  # The same without a filter; None where there is none

    @property
    def filtered(self) -> str:
        if self.whole is None:
            return ""
        size = self.whole.total.kept.bytes - self.total.kept.bytes
        return filtered_words(len(self.whole.rows) - len(self.rows), size, about="≈")


class SizesView(LevelView[SizesLevel]):
    """The four classes above, and the table."""

    NAME = "sizes"
    NUMBER = 7
    SAMPLED = True
    TITLE = "Sizes"
    ABOUT = "blocks of each size"
    SHOWS = (
        "Memory blocks by size: allocated since sampling began, how much of that was freed, and what is live. Blocks "
        "older than the sampling are not included, so the total is less than the heap."
    )
    EXPLAINS = (
        FigureHelp(
            ("Size", "Site"),
            "The requested block size, 1 to 1024 bytes, and larger ones together. Enter shows the sites of one. An "
            "object may have several blocks.",
            MPROF.at("the allocation bin table"),
        ),
        FigureHelp(
            ("Class", "s", "m", "l", "x", "█", "░"),
            "small up to 32 bytes, medium 256, large 2048, extra large above. The full bar is live, the light bar "
            "was freed.",
            MPROF.at("the direct allocation table"),
        ),
        FigureHelp(
            ("Allocated", "Freed", "Live", "Live bytes", "Live blocks"),
            "In bytes or blocks (key v). Live: allocated and not freed.",
            MPROF.at("the allocation bin table"),
        ),
        FigureHelp(
            ("≈", "±", "no samples", "samples"),
            f"≈ is an estimate and ± the larger side of its {INTERVAL}; without both the figure is exact. All large "
            "blocks are sampled, but only some small ones, so no samples does not mean zero.",
            STATMEMPROF.at("“Sampling allocations”"),
        ),
        FigureHelp(("≈Share",), "Share of all live blocks here. Bars are relative to the largest row."),
        FigureHelp(
            ("Types",),
            "The types of the objects in such blocks, where known. (unknown), (unknown type): blocks that are not "
            "objects, such as the table of a list, or blocks that were freed before heaptop could look at them.",
            MPROF.at("the allocation bin table"),
        ),
    )
    HELP = (
        "Filters: type: module: site: producer-module: size> count> (of a type's live blocks) lifetime>10MB or "
        "lifetime>10s (live blocks at least that old)."
    )
    MEANS: ClassVar[Mapping[str, str]] = {
        "cycle_key": "by size, by class",
        "variant": "in bytes, in blocks",
        "drill": "sites that allocate this size",
    }
    OFFERS = (
        "cycle_key", "variant=unit", "filter", "drill", "pause", "rate", "sort_column(-1)", "sort_column(1)", "invert",
        "follow",
    )  # fmt: skip
    DEFAULT_CSS = """
    SizesView > Picture { height: auto; }
    SizesView > VirtualTable { height: 1fr; }
    """

    def __init__(self) -> None:
        super().__init__(SizesLevel())
        self._in_blocks = False
        self._made: Throttled[SizesFigures] = Throttled()
        self._selector = SampleSelector(self.set_timer, self._ready)

    def compose(self) -> ComposeResult:
        yield Picture()
        yield VirtualTable()

    # -- drawing ---------------------------------------------------------------------------------------------

    def _draw(self, display: Display, look: ChartStyle) -> None:
        sampling, level = display.sampling, self._level
        rows: list[SizeRow] = []
        followed = sampling is not None and sampling.follows
        nothing = "Waiting for the first samples." if followed else not_sampled(sampling)
        lines: list[list[StyleRun]] = []
        self._filtered = ""
        if sampling is not None and sampling.samples.tally_count and not sampling.samples.is_traced:
            small = sampling.samples.tally_count <= SMALL
            samples = self._selector.samples(display, level.where)
            if samples is not None:
                figures = self._made.get(
                    display,
                    (level, samples if level.where.lifetime is not None else None),
                    lambda: measure(samples, sampling, level),
                    small=small,
                )
                self._filtered = figures.filtered
                rows = sorted(figures.rows, key=partial(_order, self._sort, self._in_blocks), reverse=self._descending)
                lines = _classes(
                    figures,
                    self._in_blocks,
                    self.size.width,
                    look,
                    inside=level.number is not None,
                    live_blocks=samples.only_live,
                )
            nothing = self._selector.nothing(display, level.where)
        self.query_one(Picture).show_lines(lines, look)
        self.list.show(self._sheet(rows, look, nothing))
        self._rows = rows

    @property
    def _only_live(self) -> bool:
        """Whether nothing is known of what was allocated and freed."""
        return self._level.where.lifetime is not None

    def _sheet(self, rows: Sequence[SizeRow], look: ChartStyle, nothing: str) -> Sheet[SizeRow]:
        wide, inside = self.size.width >= WIDE, self._level.number is not None
        bar = self.size.width // 6 if wide else 0
        name = Column("name", "Site", 0, right=False, keep_tail=True) if inside else Column("name", "Size", 10)
        columns = (
            name,
            Column("allocated", "Allocated", 16 if wide else 10),
            Column("freed", "Freed", 12 if wide else 10),
            Column("kept", "Live", 11 if wide else 10),
            Column("error", "±", 9),
            Column("others", "Live bytes" if self._in_blocks else "Live blocks", 11),
            Column("share", "≈Share", 7),
            Column("bar", "", bar, right=False, rank=0),
            *([] if inside else [Column("types", "Types", 0, right=False)]),
        )
        left_out = set() if wide else {"others", "bar"}
        if self._only_live:
            left_out |= {"allocated", "freed"}
        blocks = sum(row.kept.count for row in rows) or 1

        def share(row: SizeRow) -> float:
            return row.kept.count / blocks if self._in_blocks else row.share

        largest = max(map(share, rows), default=0.0) or 1.0
        tint, unknown = Style.parse(look.palette.band(0)), UNKNOWN_TYPE_NAME.full

        def draw(row: SizeRow) -> list[CellText]:
            return [
                CellText(row.name),
                CellText(estimate_text(row.allocated, blocks=self._in_blocks)),
                CellText(estimate_text(row.freed, blocks=self._in_blocks)),
                CellText(estimate_text(row.kept, blocks=self._in_blocks)),
                CellText(error_text(row.kept, blocks=self._in_blocks), Style(dim=True)),
                CellText(estimate_text(row.kept, blocks=not self._in_blocks) if row.kept.bytes else ""),
                CellText(f"{share(row):.1%}" if row.kept.bytes else ""),
                CellText(meter(share(row) / largest, bar, ascii_only=look.ascii_only), tint),
                *([] if inside else [CellText(row.types, shorter=(row.types.replace(unknown, "(unknown)"),))]),
            ]

        return Sheet(
            columns=columns,
            rows=rows,
            key=lambda row: row.key,
            draw=draw,
            look=look,
            sort=self._sort,
            descending=self._descending,
            nothing=nothing,
        ).without(left_out)

    @property
    def words(self) -> tuple[str, str]:
        level = self._level
        sampling_status = self.now.sampling_status
        left = f"{self.TITLE} {by_words(f'block {level.key}', sampling_status)}"
        if level.number is not None:
            left = f"{self.TITLE} {by_words('site', sampling_status)}"
        left += ", in blocks" if self._in_blocks else ""
        if self._rows and not self.trail and sampling_status.means != TRACEMALLOC:
            left += WITHOUT_C
        return left + self.trail, self._place(len(self._rows))

    @property
    def age_ns(self) -> int:
        return max(one.age_ns(self.now) for one in (self._made, self._selector))

    def _crumb(self, outer: SizesLevel, level: SizesLevel) -> str:
        return _size_words(level)

    # -- what the keys do ------------------------------------------------------------------------------------

    def _check_filter(self, where: Filter) -> None:
        where.allow(LIVE_BLOCKS, "Sizes")
        check_bound(self.now, where)

    @property
    def bys(self) -> Mapping[str, str]:
        return {key: f"by {key}" for key in KEYS}

    def show_by(self, key: str) -> None:
        self._levels = [SizesLevel(key, self.where)]
        self._again()

    def action_variant(self) -> bool:
        """Bytes, or blocks."""
        self._in_blocks = not self._in_blocks
        self._again()
        return True

    @property
    def subject(self) -> QuerySubject | None:
        name = self.list.row_key
        return self._of_site(name) if self._level.number is not None and name is not None else None

    @property
    def unavailable(self) -> str:
        if self.list.row_key is None:
            return super().unavailable
        inside = self._level.number is not None
        return UNSAMPLED if inside else "press Enter first: w works on a site"

    def action_drill(self) -> bool:
        """Who allocates blocks of this size."""
        level, name = self._level, self.list.row_key
        if level.number is not None or name is None:
            return False
        self._enter(SizesLevel(level.key, level.where, int(name), level.key == "class"))
        return True

    @property
    def _sortable(self) -> Sequence[str]:
        return ("name", "kept") if self._only_live else SORTS

    @property
    def _first_sort(self) -> tuple[str, bool]:
        return "kept", True


# -- figures -------------------------------------------------------------------------------------------------

SORTS: Final = ("name", "allocated", "freed", "kept")


def measure(samples: SampledBlocks, sampling: Sampling, level: SizesLevel) -> SizesFigures:
    """Everything that one level shows of these samples."""
    where = tally_filter(samples, sampling.sites, level.where)
    if level.number is not None:
        where = _inside(where, level)
    found = bins(samples, where)
    if level.number is not None:
        rows = _sites(samples, sampling.sites, where)
    else:
        rows = tuple(
            _row(order, one) for order, one in enumerate(found.classes if level.key == "class" else found.rows)
        )
    whole = measure(sampling.samples, sampling, replace(level, where=EVERYTHING)) if level.where else None
    return SizesFigures(rows, found.classes, found.total, whole)


def _inside(where: TallyFilter | None, level: SizesLevel) -> TallyFilter:
    def fits(tally: Tally) -> bool:
        same = class_of(tally.bin) == level.number if level.whole_class else tally.bin == level.number
        return same and (where is None or where(tally))

    return fits


def _row(order: int, one: Bin) -> SizeRow:
    types = ", ".join(kind.type.qualname for kind in one.types[:6])
    return SizeRow(str(one.number), f"{one.label} B", order, one.allocated, one.freed, one.kept, one.kept_share, types)


def _sites(samples: SampledBlocks, sites: Sites, where: TallyFilter | None) -> tuple[SizeRow, ...]:
    """The same blocks by the site that allocated them."""
    sums: dict[str, tuple[Sums, Sums, Sums]] = {}
    for tally in samples.tallies():
        if where is None or where(tally):
            known = sums.setdefault(sites.name(tally.stack, "site"), (Sums(), Sums(), Sums()))
            for one, more in zip(known, (tally.allocated, tally.freed, tally.live), strict=True):
                one.merge(more)
    kept = sum(live.bytes for _, _, live in sums.values()) or 1
    ever, now = samples.missed, samples.live_missed
    return tuple(
        SizeRow(name, name, order, born.estimate(ever), freed.estimate(ever), live.estimate(now), live.bytes / kept)
        for order, (name, (born, freed, live)) in enumerate(sorted(sums.items()))
    )


def _order(sort: str, in_blocks: bool, row: SizeRow) -> tuple[int, int]:
    if sort == "name":
        return row.order, 0
    one: Estimate = getattr(row, sort)
    return (one.count if in_blocks else one.bytes), -row.order


def _size_words(level: SizesLevel) -> str:
    number = level.number or 0
    return f"{CLASS_WORDS[number]} blocks" if level.whole_class else f"{bin_label(number)} B"


def error_text(one: Estimate, *, blocks: bool = False) -> str:
    """``±1.2 MiB``; empty where the figure is exact. Of blocks in the same proportion."""
    if one.exact:
        return ""
    if blocks:
        return f"±{format_count(round(one.error * one.count / one.bytes))}" if one.bytes else ""
    return f"±{format_bytes(one.error)}"


# -- the classes ---------------------------------------------------------------------------------------------


def _classes(
    figures: SizesFigures, in_blocks: bool, width: int, look: ChartStyle, *, inside: bool, live_blocks: bool
) -> list[list[StyleRun]]:
    """A line for each class and one for all: what is kept of it, drawn as part of what was allocated, where that is
    known: not of what is but ``live_blocks``."""

    def amount(one: Estimate) -> int:
        return one.count if in_blocks else one.bytes

    text = partial(estimate_text, blocks=in_blocks)

    def words(one: Bin) -> str:
        allocated = "" if live_blocks else f"{text(one.allocated):>12}"
        return f"{allocated}{text(one.kept):>12}  "

    room = max(width - 63, 4)
    top = max((amount(one.allocated) for one in figures.classes), default=0) or 1
    full, light = _shades(look)
    titles, legend = ("", f"{full} live") if live_blocks else (f"{'Allocated':>12}", f"{full} live  {light} freed")
    lines = [[StyleRun(f" {'Class':24}{titles}{'Live':>12}  {legend:{room}}"[:width], AXIS, EMPTY)]]
    for number, one in enumerate(figures.classes):
        if inside and not one.allocated.bytes:
            continue  # not of the size that is looked into
        name = f" {CLASS_WORDS[number]:11} {one.label + ' B':>10}"[1:]
        bar = bar_text(amount(one.kept) / top, amount(one.allocated) / top, room, look)
        lines.append(
            [
                StyleRun(f" {CLASSES[number]} ", INK, number),
                StyleRun(name + words(one), EMPTY, EMPTY),
                StyleRun(bar, number, EMPTY),
            ]
        )
    total = figures.total
    lines.append([StyleRun(f" {'all':24}{words(total)}{kept_words(total.kept)}"[:width], EMPTY, EMPTY)])
    return [[StyleRun(look.text(run.text), run.fg, run.bg) for run in line] for line in lines]


def kept_words(one: Estimate) -> str:
    """How many samples the figures are made of."""
    return f"{format_count(one.samples)} live samples" if one.samples != 1 else "1 live sample"


def _shades(look: ChartStyle) -> tuple[str, str]:
    """Of what is kept, and of what was freed."""
    return ("#", ".") if look.ascii_only else ("█", "░")


def bar_text(kept: float, allocated: float, width: int, look: ChartStyle) -> str:
    """What is kept as part of what was allocated, both as shares of ``width`` columns."""
    full, light = _shades(look)
    whole = max(round(allocated * width), 1 if allocated else 0)
    solid = min(round(kept * width), whole)
    some = look.text("▏") if kept and not solid else ""  # less than half a column of it
    return (some + full * solid + light * (whole - solid - len(some))).ljust(width)
