"""Conversations with a snapshot under way, of a screen that waits for none of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from heaptop.analysis.snapshot.asking import Asking, NotAnswered
from heaptop.protocol.images import Question
from heaptop.protocol.messages import Failure, Message

T = TypeVar("T")
Then = Callable[[Message], None]  # Takes an answer, or the Failure in its place
Failed = Callable[[str], None]  # Takes the reason, in a few words without a full stop


@dataclass(eq=False)
class _Run(Generic[T]):
    asking: Asking[T]
    then: Callable[[T], None]
    failed: Failed
    given_up: bool = False


class AskingRuns:
    """Puts each question of a conversation when the one before is answered."""

    def __init__(self, put: Callable[[Question, Then], None]) -> None:
        """``put`` asks the snapshot; where none is open, its answer is a Failure at once."""
        self._put = put
        self._runs: list[_Run[Any]] = []

    def start(self, asking: Asking[T], then: Callable[[T], None], failed: Failed) -> None:
        """Begin a conversation. ``then`` takes its result, or ``failed`` the reason why there is none: the snapshot
        left a question open that needs an answer, or :meth:`give_up` was called."""
        run = _Run(asking, then, failed)
        self._runs.append(run)
        self._step(run, lambda: next(asking))

    def give_up(self) -> None:
        """End each conversation at its next answer."""
        for run in self._runs:
            run.given_up = True

    def _step(self, run: _Run[Any], proceed: Callable[[], Question]) -> None:
        try:
            question = proceed()
        except StopIteration as end:
            self._runs.remove(run)
            run.then(end.value)
        except NotAnswered as error:
            self._runs.remove(run)
            run.failed(str(error))
        else:
            self._put(question, lambda answer: self._next(run, answer))

    def _next(self, run: _Run[Any], answer: Message) -> None:
        if run.given_up:  # the answer may be a partial one
            self._runs.remove(run)
            run.asking.close()
            run.failed("it was cancelled")
        elif not isinstance(answer, Failure):
            self._step(run, lambda: run.asking.send(answer))
        else:
            self._step(run, lambda: run.asking.throw(NotAnswered(answer.text)))
