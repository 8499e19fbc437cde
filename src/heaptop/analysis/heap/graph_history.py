"""Graph censuses over time: all objects by what keeps them, as records that charts and tables are cut from.

A graph census is two answers of an open snapshot about all its objects: by type and kind of root, and by type
and set of retainers. Neither knows what the other does, so they are two histories.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from heaptop.analysis.heap.history import CELL_LIMIT, Amount, halve_older
from heaptop.analysis.heap.path_words import type_of
from heaptop.protocol.images import KINDS, Groups, Image, Retainers, RetainerSet, Unit
from heaptop.protocol.messages import NO_INTERPRETER, UNTRACKED, TypeName

SMALLER: Final = "(smaller ones)"  # The band of all that an answer had no room for, and the type of its objects
NO_RETAINER: Final = "(no retainer)"
NUMBER: Final = 3  # N of the retainer sets, nhc's default
_FOUND: Final = {"c": "held by C", "none": "held by nothing"}
"""Retainers that have no name a person would know them by: all of a kind are one."""


@dataclass(frozen=True, slots=True)
class GraphCell:
    """Objects of one type, and of one kind of root or one set of retainers, at one moment.

    It has what a :class:`~heaptop.analysis.heap.history.Cell` has, so that series and tables are made from both alike.
    """

    type: TypeName
    kind: str  # One of `KINDS`; empty where it is distinguished by retainers
    retainers: tuple[str, ...]
    """Their labels, each once and sorted; what represents them in brackets; none where it is distinguished by kind."""
    count: int
    bytes: int
    generation: ClassVar[int] = UNTRACKED
    interpreter: ClassVar[int] = NO_INTERPRETER
    hidden: ClassVar[int] = 0
    guessed: ClassVar[int] = 0
    counted: ClassVar[bool] = True

    @property
    def retainer(self) -> str:
        """The set's name: ``module app.cache ._sessions + module app.views .recent``."""
        return " + ".join(self.retainers)

    @property
    def place(self) -> Hashable:
        return self.type, self.kind, self.retainers


@dataclass(frozen=True, slots=True, eq=False)
class GraphRecord:
    """All of them at one time. Equal only to itself, as a record of a census is."""

    time_ns: int
    cells: tuple[GraphCell, ...]  # None empty; an unchanged cell is the same object as in the record before


_Key = tuple[TypeName, str, tuple[str, ...]]


class GraphMoments:
    """Snapshots of one sort, at most ``limit``: the past gets coarser and never disappears."""

    def __init__(self, limit: int = 2000, cell_limit: int = CELL_LIMIT) -> None:
        self._limit = limit
        self._cell_limit = cell_limit
        self._cells: dict[_Key, GraphCell] = {}  # of the last moment
        self._records: list[GraphRecord] = []

    @property
    def records(self) -> Sequence[GraphRecord]:
        """Oldest first; the list grows under the reader: copy it into a tuple to hold on to it."""
        return self._records

    def take(self, time_ns: int, found: Iterable[GraphCell]) -> None:
        """One moment's cells; those of one place are one."""
        cells: dict[_Key, GraphCell] = {}
        for cell in found:
            key = (cell.type, cell.kind, cell.retainers)
            alike = cells.get(key)
            cells[key] = cell if alike is None else GraphCell(*key, alike.count + cell.count, alike.bytes + cell.bytes)
        before = self._cells
        self._cells = {key: before[key] if before.get(key) == cell else cell for key, cell in cells.items()}
        self._records.append(GraphRecord(time_ns, tuple(self._cells.values())))
        while len(self._records) > self._limit or (self._is_full and len(self._records) > 2):
            halve_older(self._records)

    @property
    def _is_full(self) -> bool:
        return sum(len(record.cells) for record in self._records) > self._cell_limit


class GraphHistory:
    """Graph censuses, oldest first."""

    def __init__(self, limit: int = 2000, cell_limit: int = CELL_LIMIT) -> None:
        self.kinds = GraphMoments(limit, cell_limit)
        self.retainers = GraphMoments(limit, cell_limit)

    def take(self, image: Image, types: Sequence[TypeName], groups: Groups, sets: Retainers) -> None:
        """One image, the names of its types, and its answers about all objects."""
        self.kinds.take(image.time_ns, _with_rest(image, kind_cells(types, groups)))
        self.retainers.take(image.time_ns, _with_rest(image, retainer_cells(types, sets)))


def kind_cells(types: Sequence[TypeName], groups: Groups) -> list[GraphCell]:
    return [GraphCell(type_of(types, row.type), KINDS[row.kind], (), row.count, row.bytes) for row in groups.rows]


def retainer_cells(types: Sequence[TypeName], sets: Retainers) -> list[GraphCell]:
    return [
        GraphCell(type_of(types, row.type), "", set_labels(row, sets.units, sets.number), row.count, row.bytes)
        for row in sets.rows
    ]


def set_labels(row: RetainerSet, units: Sequence[Unit], number: int) -> tuple[str, ...]:
    """A set's labels as they stay from one image to the next: positions and addresses do not."""
    if row.many:
        return (many_label(number),)
    return tuple(sorted({unit_label(units[place]) for place in row.units})) or (NO_RETAINER,)


def many_label(number: int) -> str:
    """Of all that have more retainers than are distinguished."""
    return f"(more than {number})"


def unit_label(unit: Unit) -> str:
    """``module app.cache ._sessions``; what has no such name goes by what holds it."""
    return _FOUND.get(KINDS[unit.kind], unit.label)


def _with_rest(image: Image, cells: list[GraphCell]) -> list[GraphCell]:
    """With a cell for the objects that are in none of them."""
    told = Amount(sum(cell.count for cell in cells), sum(cell.bytes for cell in cells))
    rest = Amount(image.objects - told.count, image.bytes - told.bytes)
    if rest.count <= 0:
        return cells
    kind, retainers = (SMALLER, ()) if any(cell.kind for cell in cells) else ("", (SMALLER,))
    return [*cells, GraphCell(TypeName("", SMALLER), kind, retainers, rest.count, max(rest.bytes, 0))]
