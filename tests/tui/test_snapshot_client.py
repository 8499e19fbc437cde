"""The client of the open snapshot: who asked, who is told, and what becomes of questions that nobody can answer."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heaptop.analysis.leaks.hunting import LeakHunt
from heaptop.analysis.leaks.marks import Mark, MarkContext, Trends
from heaptop.analysis.snapshot.asking import Asking, NotAnswered
from heaptop.protocol.findings import MarkFacts
from heaptop.protocol.images import (
    GROUPS,
    KNOWN,
    Groups,
    Image,
    ImageGone,
    ImageTypes,
    Known,
    Progress,
    Question,
    Selection,
)
from heaptop.protocol.messages import Failure, Message, TypeName
from heaptop.protocol.source import Ended, Event, ImageCost, Received
from heaptop.tui.state.asking import SnapshotAnswers
from heaptop.tui.state.snapshot_client import QuerySubject, SnapshotClient, SnapshotPurpose, SnapshotStage
from heaptop.tui.state.snapshot_status import snapshot_status
from tests.fakes.source import FakeSource


class Recorder(FakeSource):
    """Writes down what it is asked, and answers nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[object, ...]] = []
        self.last = 100

    def image(self, keep: float, memory: int = 0) -> int:
        self.last += 1
        self.calls.append(("image", keep))
        return self.last

    def ask(self, image: int, question: Question) -> int:
        self.last += 1
        self.calls.append(("ask", image, question))
        return self.last

    def give_up(self, id: int) -> None:
        self.calls.append(("give up", id))

    def close_snapshot(self) -> None:
        self.calls.append(("close",))


class Bench:
    """A client, its source, a clock."""

    def __init__(self) -> None:
        self.source, self.now = Recorder(), 0.0
        self.hunt = LeakHunt()
        self.client = SnapshotClient(self.source, self.hunt, clock=lambda: self.now)
        self.told: list[Message] = []

    def say(self, message: Message) -> None:
        self.client.feed(Received(message))

    def image(self, number: int = 1, id: int | None = None) -> Image:
        return Image(
            id=self.source.last if id is None else id, image=number, time_ns=5, pause_ns=1_000_000,
            build_ns=999_000_000, keep_ns=600_000_000_000, pid=7, memory=1 << 20, objects=10, edges=20, bytes=1000,
            kinds=(), cycles=0, gc_enabled=True,
        )  # fmt: skip

    def opened(self, number: int = 1) -> Bench:
        self.client.open()
        self.say(ImageTypes(self.source.last, 0, (TypeName("app", "Session"), TypeName("builtins", "dict"))))
        self.say(self.image(number))
        return self


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_how_long_a_build_takes_and_how_to_cancel_it_fit_in_80_columns(bench: Bench) -> None:
    bench.client.open(600)
    bench.now += 125
    bench.say(Progress(bench.source.last, "recording references", 1, 1000))
    words = snapshot_status(bench.client)
    assert words.endswith(" left · 2m 05s · x cancels")
    assert len(words) < 80


def test_from_the_request_to_the_first_answer(bench: Bench) -> None:
    client = bench.client
    assert client.stage is SnapshotStage.NONE
    assert client.ask(Question(GROUPS), bench.told.append) == 0
    assert "press o" in snapshot_status(client)
    client.open(600)
    bench.say(Progress(bench.source.last, "searching", 43, 100))
    assert "searching, 43 %" in snapshot_status(client)
    bench.say(ImageTypes(bench.source.last, 0, (TypeName("app", "Session"),)))
    bench.say(bench.image())
    assert client.is_open
    id = client.ask(Question(GROUPS), bench.told.append)
    assert bench.source.calls == [("image", 600), ("ask", 1, Question(GROUPS))]
    answer = Groups(id, ())
    bench.say(answer)
    bench.say(answer)
    assert bench.told == [answer]
    assert not client.is_busy


def test_how_long_it_stays(bench: Bench) -> None:
    bench.now = 1.0
    bench.opened()
    bench.now = 12.0  # it was asked for at 1 and built after a second
    assert bench.client.age == 11
    assert bench.client.left == 590
    assert "snapshot 11 s old, closes in 9m 50s · tables 1.00 MiB" in snapshot_status(bench.client)


def test_what_a_snapshot_does_not_know_comes_before_what_it_costs(bench: Bench) -> None:
    bench.client.open()
    bench.say(replace(bench.image(), gaps=("frames of C are unknown",)))
    assert "closes in 10m 01s · frames of C are unknown · tables 1.00 MiB" in snapshot_status(bench.client)


