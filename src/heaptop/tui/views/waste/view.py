"""View 10, Waste, on key 0: what the heap could do without, and what to change (Eclipse MAT's component report).

Rows, advice and totals are :mod:`heaptop.analysis.snapshot.waste`; they are of the open snapshot, and free room in
arenas of what view 9 measures. This module keeps what the reader chose: filter and sort.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from textwrap import wrap
from typing import ClassVar, Final

from rich.style import Style
from textual.app import ComposeResult

from heaptop.analysis.filters.filters import Filter
from heaptop.analysis.snapshot.waste import (
    ARENAS,
    MOST_ROWS,
    WasteGroup,
    WasteReport,
    row_words,
    sort_words,
    total_words,
    wanted,
    waste_report,
)
from heaptop.analysis.text.units import filtered_words, format_bytes, format_count
from heaptop.protocol.images import WASTE, Question, Selection, Waste
from heaptop.protocol.messages import Failure
from heaptop.protocol.text import printable
from heaptop.tui.charts.chart_style import ChartStyle
from heaptop.tui.charts.raster import AXIS, EMPTY, StyleRun
from heaptop.tui.keys.explaining import CPYTHON, MAT, FigureHelp
from heaptop.tui.state.asking import SnapshotAnswers
from heaptop.tui.state.messages import SubjectChosen
from heaptop.tui.state.session import Display
from heaptop.tui.state.sheet import WIDE, CellText, Column, Sheet
from heaptop.tui.state.snapshot_client import QuerySubject, SnapshotClient
from heaptop.tui.state.snapshot_status import snapshot_status, stage_words
from heaptop.tui.text import PARTS, clip_parts
from heaptop.tui.views.table_view import SortedView
from heaptop.tui.widgets.picture import Picture
from heaptop.tui.widgets.virtual_table import VirtualTable

ORDERS: Final[Mapping[str, Callable[[WasteGroup], str | int]]] = {
    "what": lambda row: row.name,
    "name": lambda row: row.type,
    "held": lambda row: row.holder,
    "count": lambda row: row.count,
    "bytes": lambda row: row.bytes,
    "own": lambda row: row.own,
}
"""What rows are sorted by, by column."""
_DIM: Final = Style(dim=True)


class WasteView(SortedView):
    """Above the table the totals, below it what to do about the row under the cursor."""

    NAME = "waste"
    NUMBER = 10
    TITLE = "Waste"
    ABOUT = "what could be saved"
    SHOWS = (
        "What the heap could save, from a snapshot, and what to change. Strings and numbers are compared there by "
        "a keyed hash; their content is never shown."
    )
    EXPLAINS = (
        FigureHelp(
            ("What",),
            "The kind of waste: duplicates (equal str or bytes), equal numbers, empty or nearly empty containers, "
            "sparse dicts, instances without __slots__, lists of numbers only.",
            MAT.at("“Component report”"),
        ),
        FigureHelp(
            ("interned, unused", "free in arenas"),
            "Immortal interned strings without a visible reference; and resident arena memory that no object uses "
            "(view 9).",
            CPYTHON.at("Objects/unicodeobject.c, Objects/obmalloc.c"),
        ),
        FigureHelp(
            ("Saves", "≈"),
            "Bytes that a change would save; for duplicates, all copies but one. ≈: the figure depends on the "
            "replacement, or was measured at another moment.",
            MAT.at("“Duplicate strings”, “Collection fill ratio”"),
        ),
        FigureHelp(
            ("Once", "each byte once"),
            "The same bytes without those already counted in another row of this column, so that the column adds "
            "up to the total.",
        ),
        FigureHelp(
            ("Share",),
            "Share of all objects' bytes that the row could save. Free memory is not part of the objects' bytes.",
        ),
        FigureHelp(
            ("Type", "Objects"),
            "The class of the objects and their number; for duplicates, the copies that could go.",
        ),
        FigureHelp(
            ("Held by",),
            "The nearest class instance, module or frame on the path to them; for instances, the module of their "
            "class. Enter shows one of them with its path.",
        ),
        FigureHelp(("Advice",), "What to change; in full below the table for the row under the cursor."),
    )
    HELP = "Filters: type: module: kind: of the objects. A filter leaves out free arena memory."
    MEANS: ClassVar[Mapping[str, str]] = {"drill": "one of the objects, and what keeps it"}
    FROZEN = True
    OFFERS = ("filter", "drill", "why", "snapshot", "shut", "sort_column(-1)", "sort_column(1)", "invert")
    DEFAULT_CSS = """
    WasteView > #head { height: 1; }
    WasteView > VirtualTable { height: 1fr; }
    WasteView > #said { height: 4; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._answers = SnapshotAnswers()
        self._report: WasteReport | None = None
        self._made_of: tuple[object, ...] = ()
        self._whole = 0  # Bytes of all rows without the filter; 0 while they are not known

    def compose(self) -> ComposeResult:
        yield Picture(id="head")
        yield VirtualTable()
        yield Picture(id="said")

    # -- drawing ---------------------------------------------------------------------------------------------

    def _draw(self, display: Display, look: ChartStyle) -> None:
        client = display.client
        if client is None:
            return
        self._answers.begin(client)
        nothing = self._take_report(display, client)
        self._answers.end()
        rows = self._report.rows if self._report is not None else ()
        self._rows = sorted(rows, key=ORDERS[self._sort], reverse=self._descending)
        self.list.show(self._sheet(client, nothing, look))
        self._draw_panes(client, look)

    def _take_report(self, display: Display, client: SnapshotClient) -> str:
        """Ask what is not known yet. What is said where there are no rows."""
        selection = wanted(self._where, client.types) if client.types else Selection()
        if selection is None:
            self._report, self._made_of = None, ()
            return f"No type in the heap matches {self._where}."
        found = self._answers.get(Question(WASTE, selection, limit=MOST_ROWS))
        whole = self._answers.get(Question(WASTE, limit=MOST_ROWS)) if self._where else None
        self._whole = sum(total.own for total in whole.totals) if isinstance(whole, Waste) else 0
        if not isinstance(found, Waste):
            self._report, self._made_of = None, ()
            failed = f"The snapshot did not answer: {found.text}." if isinstance(found, Failure) else ""
            return stage_words(client) or failed or "Asking the snapshot…"
        reading = display.memory.latest
        made_of = (found, reading, self._where)
        if made_of != self._made_of:
            memory = reading.memory if reading is not None else None
            self._report, self._made_of = waste_report(found, client.types, memory, self._where), made_of
        return "No waste found."

    def _sheet(self, client: SnapshotClient, nothing: str, look: ChartStyle) -> Sheet[WasteGroup]:
        width = self.size.width
        total = client.image.bytes if client.image is not None else 0
        columns = (
            Column("what", "What", 16, right=False, rank=8),
            Column("name", "Type", 0, right=False, keep_tail=True),
            Column("held", "Held by", max(16, width // 6), right=False, keep_tail=True, rank=5),
            Column("count", "Objects", 8, rank=6),
            Column("bytes", "Saves", 9, rank=9),
            Column("own", "Once", 9, rank=4),
            Column("share", "Share", 6, rank=3),
            Column("advice", "Advice", max(20, width // 4), right=False, rank=0),
        )

        def draw(row: WasteGroup) -> list[CellText]:
            about = "≈" if row.estimated else ""
            return [
                CellText(row.name),
                CellText(row.type or "-", Style(dim=not row.type)),
                CellText(row.holder or "-", _DIM),
                CellText(format_count(row.count) if row.count else "-"),
                CellText(about + format_bytes(row.bytes)),
                CellText(about + format_bytes(row.own)),
                CellText(f"{row.bytes / total:.1%}" if total and row.sort != ARENAS else ""),
                CellText(row.advice, _DIM),
            ]

        exact: list[tuple[str, Callable[[WasteGroup], str | int]]] = [
            ("sort", lambda row: row.sort),
            ("objects", lambda row: row.count),
            ("saved_bytes", lambda row: row.bytes),
            ("once_bytes", lambda row: row.own),
            ("path", lambda row: " ".join(row.path)),
        ]
        return Sheet(
            columns, self._rows, lambda row: row.key, draw, look, self._sort, self._descending, nothing, exact
        )  # fmt: skip

    def _draw_panes(self, client: SnapshotClient, look: ChartStyle) -> None:
        width, report = self.size.width, self._report
        head = ""
        if report is not None and client.image is not None:
            of_objects = (sort_words(each) for each in report.sorts if each.sort != ARENAS)
            parts = [f"could be saved: {total_words(report, client.image)}", *(of_objects if width >= WIDE else ())]
            head = f" {clip_parts(PARTS.join(parts), width - 2)}"
        self.query_one("#head", Picture).show(_drawn([head], look), look, key=head)
        texts = _row_texts(self._row) if self._row is not None else []
        lines = [f" {line}" for text in texts for line in wrap(printable(text), max(width - 2, 8))]
        self.query_one("#said", Picture).show(_drawn(lines, look), look, key=(width, *lines))

    # -- words about it ---------------------------------------------------------------------------------------

    @property
    def wants_memory(self) -> bool:
        return True

    @property
    def note(self) -> str:
        return snapshot_status(self.now.client, has_rows=bool(self._rows))

    @property
    def notices(self) -> str:
        return " ".join(self._report.notes) if self._report is not None else ""

    @property
    def words(self) -> tuple[str, str]:
        report = self._report
        said = ["partial" if report is not None and not report.complete else "", self._place(len(self._rows))]
        if self._answers.is_asking:
            said[-1] = "asking…"
        return f"{self.TITLE}{self.trail}", " · ".join(word for word in said if word)

    @property
    def filtered(self) -> str:
        report = self._report
        if not self._where or report is None or not self._whole:
            return ""
        return filtered_words(size=max(0, self._whole - report.total), about="≈")

    # -- what the keys do ------------------------------------------------------------------------------------

    def moved(self) -> None:
        self._again()

    def action_drill(self) -> bool:
        """One of the objects, in the view that explores them."""
        row: WasteGroup | None = self._row
        client = self.now.client
        if row is None or not row.example or client is None or not client.is_open:
            return False
        self.post_message(SubjectChosen(QuerySubject("", address=row.example)))
        return True

    @property
    def subject(self) -> QuerySubject | None:
        row: WasteGroup | None = self._row
        return QuerySubject(row.type, types=(row.type,)) if row is not None and row.type else None

    def _check_filter(self, where: Filter) -> None:
        wanted(where, self.now.client.types if self.now.client is not None else ())

    @property
    def _sortable(self) -> Sequence[str]:
        return tuple(ORDERS)


def _row_texts(row: WasteGroup) -> list[str]:
    """Paragraphs on one row."""
    texts = [row.advice, row_words(row)]
    if row.path:
        texts.append("one of them: " + " ".join(row.path))
    return texts


def _drawn(lines: Sequence[str], look: ChartStyle) -> Callable[[int, int], list[list[StyleRun]]]:
    return lambda width, height: [[StyleRun(look.text(line)[:width], AXIS, EMPTY)] for line in lines[:height]]
