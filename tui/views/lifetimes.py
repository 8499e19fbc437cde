"""View 6, Lifetimes: how long what is allocated lives, in bytes allocated meanwhile, by type, site or size.

Curves come from :class:`heaptop.census.lifetime_table.LifetimeTable` and are drawn by :mod:`heaptop.tui.curves`; bands
by eventual lifetime from :mod:`heaptop.census.generations`. This module keeps what the reader chose, and sees to it
that a large heap's figures are made in small steps, and not at every tick.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Final

from rich.style import Style
from textual.app import ComposeResult

from heaptop.census.clock import size_label
from heaptop.census.filters import EVERYTHING, Filter
from heaptop.census.generations import LifetimeBand, LifetimeChart
from heaptop.census.lifetime_table import FEW, MARKS, Group, LifetimeTable
from heaptop.census.moments import SiteCell
from heaptop.census.sampling import GROUPS, Sampling
from heaptop.census.survival import Point, Survival
from heaptop.census.units import format_bytes, format_count, format_duration_ns
from heaptop.errors import UsageError
from heaptop.protocol.messages import Sampler, TypeName
from heaptop.tui import curves, heat
from heaptop.tui.curves import Curve, Scale
from heaptop.tui.look import Look, letter_of
from heaptop.tui.marks import NONE, about_bytes
from heaptop.tui.messages import ViewChanged
from heaptop.tui.pacing import REST, Paced, same
from heaptop.tui.raster import EMPTY, INK, Run, Series
from heaptop.tui.sampling_words import not_sampled, now_words
from heaptop.tui.session import Display
from heaptop.tui.views.base import View
from heaptop.tui.widgets.area_chart import AreaChart
from heaptop.tui.widgets.picture import Picture
from heaptop.tui.widgets.sparkline import sparkline
from heaptop.tui.widgets.virtual_table import Column, Piece, Sheet, VirtualTable, clip

WIDE: Final = 120
"""From this many columns on there are more columns in the table."""

KEYS: Final = (*GROUPS, "lifetime", "age")
TITLES: Final = {"type": "Type", "site": "Site", "size": "Block size", "lifetime": "Lifetime", "age": "Lifetime"}
LEFTS: Final = {
    "type": "by type",
    "site": "by site",
    "size": "by block size",
    "lifetime": "over time, bands by eventual lifetime",
    "age": "over time, by age",
}
VARIANTS: Final = ("object survival", "object mortality per MB", "nursery mortality per MB")

_FILTERED_BY: Final = {"type": ("type", "module"), "site": ("site",)}

SMALL: Final = 4000
"""As many steps (a living sample is one, a curve some forty) are done at once, whenever there is something new."""
STEPS_A_CURVE: Final = 40
SORTED: Final = 300
"""Groups whose curves are made to sort by them; the others have fewer samples, and come last."""
SLICE_SECONDS: Final = 0.006
PAUSE_SECONDS: Final = 0.02


@dataclass(frozen=True, slots=True)
class Level:
    """What is shown, and of which group where it is bands of one."""

    key: str = "type"
    where: Filter = EVERYTHING
    group: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class BandRow:
    """A band by lifetime, in numbers."""

    band: LifetimeBand
    slot: int
    mean: float
    """Bytes alive, on average over the chart."""
    share: float
    """Of that mean."""


@dataclass(frozen=True, slots=True, eq=False)
class JointAges:
    """Living bytes by time and age."""

    latest: int
    """Where time ends, in allocated bytes."""
    matrix: list[list[int]]


class LifetimesView(View):
    """Chart, two lines of words, and table."""

    NAME = "lifetimes"
    NUMBER = 6
    TITLE = "Lifetimes"
    HELP = (
        "Ages and lifetimes are in bytes that the program allocated meanwhile: who waits gets no older. They are in kB "
        "and MB of 1000, as one types them (lifetime>10MB); what memory holds is in KiB and MiB of 1024. The chart is "
        "of the whole (A) and of the row under the cursor (B); key v changes it. Object survival at x is the part of "
        "what was allocated that lives to the age x or longer (Kaplan and Meier; what lives still counts up to its "
        "age), its shade the 95 % interval (Greenwood). Object mortality is the part of those aged x that dies within "
        "the next megabyte, smoothed. Nursery mortality is what a young generation of x bytes would gain if it were a "
        "megabyte larger.\n\n"
        "In the table, dead and alive are samples, the median is the age that half of the bytes reach (≈ time at the "
        "average rate so far), and 43 35–51 is the survival in per cent with its interval. With fewer than "
        f"{FEW} samples nothing is said. Bands by eventual lifetime say of every moment how long what lived then was "
        "to live; what lives now is by its age. Enter shows them for one row. By age: the darker, the more bytes of "
        "that age lived then.\n\n"
        "Filters: by type type: and module:, by site site:. Of the dead only sums are kept, so not by two at once."
    )
    DEFAULT_CSS = """
    LifetimesView > #curves, LifetimesView > #bands { height: 3fr; }
    LifetimesView > #bands { display: none; }
    LifetimesView.banded > #bands { display: block; }
    LifetimesView.banded > #curves { display: none; }
    LifetimesView > #said { height: 2; }
    LifetimesView > VirtualTable { height: 2fr; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._levels = [Level()]
        self._variant = 0
        self._sorts = {key: "dead" if key in GROUPS else "" for key in KEYS}
        self._descending = True
        self._figures: LifetimeTable | None = None
        self._figures_ns = 0
        self._next: tuple[LifetimeTable, int] | None = None
        self._work: Iterator[None] | None = None
        self._spent = 0.0
        self._due = float("-inf")
        self._seen: Display | None = None
        self._said: tuple[int, Sampler | None] | None = None
        """What the newest figures were made from."""
        self._charts: Paced[LifetimeChart | None] = Paced()
        self._joint: Paced[JointAges] = Paced()
        self._count = 0

    def compose(self) -> ComposeResult:
        yield Picture(id="curves")
        yield AreaChart(id="bands")
        yield Picture(id="said")
        yield VirtualTable()

    def on_resize(self) -> None:
        self._again()
        self.post_message(ViewChanged())

    # -- drawing ---------------------------------------------------------------------------------------------

    def show(self, display: Display, look: Look) -> None:
        self._shown = (display, look)
        if not self.size.width:
            return
        sampling, level = display.sampling, self._levels[-1]
        self.set_class(level.key == "lifetime", "banded")
        if sampling is None or not _anything(sampling):
            self._show_nothing(not_sampled(sampling) if sampling is None or not sampling.follows else "", look)
        elif level.key in GROUPS:
            self._prepare(display, sampling)
            self._show_groups(look)
        else:
            self._show_bands(display, sampling, look)

    def moved(self) -> None:
        """The curve of another row is to be drawn."""
        if self._shown is not None and self._figures is not None and self._levels[-1].key in GROUPS:
            self._show_curves(self._figures, self._shown[1])

    def restyle(self) -> None:
        for picture in self.query(Picture):
            picture.restyle()
        self.query_one(AreaChart).restyle()
        self.table.restyle()

    def _show_nothing(self, text: str, look: Look) -> None:
        self._count = 0
        self.query_one("#curves", Picture).show(lambda width, height: [], look)
        self.query_one(AreaChart).show(Series([], [], [], []), 0.0, look)
        self.query_one("#said", Picture).show(lambda width, height: [], look)
        self._show_table([], look, text or "Waiting for the first samples.")

    # -- figures, made in small steps ------------------------------------------------------------------------

    def _prepare(self, display: Display, sampling: Sampling) -> None:
        """Take figures that have become ready, and begin to make new ones where it is time to."""
        seen, self._seen = self._seen, display
        if same(display, seen):
            return  # held, or only drawn again: nothing moves
        if self._next is not None:
            self._take(*self._next)
        said = (sampling.samples.time_ns, sampling.samples.state)
        if seen is not None and seen.standing.voids != display.standing.voids:
            self._due = float("-inf")  # what is shown is of what is followed no longer
        if self._work is None and said != self._said and perf_counter() >= self._due:
            self._said = said
            figures, at = LifetimeTable(sampling), display.tick.time_ns if display.tick is not None else 0
            self._spent = 0.0
            if self._variant != 1 and figures.steps + STEPS_A_CURVE * self._curves(figures) <= SMALL:
                self._take(figures, at)
            else:
                self._work = self._making(figures, at)
                self._step()

    def _curves(self, figures: LifetimeTable) -> int:
        """How many curves the screen needs."""
        groups = figures.group_count
        return min(groups, SORTED if self._sorts[self._levels[-1].key] in _BY_CURVE else self.table.page_rows)

    def _take(self, figures: LifetimeTable, at: int) -> None:
        self._figures, self._figures_ns, self._next = figures, at, None

    def _making(self, figures: LifetimeTable, at: int) -> Iterator[None]:
        key = self._levels[-1].key
        if key in GROUPS:
            yield from figures.work(key)
            groups = self._ordered(figures)
            top = int(self.table.scroll_y)
            for group in groups[top : top + self.table.page_rows]:
                figures.figures(group.key)
                yield
            figures.survival(mortality=self._variant == 1)
            yield
        self._next = (figures, at)

    def _step(self) -> None:
        """A few milliseconds of work, and the rest when the screen has had its turn."""
        if self._work is None:
            return
        began = perf_counter()
        while perf_counter() < began + SLICE_SECONDS:
            if next(self._work, self) is self:
                self._work = None
                break
        self._spent += perf_counter() - began
        if self._work is not None:
            self.set_timer(PAUSE_SECONDS, self._step)
            return
        self._due = perf_counter() + REST * self._spent
        if self._figures is None and self._next is not None:
            self._take(*self._next)
            self._again()
            self.post_message(ViewChanged())

    # -- curves ----------------------------------------------------------------------------------------------

    def _show_groups(self, look: Look) -> None:
        figures = self._figures
        if figures is None:
            self._show_nothing("Working out how long samples live.", look)
            return
        groups = self._ordered(figures)
        where = self._levels[-1].where
        self._show_table(groups, look, f"Nothing that was sampled matches {where}." if where else "")
        self._show_curves(figures, look)

    def _show_curves(self, figures: LifetimeTable, look: Look) -> None:
        mortality = self._variant == 1
        keys: list[tuple[str, str] | None] = [None]
        if self.table.row_key is not None:
            keys.append((self._levels[-1].key, self.table.row_key))
        found = [(number, figures.survival(key, mortality=mortality)) for number, key in enumerate(keys)]
        drawn = [(number, curve) for number, curve in found if curve is not None]
        self.query_one("#curves", Picture).show(
            partial(_draw_curves, drawn, self._variant, look), look, key=(figures, self._variant, *keys)
        )
        lines = [_said(figures, key, number, wide=self.size.width >= WIDE) for number, key in enumerate(keys)]
        self.query_one("#said", Picture).show(
            lambda width, height: [_line(number, text, width, look) for number, text in enumerate(lines)], look
        )

    def _ordered(self, figures: LifetimeTable) -> list[Group]:
        level, sort = self._levels[-1], self._sorts[self._levels[-1].key]
        groups = list(figures.groups(level.key))
        if level.where:
            names = {} if self._shown is None or self._shown[0].sampling is None else _types(self._shown[0].sampling)
            groups = [group for group in groups if _fits(level.where, level.key, group, names)]
        if sort in _BY_CURVE:
            with_curve = [group for group in groups[:SORTED] if not group.few and figures.figures(group.key)]
            rest = [group for group in groups if group not in set(with_curve)]
            with_curve.sort(key=partial(_by_figures, figures, sort), reverse=self._descending)
            return with_curve + rest
        if sort == "name":
            return sorted(groups, key=lambda group: group.name, reverse=self._descending)
        return sorted(groups, key=_NUMBERS[sort], reverse=self._descending)

    # -- bands -----------------------------------------------------------------------------------------------

    def _show_bands(self, display: Display, sampling: Sampling, look: Look) -> None:
        group, small = self._levels[-1].group, sampling.samples.living_count <= SMALL
        chart = self._charts.get(
            display, group, lambda: sampling.lifetime_bands.chart(group, sampling.alive(group)), small=small
        )
        rows = _band_rows(chart) if chart is not None else []
        if chart is not None and self._levels[-1].key == "lifetime":
            self.query_one(AreaChart).show(_band_series(chart, rows), display.origin_ns / 1e9, look)
        elif self._levels[-1].key == "age":
            joint = self._joint.get(display, None, lambda: JointAges(sampling.timeline.latest, sampling.by_age()))
            self.query_one("#curves", Picture).show(
                partial(_draw_ages, joint.matrix, joint.latest, look), look, key=joint
            )
        lines = [_bands_said(rows, group)]
        if self._levels[-1].key == "age":
            lines.append(" across: bytes allocated since sampling began; up: age; darker: more lived")
        self.query_one("#said", Picture).show(
            lambda width, height: [[Run(look.text(text)[:width], EMPTY, EMPTY)] for text in lines], look
        )
        nothing = "Of this group nothing is kept."
        if chart is not None and sampling.lives.ended(group)[0]:
            nothing = "They die between two ticks: none was alive at any of them."
        self._show_table(self._ordered_bands(rows), look, nothing if chart is None or not rows else "")

    def _ordered_bands(self, rows: list[BandRow]) -> list[BandRow]:
        sort = self._sorts[self._levels[-1].key]
        if not sort:
            return rows[:: 1 if self._descending else -1]
        return sorted(rows, key=_BAND_NUMBERS[sort], reverse=self._descending)

    # -- the table -------------------------------------------------------------------------------------------

    def _show_table(self, rows: Sequence[Group] | Sequence[BandRow], look: Look, nothing: str) -> None:
        self._count = len(rows)
        groups = self._levels[-1].key in GROUPS
        columns, draw = self._group_columns(look) if groups else self._band_columns(look)
        self.table.show(
            Sheet(
                columns=columns,
                rows=rows,
                key=(lambda group: group.name) if groups else (lambda row: row.band.label),
                draw=draw,
                look=look,
                sort=self._sorts[self._levels[-1].key],
                descending=self._descending,
                nothing=nothing or "Waiting for the first samples.",
            )
        )

    def _group_columns(self, look: Look) -> tuple[tuple[Column, ...], Callable[[Group], list[Piece]]]:
        wide, figures = self.size.width >= WIDE, self._figures
        columns = [
            Column("name", TITLES[self._levels[-1].key], 0, right=False, keep_tail=True),
            Column("dead", "Dead", 7),
            Column("alive", "Alive", 7),
            Column("dead_bytes", "≈Bytes dead", 11),
            Column("alive_bytes", "≈Bytes alive", 12),
            Column("median", "≈Median", 8),
            Column("time", "≈Time", 8),
            *(Column(key, f"% ≥{size_label(mark)}", 10) for key, mark in zip(_MARK_COLUMNS, MARKS, strict=True)),
            Column("curve", "1 kB … 1 GB", 16, right=False),
        ]
        left_out = set() if wide else {"dead_bytes", "alive_bytes", "time", "curve"}
        kept = [place for place, column in enumerate(columns) if column.key not in left_out]

        def draw(group: Group) -> list[Piece]:
            known = None if figures is None or group.few else figures.figures(group.key)
            quiet = Style(dim=True)
            pieces = [
                Piece(group.name),
                Piece(format_count(group.deaths)),
                Piece(format_count(group.alive)),
                Piece(format_bytes(group.died_bytes) if group.died_bytes else NONE),
                Piece(format_bytes(group.alive_bytes) if group.alive_bytes else NONE),
            ]
            if known is None or figures is None:
                pieces += [Piece("too few", quiet), Piece(""), *(Piece("") for _ in MARKS), Piece("")]
            else:
                median = known.median if known.median is not None else known.oldest
                sign = "" if known.median is not None else ">"
                took = figures.time_ns(median)
                pieces += [
                    Piece(sign + size_label(median)),
                    Piece(sign + format_duration_ns(took) if took is not None else ""),
                    *(Piece(percent(point)) if point is not None else Piece("-", quiet) for point in known.marks),
                    Piece(_shape(known.shape, look)),
                ]
            return [pieces[place] for place in kept]

        return tuple(columns[place] for place in kept), draw

    def _band_columns(self, look: Look) -> tuple[tuple[Column, ...], Callable[[BandRow], list[Piece]]]:
        spark = 16 if self.size.width >= WIDE else 8
        columns = (
            Column("band", "", 3, right=False),
            Column("name", "Lifetime", 0, right=False),
            Column("mean", "≈Mean", 9),
            Column("share", "≈Share", 7),
            Column("peak", "≈Peak", 9),
            Column("now", "≈Now", 9),
            Column("trend", "Trend", spark, right=False),
        )

        def draw(row: BandRow) -> list[Piece]:
            values = row.band.bytes
            tint = Style.parse(look.palette.band(row.slot))
            return [
                Piece(f" {letter_of(row.slot)} ", look.swatch(row.slot)),
                Piece(_band_name(row.band)),
                Piece(format_bytes(round(row.mean))),
                Piece(f"{row.share:.1%}"),
                Piece(format_bytes(max(values, default=0))),
                Piece(format_bytes(values[-1]) if row.band.fate == "living" else "", Style.null()),
                Piece(sparkline(values, spark, ascii_only=look.ascii_only), tint),
            ]

        return columns, draw

    @property
    def sampled(self) -> bool:
        return True

    @property
    def words(self) -> tuple[str, str]:
        level = self._levels[-1]
        inside = f"  ›  {level.group[1]}" if level.group is not None else ""
        left = f"{self.TITLE} {LEFTS[level.key]}{inside}" + (f"  ›  {level.where}" if level.where else "")
        if level.key in GROUPS:
            left += f" · {VARIANTS[self._variant]}"
        left += now_words(self.now.standing)
        if not self._count:
            return left, ""
        age = self._age_ns()
        old = f"as of {format_duration_ns(age)} ago · " if age else ""
        follow = "following · " if self.table.follow else ""
        return left, f"{old}{follow}row {self.table.cursor + 1:,} of {self._count:,}"

    def _age_ns(self) -> int:
        """By how much the figures on the screen are older than the rest of it."""
        if self._shown is None:
            return 0
        display, key = self._shown[0], self._levels[-1].key
        if key not in GROUPS:
            return max(self._charts.age_ns(display), self._joint.age_ns(display) if key == "age" else 0)
        return max(display.tick.time_ns - self._figures_ns, 0) if display.tick is not None and self._figures_ns else 0

    # -- what the keys do ------------------------------------------------------------------------------------

    @property
    def table(self) -> VirtualTable:
        return self.query_one(VirtualTable)

    @property
    def where(self) -> Filter:
        return self._levels[-1].where

    def set_where(self, where: Filter) -> None:
        level = self._levels[-1]
        check_filter(level.key, where)
        self._levels[-1] = Level(level.key, where, level.group)
        self._again()

    def cycle_key(self) -> None:
        level = self._levels[-1]
        place = KEYS.index(level.key)
        for key in KEYS[place + 1 :] + KEYS[: place + 1]:
            try:
                check_filter(key, level.where)
            except UsageError:
                continue
            self._levels = [Level(key, level.where)]
            break
        self._again()

    def variant(self) -> None:
        """The next kind of curve."""
        self._variant = (self._variant + 1) % len(VARIANTS)
        self._again()

    def drill(self) -> bool:
        """Bands by eventual lifetime of the row under the cursor."""
        key, name = self._levels[-1].key, self.table.row_key
        if key not in GROUPS or name is None:
            return False
        self._levels.append(Level("lifetime", group=(key, name)))
        self._again()
        self.table.move_to(0)
        return True

    def back(self) -> bool:
        if len(self._levels) > 1:
            self._levels.pop()
        elif self.where:
            self._levels[-1] = Level(self._levels[-1].key)
        else:
            return False
        self._again()
        return True

    def sort_by(self, column: str) -> None:
        key = self._levels[-1].key
        if column not in _columns_of(key):
            return
        self._descending = not self._descending if column == self._sorts[key] else column != "name"
        self._sorts[key] = column
        self._again()

    def move_sort(self, step: int) -> None:
        key = self._levels[-1].key
        names = _columns_of(key)
        at = names.index(self._sorts[key]) if self._sorts[key] in names else -1 if step > 0 else 0
        self.sort_by(names[(at + step) % len(names)])

    def invert(self) -> None:
        self._descending = not self._descending
        self._again()


# -- words and numbers ---------------------------------------------------------------------------------------


def percent(point: Point) -> str:
    """``43 35–51``: the survival in per cent, and its 95 % interval."""
    return f"{point.object_survival * 100:.0f} {point.low * 100:.0f}–{point.high * 100:.0f}"


def check_filter(key: str, where: Filter) -> None:
    """Raises UsageError where the filter asks for what is not kept of the dead."""
    where.allow(_FILTERED_BY.get(key, ()), f"Lifetimes {LEFTS[key].partition(',')[0]}")


def _types(sampling: Sampling) -> dict[str, TypeName]:
    return {name.full: name for name in sampling.samples.types}


def _fits(where: Filter, key: str, group: Group, names: dict[str, TypeName]) -> bool:
    kind = names.get(group.name, TypeName("", group.name)) if key == "type" else TypeName("", "")
    return where.fits_name(SiteCell(kind, group.name if key == "site" else "", "", 0, group.alive, group.alive_bytes))


def _anything(sampling: Sampling) -> bool:
    return bool(sampling.samples.living_count or sampling.lives.ended()[0])


def _by_figures(figures: LifetimeTable, sort: str, group: Group) -> float:
    known = figures.figures(group.key)
    if known is None:
        return -1.0
    if sort == "median":
        return known.median if known.median is not None else 1e18 + known.oldest
    point = known.marks[_MARK_COLUMNS.index(sort)]
    return point.object_survival if point is not None else -1.0


_MARK_COLUMNS: Final = tuple(f"at{mark}" for mark in MARKS)
_BY_CURVE: Final = ("median", *_MARK_COLUMNS)
_NUMBERS: Final[dict[str, Callable[[Group], int]]] = {
    "dead": lambda group: group.deaths,
    "alive": lambda group: group.alive,
    "dead_bytes": lambda group: group.died_bytes,
    "alive_bytes": lambda group: group.alive_bytes,
}
_BAND_NUMBERS: Final[dict[str, Callable[[BandRow], float]]] = {
    "mean": lambda row: row.mean,
    "share": lambda row: row.share,
    "peak": lambda row: max(row.band.bytes, default=0),
    "now": lambda row: row.band.bytes[-1] if row.band.bytes else 0,
}


def _band_name(band: LifetimeBand) -> str:
    return f"lived {band.label}" if band.fate == "died" else band.label


def _columns_of(key: str) -> list[str]:
    return ["name", "dead", "alive", "median", *_MARK_COLUMNS] if key in GROUPS else [*_BAND_NUMBERS]


def _said(figures: LifetimeTable, key: tuple[str, str] | None, number: int, *, wide: bool) -> str:
    """One line on one curve."""
    group = figures.group(key)
    known = None if group.few else figures.figures(key)
    counted = f"{format_count(group.deaths)} dead, {format_count(group.alive)} alive"
    name = group.name if wide or len(group.name) < 24 else clip(group.name, 24, shift=len(group.name))
    if known is None:
        return f"{name}: {counted}: too few samples to say how long they live"
    median = known.median if known.median is not None else known.oldest
    took = figures.time_ns(median)
    time = f" (≈ {format_duration_ns(took)})" if took is not None else ""
    half = "half lives beyond" if known.median is not None else "more than half outlives"
    return f"{name}: {counted}, {half} ≈{size_label(median)}{time}"


def _line(number: int, text: str, width: int, look: Look) -> list[Run]:
    letter = letter_of(number)
    return [Run(f" {letter} ", INK, number), Run(" " + look.text(clip(text, max(width - 4, 0))), EMPTY, EMPTY)]


def _shape(heights: tuple[float, ...], look: Look) -> str:
    """A curve from 1 to 0 as a row of blocks, not to its own scale."""
    marks = "_.-=+*#@" if look.ascii_only else "▁▂▃▄▅▆▇█"
    return "".join(marks[round(height * (len(marks) - 1))] for height in heights)


# -- pictures ------------------------------------------------------------------------------------------------

_AGE_TICKS: Final = tuple((float(10**power), size_label(10**power)) for power in range(16))
_PERCENTS: Final = tuple((part / 100, f"{part}%") for part in (0, 25, 50, 75, 100))
_RATES: Final = tuple((10.0**power, f"{10.0**power:g}") for power in range(-9, 7))
_DECADES: Final = 4
"""Of mortality, at most: what is smaller by more is nearly nothing."""


def _draw_curves(
    drawn: list[tuple[int, Survival]], variant: int, look: Look, width: int, height: int
) -> list[list[Run]]:
    """Survival over a logarithmic axis of ages, or a mortality over both axes logarithmic."""
    lines = [_curve(number, curve, variant) for number, curve in drawn]
    places = [at for line in lines for at, _ in line.points if at > 0]
    if not places:
        return []
    x = curves.log_scale(min(places), max(places), _AGE_TICKS)
    y = Scale(0.0, 1.0, _PERCENTS)
    if variant:
        heights = [value for line in lines for _, value in line.points if value > 0]
        if not heights:
            return []
        y = curves.log_scale(max(min(heights), max(heights) / 10**_DECADES), max(heights), _RATES)
    return curves.picture(lines, x, y, width, height, look.ink)


def _curve(number: int, curve: Survival, variant: int) -> Curve:
    letter = letter_of(number)
    if variant == 0:
        points = [(point.age, point.object_survival) for point in curve.points]
        return Curve(points, number, letter, [(point.age, point.low, point.high) for point in curve.points])
    if variant == 1:
        points = [(point.age, point.object_mortality * _MB) for point in curve.mortality]
        return Curve(
            points, number, letter, [(point.age, point.low * _MB, point.high * _MB) for point in curve.mortality]
        )
    risen = [(point.age, point.nursery_mortality * _MB) for point in curve.points if point.nursery_mortality > 0]
    return Curve(risen, number, letter)


_MB: Final = 10**6


def _draw_ages(matrix: list[list[int]], latest: int, look: Look, width: int, height: int) -> list[list[Run]]:
    """Living bytes by time (in allocated bytes) and age."""
    if not matrix:
        return []
    return heat.picture(
        matrix, _clock_scale(latest, width // 12), _clock_scale(latest, max(height // 3, 3)), width, height, look.ink
    )


def _clock_scale(latest: int, ticks: int) -> Scale:
    """From 0 to the clock, labelled in round allocated bytes."""
    raw = latest / max(ticks, 1)
    power = 10 ** max(len(str(int(raw))) - 1, 0)
    step = next(times * power for times in (1, 2, 5, 10) if times * power >= raw)
    return Scale(0.0, float(latest), tuple((float(at), size_label(at)) for at in range(0, latest + 1, step)))


def _band_rows(chart: LifetimeChart) -> list[BandRow]:
    """The bands that hold anything, the first at the top of the table and of the chart."""
    bands = [band for band in chart.bands if any(band.bytes)]
    means = [sum(band.bytes) / len(band.bytes) for band in bands]
    whole = sum(means) or 1.0
    return [BandRow(band, slot, mean, mean / whole) for slot, (band, mean) in enumerate(zip(bands, means, strict=True))]


def _band_series(chart: LifetimeChart, rows: list[BandRow]) -> Series:
    upwards = rows[::-1]
    return Series(
        times=[time / 1e9 for time in chart.times_ns],
        values=[row.band.bytes for row in upwards],
        slots=[row.slot for row in upwards],
        letters=[letter_of(row.slot) for row in upwards],
    )


def _bands_said(rows: list[BandRow], group: tuple[str, str] | None) -> str:
    if not rows:
        return ""
    longest = max(rows, key=lambda row: row.share)
    name = "the whole" if group is None else clip(group[1], 30, shift=len(group[1]))
    alive = sum(row.band.bytes[-1] for row in rows if row.band.fate == "living")
    return f" {name}: {about_bytes(alive)} lives now; on average ≈{longest.share:.0%} is {_band_name(longest.band)}"
