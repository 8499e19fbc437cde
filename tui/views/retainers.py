"""View 3, Retainers."""

from __future__ import annotations

from textual.app import ComposeResult

from heaptop.census.filters import EVERYTHING, Filter
from heaptop.tui.desk import Subject
from heaptop.tui.desk_words import desk_words
from heaptop.tui.look import Look
from heaptop.tui.session import Display
from heaptop.tui.views.table_view import SortedView
from heaptop.tui.widgets.virtual_table import VirtualTable


class RetainersView(SortedView):
    """To be written."""

    NAME = "retainers"
    NUMBER = 3
    TITLE = "Retainers"
    HELP = "To be written."
    FROZEN = True

    def compose(self) -> ComposeResult:
        yield VirtualTable()

    def show(self, display: Display, look: Look) -> None:
        self._shown = (display, look)

    @property
    def note(self) -> str:
        return desk_words(self.now.desk)

    @property
    def table(self) -> VirtualTable:
        return self.list

    @property
    def words(self) -> tuple[str, str]:
        return self.TITLE, ""

    @property
    def where(self) -> Filter:
        return EVERYTHING

    def set_where(self, where: Filter) -> None:
        where.allow((), self.TITLE)

    def ask_about(self, subject: Subject) -> None:
        """Show what keeps these objects alive."""

    def inspect(self, address: int) -> None:
        """Show one object."""
