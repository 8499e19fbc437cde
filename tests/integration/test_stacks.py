"""The agent's thread has a stack that holds Python, however small the program's threads are."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from heaptop.injector.inspect.process import SMALL_STACK_SIZE, STACK_SIZE, agent_stack_size
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


@pytest.mark.pythons("3.8", "3.12")
def test_where_address_space_is_scarce_the_stack_is_small(interpreter: Interpreter) -> None:
    with running(interpreter, "sleeper") as target:
        assert agent_stack_size(target.pid) == STACK_SIZE
        pages = int(Path(f"/proc/{target.pid}/statm").read_text().split()[0])
        limit = pages * resource.getpagesize() + (48 << 20)
        resource.prlimit(target.pid, resource.RLIMIT_AS, (limit, limit))
        assert agent_stack_size(target.pid) == SMALL_STACK_SIZE
        attach_once(target.pid)
        assert target.terminate() == EXIT_CODE
        assert target.stderr() == ""
