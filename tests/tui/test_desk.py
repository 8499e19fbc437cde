"""The desk of the open snapshot: who asked, who is told, and what becomes of questions that nobody can answer."""

from __future__ import annotations

import pytest

from heaptop.protocol.images import (
    GROUPS,
    KNOWN,
    LIVE,
    Groups,
    Image,
    ImageGone,
    ImageTypes,
    Known,
    Live,
    Progress,
    Question,
    Selection,
)
from heaptop.protocol.messages import Failure, Message, TypeName
from heaptop.protocol.source import Ended, Event, ImageCost, Received
from heaptop.protocol.testing import FakeSource
from heaptop.tui.desk import Desk, Purpose, Stage, Subject
from heaptop.tui.desk_words import desk_words


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

    def close_image(self) -> None:
        self.calls.append(("close",))


class Bench:
    """A desk, its source, a clock."""

    def __init__(self) -> None:
        self.source, self.now = Recorder(), 0.0
        self.desk = Desk(self.source, clock=lambda: self.now)
        self.told: list[Message] = []

    def say(self, message: Message) -> None:
        self.desk.feed(Received(message))

    def image(self, number: int = 1, id: int | None = None) -> Image:
        return Image(
            id=self.source.last if id is None else id, image=number, time_ns=5, pause_ns=1_000_000,
            build_ns=999_000_000, keep_ns=600_000_000_000, pid=7, memory=1 << 20, objects=10, edges=20, bytes=1000,
            kinds=(), cycles=0, gc_enabled=True,
        )  # fmt: skip

    def opened(self, number: int = 1) -> Bench:
        self.desk.open()
        self.say(ImageTypes(self.source.last, 0, (TypeName("app", "Session"), TypeName("builtins", "dict"))))
        self.say(self.image(number))
        return self


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_from_the_request_to_the_first_answer(bench: Bench) -> None:
    desk = bench.desk
    assert desk.stage is Stage.NONE
    assert desk.ask(Question(GROUPS), bench.told.append) == 0
    assert "key o" in desk_words(desk)
    desk.open(600)
    bench.say(Progress(bench.source.last, "searching", 43, 100))
    assert "searching, 43%" in desk_words(desk)
    bench.say(ImageTypes(bench.source.last, 0, (TypeName("app", "Session"),)))
    bench.say(bench.image())
    assert desk.is_open
    id = desk.ask(Question(GROUPS), bench.told.append)
    assert bench.source.calls == [("image", 600), ("ask", 1, Question(GROUPS))]
    answer = Groups(id, ())
    bench.say(answer)
    bench.say(answer)
    assert bench.told == [answer]
    assert not desk.is_busy


def test_how_long_it_stays(bench: Bench) -> None:
    bench.now = 1.0
    bench.opened()
    bench.now = 12.0  # it was asked for at 1 and built after a second
    assert bench.desk.age == 11
    assert bench.desk.left == 590
    assert "frozen 11 s ago, 9m 50s left · tables 1.00 MiB" in desk_words(bench.desk)


def test_what_it_costs_by_now(bench: Bench) -> None:
    bench.opened(2)
    bench.desk.feed(ImageCost(1, own=5, copied=7, left=1.0))
    assert bench.desk.cost is None
    bench.desk.feed(ImageCost(2, own=3 << 20, copied=4 << 20, left=590.0))
    assert "copied 4.00 MiB, tables 3.00 MiB" in desk_words(bench.desk)
    bench.desk.feed(ImageCost(2, own=3 << 20, copied=None, left=590.0))
    assert "copied unknown, tables 3.00 MiB" in desk_words(bench.desk)
    bench.desk.open()
    assert bench.desk.cost is None


def test_a_question_that_is_forgotten_is_given_up_and_nobody_is_told(bench: Bench) -> None:
    id = bench.opened().desk.ask(Question(GROUPS), bench.told.append)
    bench.desk.forget(id)
    bench.say(Failure(id, "cancelled"))
    assert bench.source.calls[-1] == ("give up", id)
    assert bench.told == []


@pytest.mark.parametrize("end", ["gone", "lost", "another"])
def test_whoever_waits_is_told_when_it_goes(bench: Bench, end: str) -> None:
    id = bench.opened().desk.ask(Question(GROUPS), bench.told.append)
    if end == "gone":
        bench.say(ImageGone(1, "its time was over"))
    elif end == "lost":
        bench.desk.feed(Ended(None))
    else:
        bench.desk.open()
    assert [type(each) for each in bench.told] == [Failure]
    assert bench.told == [Failure(id, bench.desk.why or "another one was asked for")]
    assert bench.desk.stage is (Stage.BUILDING if end == "another" else Stage.GONE)


