"""View 5, Heap map: where objects lie in the address space, a colour a type, age or kind (KBDB, §4).

Cells are asked of the open snapshot, and only those that are on the screen; where addresses are on the map is
:mod:`heaptop.analysis.snapshot.heap_map`'s.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import ClassVar

from textual.app import ComposeResult
from textual.containers import Container, Vertical

from heaptop.analysis.filters.filters import EVERYTHING, Filter
from heaptop.analysis.filters.kept_samples import retainer_term
from heaptop.analysis.snapshot.heap_map import CellContents, MapLetters, MapWindow
from heaptop.analysis.snapshot.retaining import narrowed
from heaptop.analysis.text.units import format_bytes
from heaptop.protocol.findings import Suspect
from heaptop.protocol.images import Groups, ObjectRow, Selection
from heaptop.protocol.text import printable
from heaptop.tui.charts.chart_style import ChartStyle
from heaptop.tui.charts.heap_map_picture import card, legend
from heaptop.tui.keys.bindings import Key
from heaptop.tui.state.messages import SubjectChosen
from heaptop.tui.state.session import Display
from heaptop.tui.state.snapshot_client import QuerySubject, SnapshotClient
from heaptop.tui.state.snapshot_status import snapshot_status
from heaptop.tui.views.base import View
from heaptop.tui.views.heap_map.heap_map_card import (
    NONE_PASS,
    UNMARKED,
    Line,
    cell_lines,
    gap_lines,
    object_lines,
    suspect_lines,
)
from heaptop.tui.views.heap_map.heap_map_figures import MapFigures
from heaptop.tui.views.heap_map.heap_map_help import EXPLAINED
from heaptop.tui.views.heap_map.heap_map_marks import ALL, COLOURINGS, KIND, SINCE, TYPE
from heaptop.tui.views.heap_map.heap_map_questions import LargestAsked, MapAnswers
from heaptop.tui.widgets.heap_map import HeapMap
from heaptop.tui.widgets.picture import Picture


class HeapMapView(View):
    """Map, legend, and a card on what is under the cursor."""

    NAME = "heap_map"
    NUMBER = 5
    TITLE = "Heap map"
    ABOUT = "object addresses"
    SHOWS = (
        "Where objects are in the address space: a cell is a range of addresses, coloured by the type with the "
        "most bytes in it. The legend shows each letter's share of the bytes shown, the card the cell under the cursor."
    )
    EXPLAINS = EXPLAINED
    HELP = (
        "Arrows and clicks move the cursor; z, Z and the wheel zoom at the cursor; PgUp, PgDn and Shift with the "
        "wheel pan; Esc shows everything again.\n\nFilters: type:Session  module:app  kind:none (garbage)  "
        "retainer:cache. Cells without a match are faint (·)."
    )
    MEANS: ClassVar[Mapping[str, str]] = {
        "cycle_key": "by type, generation, kind of root, age, leak",
        "drill": "the largest object of the cell; again: opens it",
        "why": "what keeps the type of the cell",
    }
    FROZEN = True
    KEYS = (
        Key("z", "z", "zoom(1)", "heap map: zoom in", "Snapshot", word="zoom", otherwise="only the heap map zooms"),
        Key("Z", "Z", "zoom(-1)", "heap map: zoom out", "Snapshot", word="zoom", otherwise="only the heap map zooms"),
    )
    OFFERS = ("cycle_key", "filter", "drill", "why", "mark", "zoom(1)", "zoom(-1)", "snapshot", "values", "shut")
    DEFAULT_CSS = """
    HeapMapView #body { height: 1fr; layout: vertical; }
    HeapMapView #side { height: 7; }
    HeapMapView #legend { height: 1; }
    HeapMapView #card { height: 1fr; }
    HeapMapView.wide #body { layout: horizontal; }
    HeapMapView.wide #side { width: 60; height: 1fr; padding: 0 0 0 1; }
    HeapMapView.wide #legend { height: 14; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._slots = MapLetters()
        self._answers = MapAnswers()
        self._assigned: Groups | None = None  # Whose types have letters
        self._opened: list[tuple[int, int]] | None = None  # The extents that the map is of
        self._figures = MapFigures(self._answers, self._slots, lambda: self.now.found)

    def compose(self) -> ComposeResult:
        with Container(id="body"):
            yield HeapMap(self._again)
            with Vertical(id="side"):
                yield Picture(id="legend")
                yield Picture(id="card")

    def restyle(self) -> None:
        for widget in self.query(Picture):
            widget.restyle()

    # -- drawing ---------------------------------------------------------------------------------------------

    def _draw(self, display: Display, look: ChartStyle) -> None:
        client, answers = display.client, self._answers
        if client is None or not self.table.size.width:
            return
        if answers.extents is not None and answers.extents is not self._opened:
            self._opened = answers.extents
            self.table.open(answers.extents, look)
        self.table.fit(look)
        answers.ask(
            client,
            self.table.window,
            self._figures.selection(client),
            by_group=self._figures.colouring in (TYPE, KIND),
            by_retainer=retainer_term(self._figures.where, "Cells") is not None,
            by_mark=self._figures.colouring in SINCE and client.mark is not None,
        )
        self._assign()
        self.table.show_marks(partial(self._figures.marks, client), look, self._figures.key(client))
        self._show_side(client, look)

    def _assign(self) -> None:
        """Letters and colours for what there is most of on the screen."""
        groups = self._answers.groups
        if groups is None or groups[1] is self._assigned:
            return
        self._assigned = groups[1]
        sums = Counter[str]()
        for row in groups[1].rows:
            sums[self._answers.type_name(row.type)] += row.bytes
        self._slots.assign([name for name, _ in sums.most_common()])

    def _show_side(self, client: SnapshotClient, look: ChartStyle) -> None:
        window, lines = self.table.window, self._card(client)
        entries = self._figures.sums(client, window)[1] if window is not None else []
        title = f" shares by {self._figures.colouring}"
        self.query_one("#legend", Picture).show(
            lambda width, height: legend(entries, title, width, height, look), look, key=(title, *entries)
        )
        self.query_one("#card", Picture).show(
            lambda width, height: card(lines, width, height, look), look, key=tuple(lines)
        )

    @property
    def table(self) -> HeapMap:
        return self.query_one(HeapMap)

    @property
    def note(self) -> str:
        return snapshot_status(self.now.client)

    @property
    def words(self) -> tuple[str, str]:
        client, window, answers = self.now.client, self.table.window, self._answers
        left = f"{self.TITLE} by {self._figures.colouring}{self.trail}"
        if client is None or window is None:
            return left, ""
        taken, _ = self._figures.sums(client, window)
        low, high = window.range
        parts = [
            answers.failure,
            "asking…" if client.is_open and answers.is_asking else "",
            "partial" if (self._figures.selection(client), window.layout.cell) in answers.partial else "",
            f"{low:x}–{high:x}" if self.has_class("wide") else "",
            f"{format_bytes(window.layout.cell)} a cell",
            f"{taken:.0%} taken" if taken is not None else "",
        ]
        return left, " · ".join(part for part in parts if part)

    @property
    def filtered(self) -> str:
        client, window = self.now.client, self.table.window
        if not self._figures.where or client is None or window is None:
            return ""
        return self._figures.filtered(client, window)

    @property
    def crumbs(self) -> tuple[str, ...]:
        window, row = self.table.window, self._largest
        zoomed = ("zoomed in",) if window is not None and not window.is_whole else ()
        looked = (f"{self._answers.type_name(row.type)} {row.address:#x}",) if row is not None else ()
        return (*zoomed, *super().crumbs, *looked)

    @property
    def picture(self) -> str:
        return "the heap map"

    @property
    def copied(self) -> str:
        """Words about the cell."""
        client = self.now.client
        lines = self._card(client, hints=False) if client is not None else []
        return "\n".join(printable(f"{label}\t{text}").strip() for label, text in lines if text)

    # -- the card --------------------------------------------------------------------------------------------

    def _card(self, client: SnapshotClient, *, hints: bool = True) -> list[Line]:
        """``hints``: with what keys do next."""
        window, answers = self.table.window, self._answers
        if window is None:
            return []
        low, high, is_gap = window.layout.bounds(window.cursor)
        if is_gap:
            return gap_lines(low, high)
        looked, wide = self._largest is not None, self.has_class("wide") or not hints
        hint = "" if not hints else "Enter: open it" if looked else "Enter: largest object"
        lines = cell_lines(answers, self._record(window), low, high, hint, wide=wide)
        if self._figures.colouring in SINCE and client.mark is None:
            lines.append(UNMARKED)
        lines += suspect_lines(self._suspects_here)
        if self._figures.where and not answers.is_asking and not self._figures.sums(client, window)[1]:
            lines.append(NONE_PASS)
        if looked:
            lines += object_lines(answers, self._site, wide=wide)
        return lines

    def _record(self, window: MapWindow) -> CellContents | None:
        """What is known of the cell under the cursor."""
        return self._answers.cells.get(ALL, window.layout.cell, window.layout.address(window.cursor))

    @property
    def _suspects_here(self) -> list[tuple[int, Suspect]]:
        """Those that collect in the cell under the cursor."""
        window = self.table.window
        if window is None:
            return []
        return [row for row in self._figures.suspects if window.layout.place(row[1].point) == window.cursor]

    @property
    def _largest(self) -> ObjectRow | None:
        """The object that is examined, while the cursor is where it was found."""
        largest, wanted, window = self._answers.largest, self._answers.wanted, self.table.window
        if wanted is None or largest is None or not largest.rows or window is None:
            return None
        return largest.rows[0] if window.layout.place(wanted.low) == window.cursor else None

    @property
    def _site(self) -> str:
        """Who allocated it; empty where that was not sampled."""
        row, sampling = self._largest, self.now.sampling
        if row is None or not row.stack or sampling is None:
            return ""
        return sampling.sites.reported_site(row.stack) or "just sampled: its stack is not known yet"

    # -- what the keys do ------------------------------------------------------------------------------------

    @property
    def where(self) -> Filter:
        return self._figures.where

    def set_where(self, where: Filter) -> None:
        where.allow(("type", "module", "kind", "retainer"), "Cells")
        retainer_term(where, "Cells")
        narrowed(where.without("retainer"), self._answers.types, Selection())
        self._figures.where = where
        self._answers.look_at(None)
        self._again()

    @property
    def bys(self) -> Mapping[str, str]:
        return {key: f"by {key}" for key in COLOURINGS}

    @property
    def by(self) -> str:
        return self._figures.colouring

    def show_by(self, key: str) -> None:
        self._figures.colouring = key
        self._again()

    def action_zoom(self, steps: int) -> str:
        return "" if self.table.zoom(steps) else f"the heap map cannot zoom {'in' if steps > 0 else 'out'} further"

    def action_sort_column(self, step: int) -> str:
        return f"{self.picture} has no columns to sort by"

    def action_invert(self) -> str:
        return self.action_sort_column(0)

    def action_depth(self) -> str:
        """No sampling is changed from here."""
        return "key R changes N where retainer sets are shown: key b"

    def moved(self) -> None:
        self._again()

    def action_drill(self) -> bool:
        """Look at the largest object of the cell; explore it, when it is examined."""
        client, window = self.now.client, self.table.window
        if client is None or window is None or not client.is_open:
            return False
        if (row := self._largest) is not None:
            self.post_message(SubjectChosen(QuerySubject("", address=row.address)))
            return True
        if here := self._suspects_here:
            self.post_message(SubjectChosen(QuerySubject("", address=here[0][1].point)))
            return True
        low, high, is_gap = window.layout.bounds(window.cursor)
        record = self._record(window)
        if is_gap or (record is not None and not record.bytes):
            return False
        chosen = self._figures.marker(client).chosen(window.layout.cell, low)
        selection = self._figures.selection(client) if chosen is not None and chosen.bytes else None
        self._answers.look_at(LargestAsked(selection or ALL, low, high))
        self._again()
        return True

    @property
    def subject(self) -> QuerySubject | None:
        """The object that is examined, or else the type that takes most of the cell."""
        window, row = self.table.window, self._largest
        if row is not None:
            name = self._answers.type_name(row.type)
            return QuerySubject(f"{name} at {row.address:#x}", types=(name,), address=row.address)
        record = self._record(window) if window is not None else None
        if record is None or not record.bytes:
            return None
        name = self._answers.type_name(record.type)
        return QuerySubject(name, types=(name,))

    def back(self) -> bool:
        if self._largest is not None:
            self._answers.look_at(None)
        elif self._figures.where:
            self._figures.where = EVERYTHING
        else:
            return self.table.zoom_out()
        self._again()
        return True
