"""View 2 of the sum: a row for each of the processes that are attached to. Enter goes to its tab."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Final

from rich.style import Style
from textual.app import ComposeResult

from heaptop.analysis.filters.filters import Filter
from heaptop.analysis.text.units import format_bytes, format_change, format_count
from heaptop.errors import UsageError
from heaptop.tui.charts.chart_style import ChartStyle, change_style
from heaptop.tui.charts.sparkline import sparkline
from heaptop.tui.keys.explaining import FigureHelp
from heaptop.tui.state.messages import TabChosen
from heaptop.tui.state.process_figures import ProcessFigures
from heaptop.tui.state.session import Display
from heaptop.tui.state.sheet import CellText, Column, Sheet, change_title
from heaptop.tui.views.table_view import SortedView
from heaptop.tui.widgets.virtual_table import VirtualTable

ORDERS: Final[Mapping[str, Callable[[ProcessFigures], str | int]]] = {
    "pid": lambda row: row.pid,
    "name": lambda row: row.name,
    "objects": lambda row: row.objects or 0,
    "bytes": lambda row: row.bytes or 0,
    "change": lambda row: row.change or 0,
    "rss": lambda row: row.rss or 0,
}
"""What rows are sorted by, by column."""
TREND: Final = 16


class ProcessesView(SortedView):
    """The processes themselves, beside the sum of their heaps."""

    NAME = "processes"
    NUMBER = 2
    TITLE = "Processes"
    ABOUT = "each one's heap and RSS"
    SHOWS = "All processes that heaptop attaches to, a row each. Enter shows the tab of one."
    EXPLAINS = (
        FigureHelp(("Heap", "Objects"), "Its live objects at its last census; each process has its own time."),
        FigureHelp(
            ("Change…", "≤"),
            "Growth of its live heap since its first census after the attach, as long ago as the heading says; ≤ "
            "where that differs between processes.",
        ),
        FigureHelp(("RSS",), "Its resident memory at its last tick, with pages that it shares with others."),
        FigureHelp(("Trend",), "Its live heap at its last censuses, between its own smallest and largest."),
        FigureHelp(("State",), "Whether it is attached to; where that failed, why."),
    )
    MEANS: ClassVar[Mapping[str, str]] = {"drill": "the tab of this process"}
    OFFERS = ("drill", "sort_column(-1)", "sort_column(1)", "invert")

    def __init__(self) -> None:
        super().__init__()
        self.processes: Sequence[ProcessFigures] = ()  # To be shown next; set by the screen

    def compose(self) -> ComposeResult:
        yield VirtualTable()

    def _draw(self, display: Display, look: ChartStyle) -> None:
        self._rows = sorted(self.processes, key=ORDERS[self._sort], reverse=self._descending)
        self.list.show(self._sheet(look))

    @property
    def _change_title(self) -> str:
        titles = {change_title(row.change_ns) for row in self._rows if row.change is not None}
        longest = max((row.change_ns for row in self._rows), default=0)
        return change_title(longest, "Change ≤" if len(titles) > 1 else "Change ")

    def _sheet(self, look: ChartStyle) -> Sheet[ProcessFigures]:
        total = sum(row.bytes or 0 for row in self._rows)
        columns = (
            Column("pid", "PID", 7, rank=9),
            Column("name", "Process", 0, right=False, rank=8),
            Column("objects", "Objects", 10, rank=2),
            Column("bytes", "Heap", 9, rank=7),
            Column("share", "Share", 6, rank=1),
            Column("change", self._change_title, 12, rank=6),
            Column("rss", "RSS", 9, rank=5),
            Column("trend", "Trend", TREND, rank=3),
            Column("state", "State", max(16, self.size.width // 5), right=False, rank=4),
        )

        def draw(row: ProcessFigures) -> list[CellText]:
            share = f"{row.bytes / total:.1%}" if total and row.bytes is not None else ""
            return [
                CellText(str(row.pid)),
                CellText(row.name),
                CellText(_known(row.objects, format_count)),
                CellText(_known(row.bytes, format_bytes)),
                CellText(share),
                CellText(_known(row.change, format_change), change_style(row.change, look)),
                CellText(_known(row.rss, format_bytes)),
                CellText(sparkline(row.sizes, TREND, ascii_only=look.ascii_only)),
                CellText(row.state, Style(dim=row.state == "live")),
            ]

        exact: list[tuple[str, Callable[[ProcessFigures], str | int]]] = [
            ("heap_bytes", lambda row: row.bytes or 0),
            ("rss_bytes", lambda row: row.rss or 0),
            ("change_bytes", lambda row: row.change or 0),
        ]
        return Sheet(
            *(columns, self._rows, lambda row: str(row.pid), draw, look, self._sort, self._descending),
            nothing="No process yet.",
            exact=exact,
        )

    @property
    def words(self) -> tuple[str, str]:
        return self.TITLE, self._place(len(self._rows))

    def action_drill(self) -> bool:
        """To the tab of the row under the cursor."""
        row: ProcessFigures | None = self._row
        if row is not None:
            self.post_message(TabChosen(row.tab))
        return row is not None

    @property
    def unavailable(self) -> str:
        return "retainers belong to one process: press Enter"

    def _check_filter(self, where: Filter) -> None:
        if where:
            raise UsageError("Processes cannot be filtered.")

    @property
    def _sortable(self) -> Sequence[str]:
        return tuple(ORDERS)


def _known(figure: int | None, form: Callable[[int], str]) -> str:
    return "" if figure is None else form(figure)
