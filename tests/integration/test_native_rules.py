"""A walk without code: what no function of the interpreter is called for."""

from __future__ import annotations

import os
import subprocess
from typing import Any

from tests.interpreters import Interpreter
from tests.support.building import TARGETS
from tests.support.native import core, told

OBJECTS, TYPES = 10_000, 400
FOUND, OPAQUE = 0.97, 0.02
"""Of all objects, at least; of all bytes, at most: numpy, ctypes, Cython and greenlet are among one of everything."""


def _environment(interpreter: Interpreter) -> dict[str, str]:
    return {} if interpreter.packages is None else {"PYTHONPATH": str(interpreter.packages)}


def test_references_and_bytes_by_rule_are_those_that_the_interpreter_tells(interpreter: Interpreter) -> None:
    """Of one of everything, as multisets; what is opaque may have more."""
    found: dict[str, Any] = told(interpreter, "heap_rules.py", environment=_environment(interpreter))
    assert found["faults"] == []
    assert found["objects"] >= OBJECTS
    assert found["types"] >= TYPES
    assert not [name for name in found["opaque"] if "lazy_import" in name]
    own = [name for name in found["guessed"] if "numpy" not in name and "StgDict" not in name]
    assert all("ickle" in name or "Queue" in name or "greenlet" in name for name in own), own


def test_no_function_of_the_interpreter_is_called(interpreter: Interpreter) -> None:
    """The whole graph is made where each of them would crash."""
    found = told(interpreter, "heap_rules.py", "poisoned", environment=_environment(interpreter))
    (objects, without), (_, edges), (opaque, all_bytes) = found["objects"], found["edges"], found["opaque"]
    assert FOUND * objects <= without <= objects
    assert edges > 2 * without
    assert 0 < opaque < OPAQUE * all_bytes
    called = [interpreter.place(TARGETS / "heap_rules.py"), interpreter.place(core()), "poisoned", "called"]
    environment = {**os.environ, **_environment(interpreter)}
    done = subprocess.run(interpreter.command(called), env=environment, capture_output=True, check=False, timeout=120)
    assert done.returncode < 0
