"""The address space as a map of cells: which addresses are on it, what is on the screen, and what is known of a cell.

An address space is gaps mostly, so the extents of the heap are drawn one behind the other, and a gap is one place
between them. A cell is a power of two of bytes, aligned to its own size; a place counts cells and gaps from the lowest
up::

    extents       [0x1000 … 0x1400)        [0x9000 … 0x9200)
    cells of 512   place 0, place 1, gap 2, place 3

So an address has one place whatever was zoomed and panned before. KBDB (Serrano and Boehm, Understanding memory
allocation of Scheme programs, 2000, §4.1) shows a heap like this, all of it at once.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from heaptop.protocol.images import CELL, Selection

LEAST_CELL: Final = 16  # Bytes of the smallest cell: no two objects of CPython begin in one
_MOST_CELL: Final = 1 << 48
_MOST_KNOWN: Final = 400_000  # Cells that are remembered
_SPARE: Final = 1024
"""Cells that are asked for although they are known, or in a gap, where they are between two that are not."""


class CellRun(NamedTuple):
    """Cells without a gap between them."""

    place: int  # Of the first one
    low: int
    high: int


def _joined(extents: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """In order, and none empty; those without anything between them are one."""
    found: list[tuple[int, int]] = []
    for low, high in sorted(extents):
        if found and low <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], high))
        elif low < high:
            found.append((low, high))
    return tuple(found)


class Layout:
    """Where addresses are on a map whose cells are ``cell`` bytes."""

    def __init__(self, extents: Iterable[tuple[int, int]], cell: int) -> None:
        """``extents``: (low, high) of addresses in use, in any order."""
        self.extents: Final = _joined(extents)
        self.cell: Final = cell
        runs: list[CellRun] = []
        place = 0
        for low, high in _joined((low // cell * cell, -(-high // cell) * cell) for low, high in self.extents):
            runs.append(CellRun(place, low, high))
            place += (high - low) // cell + 1
        self.runs: Final = tuple(runs)
        self.count: Final = max(place - 1, 0)  # Places on the map
        self._lows: Final = [run.low for run in runs]
        self._places: Final = [run.place for run in runs]

    def address(self, place: int) -> int:
        """The first address of a place; that of a gap is the first one in it."""
        run = self.runs[bisect_right(self._places, place) - 1]
        return run.low + (place - run.place) * self.cell

    def place(self, address: int) -> int:
        """Where an address is; those beyond the ends are at the ends."""
        number = bisect_right(self._lows, address) - 1
        if number < 0:
            return 0
        run = self.runs[number]
        return min(run.place + (min(address, run.high) - run.low) // self.cell, self.count - 1)

    def bounds(self, place: int) -> tuple[int, int, bool]:
        """First address of a place, the one after its last, and whether it is a gap."""
        number = bisect_right(self._places, place) - 1
        run = self.runs[number]
        low = run.low + (place - run.place) * self.cell
        return (low, low + self.cell, False) if low < run.high else (run.high, self.runs[number + 1].low, True)

    def first(self, place: int) -> int:
        """The first address of a place that is in use; that of a gap is the first one in it."""
        low, _, is_gap = self.bounds(place)
        number = bisect_right(self.extents, low, key=lambda extent: extent[1])
        return low if is_gap else max(low, self.extents[number][0])

    def pieces(self, first: int, end: int) -> list[tuple[int, int, int]]:
        """Place, low and high of the intervals without a gap between two places, ``end`` excluded."""
        found = []
        for run in self.runs[max(bisect_right(self._places, first) - 1, 0) : bisect_right(self._places, end - 1)]:
            begin = max(first, run.place)
            low = run.low + (begin - run.place) * self.cell
            high = min(run.high, run.low + (end - run.place) * self.cell)
            if low < high:
                found.append((begin, low, high))
        return found

    def sized(self, cell: int) -> Layout:
        """The same extents in cells of another size."""
        return self if cell == self.cell else Layout(self.extents, cell)


def fitting(extents: Iterable[tuple[int, int]], room: int) -> Layout:
    """The map in the smallest cells of which all have room."""
    layout = Layout(extents, LEAST_CELL)
    while layout.count > max(room, 1) and layout.cell < _MOST_CELL:
        layout = layout.sized(layout.cell * 2)
    return layout


@dataclass(frozen=True, slots=True)
class MapWindow:
    """What of a map is on the screen: ``rows`` of ``width`` places from ``top`` on, and a cursor in it."""

    layout: Layout
    width: int
    rows: int
    top: int
    focus: int  # The address that the cursor is on. Zooming out and in again comes back to it.

    @classmethod
    def whole(cls, extents: Iterable[tuple[int, int]], width: int, rows: int) -> MapWindow:
        """The whole map, which is not empty, with the cursor at its beginning."""
        layout = fitting(extents, width * rows)
        return cls(layout, width, rows, 0, layout.first(0))

    @property
    def room(self) -> int:
        return self.width * self.rows

    @property
    def end(self) -> int:
        """The place after the last one that is shown."""
        return min(self.top + self.room, self.layout.count)

    @property
    def cursor(self) -> int:
        """Its place."""
        return self.layout.place(self.focus)

    @property
    def shown(self) -> tuple[Layout, int, int]:
        """Which places are on the screen, wherever the cursor is."""
        return self.layout, self.top, self.end

    @property
    def range(self) -> tuple[int, int]:
        """The first address that is shown, and the one after the last."""
        return self.layout.bounds(self.top)[0], self.layout.bounds(self.end - 1)[1]

    def _at(self, top: int) -> MapWindow:
        """With another place at the top: no further than where the last one is at the end of the screen."""
        return replace(self, top=min(max(top, 0), max(self.layout.count - self.room, 0)))

    def _reaching(self) -> MapWindow:
        """Panned by as few rows as bring the cursor onto the screen."""
        cursor = self.cursor
        if cursor < self.top:
            return self._at(self.top - -(-(self.top - cursor) // self.width) * self.width)
        if cursor >= self.top + self.room:
            return self._at(self.top + ((cursor - self.top - self.room) // self.width + 1) * self.width)
        return self

    def to(self, place: int) -> MapWindow:
        """With the cursor at a place, or at the end that the place is beyond."""
        place = min(max(place, 0), self.layout.count - 1)
        return replace(self, focus=self.layout.first(place))._reaching()

    def moved(self, places: int) -> MapWindow:
        return self.to(self.cursor + places)

    def paged(self, pages: int) -> MapWindow:
        """So many screens on, the cursor with it."""
        places = pages * self.room
        return self._at(self.top + places).to(self.cursor + places)

    def panned(self, rows: int) -> MapWindow:
        """Other rows on the screen; the cursor stays on it."""
        panned = self._at(self.top + rows * self.width)
        if panned.top <= panned.cursor < panned.end:
            return panned
        column = (self.cursor - self.top) % self.width
        row = 0 if panned.cursor < panned.top else self.rows - 1
        return panned.to(min(panned.top + row * self.width + column, panned.end - 1))

    def zoomed(self, steps: int) -> MapWindow:
        """Cells of half the size ``steps`` times, or of twice; where the cursor is on the screen stays."""
        most = max(fitting(self.layout.extents, self.room).cell, LEAST_CELL)
        cell = self.layout.cell >> steps if steps > 0 else self.layout.cell << -steps
        layout = self.layout.sized(min(max(cell, LEAST_CELL), most))
        offset = self.cursor - self.top
        return replace(self, layout=layout)._at(layout.place(self.focus) - offset)._reaching()

    def resized(self, width: int, rows: int) -> MapWindow:
        """On another screen. What was whole is whole there."""
        if (width, rows) == (self.width, self.rows):
            return self
        if self.is_whole:
            return replace(MapWindow.whole(self.layout.extents, width, rows), focus=self.focus)
        return replace(self, width=width, rows=rows).zoomed(0)

    def kept(self, before: MapWindow) -> MapWindow:
        """This map as another one was examined: as close, and at the same address."""
        if before.is_whole:
            return replace(self, focus=before.focus).to(self.layout.place(before.focus))
        zoomed = replace(self, layout=self.layout.sized(before.layout.cell), focus=before.focus)
        return zoomed._at(zoomed.cursor - (before.cursor - before.top)).zoomed(0)

    @property
    def is_whole(self) -> bool:
        return self.layout.cell == fitting(self.layout.extents, self.room).cell


class CellContents(NamedTuple):
    """What is in a cell, as :data:`heaptop.protocol.images.CELL` has it."""

    bytes: int
    type: int
    taken: int
    generation: int
    kind: int


_Layer = tuple[Selection, int]


class KnownCells:
    """What was answered about cells of one image, by selection and size of cell."""

    def __init__(self) -> None:
        self._layers: dict[_Layer, dict[int, CellContents]] = {}

    def take(self, selection: Selection, cell: int, low: int, data: bytes) -> None:
        """The answer for cells from address ``low`` on."""
        if sum(map(len, self._layers.values())) > _MOST_KNOWN:
            self._layers.clear()
        layer = self._layers.setdefault((selection, cell), {})
        for number, record in enumerate(CELL.iter_unpack(data)):
            layer[low + number * cell] = CellContents(*record)

    def get(self, selection: Selection, cell: int, address: int) -> CellContents | None:
        """The cell at this address; None where it was not answered yet."""
        return self._layers.get((selection, cell), {}).get(address)

    def like(self, selection: Selection, cell: int, address: int) -> CellContents | None:
        """Likewise; a larger cell that it is part of will do, or a smaller one at its beginning."""
        found = self.get(selection, cell, address)
        if found is not None:
            return found
        for (of, size), layer in reversed(self._layers.items()):
            if of == selection and (found := layer.get(address // size * size)) is not None:
                return found
        return None

    def missing(self, selection: Selection, layout: Layout, first: int, end: int) -> list[tuple[int, int]]:
        """Stretches of addresses that have all cells between two places which were not answered yet: no more of them
        than it takes, for each is a look at the whole heap."""
        layer, cell = self._layers.get((selection, layout.cell), {}), layout.cell
        found: list[tuple[int, int]] = []
        for _, begin, high in layout.pieces(first, end):
            for low in range(begin, high, cell):
                if low in layer:
                    continue
                if found and low - found[-1][1] <= _SPARE * cell:
                    found[-1] = (found[-1][0], low + cell)
                else:
                    found.append((low, low + cell))
        return found


class MapLetters:
    """Which letter and colour a name has: it keeps them while others come and go, as far as there are letters."""

    LETTERS: Final = 26
    COLOURS: Final = 10

    def __init__(self) -> None:
        self.slots: dict[str, int] = {}

    def assign(self, names: Sequence[str]) -> None:
        """Give the first :attr:`COLOURS` of these one, by what matters most; maybe one that another name had."""
        kept = {name: self.slots[name] for name in names[: self.COLOURS] if name in self.slots}
        for name in names[: self.COLOURS]:
            if name not in kept:
                kept[name] = self._free(set(kept.values()))
        taken = set(kept.values())
        self.slots = {name: slot for name, slot in self.slots.items() if slot not in taken} | kept

    def _free(self, taken: set[int]) -> int:
        """Of a colour that is not on the screen and of no band, where there is one."""
        colours, owned = {slot % self.COLOURS for slot in taken}, set(self.slots.values())
        free = (slot for slot in range(self.LETTERS) if slot not in taken)
        return min(free, key=lambda slot: (slot % self.COLOURS in colours, slot in owned, slot))
