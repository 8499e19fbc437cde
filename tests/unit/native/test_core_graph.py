"""The graph where there is little memory for it, or much to be told."""

from __future__ import annotations

import pytest

from tests.interpreters import Interpreter
from tests.support.native import told

MIB = 1 << 20
MANY = 1 << 40


@pytest.mark.sample(2)
@pytest.mark.pythons("3.8", "3.11", "3.13")
def test_where_memory_is_short_it_is_whole_or_says_so(interpreter: Interpreter) -> None:
    """By MemoryError, wherever it runs out; and nothing is left behind that the next one would stumble on."""
    *limited, free = told(interpreter, "graph_extremes.py", "scarce", *range(4 * MIB, 200 * MIB, 4 * MIB), MANY)
    assert int(free) > 300_000
    refused = [each for each in limited if each.startswith("MemoryError(")]
    assert len(refused) >= 10
    for each in set(limited) - set(refused):
        assert abs(int(each) - int(free)) < 100  # one for each answer
    assert limited[-1] not in refused


@pytest.mark.pythons("3.12")
def test_more_types_than_numbers_for_them(interpreter: Interpreter) -> None:
    assert told(interpreter, "graph_extremes.py", "types") == 0


@pytest.mark.pythons("3.13")
def test_an_object_of_more_than_four_gigabytes(interpreter: Interpreter) -> None:
    found = told(interpreter, "graph_extremes.py", "large")
    if found is None:
        pytest.skip("there is no address space for it")
    more, more_with_its_holder = found
    assert 0 < more < more_with_its_holder < 200
