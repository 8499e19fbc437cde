"""View 5, Heap map: where objects lie in the address space, a colour a type, age or kind (KBDB, §4).

Cells are asked of the open snapshot, and only those that are on the screen; where addresses stand on the map is
:mod:`heaptop.census.heap_map`'s. This module never asks for the objects of a cell before a person does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from textual.app import ComposeResult
from textual.containers import Container, Vertical

from heaptop.census.attributes import generation_label
from heaptop.census.filters import EVERYTHING, Filter
from heaptop.census.heap_map import Record, Slots, Window
from heaptop.census.history import Cell
from heaptop.census.units import format_bytes, format_count
from heaptop.errors import UsageError
from heaptop.protocol.images import Groups, Object, ObjectRow, Selection
from heaptop.protocol.messages import UNTRACKED, TypeName
from heaptop.tui.desk import Desk, Subject
from heaptop.tui.desk_words import desk_words
from heaptop.tui.heap_map_marks import (
    ALL,
    COLOURINGS,
    KIND,
    KIND_WORDS,
    NEW,
    NO_GENERATION,
    TYPE,
    Marker,
)
from heaptop.tui.heap_map_picture import Entry, card, legend
from heaptop.tui.heap_map_questions import LargestAsked, MapAnswers
from heaptop.tui.look import Look
from heaptop.tui.messages import ObjectChosen, ViewChanged
from heaptop.tui.palette import REST_SLOT
from heaptop.tui.session import Display
from heaptop.tui.views.base import View
from heaptop.tui.views.table_view import WIDE
from heaptop.tui.widgets.heap_map import HeapMap
from heaptop.tui.widgets.picture import Picture

_MOST_TYPES: Final = 5000
"""Of a filter: more do not fit into a question."""


class HeapMapView(View):
    """Map, legend, and a card on what is under the cursor."""

    NAME = "heap_map"
    NUMBER = 5
    TITLE = "Heap map"
    HELP = (
        "A picture of the address space, after KBDB (Serrano and Boehm, 2000, section 4): a cell is a stretch of "
        "addresses in the colour of the type that takes most of it, and with key b of the youngest generation in it, "
        "of the sort of root that keeps most of it, or of what came since the mark (key m, then o; at least, for an "
        "address may have been used again). It is approximate: a cell shows one of all the types in it, and memory is "
        "shown where Python's objects are, so that a blank is not free for certain; gaps without any (│) are left out."
        "\n\n"
        "Arrows and clicks move the cursor; z, Z and the wheel zoom where it stands; PgUp, PgDn and Shift with the "
        "wheel pan; Esc shows all again. Enter looks at the object of the cell that retains most, Enter again explores "
        "it in Retainers, and w asks what keeps its type alive.\n\n"
        "Filters: type:Session  module:app. Cells that hold none of it are faint (·)."
    )
    FROZEN = True
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
        self._colouring, self._where = TYPE, EVERYTHING
        self._slots = Slots()
        self._answers = MapAnswers()
        self._assigned: Groups | None = None
        """Whose types have letters."""
        self._opened: list[tuple[int, int]] | None = None
        """The extents that the map is of."""
        self._types: tuple[Sequence[TypeName], Filter, tuple[int, ...]] | None = None
        """Of which types and filter, and the ids that pass."""

    def compose(self) -> ComposeResult:
        with Container(id="body"):
            yield HeapMap(self._again)
            with Vertical(id="side"):
                yield Picture(id="legend")
                yield Picture(id="card")

    def on_resize(self) -> None:
        self.set_class(self.size.width >= WIDE, "wide")
        self._again()
        self.post_message(ViewChanged())

    def restyle(self) -> None:
        for widget in self.query(Picture):
            widget.restyle()

    # -- drawing ---------------------------------------------------------------------------------------------

    def show(self, display: Display, look: Look) -> None:
        self._shown = (display, look)
        desk, answers = display.desk, self._answers
        if desk is None or not self.table.size.width:
            return
        if answers.extents is not None and answers.extents is not self._opened:
            self._opened = answers.extents
            self.table.open(answers.extents, look)
        self.table.fit(look)
        answers.ask(desk, self.table.window, self._selection(desk), by_group=self._colouring in (TYPE, KIND))
        self._assign()
        key = (answers.changes, self._colouring, self._where, desk.mark is not None)
        self.table.show_marks(self._marker(desk).marks, look, key)
        self._show_side(desk, look, key)

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

    def _show_side(self, desk: Desk, look: Look, key: object) -> None:
        entries, lines = self._entries(desk), self._card(desk)
        title = f" {self._colouring} of what is shown"
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
        return desk_words(self.now.desk)

    @property
    def words(self) -> tuple[str, str]:
        desk, window, answers = self.now.desk, self.table.window, self._answers
        left = f"{self.TITLE} by {self._colouring}" + (f"  ›  {self._where}" if self._where else "")
        if desk is None or window is None:
            return left, ""
        low, high = window.range
        shown = sum(end - begin for _, begin, end in window.layout.pieces(window.top, window.end))
        taken = self._marker(desk).taken(window, ALL) / max(shown, 1)
        asking = "asking… · " if desk.is_open and answers.is_asking else ""
        partly = "partial · " if (self._selection(desk), window.layout.cell) in answers.partial else ""
        failed = f"{answers.failure} · " if answers.failure else ""
        right = (
            f"{failed}{asking}{partly}{low:x}–{high:x} · {format_bytes(window.layout.cell)} a cell · {taken:.0%} taken"
        )
        return left, right

    # -- what is marked how ----------------------------------------------------------------------------------

    def _selection(self, desk: Desk) -> Selection | None:
        """What stands out: all there is without a filter; None for nothing at all."""
        new = self._colouring == NEW and desk.mark is not None
        if not self._where:
            return Selection(new=new)
        types = self._passing()
        return Selection(types=types, new=new) if types else None

    def _passing(self) -> tuple[int, ...]:
        """The types that pass the filter."""
        types, where, known = self._answers.types, self._where, self._types
        if known is None or known[0] is not types or known[1] != where:
            known = self._types = types, where, _passing(types, where)
        return known[2]

    def _marker(self, desk: Desk) -> Marker:
        slots, name = self._slots.slots, self._answers.type_name
        selection = self._selection(desk)
        return Marker(self._colouring, self._answers.cells, selection, lambda id: slots.get(name(id), REST_SLOT))

    def _entries(self, desk: Desk) -> list[Entry]:
        window, groups = self.table.window, self._answers.groups
        if window is None:
            return []
        name = self._answers.type_name
        return self._marker(desk).entries(window, groups[1] if groups is not None else None, name)

    # -- the card --------------------------------------------------------------------------------------------

    def _card(self, desk: Desk) -> list[tuple[str, str]]:
        window = self.table.window
        if window is None:
            return []
        low, high, is_gap = window.layout.bounds(window.cursor)
        if is_gap:
            return [("gap", f"{low:x}–{high:x}: {format_bytes(high - low)} without an object")]
        lines = [("cell", f"{low:x}–{high:x}: {self._cell_words(desk, self._record(window))}")]
        if self._colouring == NEW and desk.mark is None:
            lines.append(("", "nothing is marked: key m marks what is there, key o shows what is new then"))
        largest, known = self._largest, self._answers.object
        if largest is None:
            return lines
        total = self._answers.largest.total if self._answers.largest is not None else 0
        lines += self._object_lines(desk, largest, total)
        if known is not None and known[0].address == largest.address:
            lines += _chain_lines(self._answers, known[1], self.has_class("wide"))
        return lines

    def _record(self, window: Window) -> Record | None:
        """What is known of the cell under the cursor."""
        return self._answers.cells.get(ALL, window.layout.cell, window.layout.address(window.cursor))

    def _cell_words(self, desk: Desk, record: Record | None) -> str:
        if record is None:
            return "asking…" if desk.is_open else "not known"
        if not record.bytes:
            return "no object"
        age = generation_label(UNTRACKED if record.generation == NO_GENERATION else record.generation)
        return (
            f"{record.taken / 10:.0f}% taken, most by {self._answers.type_name(record.type)} · {age} · "
            f"{KIND_WORDS[record.kind]}" + ("" if self._answers.wanted else " · Enter: the largest")
        )

    @property
    def _largest(self) -> ObjectRow | None:
        """The object that is looked at, while the cursor is where it was found."""
        largest, window = self._answers.largest, self.table.window
        if largest is None or not largest.rows or window is None or self._answers.wanted is None:
            return None
        is_here = window.layout.place(self._answers.wanted.low) == window.cursor
        return largest.rows[0] if is_here else None

    def _object_lines(self, desk: Desk, row: ObjectRow, total: int) -> list[tuple[str, str]]:
        known = self._answers.object
        preview = f" · {known[1].preview}" if known is not None and known[1].preview else ""
        most = f", retains most of {format_count(total)} here" if total > 1 else ""
        sampling = self.now.sampling
        producer = sampling.sites.name(row.stack, "site") if row.stack and sampling is not None else "not sampled"
        return [
            ("type", f"{self._answers.type_name(row.type)} at {row.address:#x}{most}{preview}"),
            (
                "size",
                f"{format_bytes(row.size)}, retains {format_bytes(row.retained)} · {generation_label(row.generation)}"
                " · Enter: explore it",
            ),
            ("producer", producer),
        ]

    # -- what the keys do ------------------------------------------------------------------------------------

    @property
    def where(self) -> Filter:
        return self._where

    def set_where(self, where: Filter) -> None:
        where.allow(("type", "module"), "Cells")
        if where and len(_passing(self._answers.types, where)) > _MOST_TYPES:
            raise UsageError(f"More than {_MOST_TYPES:,} types match.", fix="Ask for fewer.")
        self._where = where
        self._answers.look_at(None)
        self._again()

    def cycle_key(self) -> None:
        self._colouring = COLOURINGS[(COLOURINGS.index(self._colouring) + 1) % len(COLOURINGS)]
        self._again()

    def zoom(self, steps: int) -> bool:
        return self.table.zoom(steps)

    def moved(self) -> None:
        self._again()

    def drill(self) -> bool:
        """Look at the largest object of the cell; explore it, when it is looked at."""
        desk, window = self.now.desk, self.table.window
        if desk is None or window is None or not desk.is_open:
            return False
        if (row := self._largest) is not None:
            self.post_message(ObjectChosen(row.address))
            return True
        low, high, is_gap = window.layout.bounds(window.cursor)
        record = self._record(window)
        if is_gap or record is None or not record.bytes:
            return False
        self._answers.look_at(LargestAsked(self._selection(desk) or ALL, low, high))
        self._again()
        return True

    @property
    def subject(self) -> Subject | None:
        desk, window = self.now.desk, self.table.window
        if desk is None or window is None:
            return None
        row, record = self._largest, self._record(window)
        if row is None and (record is None or not record.bytes):
            return None
        name = self._answers.type_name(row.type if row is not None else record.type if record is not None else 0)
        return Subject(name, types=(name,))

    def back(self) -> bool:
        if self._answers.wanted is not None:
            self._answers.look_at(None)
        elif self._where:
            self._where = EVERYTHING
        else:
            return self.table.zoom_out()
        self._again()
        return True


def _passing(types: Sequence[TypeName], where: Filter) -> tuple[int, ...]:
    return tuple(id for id, name in enumerate(types) if where.fits_name(Cell(name, UNTRACKED, 0, 0)))


def _chain_lines(answers: MapAnswers, known: Object, wide: bool) -> list[tuple[str, str]]:
    """Who holds it, and by which links (KBDB's holder chain), from the root on."""
    if not known.path:
        return [("holder", KIND_WORDS[known.row.kind])]
    holder, *links = known.path
    if not wide:
        return [("chain", " › ".join([holder.label, *(link.label for link in links)]))]
    lines = [("holder", holder.label)]
    for place, link in enumerate(links):
        label = f"{link.label}{' …' if link.repeated else ''}"
        lines.append(
            ("" if place else "links", f"{'' if not place else ' ' * 10}{label}  {answers.type_name(link.type)}")
        )
    return lines
