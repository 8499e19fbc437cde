"""The agent's thread has a stack that holds Python, however small the program's threads are."""

from __future__ import annotations

import pytest

from tests.interpreters import SAMPLE, SUPPORTED, Interpreter, since
from tests.support.attaching import attach_once, resting
from tests.support.processes import EXIT_CODE, difference, running


@pytest.mark.pythons(*SAMPLE, stress=SUPPORTED)
@pytest.mark.parametrize("kib", ["16", "28"])
def test_a_program_of_small_stacks_survives(interpreter: Interpreter, kib: str) -> None:
    with running(interpreter, "hostile/small_stacks", kib) as target:
        before = resting(target.pid)
        for _ in range(2):
            attach_once(target.pid, census=True)
        assert difference(before, resting(target.pid)) == []
        assert target.terminate() == EXIT_CODE
        assert target.stderr() == ""


@pytest.mark.pythons(*since("3.14"))
def test_a_program_that_asks_for_small_stacks_survives_the_second_door(interpreter: Interpreter) -> None:
    with running(interpreter, "hostile/small_stacks", "16", "python") as target:
        attach_once(target.pid, census=True, backend="pep768")
        assert target.terminate() == EXIT_CODE
        assert target.stderr() == ""
