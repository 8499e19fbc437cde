"""The leak hunt of one screen: marks are set and compared with, one after the other, through its snapshot client.

What is asked of a snapshot, and what is found, is :mod:`heaptop.analysis.leaks.hunting`'s. This module never draws,
and never has garbage collected unless a person has confirmed it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from string import ascii_uppercase
from typing import TYPE_CHECKING

from heaptop.analysis.leaks.hunting import LeakHunt
from heaptop.analysis.snapshot.building import hunt_seconds_left
from heaptop.protocol.findings import Findings, MarkFacts
from heaptop.protocol.images import MOST_MARKS
from heaptop.protocol.messages import Collected, CollectRequest, Failure, Memory
from heaptop.protocol.source import Ended, Event, Received, Seek, Source
from heaptop.tui.state.hunting_words import compared_words, first_words, found_words
from heaptop.tui.state.snapshot_client import SnapshotClient, SnapshotPurpose
from heaptop.tui.state.snapshot_status import building_words, seconds

if TYPE_CHECKING:
    from heaptop.tui.state.session import AttachSession


class HuntStage(Enum):
    """What continues."""

    NOTHING = ""
    COLLECTING = "collecting garbage"
    FREEZING = "building the snapshot"
    ASKING = "comparing with the mark"  # Or, of the first mark, with nothing yet: what is there is remembered


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of a check."""

    findings: Findings
    image: int = 0  # Number of the snapshot that its addresses are of; 0: of none
    until: str = ""  # The mark that all that is new had to be there at; empty where it need not have been


@dataclass(frozen=True, slots=True)
class _Moment:
    """One that is being looked at."""

    mark: str | None  # The name of the mark that it becomes; None where it becomes none
    keep: bool  # Its snapshot stays open, also where nothing was found in it
    collected: bool = False
    since: int = 0
    """Number of the mark that it is compared with, once that is asked; another one may be chosen meanwhile."""
    until: int | None = None


