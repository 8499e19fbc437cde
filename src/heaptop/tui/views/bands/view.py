"""View 1, Bands: the live heap over time as a stacked area, and under it the same bands as a table.

The chart is :func:`heaptop.analysis.bands.bands.bands` drawn by :func:`heaptop.tui.charts.raster.picture`, the table is
:func:`heaptop.analysis.bands.table.table`; this module only keeps what the reader chose: key, filter, sort, letters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Final

from textual.app import ComposeResult
from textual.containers import Container

from heaptop.analysis.bands.bands import BandChart, bands
from heaptop.analysis.bands.series import SeriesCache
from heaptop.analysis.bands.table import SORTS, Rows, TableRow, rows
from heaptop.analysis.filters.attributes import BAND_KEYS, Origin, band_key
from heaptop.analysis.filters.filters import Filter, origin_of
from heaptop.analysis.heap.history import Moment
from heaptop.analysis.lifetimes.eventual import KEY as LIFETIME
from heaptop.analysis.lifetimes.eventual import by_lifetime, is_eventual, longer_than, restricted, rows_of
from heaptop.analysis.samples.moments import SiteCell
from heaptop.analysis.samples.sampling import Sampling
from heaptop.analysis.text.units import filtered_words, format_bytes
from heaptop.errors import UsageError
from heaptop.protocol.messages import TRACEMALLOC
from heaptop.tui.charts.chart_style import ChartStyle, letter_of
from heaptop.tui.charts.palette import REST_SLOT
from heaptop.tui.charts.raster import ChartBands
from heaptop.tui.keys.explaining import FigureHelp
from heaptop.tui.state.background import Throttled
from heaptop.tui.state.drill import Level, into
from heaptop.tui.state.messages import LettersChanged
from heaptop.tui.state.sampling_words import by_words, not_sampled
from heaptop.tui.state.session import Display
from heaptop.tui.state.sheet import WIDE, Sheet
from heaptop.tui.state.snapshot_client import QuerySubject
from heaptop.tui.views.bands.bands_help import EXPLAINED
from heaptop.tui.views.bands.bands_table import BandTable
from heaptop.tui.views.table_view import LevelView
from heaptop.tui.widgets.area_chart import AreaChart
from heaptop.tui.widgets.legend import Legend, LegendEntry
from heaptop.tui.widgets.virtual_table import VirtualTable

NARROW_BANDS, WIDE_BANDS = 6, 10
GRAPH: Final = (Origin.KINDS, Origin.RETAINERS)  # What only graph censuses know
_TITLES: Final = {key.name: key.title for key in BAND_KEYS.values()}
_LAST: Final = {name: _TITLES.pop(name) for name in ("retainer", "kind")}
TITLES: Final = {**_TITLES, LIFETIME: "Lifetime", **_LAST}  # What key b goes through
SMALL = 2000  # With no more living samples than this, bands by lifetime are made anew whenever there is something new


def make_eventual(sampling: Sampling | None, level: Level, limit: int) -> tuple[BandChart, str]:
    """Bands by what was learned of blocks when they died, and a bound on lifetimes in bytes."""
    if sampling is None or not sampling.lifetime_bands.moments:
        return BandChart((), (), ()), ""
    if level.where.lifetime is None:
        return by_lifetime(sampling), ""
    longer = longer_than(level.where.lifetime, sampling)
    return restricted(sampling, level.key, level.where, longer, limit), longer.text


class BandLetters:
    """Which letter and colour a band has: once it is given, a band keeps it for as long as it is drawn, and has it
    again when it comes back, unless others needed it."""

    def __init__(self, others: BandLetters | None = None) -> None:
        """``others``: whose letters are those of the same names here too."""
        self._slot: dict[str, int] = dict(others._slot) if others is not None else {}
        """Of all that were drawn, those that have gone longest first."""

    def assign(self, names: Sequence[str], colours: int) -> dict[str, int]:
        """The slots of these bands. New ones have the lowest that nobody had yet, of as many as there are ``colours``
        or bands; then those of the bands that have gone longest."""
        slot = self._slot
        for name in [name for name in slot if name in names]:
            slot[name] = slot.pop(name)
        gone = iter([name for name in slot if name not in names])
        free = iter(sorted(set(range(max(len(names), colours))) - set(slot.values())))
        for name in names:
            if name not in slot:
                number = next(free, None)
                slot[name] = slot.pop(next(gone)) if number is None else number
        return {name: slot[name] for name in names}


@dataclass
class PreviousChart:
    """What the next chart holds on to: letters, and which bands there are in which order."""

    slots: BandLetters = field(default_factory=BandLetters)
    chart: BandChart | None = None


def short_name(key: str, name: str) -> str:
    """What one knows a band by: of a type the class, of several retainers the first one and how many more."""
    if key == "type":
        return name.rsplit(".", 1)[-1] or name
    first, *more = name.split(" + ")
    return f"{first} +{len(more)}" if key == "retainer" and more else name


def band_series(chart: BandChart, slots: dict[str, int]) -> ChartBands:
    """The chart as the raster takes it: seconds, bytes, slots and letters."""
    numbers = [REST_SLOT if band.is_rest else slots[band.name] for band in chart.bands]
    return ChartBands(
        times=[time / 1e9 for time in chart.times_ns],
        values=[band.bytes for band in chart.bands],
        slots=numbers,
        letters=[letter_of(slot) for slot in numbers],
    )


class BandsView(LevelView[Level]):
    """Chart, legend and table of one level of drilling."""

    NAME = "bands"
    NUMBER = 1
    TITLE = "Bands"
    ABOUT = "the heap over time"
    SHOWS = (
        "The live heap over time, split into bands, and the same bands as a table. A letter is the same in chart, "
        "legend and table. A band that widens steadily is what grows."
    )
    EXPLAINS: ClassVar[tuple[FigureHelp, ...]] = EXPLAINED
    HELP = (
        "Filters: size> and count> apply to a type's total; lifetime> works by producer, type and block size; "
        "retainer:cache matches objects kept by it, alone or not; !retainer:+ those with one retainer."
    )
    MEANS: ClassVar[Mapping[str, str]] = {
        "cycle_key": "type, module, generation, producer, size, lifetime, retainer, kind",
    }
    OFFERS = (
        "cycle_key", "filter", "drill", "why", "pause", "sort_column(-1)", "sort_column(1)", "census", "rate", "invert",
        "follow",
    )  # fmt: skip
    DEFAULT_CSS = """
    BandsView #plot { height: 3fr; layout: vertical; }
    BandsView Legend { height: 1; }
    BandsView VirtualTable { height: 2fr; }
    BandsView.wide #plot { height: 5fr; layout: horizontal; }
    BandsView.wide Legend { width: 38; height: 100%; }
    BandsView.wide VirtualTable { height: 4fr; }
    """

    def __init__(self) -> None:
        super().__init__(Level())
        self._memo = SeriesCache()
        self._previous: dict[str, PreviousChart] = {}  # By the key of the bands, of what no filter restricts
        self._filtered_previous: tuple[str, Filter, PreviousChart] | None = None
        """Key, filter, and what it leaves: what is typed on the way to a filter moves nothing of other charts."""
        self._eventual: Throttled[tuple[BandChart, str]] = Throttled()
        self._whole: tuple[Moment, str, int, int] | None = None
        """Of the last moment by this key, without a filter: rows and bytes."""
        self._longer = ""  # A bound on lifetimes, in bytes
        self._rows: Rows = Rows.of(())

    def compose(self) -> ComposeResult:
        with Container(id="plot"):
            yield AreaChart()
            yield Legend()
        yield VirtualTable()

    # -- drawing ---------------------------------------------------------------------------------------------

    def _draw(self, display: Display, look: ChartStyle) -> None:
        if self._is_drawn(*self._made_of(display, look)):
            return
        chart, found = self._figures(display, WIDE_BANDS if self.size.width >= WIDE else NARROW_BANDS)
        by_size = sorted(chart.bands, key=lambda band: band.bytes[-1:], reverse=True)  # A is the largest at first
        names = [band.name for band in by_size if not band.is_rest]
        stays = self._previous_of(self._level)
        stays.chart = chart
        slots = stays.slots.assign(names, len(look.palette.bands))
        origin, times = display.origin_ns / 1e9, display.times(look.times)
        self.query_one(AreaChart).show_series(band_series(chart, slots), origin, look, times)
        self.query_one(Legend).show(self._entries(chart, slots), look)
        self.list.show(self._sheet(found, slots, look))
        self._rows = found

    def _previous_of(self, level: Level) -> PreviousChart:
        whole = self._previous.setdefault(level.key, PreviousChart())
        if not level.where:
            return whole
        if self._filtered_previous is None or self._filtered_previous[:2] != (level.key, level.where):
            self._filtered_previous = level.key, level.where, PreviousChart(BandLetters(whole.slots), whole.chart)
        return self._filtered_previous[2]

    def _made_of(self, display: Display, look: ChartStyle) -> tuple[object, ...]:
        """What the picture and the table depend on."""
        level = self._level
        eventual = is_eventual(level.key, level.where)
        moments = () if eventual else self._moments(display, level)
        # Figures that are made rarely, and the words before there are any, depend on more.
        other = None if moments and not eventual else object()
        latest = moments[-1] if moments else None
        shown = self._sort, self._descending, self.size, look, display.origin_ns, display.times(look.times)
        return level, latest, len(moments), other, *shown

    def on_letters_changed(self, event: LettersChanged) -> None:
        event.stop()
        self._drawn_of = ()
        self._again()

    def _figures(self, display: Display, limit: int) -> tuple[BandChart, Rows]:
        """Of those that know of what is asked for: censuses, samples, or what was learned of samples later."""
        level = self._level
        if is_eventual(level.key, level.where):
            small = display.samples is None or display.samples.live_block_count <= SMALL
            made = self._eventual.get(
                display, (level, limit), lambda: make_eventual(display.sampling, level, limit), small=small
            )
            chart, self._longer = made
            return chart, Rows.of(rows_of(chart, self._sort, self._descending))
        self._longer = ""
        taken = self._moments(display, level)
        chart = bands(taken, level.key, level.where, limit, memo=self._memo, previous=self._previous_of(level).chart)
        return chart, rows(taken, level.key, level.where, self._sort, self._descending, memo=self._memo)

    @staticmethod
    def _origin(level: Level) -> Origin:
        """Raises UsageError where no figures know of all that the level asks for."""
        if is_eventual(level.key, level.where):
            return Origin.SAMPLES
        return origin_of(band_key(level.key), level.where)

    def _moments(self, display: Display, level: Level) -> Sequence[Moment]:
        origin = self._origin(level)
        if origin is Origin.SAMPLES:
            return display.moments
        counted: dict[Origin, Sequence[Moment]] = {
            Origin.CENSUS: display.records,
            Origin.KINDS: display.graph.kinds,
            Origin.RETAINERS: display.graph.retainers,
        }
        return counted[origin]

    def _is_sampled(self, level: Level) -> bool:
        return self._origin(level) is Origin.SAMPLES

    def _entries(self, chart: BandChart, slots: dict[str, int]) -> list[LegendEntry]:
        entries = []
        lettered = self.query_one(AreaChart).lettered
        for band in reversed(chart.bands):
            name = "other" if band.is_rest else band.name
            slot = REST_SLOT if band.is_rest else slots[band.name]
            last = band.bytes[-1] if band.bytes else 0
            about = self._is_estimated(self._level)
            # No row of the table has its figure.
            other = f"other {'≈' * about}{format_bytes(last)}"
            short = other if band.is_rest else short_name(self._level.key, name)
            entries.append(LegendEntry(slot, name, short, last, approximate=about, lettered=slot in lettered))
        return entries

    def _sheet(self, found: Rows, slots: dict[str, int], look: ChartStyle) -> Sheet[TableRow]:
        level = self._level
        times = [moment.time_ns for moment in self._moments(self.now, level)[-2:]]
        table = BandTable(
            TITLES[level.key],
            self.size.width,
            look,
            slots,
            self.query_one(AreaChart).lettered,
            estimated=self._is_estimated(level),
            interval_ns=times[-1] - times[0] if times else 0,
        )
        return table.sheet(found, self._sort, self._descending, self._nothing(level))

    def _is_estimated(self, level: Level) -> bool:
        """Whether figures are made from samples: tracemalloc's are not."""
        return self._is_sampled(level) and self.now.sampling_status.means != TRACEMALLOC

    def _nothing(self, level: Level) -> str:
        if self._origin(level) in GRAPH:
            graph = self.now.graph
            if not graph.kinds:
                return f"No graph census: {graph.failure}." if graph.failure else "Waiting for the first graph census."
            return f"Nothing matches {level.where}."
        if not self._is_sampled(level):
            return f"Nothing matches {level.where}." if level.where else "Waiting for the first census."
        sampling = self.now.sampling
        if sampling is None or sampling.state is None or not (sampling.on or sampling.moments.records):
            return not_sampled(sampling)
        if is_eventual(level.key, level.where) and sampling.samples.is_traced:
            return not_sampled(sampling)
        return f"No sample matches {level.where}." if level.where else "Waiting for the first samples."

    @property
    def sampled(self) -> bool:
        return self._is_sampled(self._level)

    @property
    def wants_graph(self) -> bool:
        return self._origin(self._level) in GRAPH

    @property
    def note(self) -> str:
        return self.now.graph.words if self.wants_graph else super().note

    @property
    def crumbs(self) -> tuple[str, ...]:
        """A bound on lifetimes in bytes."""
        found = super().crumbs
        if not found or not self._longer:
            return found
        others = [term for term in found[-1].split() if not term.startswith("lifetime")]
        return (*found[:-1], " ".join([*others, self._longer]))

    @property
    def words(self) -> tuple[str, str]:
        level, found = self._level, self._rows
        by = by_words(level.key, self.now.sampling_status) if self.sampled else f"by {level.key}"
        left = f"{self.TITLE} {by}{self.trail}"
        if not found:
            return left, ""
        about = "≈" if self._is_estimated(level) else ""
        total = f" · {about}{format_bytes(found.total)}" if level.where else ""
        return left, self._place(len(found)) + total

    @property
    def filtered(self) -> str:
        level = self._level
        moments = self._moments(self.now, level) if level.where else ()
        if not moments or not (level.where.lifetime is None or self._rows):
            return ""
        key, moment = band_key(level.key), moments[-1]
        if self._whole is None or self._whole[:2] != (moment, level.key):
            known = level.where.lifetime is None
            cells = [cell for cell in moment.cells if known or not isinstance(cell, SiteCell) or cell.size_class >= 0]
            self._whole = moment, level.key, len({key.label(cell) for cell in cells}), sum(each.bytes for each in cells)
        count, size = self._whole[2:]
        about = "≈" if self._is_estimated(level) else ""
        return filtered_words(count - len(self._rows), size - self._rows.total, about=about)

    @property
    def since_words(self) -> str:
        return "sampled bands begin at {since}" if self.sampled else ""

    @property
    def age_ns(self) -> int:
        level = self._level
        if is_eventual(level.key, level.where):
            return self._eventual.age_ns(self.now)
        kinds = self.now.graph.kinds if self.wants_graph else ()
        return max(self.now.now_ns - kinds[-1].time_ns, 0) if kinds else 0

    # -- what the keys do ------------------------------------------------------------------------------------

    def _check_filter(self, where: Filter) -> None:
        self._origin(replace(self._level, where=where))

    @property
    def bys(self) -> Mapping[str, str]:
        return {key: f"by {TITLES[key].lower()}" for key in TITLES if self._goes(key)}

    def _goes(self, key: str) -> bool:
        """Whether it goes together with the filter, and there is something to distinguish by it."""
        if key == "interpreter" and not any(record.has_interpreters for record in self.now.records[-1:]):
            return False
        try:
            self._origin(Level(key, self.where))
        except UsageError:
            return False
        return True

    def show_by(self, key: str) -> None:
        self._levels[-1] = replace(self._level, key=key)
        self._again()

    @property
    def subject(self) -> QuerySubject | None:
        """The type of the row; where the bands are of one type, which was looked into, that one."""
        level, name = self._level, self.list.row_key
        if level.key != "type":
            within = level.where.alternatives("type") if level.where == level.given else None
            is_one = within is not None and [pattern.how for pattern in within.patterns] == ["exact"]
            name = within.patterns[0].text if within is not None and is_one else None
        return QuerySubject(name, types=(name,)) if name is not None else None

    def action_drill(self) -> bool:
        name = self.list.row_key
        inner = into(self._level, name) if name is not None else None
        if inner is None:
            return False
        self._enter(inner)
        return True

    @property
    def _sortable(self) -> Sequence[str]:
        return tuple(SORTS)