def test_the_end_of_an_image_before_is_nothing_to_the_one_after_it(bench: Bench) -> None:
    bench.opened(1).desk.open()
    bench.say(ImageGone(1, "it was closed"))
    bench.say(bench.image(2))
    bench.say(ImageGone(1, "it was closed"))
    assert bench.desk.is_open


def test_a_failure_to_build_says_why(bench: Bench) -> None:
    bench.desk.open()
    bench.say(Failure(bench.source.last, "there was no memory for the graph"))
    assert bench.desk.stage is Stage.GONE
    assert "there was no memory for the graph" in desk_words(bench.desk)


def test_giving_up(bench: Bench) -> None:
    assert not bench.desk.give_up()
    bench.desk.open()
    assert bench.desk.give_up()
    assert bench.source.calls[-1] == ("give up", bench.source.last)
    bench.say(bench.image())
    assert not bench.desk.give_up()
    bench.desk.close()
    assert bench.source.calls[-1] == ("close",)


def test_a_subject_in_words_of_the_image(bench: Bench) -> None:
    desk = bench.opened().desk
    found = desk.selection(Subject("app.Session", types=("app.Session",)))
    assert found is not None
    assert found.types == (0,)
    assert desk.selection(Subject("gone", types=("app.Gone",))) is None
    site = desk.selection(Subject("views.py:88", stacks=(4, 5), new=True))
    assert site is not None
    assert (site.types, site.stacks, site.new) == ((), (4, 5), True)


def test_a_question_that_is_too_long_has_failed() -> None:
    source, events = FakeSource(), list[Event]()
    desk = Desk(source)
    source.open(events.append)
    source.attach()
    desk.open()
    for event in events:
        desk.feed(event)
    told: list[Message] = []
    assert desk.ask(Question(GROUPS, Selection(addresses=tuple(range(9_000)))), told.append) == 0
    (answer,) = told
    assert isinstance(answer, Failure)
    assert "room for" in answer.text
    assert not desk.is_busy


def test_a_mark_is_fetched_in_pieces_and_told_to_the_next_image_once(bench: Bench) -> None:
    desk, source = bench.desk, bench.source
    desk.set_mark()
    bench.say(bench.image(1))
    assert desk.marking
    assert source.calls[-1] == ("ask", 1, Question(LIVE))
    bench.say(Live(source.last, b"one", 1))
    assert source.calls[-1] == ("ask", 1, Question(LIVE, offset=1))
    bench.say(Live(source.last, b"two", 0))
    assert desk.mark is not None
    assert (desk.mark.pieces, desk.mark.time_ns) == ((b"one", b"two"), 5)
    assert source.calls[-1] == ("close",)
    bench.opened(2)
    done: list[bool] = []
    desk.tell_mark(lambda: done.append(True))
    assert source.calls[-1] == ("ask", 2, Question(KNOWN, known=b"one"))
    bench.say(Known(source.last, 3))
    assert source.calls[-1] == ("ask", 2, Question(KNOWN, known=b"two"))
    desk.tell_mark(lambda: done.append(True))
    assert done == []
    bench.say(Known(source.last, 8))
    asked = len(source.calls)
    desk.tell_mark(lambda: done.append(True))
    assert (done, len(source.calls)) == ([True, True, True], asked)


def test_a_mark_that_an_image_does_not_take(bench: Bench) -> None:
    desk = bench.desk
    desk.set_mark(Purpose.LOOKING)
    bench.say(bench.image(1))
    bench.say(Live(bench.source.last, b"one", 0))
    assert bench.source.calls[-1][0] == "ask"  # and is not closed
    done: list[bool] = []
    bench.opened(2).desk.tell_mark(lambda: done.append(True))
    bench.say(Failure(bench.source.last, "there was no memory for the question"))
    assert desk.untold == "there was no memory for the question"
    desk.tell_mark(lambda: done.append(True))
    bench.say(Known(bench.source.last, 3))
    assert (desk.untold, done) == ("", [True])


def test_a_mark_that_was_not_told_to_its_end_is_none(bench: Bench) -> None:
    bench.desk.set_mark()
    bench.say(bench.image(1))
    bench.say(Live(bench.source.last, b"one", 1))
    bench.say(ImageGone(1, "it was killed", expected=False))
    assert bench.desk.mark is None
    assert not bench.desk.marking
