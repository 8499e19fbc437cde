"""Blocks that free lists hand on: said to be of who has them now, where the interpreter tells; among other tracers."""

from __future__ import annotations

import ast
from typing import Any

import pytest

from tests.interpreters import Interpreter, since
from tests.support import native
from tests.support.building import TARGETS, library
from tests.support.processes import PATIENCE, starting, with_proc

pytestmark = pytest.mark.sample(2)

TELLING = since("3.13")
LIMIT, LIVES = 10_000, 1_000
"""REBORN_LIMIT of reborn.h, and SAMPLE_LIVES of sample.h."""
MANY = 50


def told(interpreter: Interpreter, what: str) -> Any:
    for companion in ("core_breaks.py", "sampling_agent.py"):
        interpreter.place(TARGETS / companion)
    files = [TARGETS / "reborn_known.py", native.core(), library("reborn_tracer.c")]
    command = interpreter.command([*map(interpreter.place, files), what])
    with starting([*with_proc(interpreter), *command]) as target:
        code = target.process.wait(PATIENCE)
        assert (code, target.stderr()) == (0, "")
        return ast.literal_eval(target.stdout())


def is_followed(found: dict[str, Any]) -> bool:
    """Whether each life has its own stack: else all blocks are of who had them first."""
    assert found["first"] == MANY
    if found["reborn"]:
        assert found["then"] == [0, MANY]
        assert found["dead"] >= MANY
    else:
        first, second = found["then"]
        assert first > MANY // 2 > second
    return bool(found["reborn"])


@pytest.mark.pythons(*TELLING)
def test_a_block_is_of_who_has_it_now(interpreter: Interpreter) -> None:
    found = told(interpreter, "plain")
    assert is_followed(found["with"])
    assert found["during"]
    assert not is_followed(found["without"])  # so there was something to be seen
    assert found["said"] == ["", ""]
    assert found["after"] == (0, 0)


@pytest.mark.pythons(*TELLING)
def test_a_block_in_a_loop_costs_a_bounded_number_of_records(interpreter: Interpreter) -> None:
    """It is lost, counted as such, and takes no other block with it."""
    found = told(interpreter, "busy")
    assert found["dropped"] in (1, 2)
    assert LIVES * found["dropped"] <= found["births"] < LIVES * found["dropped"] + 1000
    assert found["beside"] >= MANY - found["dropped"]  # the hot blocks may be in their hands now
    assert (found["reborn"], found["notes"]) == (True, [])
    assert is_followed(found["handed on"])


@pytest.mark.pythons(*TELLING)
def test_more_rebirths_than_can_be_followed_are_counted_and_said(interpreter: Interpreter) -> None:
    found = told(interpreter, "crowded")
    assert LIMIT <= found["births"] < LIMIT + 2000
    assert found["dropped"] >= MANY
    assert found["notes"] == ["free lists hand on more blocks than can be followed: sites are approximate from now on"]
    assert found["reborn"] == [False, True]  # to the end of the session
    assert found["said"] == ""


@pytest.mark.pythons("3.13")
def test_a_tracer_that_was_there_is_called_too(interpreter: Interpreter) -> None:
    found = told(interpreter, "below")
    assert found["on top"]
    assert is_followed(found["handed on"])
    assert all(events > MANY for events in found["counted"])
    assert found["said"] == ""
    assert found["theirs"]


@pytest.mark.pythons(*since("3.14"))
def test_no_tracer_is_replaced_that_is_told_of_it(interpreter: Interpreter) -> None:
    found = told(interpreter, "below")
    assert not found["on top"]
    assert not is_followed(found["handed on"])
    assert all(events > MANY for events in found["counted"])
    assert found["said"] == ""
    assert found["theirs"]


@pytest.mark.pythons(*TELLING)
def test_below_another_tracer_it_stays_and_passes_on(interpreter: Interpreter) -> None:
    found = told(interpreter, "above")
    assert "another reference tracer" in found["said"][0]
    assert found["stays"]
    assert found["counted"] >= 1000
    assert found["same"]  # no second time in one chain
    assert found["said"][1] == ""
    assert found["after"] == (0, 0)
    assert is_followed(found["again"]) == (interpreter.name == "3.13")


@pytest.mark.pythons(*TELLING)
def test_it_is_put_in_again_where_all_were_taken_out(interpreter: Interpreter) -> None:
    found = told(interpreter, "dropped")
    assert is_followed(found["handed on"])
    assert found["said"] == ""
    assert found["after"] == (0, 0)


@pytest.mark.pythons("3.8", "3.12")
def test_earlier_versions_say_nothing_of_it(interpreter: Interpreter) -> None:
    found = told(interpreter, "early")
    assert not is_followed(found["handed on"])
    assert found["said"] == ""
