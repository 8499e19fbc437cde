"""The line of each instruction, read from the table of its code as Python reads it, on every Python found."""

from __future__ import annotations

from tests.interpreters import Interpreter
from tests.support import native


def test_lines_are_those_that_python_computes(interpreter: Interpreter) -> None:
    codes, different = native.told(interpreter, "core_lines.py")
    assert codes > 1000
    assert not different
