"""A session as it was heard: what was delivered, step by step, and what was answered to which question.

It is played by :class:`TranscriptSource`, which answers a question by its content, whenever it is put. With a
:class:`Live` session behind it, what is not there yet is asked there, and kept. Nothing is delivered but from within a
call: each step by :meth:`TranscriptSource.advance`, each answer by what asks for it.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar, cast

import msgpack
import zstandard

from heaptop.errors import HeaptopError
from heaptop.protocol.codec import decode, encode
from heaptop.protocol.images import ANSWERS, FIRST_ID, Image, ImageGone, ImageTypes, Question
from heaptop.protocol.messages import Failure, Hello, Memory, Message
from heaptop.protocol.registry import REPLIES
from heaptop.protocol.source import (
    Attached,
    Behind,
    Deliver,
    Ended,
    Event,
    Forecast,
    ImageCost,
    IntervalChanged,
    Received,
    TargetInfo,
    never_behind,
)

ANEW: Final = "Make the transcript anew: python -m tests.support.real_session"
_PLAIN: Final[dict[str, type[Event]]] = {kind.__name__: kind for kind in (Forecast, IntervalChanged, ImageCost)}
_QUESTIONS: Final = FIRST_ID + (1 << 20)

T = TypeVar("T")


class NotHeard(Exception):
    """It was asked what was not asked in the session."""

    def __init__(self, what: str) -> None:
        super().__init__(f"The real session was not asked {what}. {ANEW}")


class Live(Protocol):
    """A session under way, whose events are kept until they are asked for."""

    def take(self, censuses: int) -> list[Event]:
        """All that was delivered and is no answer, once there are so many censuses in it."""

    def image(self, keep: float) -> list[Event]:
        """What an image is told by, and before it what was delivered up to the next census."""

    def ask(self, image: int, question: Question) -> Message: ...

    def memory(self) -> Message: ...

    def close_snapshot(self) -> None: ...


@dataclass
class ImageHeard:
    """One open snapshot."""

    events: list[Event]
    """From its request to the :class:`Image`."""
    answers: dict[bytes, Message] = field(default_factory=dict)

    @property
    def image(self) -> Image:
        last = self.events[-1]
        assert isinstance(last, Received)
        assert isinstance(last.message, Image)
        return last.message


@dataclass
class Transcript:
    """All of it."""

    target: TargetInfo
    steps: list[list[Event]] = field(default_factory=list)
    images: list[ImageHeard] = field(default_factory=list)
    memory: dict[int, Message] = field(default_factory=dict)
    """What memory was used for, by the number of steps heard until then."""

    def save(self, path: Path) -> None:
        whole = {
            "target": asdict(self.target),
            "steps": [[_packed(event) for event in step] for step in self.steps],
            "images": [
                [[_packed(event) for event in image.events], {key: encode(it) for key, it in image.answers.items()}]
                for image in self.images
            ],
            "memory": {step: encode(message) for step, message in self.memory.items()},
        }
        path.write_bytes(zstandard.compress(msgpack.packb(whole), 19))

    @classmethod
    def load(cls, path: Path) -> Transcript:
        whole = msgpack.unpackb(zstandard.decompress(path.read_bytes()), strict_map_key=False)
        return cls(
            TargetInfo(**whole["target"]),
            [[_unpacked(event) for event in step] for step in whole["steps"]],
            [
                ImageHeard([_unpacked(event) for event in events], {key: _message(it) for key, it in answers.items()})
                for events, answers in whole["images"]
            ],
            {step: _message(message) for step, message in whole["memory"].items()},
        )


class TranscriptSource:
    """A :class:`~heaptop.protocol.source.Source` that tells what was told."""

    def __init__(self, transcript: Transcript, live: Live | None = None, words: Callable[[str], str] = str) -> None:
        """``words`` replaces each text of what is heard from ``live``."""
        self.transcript = transcript
        self._live = live
        self._words = words
        self._deliver: Deliver = lambda event: None
        self._step = 0
        self._images = 0
        self._is_open = False
        self._ids = itertools.count(_QUESTIONS)

    @property
    def target(self) -> TargetInfo:
        return self.transcript.target

    def open(self, deliver: Deliver, behind: Behind = never_behind) -> None:
        self._deliver = deliver

    def close(self, timeout: float = 5.0) -> None:
        self._deliver(Ended(None))

    def advance(self, censuses: int) -> None:
        """Deliver the next step; of a live session, one of so many censuses."""
        steps = self.transcript.steps
        if self._step == len(steps):
            if self._live is None:
                raise NotHeard(f"for step {self._step}")
            steps.append([self._heard(event) for event in self._live.take(censuses)])
        for event in steps[self._step]:
            self._deliver(event)
        self._step += 1

    # -- the open snapshot -----------------------------------------------------------------------------------

    def image(self, keep: float, memory: int = 0) -> int:
        images = self.transcript.images
        if self._images == len(images):
            if self._live is None:
                raise NotHeard(f"for snapshot {self._images + 1}")
            images.append(ImageHeard([self._heard(event) for event in self._live.image(keep)]))
        heard = images[self._images]
        self._images += 1
        self._is_open = True
        for event in heard.events:
            self._deliver(event)
        return heard.image.id

    def ask(self, image: int, question: Question) -> int:
        heard = self.transcript.images[self._images - 1]
        key = hashlib.sha256(question.pack(0)).digest()[:12]
        if key not in heard.answers:
            if self._live is None or heard is not self.transcript.images[-1]:
                raise NotHeard(f"this: {question}"[:300])
            heard.answers[key] = self._heard(self._live.ask(image, question))
        id, answer = next(self._ids), heard.answers[key]
        named = {"request": id} if isinstance(answer, Failure) else {"id": id}
        self._deliver(Received(replace(cast(Any, answer), **named)))
        return id

    def close_snapshot(self) -> None:
        if self._is_open:
            self._is_open = False
            heard = self.transcript.images[self._images - 1]
            if self._live is not None and heard is self.transcript.images[-1]:
                self._live.close_snapshot()
            self._deliver(Received(ImageGone(heard.image.image, "it was closed")))

    def give_up(self, id: int) -> None:
        """All is answered at once."""

    # -- other requests --------------------------------------------------------------------------------------

    def memory_now(self) -> None:
        known = self.transcript.memory
        if self._live is not None and self._step not in known:
            known[self._step] = self._heard(self._live.memory())
        if self._step not in known:
            raise NotHeard("what memory was used for at this moment")
        self._deliver(Received(known[self._step]))

    def request(self, make: Callable[[int], Message]) -> int:
        raise NotHeard(make(0).KIND)

    def census_now(self) -> None:
        """Each step has its censuses."""

    def sample(self, interval: int, depth: int, tracer: bool = False) -> None:
        raise NotHeard("to sample otherwise")

    def decide(self, accept: bool, stop: bool = False) -> None:
        raise NotHeard("whether it may pause")

    def cancel(self) -> None:
        """Nothing waits here."""

    def _heard(self, one: T) -> T:
        if isinstance(one, Attached):
            target = self.transcript.target
            one = cast(T, replace(one, target=target, hello=replace(one.hello, pid=target.pid)))
        return with_words(one, self._words)


def with_words(value: T, words: Callable[[str], str]) -> T:
    """The same with each text in it replaced."""
    if isinstance(value, str):
        return cast(T, words(value))
    if isinstance(value, tuple):
        return cast(T, tuple(with_words(each, words) for each in value))
    if is_dataclass(value) and not isinstance(value, type):
        return cast(T, replace(value, **{f.name: with_words(getattr(value, f.name), words) for f in fields(value)}))
    return value


def texts(value: object) -> list[str]:
    """Each text in it."""
    found: list[str] = []
    with_words(value, lambda text: found.append(text) or text)  # type: ignore[func-returns-value]
    return found


def _packed(event: Event) -> list[object]:
    if isinstance(event, Received):
        return ["Received", encode(event.message)]
    if isinstance(event, Attached):
        return ["Attached", asdict(event.target), encode(event.hello), event.backend, event.stopped_ns]
    name = type(event).__name__
    if name not in _PLAIN:
        raise HeaptopError(f"A transcript has no {name}: {event}")
    return [name, asdict(cast(Any, event))]


def _unpacked(packed: Sequence[Any]) -> Event:
    name, *rest = packed
    if name == "Received":
        return Received(_message(rest[0]))
    if name == "Attached":
        hello = _message(rest[1])
        assert isinstance(hello, Hello)
        return Attached(TargetInfo(**rest[0]), hello, *rest[2:])
    return _PLAIN[name](**rest[0])


def _message(packed: bytes) -> Message:
    message = decode(packed, REPLIES)
    assert message is not None
    return message


def is_answer(event: Event) -> bool:
    """Whether it comes of a request, and not by itself."""
    return isinstance(event, Received) and isinstance(
        event.message, (*ANSWERS, Image, ImageTypes, ImageGone, Failure, Memory)
    )
