"""What living samples are, by a census, and what dead ones were: on every interpreter, stopped and in a clone."""

from __future__ import annotations

import ast
from typing import Any

import pytest

from tests.interpreters import Interpreter
from tests.support import native
from tests.support.building import TARGETS
from tests.support.processes import PATIENCE, starting, with_proc

pytestmark = pytest.mark.sample(2)

MANY = 300


@pytest.mark.parametrize("mode", ["stop", "clone"])
def test_samples_are_of_the_type_that_was_made(interpreter: Interpreter, mode: str) -> None:
    for companion in ("core_breaks.py", "sampling_agent.py"):
        interpreter.place(TARGETS / companion)
    files = [TARGETS / "typed_known.py", native.core()]
    command = interpreter.command([*map(interpreter.place, files), mode])
    with starting([*with_proc(interpreter), *command]) as target:
        code = target.process.wait(PATIENCE)
        assert (code, target.stderr()) == (0, "")
        found: dict[str, Any] = ast.literal_eval(target.stdout())
    for function, name in found["wanted"].items():
        # None of these has a free list: each object is a block of its own.
        assert found["living"][function].get(name) == MANY, (function, found["living"][function])
        assert found["dead"][function].get(name) == MANY, (function, found["dead"][function])
        others = set(found["living"][function]) - {name, "", "dict" if function == "make_plain" else ""}
        assert not others or name == "type", (function, others)  # a type is made of many things
    assert found["twice"] == 0
    assert found["said"] == ""
    assert found["off"] == b""


@pytest.mark.parametrize("mode", ["stop", "clone"])
def test_types_that_are_gone(interpreter: Interpreter, mode: str) -> None:
    """A type at the address of one that was freed is not that one; one that has no objects now is known still; and a
    word counts only where objects of its type have it."""
    for companion in ("core_breaks.py", "sampling_agent.py", "typed_known.py"):
        interpreter.place(TARGETS / companion)
    files = [TARGETS / "typed_gone.py", native.core()]
    command = interpreter.command([*map(interpreter.place, files), mode])
    with starting([*with_proc(interpreter), *command]) as target:
        code = target.process.wait(PATIENCE)
        assert (code, target.stderr()) == (0, "")
        found: dict[Any, Any] = ast.literal_eval(target.stdout())
    assert ({"First", "Passing"} <= {*found["first"]}, found["same address"]) == (True, True)
    assert (found["Second"], "Passing" in found["Passing"], found["stop"]) == ([""], True, "")
    assert (found[8, "int"], found[24, "dict"]) == (["int"], ["dict"])
    assert [found[place] for place in ((24, "int"), (40, "int"), (8, "dict"), (40, "dict"))] == [[""]] * 4
