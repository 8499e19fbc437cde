"""Conversations with an open snapshot, as generators: they yield questions and are sent the answers.

So what a leak hunt asks is written down once, for a screen that must not wait and a command that does.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TypeAlias, TypeVar

from heaptop.protocol.images import Question
from heaptop.protocol.messages import Message

T = TypeVar("T")

Asking: TypeAlias = Generator[Question, Message, T]
"""Yields a question, is sent its answer, and returns what came out of it all. Where there is no answer,
:class:`NotAnswered` is thrown into it at the yield: it continues without, or lets it pass."""


M = TypeVar("M", bound=Message)


class NotAnswered(Exception):
    """The snapshot did not answer; ``str()`` gives the reason, in a few words without a full stop."""


def answered(kind: type[M], question: Question) -> Asking[M]:
    """Ask a question that has answers of one kind."""
    answer = yield question
    assert isinstance(answer, kind)
    return answer


def drive(asking: Asking[T], ask: Callable[[Question], Message]) -> T:
    """For one who can wait: ``ask`` returns the answer, or raises :class:`NotAnswered`."""
    try:
        question = next(asking)
        while True:
            try:
                answer = ask(question)
            except NotAnswered as error:
                question = asking.throw(error)
            else:
                question = asking.send(answer)
    except StopIteration as end:
        result: T = end.value
        return result
