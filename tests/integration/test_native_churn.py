"""Censuses in clones of a target that never stands still: each is whole and consistent, and none is refused.

Consistent: objects that a thread moves from container to container are there once each, in every census.
"""

from __future__ import annotations

import pytest

from tests.interpreters import SAMPLE, SUPPORTED, Interpreter
from tests.support import building
from tests.support.native import Result, result_of

pytestmark = pytest.mark.timeout(1800)


@pytest.fixture
def censuses(request: pytest.FixtureRequest) -> int:
    """How many: a few, or 500 under --stress."""
    return 500 if request.config.getoption("--stress") else 10


def assert_consistent(result: Result, censuses: int) -> None:
    assert result["faults"] == []
    assert result["censuses"] == censuses
    assert all(result["turns"]), "every thread did something"


@pytest.mark.pythons(*SAMPLE, stress=SUPPORTED)
def test_while_four_threads_change_the_heap(interpreter: Interpreter, censuses: int) -> None:
    assert_consistent(result_of(interpreter, "heap_churn.py", str(censuses)), censuses)


@pytest.mark.pythons(*SAMPLE, stress=SUPPORTED)
def test_while_threads_hold_malloc_s_only_lock(interpreter: Interpreter, censuses: int) -> None:
    library = interpreter.place(building.library("churn.c"))
    environment = {"MALLOC_ARENA_MAX": "1"}
    assert_consistent(
        result_of(interpreter, "heap_churn.py", str(censuses), library, environment=environment), censuses
    )
