"""A count in the process itself under a limit: it ends in time and leaves nothing, or says what a clone would."""

from __future__ import annotations

import pytest

from tests.interpreters import Interpreter
from tests.support import building
from tests.support.native import told_in_lines

LATE = "TimeoutError('the count took longer than was expected')"


@pytest.mark.pythons("3.8", "3.11", "3.13", "3.14")
def test_a_count_that_takes_too_long_gives_up_and_the_next_one_is_right(interpreter: Interpreter) -> None:
    foreign = interpreter.place(building.extension("foreign_size.c"))
    said, whole = told_in_lines(interpreter, "core_stops.py", str(foreign))
    assert whole
    objects = said["no limit"]
    assert objects > 20_000
    assert abs(said["in time"] - objects) < 20
    assert said["out of time"] == LATE
    assert abs(said["again"] - objects) < 20
    assert abs(said["as a clone"] - objects) < 20, "here a clone would know no more"
    for container in ("a list", "a tuple", "a dict", "a set"):
        assert said[container] == LATE
    assert said["with a foreign size"] == "RuntimeError('some objects are only known in a clone')"
    assert abs(said["guessed"] - objects) < 200
