"""Roots: modules, frames of threads that stand still in every way, what an interpreter holds; beside what Python says.

Nothing here goes through an agent: the targets load the core themselves.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.interpreters import Interpreter, since
from tests.support import core_builds, native
from tests.support.processes import need_package

pytestmark = pytest.mark.sample(2)

PROGRAM = "roots_planted.py"


def told(interpreter: Interpreter, case: str, *arguments: object, **environment: str) -> Any:
    return native.told(interpreter, PROGRAM, case, *arguments, environment=environment)


def assert_right(found: dict[str, Any], version: tuple[int, ...]) -> None:
    """Every frame of every thread has its locals, once, by name; and what only the value stack holds is there too."""
    assert found["whole"] is True
    assert found["left out"] == 0
    assert len(found["faults"]) == 13
    assert {name: faults for name, faults in found["faults"].items() if faults} == {}
    values = found["values"]
    assert values["in_loop"]["iterated"] >= 1
    assert values["in_nested_loops"]["iterated"] >= 2
    assert values["in_comprehension"]["iterated"] >= 1
    assert "exception handled" in values["after_an_error"]["handled"]
    assert "frame in_locals() local held" in values["in_locals"]["labels"]
    constructor = "frame Called.__init__() local held" if version >= (3, 11) else "frame __init__() local held"
    assert constructor in values["in_constructor"]["labels"]


def test_threads_that_stand_still(interpreter: Interpreter) -> None:
    assert_right(told(interpreter, "standing"), interpreter.version)


@pytest.mark.pythons("3.8", "3.10", "3.11", "3.12", "3.13")
def test_sanitizers_find_nothing(interpreter: Interpreter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(core_builds.SANITIZED_VARIABLE, "1")
    variables = core_builds.sanitizer_variables()
    assert_right(told(interpreter, "standing", **variables), interpreter.version)
    assert True in told(interpreter, "churn", 30, **variables)


def test_a_snapshot_child_tells_the_same(interpreter: Interpreter) -> None:
    found = told(interpreter, "in_clone")
    assert found["same"] is True
    assert found["count"] > 300


def test_threads_that_begin_and_end(interpreter: Interpreter, cycles: int) -> None:
    """The list of threads is read as it stands, at most in the middle of a change."""
    assert True in told(interpreter, "churn", 8 * cycles)


def test_which_threads_are_blocked(interpreter: Interpreter) -> None:
    """One that waits for a lock or sleeps is; one that waits for the GIL wants to run."""
    found = told(interpreter, "states")
    waiting, sleeping, spinning, other, own = found["seen"]
    assert own == {(0, True)}
    if found["proc"]:
        assert waiting == {(1, False)}
        assert (1, False) in sleeping
        assert spinning == other == {(0, False)}
    else:
        assert waiting == sleeping == spinning == other == {(-1, False)}


def test_modules_and_what_the_interpreter_holds(interpreter: Interpreter) -> None:
    found = told(interpreter, "modules")
    assert found["modules"] is True
    assert found["modules' dict"] is True
    assert "module heaptop.no module" in found["labels"]
    assert found["codecs"] == ["dict", "dict", "list"]
    assert found["handlers"] is True
    assert found["atexit"] is (interpreter.version >= (3, 10))  # before, the module has them
    assert found["storage"] is (interpreter.version < (3, 13))  # from then on, locals have it all


def test_another_interpreter_under_the_same_lock(interpreter: Interpreter) -> None:
    found = told(interpreter, "interpreters", "shared")
    assert found["named"] is True
    assert found["labels"] == ["another interpreter's module json"]
    assert found["left out"] == (0, 0, 0)
    assert found["whole"] is True
    assert found["same"] is True


@pytest.mark.pythons(*since("3.12"))
def test_another_interpreter_under_a_lock_of_its_own(interpreter: Interpreter) -> None:
    """It may be in the middle of anything: nothing of it is looked at."""
    found = told(interpreter, "interpreters", "own")
    assert found["names"] == 0
    assert found["left out"] == (0, 1, 0)


def test_locals_of_a_suspended_greenlet_are_held_by_its_frame(interpreter: Interpreter) -> None:
    """What a suspended one's locals hold: up to 3.10 its frames are objects of the heap, and tell of it themselves."""
    need_package(interpreter, "greenlet")
    found = told(interpreter, "in_greenlets", PYTHONPATH=str(interpreter.packages))
    plainly, in_generator, under_c, finished, fresh, looked_at, running = (found["held"][i] for i in range(7))
    assert finished == fresh == running == []
    frame = "frame in_greenlets.<locals>."
    if interpreter.version < (3, 11):
        assert plainly == in_generator == under_c == looked_at == []
        return
    local = [frame + "plainly() local held", frame + "plainly() local local", frame + "stop_here() local own"]
    assert plainly == looked_at == local
    assert {frame + "in_a_generator() local held", frame + "stop_here() local own"} <= {*in_generator}
    assert {frame + "stop_here() local own", frame + "under_c.<locals>.<lambda>() local held"} <= {*under_c}
    assert found["threads"] == {0}
    assert found["same"][0] == found["same"][1] == ["stop_here", "plainly"]


def test_without_what_a_patch_release_has_moved(interpreter: Interpreter) -> None:
    """The check lets it pass, and nothing is told that is something else."""
    found = told(interpreter, "missing")
    kept = {"interpreter_codecs": {"codec registry"}, "interpreter_atexit": {"atexit"}}
    assert len(found) >= 8
    for (fact, difference), (sentence, value, whole, what) in found.items():
        assert (sentence, value, whole) == ("", 0, True), (fact, difference)
        assert not kept.get(fact, set()) & set(what), (fact, difference)