class Hunting:
    """Sets marks, looks what is new since, and keeps what was found last. One moment at a time."""

    def __init__(self, source: Source, session: AttachSession, hunt: LeakHunt, client: SnapshotClient) -> None:
        self._source = source
        self._session = session
        self._hunt = hunt
        self._client = client
        self._moment: _Moment | None = None
        self._collection = 0  # The id of what was asked for last
        self._answered = 0  # How many questions were answered before the first of this moment
        self._queries = 0  # How many the last comparison took; 0 where there was none
        self._memory: Memory | None = None
        """What memory is used for, once that is known of the moment; nothing waits for it."""
        self.doing = HuntStage.NOTHING
        self.found: CheckResult | None = None  # The last of them; it stays when its snapshot is closed
        self.failed = ""  # Why the last check has no result, in a few words
        self.said = ""  # The result of the last check in words, until it is taken: take_notice()
        self.new_findings: Findings | None = None  # Likewise what it found: take_findings()

    @property
    def marks(self) -> tuple[MarkFacts, ...]:
        """All of them, the oldest first."""
        return tuple(mark.facts for mark in self._hunt.marks)

    @property
    def is_busy(self) -> bool:
        return self.doing is not HuntStage.NOTHING

    @property
    def words(self) -> str:
        """How far it is; empty where nothing continues."""
        if self.doing in (HuntStage.NOTHING, HuntStage.COLLECTING):
            return f"{self.doing.value}: all threads are paused" if self.is_busy else ""
        what = "looking" if self._moment is None or self._moment.mark is None else f"mark {self._moment.mark}"
        how = building_words(self._client)
        if self.doing is HuntStage.ASKING:  # how far each question is would restart with the next one
            doing = self.doing.value if self._hunt.marks else "remembering what is there"
            number = self._client.answered - self._answered + 1
            of = f" of about {self._queries}" if self._hunt.marks and number <= self._queries else ""
            how = f"{doing}, query {number}{of}{self._time_left}"
        return f"{what}: {how} · {seconds(self._client.age)} · x cancels"

    @property
    def _time_left(self) -> str:
        """``, about 5 s left``; empty where it is less than a second, or unknown."""
        image = self._client.image
        if image is None:
            return ""
        left = hunt_seconds_left(image.build_ns / 1e9, self._client.age, not self._hunt.marks)
        return f", about {seconds(left)} left" if left >= 1 else ""

    @property
    def next_name(self) -> str:
        """``A``, ``B``, …, ``Z``, ``A2``, …: of the first that no mark has."""
        taken = {mark.facts.name for mark in self._hunt.marks}
        number = 0
        while True:
            again, letter = divmod(number, len(ascii_uppercase))
            name = ascii_uppercase[letter] + (str(again + 1) if again else "")
            if name not in taken:
                return name
            number += 1

    def mark(self, name: str = "", *, keep: bool = False, collect: bool = False) -> None:
        """Look what is new since the mark that is compared with, and set another one.

        Args:
            name: empty for the next letter.
            keep: the snapshot stays open, also where there is nothing to be compared with.
            collect: have garbage collected right before, as a person has asked.
        """
        if len(self._hunt.marks) >= MOST_MARKS:
            self.said = f"there are {MOST_MARKS} marks already; d checks without another one"
        elif not self._is_refused():
            self._begin(_Moment(name or self.next_name, keep, collected=collect))

    def check(self) -> None:
        """Look what is new since the mark that is compared with."""
        if not self._hunt.marks:
            self.said = "no mark yet: press m to mark what is there now"
        elif not self._is_refused():
            self._begin(_Moment(None, keep=True))

    def compare(self, since: int, until: int | None = None) -> None:
        """Compare with another mark, or with what came between two, from now on; at once where the snapshot that was
        looked at last is still open and no mark itself."""
        client, marks = self._client, self.marks
        client.compare(since, until)
        if self._can_check_again:
            self._moment = _Moment(None, keep=True)
            self._ask()
        elif not self.is_busy:
            self.said = f"what is new {compared_words(marks, since, until)}: d checks, m also marks"

    @property
    def _can_check_again(self) -> bool:
        client, found = self._client, self.found
        if self.is_busy or client.is_sending_marks or found is None or client.image is None or not client.is_open:
            return False
        return client.image.image == found.image and client.image.time_ns > self.marks[-1].time_ns

    def _is_refused(self) -> bool:
        if self.is_busy:
            self.said = "a check is running; x cancels"
        return self.is_busy

    def _begin(self, moment: _Moment) -> None:
        self._moment, self._memory, self.failed = moment, None, ""
        self._source.memory_now()
        if moment.collected:
            self.doing = HuntStage.COLLECTING
            self._collection = self._source.request(CollectRequest)
        else:
            self._freeze()

    def _freeze(self) -> None:
        self.doing = HuntStage.FREEZING
        self._client.open(purpose=SnapshotPurpose.HUNT, then=self._ask, failed=self._fail)

    def _ask(self) -> None:
        client, session = self._client, self._session
        assert self._moment is not None
        assert client.image is not None
        moment = self._moment = replace(self._moment, since=client.since, until=client.until)
        self.doing, self._answered = HuntStage.ASKING, client.answered
        client.begin_sending_marks()
        client.run(
            self._hunt.check(
                client.image, client.types, session.history, session.sampling,
                mark=moment.mark, since=moment.since, until=moment.until, collected=moment.collected,
                memory=self._memory,
            ),
            self._take,
            self._fail,
        )  # fmt: skip

    def _take(self, findings: Findings | None) -> None:
        moment, client = self._moment, self._client
        assert moment is not None
        assert client.image is not None
        self._end()
        client.purpose = SnapshotPurpose.LOOKING
        if findings is not None:
            self._queries = client.answered - self._answered
            client.note_marks_sent(len(self._hunt.marks) - (moment.mark is not None))
            later = self.marks[moment.until : moment.until + 1] if moment.until is not None else ()
            self.found = CheckResult(findings, client.image.image, later[0].name if later else "")
            self.new_findings = findings
            self.said = found_words(findings, moment.mark)
        else:
            client.note_marks_sent(0)
            self.said = first_words(self._hunt.marks[-1].facts)
            if not moment.keep:
                client.close()

    def _fail(self, why: str) -> None:
        moment = self._moment
        self._end()
        self.failed = why
        if moment is not None:
            self.said = f"no mark: {why}" if moment.mark is not None else f"check failed: {why}"
        self._client.close()

    def _end(self) -> None:
        self._moment, self.doing = None, HuntStage.NOTHING
        self._client.changes += 1

    def feed(self, event: Event) -> None:
        """Take one event, after the snapshot client has; those that are about something else are nothing to it."""
        collecting = self.doing is HuntStage.COLLECTING
        match event:
            case Seek():
                self.found = None
            case Ended() if collecting:
                self._fail("the session has ended")
            case Received(Findings() as findings):
                self.found = CheckResult(findings)
            case Received(Memory() as memory):
                self._memory = memory
            case Received(Collected()) if collecting:
                self._freeze()
            case Received(Failure() as failure) if collecting and failure.request == self._collection:
                self._fail(failure.text)

    def take_notice(self) -> str:
        """What there is to say, once."""
        said, self.said = self.said, ""
        return said

    def take_findings(self) -> Findings | None:
        """What was found, once."""
        new_findings, self.new_findings = self.new_findings, None
        return new_findings
