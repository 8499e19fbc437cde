"""The process picker: the Python processes of this machine, which of them can be attached to, and why not others.

Its caller gives it functions that list processes, examine one, and make sources.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import ClassVar, Final

from rich.style import Style
from textual import work
from textual.app import ComposeResult
from textual.binding import BindingType

from heaptop.analysis.text.picker_list import SORTS, Growths, ListedProcess, arranged
from heaptop.analysis.text.units import fit_command, format_bytes, format_change
from heaptop.errors import HeaptopError
from heaptop.protocol.source import ProcessRow, Source
from heaptop.tui.keys.bindings import PICKER, bindings, typing_keys
from heaptop.tui.keys.explaining import FigureHelp
from heaptop.tui.screens.several import Several
from heaptop.tui.screens.table_screen import TableScreen
from heaptop.tui.state.messages import (
    FilterAccepted,
    FilterDropped,
    FilterEdited,
    HeadingClicked,
    ProcessesListed,
    RowChosen,
)
from heaptop.tui.state.sheet import ALWAYS, CellText, Column, Sheet
from heaptop.tui.text import clip
from heaptop.tui.widgets.filter_bar import FilterBar
from heaptop.tui.widgets.footer import Footer
from heaptop.tui.widgets.help_screen import HelpPage
from heaptop.tui.widgets.text_screen import TextScreen
from heaptop.tui.widgets.virtual_table import VirtualTable

REFRESH_SECONDS: Final = 2.0


@dataclass(frozen=True, slots=True)
class Picker:
    """Where processes come from and how they are attached to. All may raise HeaptopError."""

    processes: Callable[[], Sequence[ProcessRow]]  # Called every two seconds, in a thread
    connect: Callable[[int], Source]  # A source for a pid; opened by the screen that shows it
    several: Callable[[Sequence[ProcessRow]], Several]  # The same for several processes at once
    diagnose: Callable[[int], str]  # What the doctor says of a pid. Called in a thread.


_COLUMNS: Final = (
    Column("pid", "PID", 7, rank=ALWAYS),
    Column("user", "User", 8, right=False, rank=0),
    Column("version", "Python", 7, right=False),
    Column("rss", "RSS", 9, rank=2),
    Column("growth", "Growth", 13, rank=1),
    Column("command", "Command", 0, right=False, least=24),
)
REASON: Final = 8  # Columns that are left for the beginning of a reason, behind a command that is long
BESIDE_COMMAND: Final = sum(column.width + 2 for column in _COLUMNS)
"""Columns that the others take, with the gaps between them."""
_LARGEST_FIRST: Final = ("rss", "growth")  # Sorts that begin with the largest


def matching(rows: Sequence[ProcessRow], text: str) -> list[ProcessRow]:
    """The rows that hold every word of ``text`` somewhere, in any case."""
    words = text.lower().split()

    def holds(row: ProcessRow) -> bool:
        line = f"{row.pid} {row.user} {row.version} {row.command} {row.reason}".lower()
        return all(word in line for word in words)

    return [row for row in rows if holds(row)]


EXPLAINS: Final = (
    FigureHelp(("PID", "User"), "The process and its user."),
    FigureHelp(("Python",), "Its Python version; ? if it could not be read."),
    FigureHelp(("RSS",), "Its resident memory, from the kernel. The list is refreshed every two seconds."),
    FigureHelp(
        ("Growth",),
        "The change of RSS over the last minute, or since the process appeared in this list.",
    ),
    FigureHelp(
        ("Command", "[…]"),
        "Its command line. Dimmed processes cannot be attached to: the reason is in brackets, and Enter shows what "
        "`heaptop doctor` reports.",
    ),
    FigureHelp(
        ("(5 pids, 812…", "├", "└"),
        "The number of processes in this tree (its children are listed below it), and their total RSS. Shared "
        "pages are counted in each.",
    ),
)


def growth_text(growth: float | None) -> str:
    """``+12.0 MiB/min``."""
    return "measuring" if growth is None else f"{format_change(round(growth))}/min"


def command_text(listed: ListedProcess, room: int) -> str:
    """Its place under its parent, how large the group is that it leads, its command, why it cannot be attached to."""
    row = listed.row
    branch = "  " * (listed.depth - 1) + ("└ " if listed.last else "├ ") if listed.depth else ""
    group = f"({len(listed.members)} pids, {format_bytes(listed.rss)}) " if len(listed.members) > 1 else ""
    before = branch + group
    if row.attachable:
        return before + fit_command(row.command, room - len(before))
    reason = f" [{row.reason}]"
    left = max(room - len(before) - min(len(reason), REASON), 0)
    return before + clip(fit_command(row.command, left), left) + reason


class PickerScreen(TableScreen):
    """A table of processes; Enter attaches."""

    KEYS = PICKER
    BINDINGS: ClassVar[list[BindingType]] = bindings(PICKER)

    def __init__(self, picker: Picker) -> None:
        super().__init__()
        self._picker = picker
        self._rows: Sequence[ProcessRow] | None = None
        self._growths = Growths()
        self._sort, self._descending = "rss", True
        self._filter = ""
        self._said = ""  # The outcome of the last key, until the cursor moves
        self._problem = ""  # Why there is no new list

    def compose(self) -> ComposeResult:
        yield FilterBar()
        yield VirtualTable()
        yield Footer(PICKER, self.look)

    def on_mount(self) -> None:
        self.table.follow = True
        self._draw()
        self.action_reload()
        self.set_interval(REFRESH_SECONDS, self.action_reload)

    def on_screen_resume(self) -> None:
        if self._rows is not None:
            self.action_reload()

    @property
    def table(self) -> VirtualTable:
        return self.query_one(VirtualTable)

    @property
    def help_page(self) -> HelpPage:
        return HelpPage(
            title="Processes: what is shown",
            keys=self.KEYS,
            shows="The Python processes of this machine, those with the most memory first.",
            explains=EXPLAINS,
            here=("attach", "attach_group", "filter", "sort_column(1)", "reload"),
        )

    # -- the list --------------------------------------------------------------------------------------------

    def action_reload(self) -> None:
        if self.is_current:
            self._list()

    @work(thread=True, exclusive=True, group="processes", exit_on_error=False)
    def _list(self) -> None:
        try:
            rows, self._problem = self._picker.processes(), ""
            self._growths.feed(monotonic(), rows)
            self._rows = rows
        except HeaptopError as error:
            self._problem = error.message
        self.post_message(ProcessesListed())

    def on_processes_listed(self) -> None:
        self._draw()

    def _shown(self) -> list[ListedProcess]:
        found = matching(self._rows or (), self._filter)
        return arranged(found, self._growths.per_minute, self._sort, self._descending)

    @property
    def _chosen(self) -> ListedProcess | None:
        """What the cursor is on."""
        key = self.table.row_key
        return next((listed for listed in self._shown() if str(listed.row.pid) == key), None)

    def _draw(self) -> None:
        look = self.look
        quiet = Style(dim=True)
        room = self.size.width - BESIDE_COMMAND

        def draw(listed: ListedProcess) -> tuple[CellText, ...]:
            row = listed.row
            style = Style.null() if row.attachable else quiet
            texts = (str(row.pid), row.user, row.version or "?", format_bytes(row.rss), growth_text(listed.growth))
            return tuple(CellText(text, style) for text in (*texts, command_text(listed, room)))

        nothing = "Looking for Python processes…" if self._rows is None else "No Python process found."
        if self._filter:
            nothing = f"No Python process matches {self._filter!r}."
        self.table.show(
            Sheet(
                columns=_COLUMNS,
                rows=self._shown(),
                key=lambda listed: str(listed.row.pid),
                draw=draw,
                look=look,
                sort=self._sort,
                descending=self._descending,
                nothing=nothing,
            )
        )
        self._draw_words()

    def _draw_words(self) -> None:
        rows, all_of_them = [listed.row for listed in self._shown()], len(self._rows or ())
        ready = sum(row.attachable for row in rows)
        if self._filter:
            count = f"{len(rows)} of {all_of_them}, {all_of_them - len(rows)} filtered out · {ready} attachable"
        else:
            count = f"{ready} of {len(rows)} attachable" if rows else ""
        bar = self.query_one(FilterBar)
        self.show_keys(typing_keys("keep filter", "no filter") if bar.editing else PICKER, self._said or self._problem)
        left = "heaptop: choose a process" + (f"  ›  {self._filter}" if self._filter else "")
        bar.show(left, count, self.look)

    def moved(self) -> None:
        self._said = ""
        self._draw_words()

    def show_notice(self, text: str) -> None:
        self._said = text
        self._draw_words()

    def restyle(self) -> None:
        self.table.restyle()
        self._draw()

    # -- keys ------------------------------------------------------------------------------------------------

    def action_attach(self) -> None:
        chosen = self._chosen
        if chosen is not None and not chosen.row.attachable:
            self._ask_doctor(chosen.row.pid)
        elif chosen is not None:
            self._open(lambda: self.heaptop.open_live(self._picker.connect(chosen.row.pid)))

    def action_attach_group(self) -> None:
        """To the process and to all below it."""
        chosen = self._chosen
        if chosen is None:
            return
        rows = [row for row in chosen.members if row.attachable]
        if len(chosen.members) < 2:
            self._said = f"{chosen.row.pid} has no Python processes below it; Enter attaches to it alone."
        elif not rows:
            self._said = "none of these can be attached to: Enter shows why"
        else:
            self._open(lambda: self.heaptop.open_several(self._picker.several(rows)))
        self._draw_words()

    def _open(self, opens: Callable[[], None]) -> None:
        self._said = ""
        try:
            opens()
        except HeaptopError as error:
            self._said = error.message
            self._draw_words()

    def _ask_doctor(self, pid: int) -> None:
        page = TextScreen(f"heaptop doctor {pid}", "Looking…", self.look)
        self.app.push_screen(page)
        self._diagnose(page, pid)

    @work(thread=True, exclusive=True, group="doctor", exit_on_error=False)
    def _diagnose(self, page: TextScreen, pid: int) -> None:
        try:
            text = self._picker.diagnose(pid)
        except HeaptopError as error:
            text = error.help_text
        self.app.call_from_thread(page.show_notice, text)

    # -- the order -------------------------------------------------------------------------------------------

    def on_heading_clicked(self, event: HeadingClicked) -> None:
        if event.column == self._sort:
            self.action_invert()
        else:
            self._sort_by(event.column)

    def action_sort_column(self, step: int) -> None:
        self._sort_by(SORTS[(SORTS.index(self._sort) + step) % len(SORTS)])

    def action_invert(self) -> None:
        self._descending = not self._descending
        self._draw()

    def _sort_by(self, column: str) -> None:
        self._sort, self._descending = column, column in _LARGEST_FIRST
        self._draw()

    # -- the filter ------------------------------------------------------------------------------------------

    def on_row_chosen(self, event: RowChosen) -> None:
        self.action_attach()

    def action_back(self) -> None:
        self._said = self._filter = ""
        self._draw()

    def action_filter(self) -> None:
        self.query_one(FilterBar).edit(self._filter, placeholder="part of a pid, user, version or command line")
        self._draw_words()

    def on_filter_edited(self, event: FilterEdited) -> None:
        self._filter = event.text.strip()
        self._draw()

    def on_filter_accepted(self, event: FilterAccepted) -> None:
        self._close_filter()

    def on_filter_dropped(self, event: FilterDropped) -> None:
        self._filter = ""
        self._close_filter()

    def _close_filter(self) -> None:
        self.query_one(FilterBar).close()
        self.set_focus(None)
        self._draw()
