"""Each reference of a heap is seen once for each time it is counted."""

from __future__ import annotations

from tests.interpreters import Interpreter
from tests.support.native import told

CONTAINERS, OBJECTS, LEAVES = 90, 2_000, 800


def test_no_reference_is_seen_twice_or_missed(interpreter: Interpreter) -> None:
    """Against the collector and ``ob_refcnt``, in one of every container; the target says what each may leave out."""
    environment = {} if interpreter.packages is None else {"PYTHONPATH": str(interpreter.packages)}
    found = told(interpreter, "heap_edges.py", environment=environment)
    assert found["faults"] == []
    assert found["containers"] >= CONTAINERS
    assert found["objects"] >= OBJECTS
    assert found["leaves"] >= LEAVES
