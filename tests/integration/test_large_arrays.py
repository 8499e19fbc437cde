"""A process with much memory in few objects: its census stops it for less time than a clone would take."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest

from heaptop.injector.inspect.threads import agent_thread
from heaptop.protocol.images import Image
from heaptop.protocol.messages import Census, Decision, Message
from heaptop.protocol.source import Received
from tests.integration.test_kill9 import die
from tests.interpreters import Interpreter
from tests.support.attaching import Attachment, attach_once, attached, resting
from tests.support.processes import EXIT_CODE, difference, eventually, running

pytestmark = pytest.mark.pythons("3.8", "3.13")

MIB: Final = "1024"
LONG_LIST: Final = str(60_000_000)
"""References to one object, which take far longer than the few objects around them."""
GIB: Final = 1 << 30
ATTEMPTS: Final = 10


def of_arrays(census: Census) -> list[tuple[int, int]]:
    """Number and bytes of rows with more than half of the arrays' memory."""
    return [(row.count, row.bytes) for row in census.rows if row.bytes > GIB // 2]


def answer(attachment: Attachment) -> Message:
    """The next census, or the question in its place."""
    while True:
        message = attachment.event(Received).message
        if isinstance(message, Census | Decision):
            return message


@contextmanager
def counted_stopped(pid: int, **options: Any) -> Iterator[tuple[Attachment, Census]]:
    """An attachment, and its second census; both were counted in the stopped process. On a busy machine, others may run
    in the middle of a count, for longer than it may take. Then the answer is another, and a new attachment is made."""
    for _ in range(ATTEMPTS):
        with attached(pid, **options) as attachment:
            first = answer(attachment)
            if not isinstance(first, Census) or first.mode != "stop":
                continue
            attachment.source.census_now()
            again = answer(attachment)
            if isinstance(again, Census) and again.mode == "stop":
                yield attachment, again
                return
    raise AssertionError(f"not counted twice in the stopped process in {ATTEMPTS} attempts")


def test_few_objects_are_counted_in_the_stopped_process_and_nobody_is_asked(interpreter: Interpreter) -> None:
    """A clone would take longer than the budget."""
    with running(interpreter, "large_arrays", MIB, "0", "0") as target:
        before = resting(target.pid)
        with counted_stopped(target.pid, pause_budget=0.02) as (_, stopped):
            assert stopped.mode_reason.startswith("a clone would pause the program for about ")
            assert stopped.complete
        with counted_stopped(target.pid) as (_, within):
            assert within.mode_reason.startswith("a clone would pause"), "also where a clone would be within the budget"
        with attached(target.pid, mode="stop") as attachment:
            expected = attachment.message(Census)
        assert of_arrays(stopped) == of_arrays(expected) != []
        assert difference(before, resting(target.pid)) == []
        assert target.terminate() == EXIT_CODE
        assert target.stderr() == ""


def test_a_snapshot_above_the_budget_is_asked_about_and_made_when_allowed(interpreter: Interpreter) -> None:
    with running(interpreter, "large_arrays", MIB, "0", "0") as target:
        with counted_stopped(target.pid, pause_budget=0.02) as (attachment, _):
            id = attachment.source.image(60.0)
            question = attachment.message(Decision)
            assert (question.request, question.mode) == (id, "clone")
            assert question.pause_ns > 20_000_000
            attachment.source.decide(True)
            assert attachment.message(Image).id == id
            attachment.source.close_snapshot()
        assert target.terminate() == EXIT_CODE


def test_many_objects_are_counted_in_a_clone(interpreter: Interpreter) -> None:
    with running(interpreter, "large_arrays", "256", "300000", "0") as target:
        with attached(target.pid) as attachment:
            census = attachment.message(Census)
            assert (census.mode, census.mode_reason) == ("clone", "")
        assert target.terminate() == EXIT_CODE


def test_a_forecast_that_was_wrong_ends_in_a_clone_or_a_question(interpreter: Interpreter) -> None:
    """And once only: nothing is tried again that took too long."""
    with running(interpreter, "large_arrays", "256", "0", LONG_LIST) as target:
        before = resting(target.pid)
        with attached(target.pid) as attachment:
            for census in (attachment.message(Census), attachment.census()):
                assert (census.mode, census.mode_reason) == ("clone", "")
                assert of_arrays(census) == []
        assert difference(before, resting(target.pid)) == []
        with attached(target.pid, pause_budget=0.01) as attachment:
            question = attachment.message(Decision)
            assert question.mode == "clone"
            assert 0 < question.budget_ns < question.stop_ns, "what a stop takes is known by now, and is another answer"
            attachment.source.decide(True, stop=True)
        assert difference(before, resting(target.pid)) == []
        assert target.terminate() == EXIT_CODE
        assert target.stderr() == ""


@pytest.mark.sample(2)
def test_a_heaptop_that_is_killed_in_the_middle_of_a_stop_leaves_nothing(interpreter: Interpreter) -> None:
    moments = random.Random(str(interpreter))
    with running(interpreter, "large_arrays", "64", "0", LONG_LIST) as target:
        attach_once(target.pid, census=True, mode="stop")
        before = resting(target.pid)
        for _ in range(4):
            die(target.pid, moments.uniform(0.2, 0.8), mode="stop")
            assert target.alive
            assert eventually(lambda: agent_thread(target.pid) is None)
            assert eventually(lambda: difference(before, resting(target.pid)) == [])
        attach_once(target.pid, census=True, mode="stop")
        assert target.terminate() == EXIT_CODE
        assert target.stderr() == ""
