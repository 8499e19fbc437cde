"""All censuses so far, as records in time: the state that every view and report is computed from.

When a limit is reached, every second record of the older half is dropped, so that the past gets coarser and never
disappears.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Final, Protocol, TypeVar

from heaptop.errors import ProtocolError
from heaptop.protocol.bounds import check_types
from heaptop.protocol.messages import NO_INTERPRETER, Census, Message, Row, Tick, TypeName, Types

CELL_LIMIT: Final = 4_000_000
"""Cells kept over all records: 8 bytes each where nothing changed, about 150 where something did."""

MAX_TOTAL: Final = (1 << 63) - 1  # Bytes, and objects, that a census may add up to: sums are kept in 64 bits

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Amount:
    """So many objects, so many bytes."""

    count: int
    bytes: int


class AnyCell(Protocol):
    """Objects that are distinguished by no more than this, at one moment."""

    @property
    def type(self) -> TypeName: ...
    @property
    def generation(self) -> int: ...
    @property
    def interpreter(self) -> int: ...
    @property
    def count(self) -> int: ...
    @property
    def bytes(self) -> int: ...
    @property
    def hidden(self) -> int: ...
    @property
    def guessed(self) -> int: ...
    @property
    def counted(self) -> bool:
        """Whether ``count`` is known; else it is 0."""

    @property
    def place(self) -> Hashable:
        """Its identity among the cells of a moment: filters on names give one answer for all of a place."""


class Moment(Protocol):
    """All cells of one time. Equal only to itself, so that work done on it can be remembered by it."""

    @property
    def time_ns(self) -> int: ...
    @property
    def cells(self) -> Sequence[AnyCell]: ...


@dataclass(frozen=True, slots=True)
class Cell:
    """Objects of one type in one GC generation, and in one interpreter where there are several, at one moment."""

    type: TypeName
    generation: int  # 0, 1, 2, `PERMANENT` or `UNTRACKED` of protocol.messages
    count: int
    bytes: int
    hidden: int = 0
    guessed: int = 0
    interpreter: int = NO_INTERPRETER
    counted: ClassVar[bool] = True

    @property
    def place(self) -> Hashable:
        return self.type, self.generation, self.interpreter


@dataclass(frozen=True, slots=True, eq=False)
class CensusRecord:
    """One census, its types named. Equal only to itself, so that work done on it can be remembered by it."""

    time_ns: int  # When counting began: CLOCK_MONOTONIC of the target
    census: Census  # The message it came from, with `rows` left empty: what it cost, and whether it is complete
    cells: tuple[Cell, ...]
    """One a type, generation and interpreter, none empty; an unchanged cell is the same object as in the record
    before."""
    total: Amount  # Every object of the census

    @property
    def has_interpreters(self) -> bool:
        """Whether it has objects of several interpreters, and distinguishes them."""
        return any(cell.interpreter != self.cells[0].interpreter for cell in self.cells)


class History:
    """Takes the agent's messages in order and keeps records and ticks, ``limit`` of each.

    Cells that did not change since the census before are shared with it: a quiet heap costs next to nothing.
    """

    def __init__(self, limit: int = 2000, cell_limit: int = CELL_LIMIT) -> None:
        if limit < 2:
            raise ValueError("a history needs room for two records at least")
        self._limit = limit
        self._cell_limit = cell_limit
        self._types: list[TypeName] = []
        self._cells: dict[tuple[int, int, int], Cell] = {}
        """The latest cell of every (type id, generation, interpreter), for sharing."""
        self._rows: Sequence[Row] = ()  # Of the last census
        self._row_cells: list[Cell] = []  # Of each of these
        self._total = Amount(0, 0)  # Of all of them
        self._empty = 0  # How many of them are cells of nothing
        self._records: list[CensusRecord] = []
        self._cell_count = 0
        self._ticks: list[Tick] = []
        self._thinned = 0

    @property
    def types(self) -> Sequence[TypeName]:
        """All types that were named, by their ids."""
        return self._types

    @property
    def records(self) -> Sequence[CensusRecord]:
        """Oldest first; the list grows under the reader: copy it into a tuple to hold on to it."""
        return self._records

    @property
    def ticks(self) -> Sequence[Tick]:
        """Oldest first, thinned out like the records."""
        return self._ticks

    @property
    def latest(self) -> CensusRecord | None:
        return self._records[-1] if self._records else None

    @property
    def previous(self) -> CensusRecord | None:
        """The record before the latest one."""
        return self._records[-2] if len(self._records) > 1 else None

    @property
    def thinned(self) -> int:
        """Snapshots dropped to stay within the limits: above 0, the past is coarser than it was counted."""
        return self._thinned

    def feed(self, message: Message) -> None:
        """Take one message; kinds that are not data are ignored.

        Raises:
            ProtocolError: types leave a gap, or a row points at a type that was never named, or doubles
                another, or the census adds up to more than 64 bits. Nothing was taken.
        """
        match message:
            case Types():
                self._feed_types(message)
            case Census():
                self._feed_census(message)
            case Tick():
                self._ticks.append(message)
                thin(self._ticks, self._limit)

    def _feed_types(self, message: Types) -> None:
        if message.first != len(self._types):
            raise ProtocolError(
                f"The agent named types from number {message.first}; number {len(self._types)} comes next."
            )
        check_types(len(self._types) + len(message.names))
        self._types += message.names

    def _feed_census(self, message: Census) -> None:
        latest = self._latest_cells(message)
        cells = tuple([cell for cell in latest if cell.bytes or cell.count] if self._empty else latest)
        self._records.append(CensusRecord(message.time_ns, replace(message, rows=()), cells, self._total))
        self._cell_count += len(cells)
        while len(self._records) > self._limit or (self._cell_count > self._cell_limit and len(self._records) > 2):
            self._thinned += halve_older(self._records)
            self._cell_count = sum(len(record.cells) for record in self._records)

    def _latest_cells(self, message: Census) -> list[Cell]:
        """Of each row a cell: the one there is, where nothing of it has changed. Thousands of rows come at a time, and
        most are those of the census before, the very same objects, in the same places."""
        rows, before = message.rows, self._rows
        others = [at for at, (row, was) in enumerate(zip(rows, before, strict=False)) if row is not was]
        others += range(len(before), len(rows))
        changed = {at: self._cell_of(rows[at], message) for at in others}
        moved = len(rows) != len(before) or any(key != _key(before[at]) for at, (key, _) in changed.items())
        if moved and len(set(map(_key, rows))) < len(rows):
            raise ProtocolError(f"Census {message.id} counts a type twice in one generation of one interpreter.")
        gone = [*[before[at] for at in others if at < len(before)], *before[len(rows) :]]
        new = [rows[at] for at in others]
        count = self._total.count + sum([row.count for row in new]) - sum([row.count for row in gone])
        size = self._total.bytes + sum([row.bytes for row in new]) - sum([row.bytes for row in gone])
        if max(size, count) > MAX_TOTAL:
            raise ProtocolError(f"Census {message.id} adds up to more than a machine can hold.")
        self._total = Amount(count, size)
        self._empty += sum(map(_is_empty, new)) - sum(map(_is_empty, gone))
        cells = self._row_cells[: len(rows)]
        for at, (key, cell) in changed.items():  # those beyond the last rows are at the end
            self._cells[key] = cell
            cells[at : at + 1] = (cell,)
        self._rows, self._row_cells = rows, cells
        return cells

    def _cell_of(self, row: Row, message: Census) -> tuple[tuple[int, int, int], Cell]:
        kind, key = row.type, _key(row)
        if not 0 <= kind < len(self._types):
            raise ProtocolError(f"Type {kind} in census {message.id} was never named.")
        cell = self._cells.get(key)
        if (
            cell is None
            or cell.bytes != row.bytes
            or cell.count != row.count
            or cell.hidden != row.hidden
            or cell.guessed != row.guessed
        ):
            name = self._types[kind]
            cell = Cell(name, row.generation, row.count, row.bytes, row.hidden, row.guessed, row.interpreter)
        return key, cell


def _is_empty(row: Row) -> bool:
    return not (row.bytes or row.count)


def _key(row: Row) -> tuple[int, int, int]:
    return row.type, row.generation, row.interpreter


def halve_older(items: list[T]) -> int:
    """Drop every second item of the older half, one at least, never the first or last; how many."""
    half = max(len(items) // 2, 2)
    before = len(items)
    del items[1:half:2]
    return before - len(items)


def thin(items: list[T], limit: int) -> None:
    """Drop as :func:`halve_older` does until at most ``limit`` (2 or more) are left."""
    while len(items) > limit:
        halve_older(items)


def known_hidden(census: Census, hidden: int) -> int | None:
    """A figure of what ``sys.getsizeof`` leaves out; None in Python mode, which cannot see that."""
    return None if census.mode == "python" else hidden
