"""A walk without code: what no function of the interpreter is called for."""

from __future__ import annotations

from tests.interpreters import Interpreter
from tests.support.native import told

OBJECTS, TYPES = 10_000, 400


def test_references_by_rule_are_those_that_traverse_visits(interpreter: Interpreter) -> None:
    """Of one of everything, as multisets; what is opaque may have more."""
    environment = {} if interpreter.packages is None else {"PYTHONPATH": str(interpreter.packages)}
    found = told(interpreter, "heap_rules.py", environment=environment)
    assert found["faults"] == []
    assert found["objects"] >= OBJECTS
    assert found["types"] >= TYPES