def test_what_it_costs_by_now(bench: Bench) -> None:
    bench.opened(2)
    bench.client.feed(ImageCost(1, own=5, copied=7, left=1.0))
    assert bench.client.cost is None
    bench.client.feed(ImageCost(2, own=3 << 20, copied=4 << 20, left=590.0))
    assert "copied 4.00 MiB, tables 3.00 MiB" in snapshot_status(bench.client)
    bench.client.feed(ImageCost(2, own=3 << 20, copied=None, left=590.0))
    assert "copied unknown, tables 3.00 MiB" in snapshot_status(bench.client)
    bench.client.open()
    assert bench.client.cost is None


def test_a_question_that_is_forgotten_is_given_up_and_nobody_is_told(bench: Bench) -> None:
    id = bench.opened().client.ask(Question(GROUPS), bench.told.append)
    bench.client.forget(id)
    bench.say(Failure(id, "cancelled"))
    assert bench.source.calls[-1] == ("give up", id)
    assert bench.told == []


def test_a_view_learns_of_a_question_that_cannot_even_be_put(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = SnapshotAnswers()

    def look() -> Message | None:
        answers.begin(bench.client)
        found = answers.get(Question(GROUPS))
        answers.end()
        return found

    def too_long(image: int, question: Question) -> int:
        tried.append(image)
        raise ValueError("a question of 99,999 bytes")

    tried: list[int] = []
    monkeypatch.setattr(bench.source, "ask", too_long)
    assert look() is None, "no snapshot is open"
    assert not answers.is_asking
    bench.opened()
    assert look() == look() == Failure(0, "a question of 99,999 bytes")
    assert tried == [1]
    assert not answers.is_asking


@pytest.mark.parametrize("end", ["gone", "lost", "another"])
def test_whoever_waits_is_told_when_it_goes(bench: Bench, end: str) -> None:
    id = bench.opened().client.ask(Question(GROUPS), bench.told.append)
    if end == "gone":
        bench.say(ImageGone(1, "its time was over"))
    elif end == "lost":
        bench.client.feed(Ended(None))
    else:
        bench.client.open()
    assert [type(each) for each in bench.told] == [Failure]
    assert bench.told == [Failure(id, bench.client.why or "another one was requested")]
    assert bench.client.stage is (SnapshotStage.BUILDING if end == "another" else SnapshotStage.GONE)


def test_the_end_of_an_image_before_is_nothing_to_the_one_after_it(bench: Bench) -> None:
    bench.opened(1).client.open()
    bench.say(ImageGone(1, "it was closed"))
    bench.say(bench.image(2))
    bench.say(ImageGone(1, "it was closed"))
    assert bench.client.is_open


def test_a_failure_to_build_says_why(bench: Bench) -> None:
    bench.client.open()
    bench.say(Failure(bench.source.last, "there was no memory for the graph"))
    assert bench.client.stage is SnapshotStage.GONE
    assert "there was no memory for the graph" in snapshot_status(bench.client)


def test_only_a_snapshot_that_is_being_made_can_be_given_up(bench: Bench) -> None:
    assert not bench.client.give_up()
    bench.client.open()
    assert bench.client.give_up()
    assert bench.source.calls[-1] == ("give up", bench.source.last)
    bench.say(bench.image())
    assert not bench.client.give_up()
    bench.client.close()
    assert bench.source.calls[-1] == ("close",)


def test_a_subject_in_words_of_the_image(bench: Bench) -> None:
    client = bench.opened().client
    found = client.selection(QuerySubject("app.Session", types=("app.Session",)))
    assert found is not None
    assert found.types == (0,)
    assert client.selection(QuerySubject("gone", types=("app.Gone",))) is None
    site = client.selection(QuerySubject("views.py:88", stacks=(4, 5)))
    assert site is not None
    assert (site.types, site.stacks, site.seen) == ((), (4, 5), ())


def test_a_question_that_is_too_long_has_failed() -> None:
    source, events = FakeSource(), list[Event]()
    client = SnapshotClient(source)
    source.open(events.append)
    source.attach()
    client.open()
    for event in events:
        client.feed(event)
    told: list[Message] = []
    assert client.ask(Question(GROUPS, Selection(addresses=tuple(range(9_000)))), told.append) == 0
    (answer,) = told
    assert isinstance(answer, Failure)
    assert "the limit is" in answer.text
    assert not client.is_busy


# -- conversations -------------------------------------------------------------------------------------------


def talk(asked: int, unanswered: list[str]) -> Asking[int]:
    """Asks so many things, and goes on where one is not answered; how many were."""
    count = 0
    for _ in range(asked):
        try:
            answer = yield Question(GROUPS)
        except NotAnswered as error:
            unanswered.append(str(error))
        else:
            assert isinstance(answer, Groups)
            count += 1
    return count


class Outcome:
    """What a conversation came to."""

    def __init__(self) -> None:
        self.results: list[int] = []
        self.failures: list[str] = []
        self.unanswered: list[str] = []

    def of(self, bench: Bench, asked: int) -> Outcome:
        bench.client.run(talk(asked, self.unanswered), self.results.append, self.failures.append)
        return self


def test_a_conversation_is_held_question_by_question(bench: Bench) -> None:
    outcome = Outcome().of(bench.opened(), 3)
    for number in range(1, 4):
        assert [call[0] for call in bench.source.calls].count("ask") == number
        assert outcome.results == []
        if number == 2:
            bench.say(Failure(bench.source.last, "there was no memory"))
        else:
            bench.say(Groups(bench.source.last, ()))
    assert (outcome.results, outcome.failures, outcome.unanswered) == ([2], [], ["there was no memory"])
    assert not bench.client.is_busy


def test_a_conversation_with_a_snapshot_that_goes_comes_to_its_end(bench: Bench) -> None:
    outcome = Outcome().of(bench.opened(), 4)
    bench.say(Groups(bench.source.last, ()))
    asked = len(bench.source.calls)
    bench.say(ImageGone(1, "it was killed", expected=False))
    assert outcome.unanswered == ["it was killed"] * 3
    assert outcome.results == [1]
    assert len(bench.source.calls) == asked, "what is gone is not asked"


def test_a_conversation_without_a_snapshot_fails_at_once(bench: Bench) -> None:
    outcome = Outcome().of(bench, 1)
    assert (outcome.results, outcome.unanswered) == ([0], ["no snapshot is open"])

    def needs() -> Asking[int]:
        yield Question(GROUPS)
        return 1

    bench.client.run(needs(), outcome.results.append, outcome.failures.append)
    assert outcome.failures == ["no snapshot is open"]


@pytest.mark.parametrize("is_partial", [False, True])
def test_a_conversation_that_is_given_up_asks_nothing_more(bench: Bench, is_partial: bool) -> None:
    outcome = Outcome().of(bench.opened(), 3)
    assert bench.client.give_up()
    assert bench.source.calls[-1] == ("give up", bench.source.last)
    id = bench.source.last
    bench.say(Groups(id, (), complete=False) if is_partial else Failure(id, "it was cancelled"))
    assert (outcome.results, outcome.failures, outcome.unanswered) == ([], ["it was cancelled"], [])
    assert bench.source.last == id
    assert not bench.client.is_busy


def test_who_opens_one_is_told_whether_it_came_to_be(bench: Bench) -> None:
    told: list[str] = []

    def ask_for() -> None:
        bench.client.open(then=lambda: told.append("open"), failed=told.append)

    ask_for()
    bench.say(bench.image())
    ask_for()
    bench.say(Failure(bench.source.last, "there was no memory"))
    ask_for()
    ask_for()
    bench.client.feed(Ended(None))
    assert told == ["open", "there was no memory", "another one was requested", "the session has ended"]


# -- marks ---------------------------------------------------------------------------------------------------


def marked(bench: Bench, *names: str) -> Bench:
    """With marks a second apart, the last of which is in two pieces."""
    bench.hunt.marks += [
        Mark(MarkFacts(name, number, 10, 1000), {}, Trends(), MarkContext()) for number, name in enumerate(names, 1)
    ]
    bench.hunt.pieces = (f"{names[-1]}1".encode(), f"{names[-1]}2".encode())
    return bench


def told(bench: Bench) -> list[bytes]:
    """Pieces, as they were sent."""
    questions = [call[2] for call in bench.source.calls if call[0] == "ask"]
    return [each.known for each in questions if isinstance(each, Question) and each.what == KNOWN]


def test_the_latest_mark_is_sent_once_and_has_all(bench: Bench) -> None:
    client, done = marked(bench.opened(), "A", "B").client, list[bool]()
    client.send_mark(lambda: done.append(True))
    for count in range(2):
        assert client.seen == ()
        client.send_mark(lambda: done.append(True))
        assert done == []
        bench.say(Known(bench.source.last, count))
    assert told(bench) == [b"B1", b"B2"]
    assert done == [True] * 3
    client.send_mark(lambda: done.append(False))
    assert (done[-1], len(told(bench))) == (False, 2)
    bench.say(ImageGone(1, "its time was over"))
    assert client.seen == (0, 1), "what was asked of it stays on the screen"
    client.open()
    assert client.seen == (), "the next one knows nothing yet"


def test_without_a_mark_nothing_is_told(bench: Bench) -> None:
    done: list[bool] = []
    bench.opened().client.send_mark(lambda: done.append(True))
    assert (done, told(bench)) == ([True], [])


def test_a_mark_that_an_image_does_not_take(bench: Bench) -> None:
    client, done = marked(bench.opened(), "A").client, list[bool]()
    client.send_mark(lambda: done.append(True))
    bench.say(Failure(bench.source.last, "there was no memory for the question"))
    assert (client.marks_failure, client.seen) == ("there was no memory for the question", ())
    client.send_mark(lambda: done.append(True))
    bench.say(Known(bench.source.last, 3))
    bench.say(Known(bench.source.last, 3))
    assert (client.marks_failure, done) == ("", [True])


def test_a_hunt_tells_its_image_itself(bench: Bench) -> None:
    client, done = marked(bench, "A").client, list[bool]()
    client.open(purpose=SnapshotPurpose.HUNT)
    bench.say(bench.image())
    client.send_mark(lambda: done.append(True))
    assert (done, told(bench)) == ([], [])
    client.note_marks_sent(1)
    assert (done, client.seen) == ([True], (0,))


@given(st.data())
def test_what_is_new_in_numbers_of_marks(data: st.DataObject) -> None:
    """An object that was born after ``birth`` marks has seen all later ones."""
    marks = data.draw(st.integers(1, 9))
    since = data.draw(st.integers(0, marks - 1))
    until = data.draw(st.none() | st.integers(since + 1, marks)) if since + 1 <= marks else None
    bench = marked(Bench(), *"ABCDEFGHI"[:marks])
    bench.opened().client.note_marks_sent(marks)
    bench.client.compare(since, until)
    for birth in range(marks + 1):
        is_new = birth > since and (until is None or birth <= until)
        assert (marks - birth in bench.client.seen) == is_new


def test_what_the_open_image_is_compared_with(bench: Bench) -> None:
    client = bench.opened().client
    assert (client.mark, client.second_mark) == (None, None)
    assert client.selection(QuerySubject("new", new=True)) is None, "it is not taken for everything"
    marked(bench, "A", "B", "C")
    client.compare(1, 2)
    assert (client.mark.name if client.mark else "", client.second_mark.name if client.second_mark else "") == (
        "B",
        "C",
    )
    client.note_marks_sent(3)
    found = client.selection(QuerySubject("new", new=True))
    assert found is not None
    assert found.seen == (1,)


def test_an_image_that_does_not_know_a_mark_claims_nothing_of_it(bench: Bench) -> None:
    client = marked(bench.opened(), "A", "B").client
    client.note_marks_sent(1)
    client.compare(1)
    assert (client.marks_sent, client.seen) == (False, ()), "not the whole heap"
    assert client.selection(QuerySubject("new", new=True)) is None
    client.compare(0, 1)
    assert (client.marks_sent, client.seen) == (True, (0,)), "all that is in it was there at the next"


def test_another_comparison_needs_no_other_mark(bench: Bench) -> None:
    client, done = marked(bench.opened(), "A", "B", "C").client, list[bool]()
    client.compare(1)
    client.send_mark(lambda: done.append(True))
    client.compare(0)
    for _ in range(2):
        assert (done, client.seen) == ([], ())
        bench.say(Known(bench.source.last, 0))
    assert (done, client.seen) == ([True], (0, 1, 2))
    client.compare(2)
    client.send_mark(lambda: done.append(True))
    assert (done, client.seen, client.numbering) == ([True, True], (0,), 0)
    assert told(bench) == [b"C1", b"C2"]


def test_where_it_is_sent_a_later_mark_numbers_mean_others(bench: Bench) -> None:
    client = marked(bench.opened(), "A", "B").client
    client.note_marks_sent(1)
    client.compare(1)
    client.send_mark(lambda: None)
    while client.is_busy:
        bench.say(Known(bench.source.last, 0))
    assert (client.seen, client.numbering) == ((0,), 1)
