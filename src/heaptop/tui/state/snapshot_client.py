"""The open snapshot as the screen has it: how far its building is, which marks it has, what is asked of it.

All views share one: a snapshot that one of them opens, the others ask too. What is answered comes through
:meth:`SnapshotClient.feed`, as every event does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from time import monotonic
from typing import Final, TypeVar

from heaptop.analysis.leaks.growth import numbers_of_new
from heaptop.analysis.leaks.hunting import LeakHunt
from heaptop.analysis.leaks.marks import send_pieces
from heaptop.analysis.snapshot.asking import Asking
from heaptop.analysis.snapshot.building import StepPace
from heaptop.protocol.findings import MarkFacts
from heaptop.protocol.images import (
    ANSWERS,
    Image,
    ImageGone,
    ImageTypes,
    Progress,
    Question,
    Selection,
)
from heaptop.protocol.messages import Census, Failure, Message, TypeName
from heaptop.protocol.source import Ended, Event, ImageCost, Received, Source
from heaptop.tui.state.asking_runs import AskingRuns, Failed, Then

T = TypeVar("T")

KEEP: Final = 600.0  # Seconds that a snapshot stays open at most, when a person opens it


class SnapshotPurpose(Enum):
    """What a snapshot was opened for."""

    LOOKING = "looking"  # A person looks at it, for as long as they like
    GRAPH = "graph census"  # Figures over time alone: it is closed when they are there
    HUNT = "hunt"  # A mark, or a look at what is new since one: the hunt closes it when it needs no more answers


class SnapshotStage(Enum):
    """How it is with the snapshot."""

    NONE = "none"  # None was asked for yet
    BUILDING = "building"
    OPEN = "open"
    GONE = "gone"  # It is closed, or there never was one: SnapshotClient.why is the reason


@dataclass(frozen=True, slots=True)
class QuerySubject:
    """Objects that are asked about, in words that hold for every image."""

    title: str  # `app.Session`, `views.py:88 create_session`
    types: tuple[str, ...] = ()  # Objects of a type with one of these full names; of all types where there is none
    stacks: tuple[int, ...] = ()
    new: bool = False
    """Those that are new since the mark that is compared with; with a second one, those of them that it had."""
    address: int = 0  # Of the one object that is meant, in the snapshot that is open; 0 where there are several


Opened = Callable[[], None]


class SnapshotClient:
    """At most one snapshot at a time, and who waits for which answer."""

    def __init__(self, source: Source, hunt: LeakHunt | None = None, clock: Callable[[], float] = monotonic) -> None:
        """``hunt``: whose marks are sent."""
        self._source = source
        self._hunt = hunt or LeakHunt()
        self.clock = clock
        self._waiting: dict[int, Then] = {}
        self._building: int | None = None
        self._opened_at = 0.0
        self._first: Opened | None = None  # What is to be done when it is open
        self._unopened: Failed | None = None  # Called where it will not be opened
        self._runs = AskingRuns(self._put)
        self._known_marks = 0  # How many marks the open image knows; none also while they are sent
        self._numbered = 0  # How many it knew last, also while they are sent
        self.numbering = 0
        """Counts up when numbers of marks seen (:attr:`seen`) come to mean others for the same image: what was answered
        about them before is void."""
        self._tellers: list[Opened] = []  # Called when the open image has the marks
        self._telling = False
        self.marks_failure = ""  # Why the marks could not be sent, in a few words
        self.since = 0  # Number of the mark, from 0, that the open image is compared with
        self.until: int | None = None
        """A later one that must have seen what is new since then; None for all that is new."""
        self.stage = SnapshotStage.NONE
        self.why = ""  # Of GONE: a few words, without a full stop
        self.progress: Progress | None = None  # Of the building, or of the question that takes longest
        self.pace = StepPace()
        self.objects = 0  # Of the last census
        self.answered = 0  # How many questions were, in all
        self.image: Image | None = None
        self.cost: ImageCost | None = None  # What it costs by now, once that is known
        self.types: list[TypeName] = []
        self.values = False  # A person has allowed that values are shown
        self.over = False  # The session has ended: there will be no other snapshot
        self.purpose = SnapshotPurpose.LOOKING
        self.changes = 0  # Counts up whenever any of this has changed: what was drawn before is no longer what is known

    # -- the snapshot ----------------------------------------------------------------------------------------

    def open(
        self,
        keep: float = KEEP,
        purpose: SnapshotPurpose = SnapshotPurpose.LOOKING,
        then: Opened | None = None,
        failed: Failed | None = None,
    ) -> None:
        """Freeze the target now; a snapshot before is closed. ``then`` is called once questions may be asked,
        ``failed`` where that will never be."""
        self._drop("another one was requested")
        self._building = self._source.image(keep)
        self._first, self._unopened = then, failed
        self.stage, self.why, self.progress, self.types = SnapshotStage.BUILDING, "", None, []
        self.image = self.cost = None
        self.purpose, self._known_marks, self._numbered = purpose, 0, 0
        self._opened_at = self.clock()
        self.changes += 1

    def close(self) -> None:
        if self.stage is SnapshotStage.BUILDING and self._building is not None:
            self._source.give_up(self._building)
        elif self.stage is SnapshotStage.OPEN:
            self._source.close_snapshot()

    def give_up(self) -> bool:
        """Cancel what takes its time: the building, or else every question. False where nothing does."""
        if self.stage is SnapshotStage.BUILDING:
            self.close()
            return True
        self._runs.give_up()
        for id in self._waiting:
            self._source.give_up(id)
        return bool(self._waiting)

    @property
    def is_open(self) -> bool:
        return self.stage is SnapshotStage.OPEN

    @property
    def is_closed(self) -> bool:
        """It was open, and is no more: what it answered is still known."""
        return self.stage is SnapshotStage.GONE and self.image is not None

    @property
    def is_busy(self) -> bool:
        """Whether anything is waited for."""
        return self.stage is SnapshotStage.BUILDING or bool(self._waiting)

    @property
    def age(self) -> float:
        """Seconds since it was asked for."""
        return self.clock() - self._opened_at

    @property
    def left(self) -> float:
        """Seconds until it will be closed, at most."""
        return max(0.0, self.image.keep_ns / 1e9 - self._since) if self.image is not None else 0.0

    @property
    def _since(self) -> float:
        """Seconds since the end of its building, when it reported how long it would stay."""
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
        """Cancel it."""
        if self._waiting.pop(id, None) is not None:
            self._source.give_up(id)

    def run(self, asking: Asking[T], then: Callable[[T], None], failed: Failed) -> None:
        """Hold a conversation: :meth:`AskingRuns.start`."""
        self._runs.start(asking, then, failed)

    def _put(self, question: Question, then: Then) -> None:
        if self.is_open:
            self.ask(question, then)
        else:
            then(Failure(0, self.why or "no snapshot is open"))

    def selection(self, subject: QuerySubject) -> Selection | None:
        """What it means in this image; None where it has no object of it, or does not know what is new."""
        seen = self.seen if subject.new else ()
        if subject.new and not seen:
            return None
        if not subject.types:
            return Selection(stacks=subject.stacks, seen=seen)
        wanted = frozenset(subject.types)
        ids = tuple(id for id, name in enumerate(self.types) if name.full in wanted)
        return Selection(types=ids, stacks=subject.stacks, seen=seen) if ids else None

    def show_values(self, shown: bool) -> None:
        """As a person has decided."""
        self.values = shown
        self.changes += 1

    # -- marks -----------------------------------------------------------------------------------------------

    @property
    def mark(self) -> MarkFacts | None:
        """The moment that the open image is compared with; None before there is any."""
        marks = self._hunt.marks
        return marks[min(self.since, len(marks) - 1)].facts if marks else None

    @property
    def second_mark(self) -> MarkFacts | None:
        """The later one, that must have seen what is new since the other."""
        marks = self._hunt.marks
        return marks[self.until].facts if self.until is not None and self.until < len(marks) else None

    def compare(self, since: int, until: int | None = None) -> None:
        """What is new from now on: since this mark; with a later one, what was there at that one already."""
        self.since, self.until = since, until
        self.changes += 1

    @property
    def seen(self) -> tuple[int, ...]:
        """Of what is new, how many marks it has seen, from the latest that the open image knows back
        (:attr:`Selection.seen`); empty where the image does not know them, or is the mark itself."""
        return numbers_of_new(self._known_marks, self.since, self.until) if self.marks_sent else ()

    @property
    def marks_sent(self) -> bool:
        """Whether the open image knows the marks that are compared. A second one after all that it knows was not there
        yet, or is the image itself: all that is in it was there by then."""
        return self.since < self._known_marks

    @property
    def is_sending_marks(self) -> bool:
        """Whether marks are being sent to it."""
        return self._telling

    def send_mark(self, then: Opened) -> None:
        """Send the open image the latest mark, which has all of them; ``then`` when it knows them.
        :attr:`marks_failure` has the reason where it will not."""
        count = len(self._hunt.marks)
        if self.marks_sent or self.since >= count or self.image is None:
            then()
            return
        self._tellers.append(then)
        if not self._telling and self.purpose is not SnapshotPurpose.HUNT:  # a hunt tells it what it looks at
            self.begin_sending_marks()
            self.run(send_pieces(self._hunt.pieces), lambda _: self.note_marks_sent(count), self._marks_failed)

    def begin_sending_marks(self) -> None:
        """The open image is sent the marks from now on, by whomever; what it knew it forgets."""
        self._known_marks, self._telling, self.marks_failure = 0, True, ""
        self.changes += 1

    def note_marks_sent(self, count: int) -> None:
        """The open image knows so many marks, the first ones, whoever has sent them."""
        self._known_marks, self._telling = count, False
        self.numbering += 0 < self._numbered != count  # numbers are counted from the latest back
        self._numbered = count
        tellers, self._tellers = self._tellers, []
        for then in tellers:
            self.send_mark(then)  # others may be compared by now

    def _marks_failed(self, why: str) -> None:
        self.marks_failure, self._tellers, self._telling = why, [], False

    # -- events ----------------------------------------------------------------------------------------------

    def feed(self, event: Event) -> None:
        """Take one event; ignore those that are about something else."""
        open_snapshot = self.image.image if self.image is not None else None
        match event:
            case Ended():
                self.over = True
                if self.stage in (SnapshotStage.BUILDING, SnapshotStage.OPEN):
                    self._drop("the session has ended")
            case ImageCost() if event.image == open_snapshot:
                self.cost = event
            case Received(message):
                self.changes += self._take(message, open_snapshot)

    def _take(self, message: Message, open_snapshot: int | None) -> bool:
        """Whether it was about this snapshot."""
        match message:
            case Census():
                self.objects = sum(row.count for row in message.rows)
                return False
            case ImageTypes() if message.id == self._building:
                if message.first == len(self.types):
                    self.types += message.names
            case Image() if message.id == self._building:
                self._open(message)
            case Progress() if message.id == self._building or message.id in self._waiting:
                self.progress = message
                self.pace.take(message, self.clock())
            case ImageGone() if message.image == open_snapshot:
                self._drop(message.reason)
            case Failure():
                if message.request == self._building:
                    self._drop(message.text)
                else:
                    self._answer(message.request, message)
            case _ if isinstance(message, ANSWERS):
                self.answered += 1
                self._answer(message.id, message)
            case _:
                return False
        return True

    def _open(self, image: Image) -> None:
        self._building, self.progress = None, None
        self.image, self.stage = image, SnapshotStage.OPEN
        first, self._first, self._unopened = self._first, None, None
        if first is not None:
            first()

    def _answer(self, id: int, message: Message) -> None:
        then = self._waiting.pop(id, None)
        if not self._waiting:
            self.progress = None
        if then is not None:
            then(message)

    def _drop(self, why: str) -> None:
        """There is none any more. Fail every question that waits for an answer."""
        if self.stage is not SnapshotStage.NONE:
            self.stage = SnapshotStage.GONE
        waiting, self._waiting = self._waiting, {}
        unopened, self._unopened = self._unopened, None
        self._building, self.progress, self.why, self._first = None, None, why, None
        for id, then in waiting.items():
            then(Failure(id, why))
        self._tellers, self._telling = [], False
        if unopened is not None:
            unopened(why)
