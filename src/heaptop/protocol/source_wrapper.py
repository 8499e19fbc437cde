"""A source around another one: passes everything through, for those who only look at what comes by."""

from __future__ import annotations

from collections.abc import Callable

from heaptop.protocol.images import Question
from heaptop.protocol.messages import Message
from heaptop.protocol.source import Behind, Deliver, Source, TargetInfo, never_behind


class SourceWrapper:
    """A :class:`~heaptop.protocol.source.Source` that asks another one whatever it is asked."""

    def __init__(self, source: Source) -> None:
        self._through = source

    @property
    def target(self) -> TargetInfo:
        return self._through.target

    def open(self, deliver: Deliver, behind: Behind = never_behind) -> None:
        self._through.open(deliver, behind)

    def census_now(self) -> None:
        self._through.census_now()

    def memory_now(self) -> None:
        self._through.memory_now()

    def sample(self, interval: int, depth: int, tracer: bool = False, target: int = 0) -> None:
        self._through.sample(interval, depth, tracer, target)

    def decide(self, accept: bool, stop: bool = False) -> None:
        self._through.decide(accept, stop)

    def image(self, keep: float, memory: int = 0) -> int:
        return self._through.image(keep, memory)

    def ask(self, image: int, question: Question) -> int:
        return self._through.ask(image, question)

    def give_up(self, id: int) -> None:
        self._through.give_up(id)

    def close_snapshot(self) -> None:
        self._through.close_snapshot()

    def request(self, make: Callable[[int], Message]) -> int:
        return self._through.request(make)

    def cancel(self) -> None:
        self._through.cancel()

    def close(self, timeout: float = 5.0) -> None:
        self._through.close(timeout)
