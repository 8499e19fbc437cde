"""The process picker: the Python processes of this machine, which of them can be attached to, and why not others.

This module never looks at a process: it is given a function that lists them and one that makes a source.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from rich.style import Style
from textual import work
from textual.app import ComposeResult
from textual.binding import BindingType

from heaptop.census.units import fit_command, format_bytes
from heaptop.errors import HeaptopError
from heaptop.protocol.source import ProcessRow, Source
from heaptop.tui.bindings import PICKER, bindings
from heaptop.tui.explaining import Explained
from heaptop.tui.messages import FilterAccepted, FilterDropped, FilterEdited, ProcessesListed, RowChosen
from heaptop.tui.table_screen import TableScreen
from heaptop.tui.widgets.filter_bar import FilterBar
from heaptop.tui.widgets.footer import Footer
from heaptop.tui.widgets.help_screen import HelpPage
from heaptop.tui.widgets.virtual_table import ALWAYS, Column, Piece, Sheet, VirtualTable

REFRESH_SECONDS: Final = 2.0


@dataclass(frozen=True, slots=True)
class Picker:
    """Where processes come from and how one is attached to. Both may raise HeaptopError."""

    processes: Callable[[], Sequence[ProcessRow]]
    """Called every two seconds, in a thread."""
    connect: Callable[[int], Source]
    """A source for a pid; opened by the screen that shows it."""


_COLUMNS: Final = (
    Column("pid", "PID", 8, rank=ALWAYS),
    Column("user", "User", 10, right=False, rank=0),
    Column("version", "Python", 8, right=False),
    Column("rss", "RSS", 9, rank=2),
    Column("command", "Command", 0, right=False, least=24),
)


def matching(rows: Sequence[ProcessRow], text: str) -> list[ProcessRow]:
    """The rows that hold every word of ``text`` somewhere, in any case; attachable ones first, then by memory."""
    words = text.lower().split()

    def holds(row: ProcessRow) -> bool:
        line = f"{row.pid} {row.user} {row.version} {row.command} {row.reason}".lower()
        return all(word in line for word in words)

    return sorted((row for row in rows if holds(row)), key=lambda row: (not row.attachable, -row.rss, row.pid))


EXPLAINS: Final = (
    Explained(("PID", "User"), "The process, and whose it is."),
    Explained(("Python",), "The version that runs in it, or ? where that could not be read."),
    Explained(("RSS",), "Its resident memory as the kernel has it. The list is read again every two seconds."),
    Explained(
        ("Command", "[…]"),
        "Its command line. Dimmed processes cannot be attached to; the reason stands in brackets before their command.",
    ),
)

BESIDE_COMMAND: Final = 38
"""Columns that the others take, with the gaps between them."""


class PickerScreen(TableScreen):
    """A table of processes; Enter attaches."""

    KEYS = PICKER
    BINDINGS: ClassVar[list[BindingType]] = bindings(PICKER)

    def __init__(self, picker: Picker) -> None:
        super().__init__()
        self._picker = picker
        self._rows: Sequence[ProcessRow] | None = None
        self._filter = ""
        self._problem = ""

    def compose(self) -> ComposeResult:
        yield FilterBar(placeholder="part of a pid, user, version or command line")
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
            here=("attach", "filter", "reload"),
        )

    # -- the list --------------------------------------------------------------------------------------------

    def action_reload(self) -> None:
        if self.is_current:
            self._list()

    @work(thread=True, exclusive=True, group="processes", exit_on_error=False)
    def _list(self) -> None:
        try:
            self._rows, self._problem = self._picker.processes(), ""
        except HeaptopError as error:
            self._problem = error.message
        self.post_message(ProcessesListed())

    def on_processes_listed(self) -> None:
        self._draw()

    def _shown(self) -> list[ProcessRow]:
        return matching(self._rows or (), self._filter)

    def _draw(self) -> None:
        look = self.look
        quiet = Style(dim=True)
        room = self.size.width - BESIDE_COMMAND

        def draw(row: ProcessRow) -> tuple[Piece, ...]:
            style = Style.null() if row.attachable else quiet
            command = fit_command(row.command, room)
            if not row.attachable:
                command = f"[{row.reason}] {command}"
            texts = (str(row.pid), row.user, row.version or "?", format_bytes(row.rss), command)
            return tuple(Piece(text, style) for text in texts)

        nothing = "Looking for Python processes…" if self._rows is None else "No Python process is here."
        if self._filter:
            nothing = f"No Python process matches {self._filter!r}."
        rows = self._shown()
        self.table.show(
            Sheet(columns=_COLUMNS, rows=rows, key=lambda row: str(row.pid), draw=draw, look=look, nothing=nothing)
        )
        self._draw_words()

    def _draw_words(self) -> None:
        rows = self._shown()
        ready = sum(row.attachable for row in rows)
        count = f"{ready} of {len(rows)} attachable" if rows else ""
        left = "heaptop: choose a process" + (f"  ›  {self._filter}" if self._filter else "")
        self.query_one(FilterBar).show(left, count, self.look, error=self._problem)

    def moved(self) -> None:
        self._problem = ""
        self._draw_words()

    def say(self, text: str) -> None:
        self._problem = text
        self._draw_words()

    def restyle(self) -> None:
        self.table.restyle()
        self.query_one(Footer).show(PICKER, self.look)
        self._draw()

    # -- keys ------------------------------------------------------------------------------------------------

    def action_attach(self) -> None:
        key = self.table.row_key
        row = next((row for row in self._shown() if str(row.pid) == key), None)
        if row is None:
            return
        if not row.attachable:
            self._problem = f"{row.pid} cannot be attached to: {row.reason}. `heaptop doctor {row.pid}` says more."
            self._draw_words()
            return
        try:
            source = self._picker.connect(row.pid)
        except HeaptopError as error:
            self._problem = error.message
            self._draw_words()
        else:
            self._problem = ""
            self.heaptop.open_live(source)

    def on_row_chosen(self, event: RowChosen) -> None:
        self.action_attach()

    def action_back(self) -> None:
        self._problem = self._filter = ""
        self._draw()

    def action_filter(self) -> None:
        self.query_one(FilterBar).edit(self._filter)
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
