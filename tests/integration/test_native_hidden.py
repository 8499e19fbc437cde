"""Bytes that ``sys.getsizeof`` omits, against what tracemalloc saw the interpreter take."""

from __future__ import annotations

from tests.interpreters import Interpreter
from tests.support.native import rows_of_hidden


def head_of_values(dict_bytes: int) -> int:
    """Bytes before the values of a dict that an instance of 3.11 or 3.12 was asked for: the core knows not of them."""
    values = (dict_bytes - 64) // 8
    return (2 + values + 7) & ~7


def test_hidden_bytes_are_the_rest(interpreter: Interpreter) -> None:
    for attributes, asked, took, size, hidden, dict_bytes in rows_of_hidden(interpreter):
        case = f"{attributes} attributes, dict {'' if asked else 'not '}asked for"
        known = size + hidden + dict_bytes
        # with more than 30 attributes a dict of its own holds them, and no array of values is left
        if asked and (3, 11) <= interpreter.version < (3, 13) and attributes <= 30:
            known += head_of_values(dict_bytes)
        assert known == took, case
        if interpreter.version < (3, 11):
            assert hidden == 0, case
        elif not asked and attributes <= 30:
            assert hidden > 8 * attributes, case
