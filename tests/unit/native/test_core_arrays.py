"""What the native core follows of numpy's arrays, by every version of numpy that there is an interpreter for."""

from __future__ import annotations

from typing import Final

from tests.interpreters import Interpreter
from tests.support.native import told
from tests.support.processes import need_package

VIEWS: Final = {
    *("view", "long broadcast", "endless broadcast", "windows", "through memory", "masked", "subclass"),
    *("subclass with slots", "view of a record", "field of a record", "subclass of records", "grid of records"),
}
"""They leave their items to the array that owns them."""


def test_objects_are_reached_once_and_in_time(interpreter: Interpreter) -> None:
    need_package(interpreter, "numpy")
    found: dict[str, tuple[int, int]] = told(
        interpreter, "heap_arrays.py", environment={"PYTHONPATH": str(interpreter.packages)}
    )
    assert {name: unreached for name, (unreached, _) in found.items() if unreached} == {}
    # an attribute, a mask, a slot, a class, a base and a dtype
    assert {name: edges for name, (_, edges) in found.items() if name in VIEWS and edges > 6} == {}
    assert {name: edges for name, (_, edges) in found.items() if edges > 200} == {}
    assert found.keys() > VIEWS
