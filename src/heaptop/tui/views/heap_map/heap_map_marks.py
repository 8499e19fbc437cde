"""What each place of the heap map is marked with, and what the marks represent: by type, age, kind, or since the mark;
or what leaks and where it collects (KBDB, §4.2 and fig. 7).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from heaptop.analysis.filters.attributes import generation_label
from heaptop.analysis.snapshot.heap_map import CellContents, KnownCells, MapWindow
from heaptop.analysis.text.units import format_bytes, format_count
from heaptop.protocol.images import Groups, Selection
from heaptop.protocol.messages import UNTRACKED
from heaptop.tui.charts.heap_map_picture import FAINT, FREE, GAP, MarkEntry
from heaptop.tui.charts.palette import REST_SLOT

TYPE, GENERATION, KIND, NEW, LEAK = COLOURINGS = ("type", "generation", "kind", "age", "leak")
SINCE: Final = (NEW, LEAK)  # Those that need a mark

KIND_WORDS: Final = ("modules", "frames", "the interpreter", "other interpreters", "held by C", "garbage")
"""Of :data:`heaptop.protocol.images.KINDS`."""
_KIND_SLOTS: Final = (0, 2, 5, 8, 1, 3)  # Highlights what C holds, and garbage
NO_GENERATION: Final = 255
_GENERATION_SLOTS: Final = {0: 1, 1: 5, 2: 0, NO_GENERATION: 2}
_OTHER_GENERATION: Final = 4
_OLD, _NEW, _HOLDER = 0, 1, 3
_AGE_WORDS: Final = ("older than the mark", "new since (at least)")


@dataclass(frozen=True, slots=True)
class MapMarker:
    """How places are marked."""

    colouring: str
    cells: KnownCells
    selection: Selection | None  # What is highlighted; None for nothing
    slot: Callable[[int], int]
    holders: frozenset[int] = frozenset()  # Addresses of the objects that suspects collect in

    def marks(self, window: MapWindow) -> list[int]:
        """Of each place that is shown."""
        marks = [GAP] * (window.end - window.top)
        for place, address in _addresses(window):
            marks[place] = self._mark(window.layout.cell, address)
        for place in self._held_at(window):
            marks[place] = _HOLDER
        return marks

    def _held_at(self, window: MapWindow) -> set[int]:
        """Places on the screen where suspects collect."""
        places = {window.layout.place(address) - window.top for address in self.holders}
        return {place for place in places if 0 <= place < window.end - window.top}

    def _mark(self, cell: int, address: int) -> int:
        there = self.cells.like(ALL, cell, address)
        record = self.chosen(cell, address)
        if record is not None and record.bytes:
            return self._slot(record)
        if there is None or not there.bytes:
            return FREE
        return _OLD if self.colouring == NEW and self.selection == Selection(seen=self._seen) else FAINT

    @property
    def _seen(self) -> tuple[int, ...]:
        """Of what is new; empty where nothing is, or is known to be."""
        return self.selection.seen if self.selection is not None else ()

    def chosen(self, cell: int, address: int) -> CellContents | None:
        """What is highlighted in a cell."""
        return self.cells.like(self.selection, cell, address) if self.selection is not None else None

    def _slot(self, record: CellContents) -> int:
        if self._seen:
            return _NEW
        if self.colouring == TYPE:
            return self.slot(record.type)
        if self.colouring == KIND:
            return _KIND_SLOTS[record.kind]
        return _generation_slot(record.generation) if self.colouring == GENERATION else _OLD

    # -- the legend ------------------------------------------------------------------------------------------

    def entries(self, window: MapWindow, groups: Groups | None, name: Callable[[int], str]) -> list[MarkEntry]:
        """What marks represent in what is shown, the largest first.

        Args:
            groups: what there is of each type and kind.
            name: of a type.
        """
        if self.selection is None:
            return []
        if self.colouring in (TYPE, KIND):
            return self._of_groups(groups, name) if groups is not None else []
        if self.colouring == GENERATION:
            return self._of_generations(window)
        return self._of_ages(window)

    def _of_groups(self, groups: Groups, name: Callable[[int], str]) -> list[MarkEntry]:
        sums = Counter[int]()
        for row in groups.rows:
            sums[row.type if self.colouring == TYPE else row.kind] += row.bytes
        if self.colouring == KIND:
            return _entries([(_KIND_SLOTS[kind], KIND_WORDS[kind], size) for kind, size in sums.most_common()])
        named = [(self.slot(type), name(type), size) for type, size in sums.most_common()]
        rest = sum(size for slot, _, size in named if slot == REST_SLOT)
        shown = [each for each in named if each[0] != REST_SLOT]
        return _entries([*shown, (REST_SLOT, "other types", rest)] if rest else shown)

    def _of_generations(self, window: MapWindow) -> list[MarkEntry]:
        """Of cells, not of bytes: how much of a cell is of its youngest generation is not known."""
        cell = window.layout.cell
        records = [record for _, address in _addresses(window) if (record := self.chosen(cell, address)) is not None]
        counts = Counter(record.generation for record in records if record.bytes)
        return [
            MarkEntry(_generation_slot(each), words, words, f"{format_count(count)} cells", count / counts.total())
            for each, count in counts.most_common()
            for words in [generation_label(UNTRACKED if each == NO_GENERATION else each)]
        ]

    def _of_ages(self, window: MapWindow) -> list[MarkEntry]:
        assert self.selection is not None
        if not self._seen:
            return []
        new, all = self.taken(window, self.selection), self.taken(window, ALL)
        if self.colouring == LEAK:
            number = len(self._held_at(window))
            cells = f"{number} cell{'s' * (number != 1)}"
            return [
                MarkEntry(_HOLDER, "where suspects collect", "suspects collect", cells, None),
                MarkEntry(_NEW, _AGE_WORDS[_NEW], _AGE_WORDS[_NEW], format_bytes(new), new / (all or 1)),
            ]
        return _entries([(_NEW, _AGE_WORDS[_NEW], new), (_OLD, _AGE_WORDS[_OLD], all - new)])

    def taken(self, window: MapWindow, selection: Selection) -> int:
        """Bytes of the selection in what is shown, as far as that was answered: a larger cell is in for many."""
        found = (self.cells.get(selection, window.layout.cell, address) for _, address in _addresses(window))
        return sum(record.bytes for record in found if record is not None)


ALL: Final = Selection()


def _addresses(window: MapWindow) -> Iterator[tuple[int, int]]:
    """The places on the screen that are no gap, from 0 on, and the address of each."""
    for begin, low, high in window.layout.pieces(window.top, window.end):
        yield from enumerate(range(low, high, window.layout.cell), begin - window.top)


def _generation_slot(generation: int) -> int:
    return _GENERATION_SLOTS.get(generation, _OTHER_GENERATION)


def _entries(sums: Sequence[tuple[int, str, int]]) -> list[MarkEntry]:
    whole = sum(size for _, _, size in sums) or 1
    return [
        MarkEntry(slot, name, name.rpartition(".")[2], format_bytes(size), size / whole) for slot, name, size in sums
    ]
