"""How the agent holds an open snapshot, with a core made of Python: what comes in its way, and what it says of it."""

from __future__ import annotations

from typing import Any

import pytest

from heaptop.protocol.codec import encode
from heaptop.protocol.framing import frame
from heaptop.protocol.images import (
    GROUPS,
    AskRequest,
    CloseRequest,
    Groups,
    Image,
    ImageGone,
    ImageMemory,
    ImageRequest,
    Progress,
    Question,
)
from heaptop.protocol.messages import Census, Failure, Tick, TickRequest
from tests.support.fake_core import FakeCore, Talk, talking

BUILDING, ANSWERED, READY, ASKED, GONE = 0, 1, 2, 3, -1


class ImagingCore(FakeCore):
    """Its image is there at once, and answers the questions that it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.image_errors: list[Exception] = []
        self.take_errors: list[Exception] = []
        self.image_end_errors: list[Exception] = []
        self.options: dict[str, Any] = {}
        self.state = GONE
        self.answers = True
        self.question = b""
        self.holding = 0

    def as_module(self) -> Any:
        module = super().as_module()
        for name in ("begin", "look", "wait", "take", "ask", "cancel", "end"):
            setattr(module, f"image_{name}", getattr(self, f"image_{name}"))
        return module

    def image_begin(self, options: dict[str, Any]) -> tuple[int, int]:
        if self.image_errors:
            raise self.image_errors.pop(0)
        self.options, self.state, self.question = dict(options), ANSWERED, b""
        return 77, 5

    def image_look(self) -> tuple[int, ...]:
        return self.state, 0, 0, 0, 0, self.holding

    def image_wait(self, most_ns: int) -> bool:
        """As a process whose filter forbids the wait."""
        return False

    def image_take(self) -> bytes:
        if self.take_errors:
            raise self.take_errors.pop(0)
        self.state = READY
        number = self.options["image"]
        image = Image(self.options["id"], number, 0, 5, 0, self.options["keep_ns"], 77, 0, 0, 0, 0, (), 0, True)
        answer = Groups(int.from_bytes(self.question[24:32], "little"), ())
        return frame(encode(answer if self.question else image))

    def image_ask(self, question: bytes) -> bool:
        taken = self.state == READY
        if taken:
            self.question, self.state = question, ANSWERED if self.answers else ASKED
        return taken

    def image_cancel(self) -> None:
        self.state = ANSWERED

    def image_end(self) -> tuple[str, bool, int]:
        self.state = GONE
        if self.image_end_errors:
            raise self.image_end_errors.pop(0)
        return "it was closed", True, 3


def opened(talk: Talk, id: int = 1) -> Image:
    talk.send(ImageRequest(id, 60_000_000_000))
    return talk.expect(Image)


def ask(talk: Talk, id: int, image: int = 1) -> None:
    talk.send(AskRequest(id, image, Question(GROUPS).pack(id)))


def test_it_waits_for_a_collection_to_end() -> None:
    core = ImagingCore()
    core.image_errors = [BlockingIOError("the interpreter is collecting")] * 3
    with talking(core) as talk:
        talk.give_core()
        assert opened(talk).id == 1
    assert len(core.options["own"]) > 100, "the agent's own objects are told to the core"


@pytest.mark.parametrize("error", [RuntimeError("no clone here"), MemoryError()])
def test_one_that_cannot_be_made_is_a_failure_and_the_next_one_is_made(error: Exception) -> None:
    core = ImagingCore()
    core.image_errors = [error]
    with talking(core) as talk:
        talk.give_core()
        talk.send(ImageRequest(1, 60_000_000_000))
        assert talk.expect(Failure).text == (str(error) or "out of memory in the target")
        assert opened(talk, 2).image == 1


def test_without_a_core_there_is_none() -> None:
    with talking(ImagingCore()) as talk:
        talk.send(ImageRequest(1, 60_000_000_000))
        assert "needs the native core" in talk.expect(Failure).text


def test_an_answer_without_room_in_the_target_ends_it() -> None:
    core = ImagingCore()
    with talking(core) as talk:
        talk.give_core()
        opened(talk)
        core.take_errors = [MemoryError()]
        ask(talk, 5)
        reason = "no memory in the target for its answer"
        assert talk.expect(Failure) == Failure(5, reason)
        assert talk.expect(ImageGone) == ImageGone(1, reason, expected=False)
        assert talk.tick(Tick)


def test_one_that_does_not_end_is_told_and_the_session_goes_on() -> None:
    core = ImagingCore()
    core.image_end_errors = [RuntimeError("the image does not end")]
    with talking(core) as talk:
        talk.give_core()
        opened(talk)
        talk.send(CloseRequest(2))
        assert talk.expect(ImageGone) == ImageGone(1, "the image does not end", expected=False)
        assert talk.census(Census).mode == "clone"


def test_questions_are_answered_one_after_the_other_and_no_more_than_a_few_wait() -> None:
    core = ImagingCore()
    with talking(core) as talk:
        talk.give_core()
        opened(talk)
        core.answers = False
        for id in range(10, 30):
            ask(talk, id)
        refused = [talk.expect(Failure) for _ in range(4)]
        assert refused == [Failure(id, "too many queries are waiting") for id in range(26, 30)]
        core.answers, core.state = True, ANSWERED
        assert [talk.expect(Groups).id for _ in range(16)] == list(range(10, 26))


def test_who_waits_long_hears_of_it() -> None:
    core = ImagingCore()
    with talking(core) as talk:
        talk.give_core()
        opened(talk)
        core.answers = False
        ask(talk, 5)
        assert talk.expect(Progress).id == 5


def test_questions_about_another_image_or_without_a_body_fail() -> None:
    with talking(ImagingCore()) as talk:
        talk.give_core()
        ask(talk, 4)
        assert talk.expect(Failure) == Failure(4, "that snapshot is closed")
        opened(talk)
        ask(talk, 5, image=2)
        assert talk.expect(Failure) == Failure(5, "that snapshot is closed")


def test_what_it_holds_comes_with_each_tick_as_far_as_it_is_known() -> None:
    core = ImagingCore()
    with talking(core) as talk:
        talk.give_core()
        core.holding = 4096
        opened(talk)
        talk.send(TickRequest(2))
        assert talk.next() == ImageMemory(1, 4096)
        assert isinstance(talk.next(), Tick)
        core.holding = 0
        talk.send(TickRequest(3))
        assert isinstance(talk.next(), Tick)
