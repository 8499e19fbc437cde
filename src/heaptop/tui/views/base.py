"""What every view is: a widget that shows a :class:`~heaptop.tui.state.session.Display`, and acts on keys.

A key's action is a method ``action_…`` of the view that offers it. It returns True where something changed, False where
nothing did (the screen shows the key's ``otherwise``), or what to show instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Protocol, cast

from textual import events
from textual.containers import Vertical

from heaptop.analysis.filters.filters import EVERYTHING, Filter
from heaptop.analysis.filters.kept_samples import MOST_ASKED
from heaptop.analysis.filters.predicates import NameTerm
from heaptop.analysis.samples.producers import stacks_at
from heaptop.tui.charts.chart_style import ChartStyle
from heaptop.tui.keys.bindings import Key
from heaptop.tui.keys.explaining import FigureHelp
from heaptop.tui.keys.trail import trail
from heaptop.tui.state.drill import added
from heaptop.tui.state.messages import ViewChanged
from heaptop.tui.state.sampling_words import sampling_status_text
from heaptop.tui.state.saving import SavedTable, page, row_text
from heaptop.tui.state.session import Display
from heaptop.tui.state.sheet import WIDE
from heaptop.tui.state.snapshot_client import QuerySubject
from heaptop.tui.terminal.ensured_resize import EnsuredResize
from heaptop.tui.terminal.on_time import OnTime
from heaptop.tui.widgets.area_chart import AreaChart
from heaptop.tui.widgets.cursor import Cursor
from heaptop.tui.widgets.virtual_table import VirtualTable


class _Reader(Protocol):
    """The app, as far as views need it."""

    files: Callable[[int, str], bytes]


class View(OnTime, EnsuredResize, Vertical):
    """One number key's worth of screen. A method that changes what is shown draws it at once."""

    NAME: ClassVar[str]  # As in its entry of `VIEWS` and in the action of its key
    NUMBER: ClassVar[int]  # Its key, which is written in front of its title
    TITLE: ClassVar[str]
    ABOUT: ClassVar[str]  # What its key is for, behind the title: a few words
    SHOWS: ClassVar[str] = ""  # What one sees on it, for the help page: one or two sentences
    EXPLAINS: ClassVar[tuple[FigureHelp, ...]] = ()  # What its columns and marks mean, the most needed first
    HELP: ClassVar[str] = ""  # What else must be known: what a filter may ask, and keys that only it has
    MEANS: ClassVar[Mapping[str, str]] = {}
    """What keys do here, by their actions, where the table of keys has to be vague."""
    FROZEN: ClassVar[bool] = False  # It shows the open snapshot, so one is taken when it is examined first
    SAMPLED: ClassVar[bool] = False  # Its figures are always made of samples
    SHOWS_HUNT: ClassVar[bool] = False  # It shows how far a leak hunt is
    KEYS: ClassVar[tuple[Key, ...]] = ()  # Keys that only this view has, or the first of few that have them
    OFFERS: ClassVar[tuple[str, ...]] = ()  # Actions that its footer names, the most needed first

    def __init__(self) -> None:
        super().__init__()
        self._shown: tuple[Display, ChartStyle] | None = None  # What it was last given to show
        self._notice = ""  # The outcome of the last key in it: the first of the right words
        self._matches: frozenset[str] = frozenset()  # The keys of the rows that the last filter has shown

    @property
    def offers(self) -> Sequence[str]:
        """Of :attr:`OFFERS` what means something now: a recording has no process."""
        return self.OFFERS

    def read_file(self, pid: int, path: str) -> bytes:
        """A file of the target's, as it sees it; empty where it cannot be read, and in a recording (pid 0)."""
        return cast("_Reader", self.app).files(pid, path) if pid else b""

    def _again(self) -> None:
        """Show what is shown, after a choice of the reader's."""
        if self._shown is not None:
            self.show(*self._shown)

    @property
    def now(self) -> Display:
        """What is shown; an empty one at first."""
        return self._shown[0] if self._shown is not None else Display()

    @property
    def sampled(self) -> bool:
        """Whether figures on it are made of samples, and so are nothing new while it is not sampled."""
        return self.SAMPLED

    @property
    def wants_graph(self) -> bool:
        """Whether it needs graph censuses."""
        return False

    @property
    def wants_memory(self) -> bool:
        """Whether it shows what resident memory is used for, so that this must be asked."""
        return False

    @property
    def kept_by(self) -> NameTerm | None:
        """The retainers whose sampled blocks it shows apart, by graph censuses."""
        return None

    @property
    def note(self) -> str:
        """What must be known of all its figures: a line between title and figures; empty for none."""
        return sampling_status_text(self.now.sampling_status, self.now.now_ns) if self.sampled else ""

    @property
    def since_words(self) -> str:
        """Which of its figures a recording has only from ``{since}`` on; empty where it has all."""
        return ""

    @property
    def notices(self) -> str:
        """What must be known of what it shows, in full: the first thing on its help page."""
        return ""

    def show(self, display: Display, look: ChartStyle) -> None:
        """Draw what is known at this moment, once the view is laid out."""
        self._shown = (display, look)
        if self.size.width:
            self._draw(display, look)

    def _draw(self, display: Display, look: ChartStyle) -> None:
        raise NotImplementedError

    def _ready(self) -> None:
        """Draw again what is shown, and the words about it."""
        self._again()
        self.post_message(ViewChanged())

    def on_resize(self, event: events.Resize) -> None:
        self.set_class(self.size.width >= WIDE, "wide")
        self._ready()

    def restyle(self) -> None:
        """The colours changed: what is on the screen must all be drawn again by the next :meth:`show`."""
        raise NotImplementedError

    @property
    def table(self) -> Cursor:
        """The table, or picture, that the cursor keys move in."""
        raise NotImplementedError

    @property
    def words(self) -> tuple[str, str]:
        """For the line above it: what is shown, and how much of it."""
        raise NotImplementedError

    @property
    def pointed(self) -> str:
        """What is under the mouse in its chart; empty for nothing."""
        return next((text for chart in self.query(AreaChart) if (text := chart.pointed)), "")

    @property
    def notice(self) -> str:
        """The outcome of the last key, which is the first of the right words; empty for none."""
        return self._notice

    @property
    def filtered(self) -> str:
        """How much the filter hides of what there is; empty without a filter, and while it is not known."""
        return ""

    @property
    def crumbs(self) -> tuple[str, ...]:
        """What led to what is shown: levels that were looked into, and filters. Esc takes off the last one."""
        return (added(EVERYTHING, self.where),) if self.where else ()

    @property
    def trail(self) -> str:
        """The crumbs, for the end of the first of its words."""
        return trail(self.crumbs)

    @property
    def picture(self) -> str:
        """What it shows in place of a table, as the first words of a sentence; empty where it shows a table."""
        return ""

    @property
    def age_ns(self) -> int:
        """By how much figures that are made rarely are older than the rest of the screen; 0 where none are."""
        return 0

    @property
    def copied(self) -> str:
        """What is under the cursor, in full and as plain text; empty where there is nothing."""
        table = self.table
        if not isinstance(table, VirtualTable) or table.sheet is None or not table.row_count:
            return ""
        return row_text(table.sheet, table.sheet.rows[table.cursor])

    @property
    def page(self) -> SavedTable | None:
        """The table in full; None where there is none."""
        table = self.table
        return page(table.sheet) if isinstance(table, VirtualTable) and table.sheet is not None else None

    @property
    def where(self) -> Filter:
        """The filter that holds now."""
        raise NotImplementedError

    def set_where(self, where: Filter) -> None:
        """Use another filter. Raises UsageError where it means nothing here, and keeps the one before."""
        raise NotImplementedError

    @property
    def bys(self) -> Mapping[str, str]:
        """What :meth:`action_cycle_key` goes through now, and how each is called behind the title; empty for one."""
        return {}

    @property
    def by(self) -> str:
        """Which of them is shown."""
        return ""

    def show_by(self, key: str) -> None:
        """Show it by one of :attr:`bys`."""
        raise NotImplementedError

    def action_cycle_key(self) -> bool:
        """Show it by the next of :attr:`bys`; False where there is only one."""
        keys, self._notice = [*self.bys], ""
        if len(keys) > 1:
            self.show_by(keys[(keys.index(self.by) + 1) % len(keys) if self.by in keys else 0])
        return len(keys) > 1

    def action_follow(self) -> str:
        """Keep the cursor on its row when rows move, or no longer."""
        if self.picture:
            return f"{self.picture} has no rows to follow"
        if not self.table.row_count:
            return "no rows here to follow"
        self.table.follow = not self.table.follow
        return ""

    def action_pin(self) -> str:
        """Have the row under the cursor stay at the top of the table, or no longer."""
        return "only rows that can be sorted can be pinned"

    @property
    def depth(self) -> int:
        """How many levels were looked into."""
        return 1

    def step_back(self) -> bool:
        """Esc. The rows that a filter has shown are found again by key n once it is dropped."""
        table, where, depth = self.table, self.where, self.depth
        sheet = table.sheet if isinstance(table, VirtualTable) else None
        row = table.row_key if isinstance(table, VirtualTable) else None
        shown = frozenset(map(sheet.key, sheet.rows)) if sheet is not None and where else frozenset()
        came_back = self.back()
        if isinstance(table, VirtualTable) and shown and self.where != where and self.depth == depth:
            self._matches = shown
            table.move_to_key(row)
        return came_back

    def action_match(self, step: int) -> str:
        """Go to the next row that the filter shows, or has shown before it was dropped."""
        table = self.table
        if not isinstance(table, VirtualTable):
            return f"{self.picture or 'this view'} has no rows to search"
        if not self.where and not self._matches:
            return "nothing was filtered yet: / searches"
        found = table.move_among(None if self.where else self._matches, step)
        self.moved()
        return "" if found else "no row here matches the last filter"

    def back(self) -> bool:
        """Take off the last of the crumbs; False where there is none."""
        raise NotImplementedError

    def moved(self) -> None:
        """The cursor is in another row: for what is shown of the row beside the table."""

    @property
    def subject(self) -> QuerySubject | None:
        """The objects of the row under the cursor, for the question what keeps them alive; None where it has none."""
        return None

    def _of_site(self, site: str) -> QuerySubject | None:
        """What a site has allocated, as far as it was sampled; None where nothing of that lives."""
        samples, sampling = self.now.samples, self.now.sampling
        if samples is None or sampling is None:
            return None
        stacks = samples.reported_stacks(stacks_at(samples, sampling.sites, site))[:MOST_ASKED]
        return QuerySubject(site, stacks=stacks) if stacks else None

    @property
    def unavailable(self) -> str:
        """Why that cannot be asked of the row under the cursor, where it has no subject."""
        return "retainers can be shown for a type or a sampled site"
