"""What the heap map asks of the open snapshot, and what was answered: extents, cells, sums by type, one object.

Only what is on the screen is asked for, once. Answers are stored, and looked at by the next drawing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Final

from heaptop.analysis.heap.path_words import type_name
from heaptop.analysis.snapshot.heap_map import KnownCells, MapWindow
from heaptop.protocol.images import (
    GROUPS,
    MAP,
    OBJECT,
    OBJECTS,
    RETAINERS,
    Cells,
    Groups,
    Object,
    Objects,
    Question,
    Retainers,
    Selection,
)
from heaptop.protocol.messages import Failure, Message, TypeName
from heaptop.tui.state.snapshot_client import SnapshotClient

ALL: Final = Selection()
_AT_ONCE: Final = 32  # Questions that are put before the first of them is answered
_EVERY_GROUP: Final = 10_000
_MOST_SETS: Final = 2_000


@dataclass(frozen=True, slots=True)
class CellsAsked:
    """Cells of one size."""

    selection: Selection
    cell: int
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class GroupsAsked:
    """What there is of each type and kind in a range."""

    selection: Selection
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class LargestAsked:
    """The object that retains most in a cell."""

    selection: Selection
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class ObjectAsked:
    address: int
    values: bool


class OneTimeQuestion(Enum):
    """What is asked once of an image."""

    EXTENTS = 1
    MARK = 2  # Sends the objects that were there at the mark
    UNITS = 3  # By which retainers things are kept


Asked = CellsAsked | GroupsAsked | LargestAsked | ObjectAsked | OneTimeQuestion


class MapAnswers:
    """What is known of one image."""

    def __init__(self) -> None:
        self.changes = 0  # Counts up with every answer
        self._begin(0)

    def _begin(self, image: int, types: Sequence[TypeName] = ()) -> None:
        self.image = image  # Its number; 0 before there is one
        self.seen: tuple[int, ...] = ()  # Of what is new (SnapshotClient.seen); empty until the marks were sent
        self.types = types  # Of this image, also while another one is being built
        self._waiting: dict[Asked, int] = {}  # What is asked for, and the question's id
        self._refused: set[Asked] = set()
        self._numbering = 0  # Which marks numbers of marks seen mean (SnapshotClient.numbering)
        self.extents: list[tuple[int, int]] | None = None
        self.retainers: Retainers | None = None
        self.cells = KnownCells()
        self.partial: set[tuple[Selection, int]] = set()
        """Selections and sizes of cells of which some answers were given up."""
        self.groups: tuple[GroupsAsked, Groups] | None = None  # The last answer
        self.wanted: LargestAsked | None = None  # Where an object is examined
        self.largest: Objects | None = None
        self.object: tuple[ObjectAsked, Object] | None = None
        self.failure = ""  # Why something was not answered

    @property
    def is_asking(self) -> bool:
        return bool(self._waiting)

    def type_name(self, id: int) -> str:
        return type_name(self.types, id)

    def look_at(self, wanted: LargestAsked | None) -> None:
        """Look at an object in this cell; at none."""
        self.wanted, self.largest, self.object = wanted, None, None
        self.failure = ""
        if wanted is not None:
            self._refused.discard(wanted)
        self.changes += 1

    def ask(
        self,
        client: SnapshotClient,
        window: MapWindow | None,
        selection: Selection | None,
        *,
        by_group: bool,
        by_retainer: bool,
        by_mark: bool,
    ) -> None:
        """Ask for what is missing.

        Args:
            selection: what is highlighted in the window; None: nothing.
            by_mark: marks are sent to the snapshot, where it does not have them.
            by_group: what there is of each type and kind is asked for.
            by_retainer: by which retainers things are kept is asked for.
        """
        if client.image is not None and client.image.image != self.image:
            self._begin(client.image.image, client.types)
            self._numbering = client.numbering
            self.changes += 1
        self._forget_numbers(client)
        if client.image is not None:
            self.seen = client.seen
        if not client.is_open:
            return
        if by_retainer and self.retainers is None:
            self._put(client, OneTimeQuestion.UNITS, Question(RETAINERS, limit=_MOST_SETS))
        if self.extents is None:
            self._put(client, OneTimeQuestion.EXTENTS, Question(MAP))
        elif window is not None and (not by_mark or self._send_mark(client)):
            self._ask_cells(
                client,
                window,
                [ALL] if selection in (ALL, None) else [ALL, selection],
                by_group and selection is not None,
            )
        self._ask_object(client)

    def _forget_numbers(self, client: SnapshotClient) -> None:
        """Where numbers of marks seen mean others than before, what was answered about them is void."""
        if client.numbering == self._numbering:
            return
        self._numbering, self.cells, self.groups = client.numbering, KnownCells(), None
        self.partial = {each for each in self.partial if not each[0].seen}
        for asked, id in [*self._waiting.items()]:
            if isinstance(asked, (CellsAsked, GroupsAsked)):
                del self._waiting[asked]
                client.forget(id)
        self.changes += 1

    def _send_mark(self, client: SnapshotClient) -> bool:
        """Whether the image knows what is new."""
        if OneTimeQuestion.MARK in self._waiting and client.marks_failure:
            del self._waiting[OneTimeQuestion.MARK]
            self._refused.add(OneTimeQuestion.MARK)
            self.failure = f"comparing with the mark failed: {client.marks_failure}"
        if (
            not client.marks_sent
            and OneTimeQuestion.MARK not in self._waiting
            and OneTimeQuestion.MARK not in self._refused
        ):
            self._waiting[OneTimeQuestion.MARK] = 0
            client.send_mark(partial(self._mark_sent, self.image))
        self.seen = client.seen
        return client.marks_sent

    def _mark_sent(self, image: int) -> None:
        if image == self.image:
            self._waiting.pop(OneTimeQuestion.MARK, None)
            self.changes += 1

    def _ask_cells(
        self, client: SnapshotClient, window: MapWindow, selections: list[Selection | None], by_group: bool
    ) -> None:
        cell = window.layout.cell
        shown = [each for each in selections if each is not None]
        for asked, id in [*self._waiting.items()]:
            if isinstance(asked, CellsAsked) and (asked.cell != cell or asked.selection not in shown):
                del self._waiting[asked]
                client.forget(id)
        missing = [
            CellsAsked(each, cell, low, high)
            for each in shown
            for low, high in self.cells.missing(each, window.layout, window.top, window.end)
        ]
        if not any(isinstance(asked, CellsAsked) for asked in self._waiting):
            for asked in missing[:_AT_ONCE]:
                limit = (asked.high - asked.low) // cell
                self._put(client, asked, Question(MAP, asked.selection, limit=limit, low=asked.low, high=asked.high))
        groups = GroupsAsked(shown[-1], *window.range)
        waits = any(isinstance(asked, GroupsAsked) for asked in self._waiting)
        if by_group and not waits and (self.groups is None or self.groups[0] != groups):
            question = Question(GROUPS, groups.selection, limit=_EVERY_GROUP, low=groups.low, high=groups.high)
            self._put(client, groups, question)

    def _ask_object(self, client: SnapshotClient) -> None:
        wanted = self.wanted
        if wanted is None:
            return
        if self.largest is None:
            self._put(client, wanted, Question(OBJECTS, wanted.selection, limit=1, low=wanted.low, high=wanted.high))
        elif self.largest.rows:
            asked = ObjectAsked(self.largest.rows[0].address, client.values)
            if self.object is None or self.object[0] != asked:
                selection = Selection(addresses=(asked.address,))
                self._put(client, asked, Question(OBJECT, selection, limit=1, values=asked.values))

    def _put(self, client: SnapshotClient, asked: Asked, question: Question) -> None:
        if asked in self._waiting or asked in self._refused:
            return
        self._waiting[asked] = 0  # an answer may come before the id does
        id = client.ask(question, partial(self._take, self.image, asked))
        if asked in self._waiting:
            self._waiting[asked] = id

    def _take(self, image: int, asked: Asked, answer: Message) -> None:
        if image != self.image:
            return
        self._waiting.pop(asked, None)
        self.changes += 1
        match answer:
            case Failure():
                self._refused.add(asked)
                self.failure = answer.text
            case Cells():
                self._take_cells(asked, answer)
            case Groups() if isinstance(asked, GroupsAsked):
                self.groups = asked, answer
            case Retainers():
                self.retainers = answer
            case Objects() if asked == self.wanted:
                self.largest = answer
            case Object() if isinstance(asked, ObjectAsked):
                self.object = asked, answer

    def _take_cells(self, asked: Asked, answer: Cells) -> None:
        if not isinstance(asked, CellsAsked):
            self.extents = [(extent.low, extent.high) for extent in answer.extents]
            return
        self.cells.take(asked.selection, asked.cell, asked.low, answer.cells)
        if not answer.complete:
            self.partial.add((asked.selection, asked.cell))
