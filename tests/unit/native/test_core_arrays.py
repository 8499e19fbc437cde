"""What the native core follows of numpy's arrays, by every version of numpy that there is an interpreter for."""

from __future__ import annotations

import ast
import os
import subprocess
from typing import Final

from tests.interpreters import Interpreter
from tests.support import native
from tests.support.building import TARGETS
from tests.support.processes import need_package

VIEWS: Final = {
    *("view", "long broadcast", "endless broadcast", "windows", "through memory", "masked", "subclass"),
    *("subclass with slots", "view of a record", "field of a record", "subclass of records", "grid of records"),
}
"""They leave their items to the array that owns them."""


def test_objects_are_reached_once_and_in_time(interpreter: Interpreter) -> None:
    need_package(interpreter, "numpy")
    interpreter.place(TARGETS / "core_breaks.py")
    program = interpreter.place(TARGETS / "heap_arrays.py")
    done = subprocess.run(
        interpreter.command([program, interpreter.place(native.core())]),
        env={**os.environ, "PYTHONPATH": str(interpreter.packages)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    told: dict[str, tuple[int, int]] = ast.literal_eval(done.stdout)
    assert {name: unreached for name, (unreached, _) in told.items() if unreached} == {}
    # an attribute, a mask, a slot, a class, a base and a dtype
    assert {name: edges for name, (_, edges) in told.items() if name in VIEWS and edges > 6} == {}
    assert {name: edges for name, (_, edges) in told.items() if edges > 200} == {}
    assert told.keys() > VIEWS
