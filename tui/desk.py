"""The open snapshot as the screen has it: how far its building is, what it was told, what is asked of it.

All views share one: a snapshot that one of them opens, the others ask too. This module never draws, and never keeps a
question that nobody waits for. What is answered comes through :meth:`Desk.feed`, as every event does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from time import monotonic
from typing import Final

from heaptop.protocol.images import (
    ANSWERS,
    KNOWN,
    LIVE,
    Image,
    ImageGone,
    ImageTypes,
    Live,
    Progress,
    Question,
    Selection,
)
from heaptop.protocol.messages import Failure, Message, TypeName
from heaptop.protocol.source import Ended, Event, ImageCost, Received, Source

KEEP: Final = 600.0
"""Seconds that a snapshot stays open at most, when a person opens it."""


class Purpose(Enum):
    """What a snapshot was opened for."""

    LOOKING = "looking"
    """A person looks at it, for as long as they like."""
    GRAPH = "graph census"
    """Figures over time alone: it is closed when they are there."""
    MARK = "mark"
    """What is there now alone, likewise."""


class Stage(Enum):
    """How it stands with the snapshot."""

    NONE = "none"
    """None was asked for yet."""
    BUILDING = "building"
    OPEN = "open"
    GONE = "gone"
    """It is closed, or there never was one: :attr:`Desk.why` says it."""


@dataclass(frozen=True, slots=True)
class Subject:
    """Objects that are asked about, in words that hold for every image."""

    title: str
    """``app.Session``, ``views.py:88 create_session``"""
    types: tuple[str, ...] = ()
    """Objects of a type with one of these full names; of all types where there is none."""
    stacks: tuple[int, ...] = ()
    new: bool = False
    """Those that are there since the mark."""
    address: int = 0
    """Of the one object that is meant, in the snapshot that is open; 0 where there are several."""


Then = Callable[[Message], None]
"""Takes an answer, or the Failure in its place."""


class Desk:
    """At most one snapshot at a time, and who waits for which answer."""

    def __init__(self, source: Source, clock: Callable[[], float] = monotonic) -> None:
        self._source = source
        self._clock = clock
        self._waiting: dict[int, Then] = {}
        self._building: int | None = None
        self._opened_at = 0.0
        self._first: list[Callable[[], None]] = []
        """What is to be done when it is open."""
        self._mark: Mark | None = None
        self._told = 0
        """The image that the mark was told."""
        self._tellers: list[Callable[[], None]] = []
        """Who waits until it is told."""
        self.untold = ""
        """Why it could not be told, in a few words."""
        self.stage = Stage.NONE
        self.why = ""
        """Of GONE: a few words, without a full stop."""
        self.progress: Progress | None = None
        """Of the building, or of the question that takes longest."""
        self.image: Image | None = None
        self.cost: ImageCost | None = None
        """What it costs by now, once that is known."""
        self.types: list[TypeName] = []
        self.values = False
        """A person has allowed that values are shown."""
        self.over = False
        """The session has ended: there will be no other snapshot."""
        self.purpose = Purpose.LOOKING
        self.changes = 0
        """Counts up whenever any of this has changed: what was drawn before is no longer what is known."""

    # -- the snapshot ----------------------------------------------------------------------------------------

    def open(
        self, keep: float = KEEP, purpose: Purpose = Purpose.LOOKING, then: Callable[[], None] | None = None
    ) -> None:
        """Freeze the target now; a snapshot before is closed. ``then`` is called once questions may be asked."""
        self._drop("another one was asked for")
        self._building = self._source.image(keep)
        self._first = [then] if then else []
        self.stage, self.why, self.progress, self.types = Stage.BUILDING, "", None, []
        self.image = self.cost = None
        self.purpose = purpose
        self._opened_at = self._clock()
        self.changes += 1

    def close(self) -> None:
        if self.stage is Stage.BUILDING and self._building is not None:
            self._source.give_up(self._building)
        elif self.stage is Stage.OPEN:
            self._source.close_image()

    def give_up(self) -> bool:
        """Cancel what takes its time: the building, or else every question. False where nothing does."""
        if self.stage is Stage.BUILDING:
            self.close()
            return True
        for id in self._waiting:
            self._source.give_up(id)
        return bool(self._waiting)

    @property
    def is_open(self) -> bool:
        return self.stage is Stage.OPEN

    @property
    def is_busy(self) -> bool:
        """Whether anything is waited for."""
        return self.stage is Stage.BUILDING or bool(self._waiting)

    @property
    def age(self) -> float:
        """Seconds since it was asked for."""
        return self._clock() - self._opened_at

    @property
    def left(self) -> float:
        """Seconds until it will be closed, at most."""
        return max(0.0, self.image.keep_ns / 1e9 - self._since) if self.image is not None else 0.0

    @property
    def _since(self) -> float:
        """Seconds since it said how long it would stay: it says so at the end of its building."""
        return self.age - (self.image.build_ns + self.image.pause_ns) / 1e9 if self.image is not None else 0.0

    # -- questions -------------------------------------------------------------------------------------------

    def ask(self, question: Question, then: Then) -> int:
        """Put a question. ``then`` takes its answer, or a Failure; nothing once it was forgotten. The id, or 0 where
        there is no snapshot to ask, or the question is too long: then it has failed already."""
        if not self.is_open or self.image is None:
            return 0
        try:
            id = self._source.ask(self.image.image, question)
        except ValueError as error:
            then(Failure(0, str(error)))
            return 0
        self._waiting[id] = then
        self.changes += 1
        return id

    def forget(self, id: int) -> None:
        """Nobody waits for it any more."""
        if self._waiting.pop(id, None) is not None:
            self._source.give_up(id)

    def selection(self, subject: Subject) -> Selection | None:
        """What it means in this image; None where it has no object of it."""
        if not subject.types:
            return Selection(stacks=subject.stacks, new=subject.new)
        wanted = frozenset(subject.types)
        ids = tuple(id for id, name in enumerate(self.types) if name.full in wanted)
        return Selection(types=ids, stacks=subject.stacks, new=subject.new) if ids else None

    def show_values(self, shown: bool) -> None:
        """As a person has decided."""
        self.values = shown
        self.changes += 1

    # -- the mark --------------------------------------------------------------------------------------------

    @property
    def mark(self) -> Mark | None:
        """What was there at one moment before, once all of it is known."""
        return self._mark if self._mark is not None and self._mark.whole else None

    @property
    def marking(self) -> bool:
        return self._mark is not None and not self._mark.whole

    def set_mark(self, purpose: Purpose = Purpose.MARK) -> None:
        """Remember which objects are there now: what comes later is new. Freezes the target for it."""
        self.open(purpose=purpose, then=lambda: self._fetch(Mark()))

    def _fetch(self, mark: Mark) -> None:
        assert self.image is not None
        self._mark = replace(mark, time_ns=self.image.time_ns, objects=self.image.objects)
        self.ask(Question(LIVE, offset=mark.next), self._take_piece)

    def _take_piece(self, answer: Message) -> None:
        mark = self._mark
        if not isinstance(answer, Live) or mark is None:
            self._mark = None
            self.why = answer.text if isinstance(answer, Failure) else ""
            return
        mark = self._mark = replace(mark, pieces=(*mark.pieces, answer.data), next=answer.next, whole=answer.next == 0)
        if not mark.whole:
            self.ask(Question(LIVE, offset=mark.next), self._take_piece)
        elif self.purpose is Purpose.MARK:
            self.close()

    def tell_mark(self, then: Callable[[], None]) -> None:
        """Tell the open image what was there at the mark; ``then`` when it knows. :attr:`untold` says where it will
        not."""
        mark = self.mark
        if mark is None or self.image is None or self._told == self.image.image:
            then()
            return
        self._tellers.append(then)
        if len(self._tellers) == 1:
            self.untold = ""
            self._tell(self.image.image, mark.pieces)

    def _tell(self, image: int, pieces: Sequence[bytes]) -> None:
        def told(answer: Message) -> None:
            if isinstance(answer, Failure):
                self.untold, self._tellers = answer.text, []
            elif len(pieces) > 1:
                self._tell(image, pieces[1:])
            else:
                self._told = image
                tellers, self._tellers = self._tellers, []
                for then in tellers:
                    then()

        self.ask(Question(KNOWN, known=pieces[0]), told)

    # -- events ----------------------------------------------------------------------------------------------

    def feed(self, event: Event) -> None:
        """Take one event; those that are about something else are nothing to it."""
        if isinstance(event, Ended):
            self.over = True
            if self.stage in (Stage.BUILDING, Stage.OPEN):
                self._drop("the session is over")
                self.stage = Stage.GONE
        elif isinstance(event, ImageCost):
            if self.image is not None and event.image == self.image.image:
                self.cost = event
        elif isinstance(event, Received):
            self._take(event.message)

    def _take(self, message: Message) -> None:
        if isinstance(message, ImageTypes) and message.id == self._building:
            if message.first == len(self.types):
                self.types += message.names
        elif isinstance(message, Image) and message.id == self._building:
            self._open(message)
        elif isinstance(message, Progress) and (message.id == self._building or message.id in self._waiting):
            self.progress = message
        elif isinstance(message, ImageGone):
            if self.image is None or message.image != self.image.image:
                return
            self._drop(message.reason)
            self.stage = Stage.GONE
        elif isinstance(message, Failure) and message.request == self._building:
            self._drop(message.text)
            self.stage = Stage.GONE
        elif isinstance(message, Failure):
            self._answer(message.request, message)
        elif isinstance(message, ANSWERS):
            self._answer(message.id, message)
        else:
            return
        self.changes += 1

    def _open(self, image: Image) -> None:
        self._building, self.progress = None, None
        self.image, self.stage = image, Stage.OPEN
        first, self._first = self._first, []
        for do in first:
            do()

    def _answer(self, id: int, message: Message) -> None:
        then = self._waiting.pop(id, None)
        if not self._waiting:
            self.progress = None
        if then is not None:
            then(message)

    def _drop(self, why: str) -> None:
        """Whoever waits for an answer is told that there will be none."""
        waiting, self._waiting = self._waiting, {}
        self._building, self.progress, self.why, self._first = None, None, why, []
        if self.marking:
            self._mark = None
        for id, then in waiting.items():
            then(Failure(id, why))


@dataclass(frozen=True, slots=True)
class Mark:
    """Which addresses were taken at one moment, as that image told it. It is kept here alone, never in the target."""

    time_ns: int = 0
    objects: int = 0
    pieces: tuple[bytes, ...] = ()
    next: int = 0
    whole: bool = False
