"""What the native core takes of memory: what it does where there is little, and what it says of its own."""

from __future__ import annotations

import pytest

from tests.interpreters import Interpreter
from tests.support.native import told

MIB = 1 << 20


@pytest.mark.pythons("3.8", "3.11", "3.13")
@pytest.mark.parametrize("mode", ["stop", "clone"])
@pytest.mark.parametrize("free", [80 * MIB, 200 * MIB, 400 * MIB])
def test_where_memory_is_short_it_counts_or_says_so(interpreter: Interpreter, mode: str, free: int) -> None:
    """By MemoryError, which is no fault of the count's: another mode may do."""
    *limited, after = told(interpreter, "core_scarce.py", mode, free)
    assert isinstance(after, int)
    for each in limited:
        assert each == "MemoryError('there was no memory for the count')" or isinstance(each, int), each
        if isinstance(each, int):
            assert abs(each - after) < 10
    if free == 400 * MIB:
        assert [type(each) for each in limited] == [int, int]


@pytest.mark.pythons("3.8", "3.12")
def test_closing_gives_back_the_names_and_ends_a_clone(interpreter: Interpreter) -> None:
    given_back, refusal, gone, difference = told(interpreter, "core_closes.py")
    names, bytes_of_a_name = 20_000, 16
    assert given_back > names * bytes_of_a_name
    assert (refusal, gone) == ("the native core is not open", True)
    assert abs(difference) < 10


@pytest.mark.pythons("3.8", "3.11", "3.13")
def test_a_count_tells_all_the_memory_that_it_took(interpreter: Interpreter) -> None:
    """As the drawing of the marks says: 1/64 of the heap for the objects, as much again for young ones."""
    objects, float_bytes, list_bytes = 1_000_000, 24, 56
    types, name_bytes, counters_bytes = 5_000, 200, 20 * 8
    taken = told(interpreter, "core_counts_itself.py")
    assert taken["floats"] - taken["nothing"] > objects * float_bytes / 64
    assert taken["young lists"] - taken["floats"] > 2 * objects * list_bytes / 64
    assert taken["young lists"] - taken["old lists"] > objects * list_bytes / 64
    assert taken["types"] - taken["old lists"] > types * (name_bytes + counters_bytes)
