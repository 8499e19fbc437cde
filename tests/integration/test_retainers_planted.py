"""Structures planted one of each kind in a living program, and what an open snapshot of it says keeps each of them."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path as File
from typing import Final

import pytest

from heaptop.protocol.images import KINDS, LOSE, OBJECT, Image, Losses, Object, PathGroup, Place, Question, Selection
from tests.interpreters import Interpreter
from tests.support.images import Explorer, exploring
from tests.support.processes import running, with_proc

pytestmark = pytest.mark.sample(2)

Path = tuple[int, str, str]
"""How many objects, by which kind of root, and the labels of the steps to them."""
PROGRAM: Final = File(__file__).parents[1] / "targets" / "retained_planted.py"
MAIN: Final = "module __main__ "
CYCLES: Final = 7
LOOP: Final = "module asyncio.events ._event_loop_policy ._local ._loop of a thread ._scheduled [*] ._args [0] "
LOCAL: Final = "._coro coroutine pending() local kept"


def named(labels: str, count: int = 1) -> list[Path]:
    return [(count, "module", labels)]


ALIKE: Final[Mapping[str, list[Path]]] = {
    "HeldByGlobal": named(MAIN + ".by_global"),
    "HeldByClass": named(MAIN + ".Classy .kept"),
    "HeldByDict": named(MAIN + ".with_dict .kept"),
    "HeldByValues": named(MAIN + ".with_values .kept"),
    "HeldBySlots": named(MAIN + ".with_slots .kept"),
    "HeldByStr": named(MAIN + ".by_str [*]"),
    "User": named("module app.cache ._sessions [*] .user", 5),
    "HeldByClosure": named(MAIN + ".handler closure of __main__.make_handler: record"),
    "HeldByDefault": named(MAIN + ".with_defaults default argument user of __main__.with_defaults"),
    "HeldByOption": named(MAIN + ".with_defaults default argument option of __main__.with_defaults"),
    "HeldByCache": named(MAIN + ".bounded lru_cache of __main__.bounded"),
    "HeldByMethodsCache": named(MAIN + ".Invoice .total lru_cache of __main__.Invoice.total"),
    "HeldByBound": named(MAIN + ".bound_method .__self__"),
    "HeldByPartial": named(MAIN + ".partial .args [0]"),
    "HeldByPartialsKeyword": named(MAIN + ".partial .keywords [*]"),
    "HeldByGenerator": named(MAIN + ".generator generator generate() local kept"),
    "HeldByCoroutine": named(MAIN + ".coroutine coroutine wait_here() local kept"),
    "HeldByNamedTask": named(MAIN + ".run_task .task " + LOCAL),
    "HeldByTask": named(LOOP + "._callbacks .__self__ " + LOCAL),
    "HeldByFrame": [(3, "frame", "frame worker() local rows [*]")],
    "HeldByTracked": [(1, "frame", "frame resting() local here")],
    "HeldByMain": [(1, "frame", "frame stand() local kept")],
    "HeldByThread": named(MAIN + ".local .request of a thread"),
    "HeldByVariable": [(1, "runtime", "thread's context context variable variable")],
    "HeldByTraceback": named(MAIN + ".kept_error .__traceback__ frame fail() local kept"),
    "HeldElsewhere": named(MAIN + ".deep [*] [*]+ [*]"),
    "HeldElsewhereToo": named(MAIN + ".deep [*] [*]+ [*]"),
    "HeldByAtexit": [(1, "runtime", "held by C (atexit) [0]")],
    "HeldByC": [(1, "c", "held by C")],
    "BelowC": [(1, "c", "held by C [*]")],
    "HeldByNothing": [(CYCLES, "none", "held by nothing")],
    "BelowNothing": [(CYCLES, "none", "held by nothing .kept")],
    "Payload": [*named(MAIN + ".caches .first [*]"), *named(MAIN + ".caches .second [*]")],
}
UP_TO_3_9: Final = {"HeldByAtexit": named("module atexit held by C [0]")}  # they are in the module's state
FROM_3_14: Final[Mapping[str, list[Path]]] = {
    "HeldByAtexit": [(1, "runtime", "held by C (atexit) [*] [1] [0]")],
    "HeldByVariable": named("module threading ._active [*] ._context context variable variable"),
    "HeldByTask": named(LOOP + "._asyncio_awaited_by " + LOCAL),
}
WITH_NUMPY: Final = {"HeldByView": named(MAIN + ".view .base")}


@dataclass(frozen=True)
class Found:
    """What one attachment to the program has told."""

    image: Image
    names: frozenset[str]
    """Of all types."""
    by_c: frozenset[str]
    """Of those of which C holds some."""
    paths: Mapping[str, list[Path]]
    places: Mapping[str, Sequence[Place]]
    """Of the frames on these paths."""
    shared: Object
    planted: Mapping[str, tuple[int, int, int]]
    """(address, objects, bytes): what would go with it, as the program itself says."""
    losses: Mapping[tuple[str, ...], Losses]


def read(group: PathGroup) -> Path:
    labels = " ".join(step.label + "+" * step.repeated for step in group.steps)
    return group.count, KINDS[group.kind], labels


def places_in(groups: Iterable[PathGroup]) -> list[Place]:
    return [step.place for group in groups for step in group.steps if step.place is not None]


def losses_of(explorer: Explorer, *addresses: int) -> Losses:
    answer = explorer.ask(Question(LOSE, Selection(addresses=addresses)))
    assert isinstance(answer, Losses), answer
    return answer


@functools.cache
def found_in(interpreter: Interpreter) -> Found:
    environment = {} if interpreter.packages is None else {"PYTHONPATH": str(interpreter.packages)}
    wrapper = with_proc(interpreter)
    with running(interpreter, "retained_planted", environment=environment, wrapper=wrapper) as target:
        planted: dict[str, tuple[int, int, int]] = ast.literal_eval(target.detail)
        with exploring(target.pid) as explorer:
            image = explorer.open()
            names = frozenset(each.full for each in explorer.types)
            by_c = frozenset(explorer.groups(KINDS.index("c")))
            wanted = expected(interpreter).keys() | {"Shared"}
            groups = {name: explorer.paths(f"__main__.{name}") for name in sorted(wanted)}
            paths = {name: sorted(map(read, each)) for name, each in groups.items()}
            places = {name: places_in(each) for name, each in groups.items()}
            shared = explorer.ask(Question(OBJECT, Selection(addresses=(planted["shared"][0],))))
            assert isinstance(shared, Object), shared
            together: list[tuple[str, ...]] = [(name,) for name in planted] + [("first", "second")]
            losses = {each: losses_of(explorer, *(planted[name][0] for name in each)) for each in together}
            explorer.close()
        assert target.alive, target.stderr()
        assert target.stderr() == ""
    return Found(image, names, by_c, paths, places, shared, planted, losses)


def expected(interpreter: Interpreter) -> dict[str, list[Path]]:
    paths = dict(ALIKE)
    if interpreter.version < (3, 10):
        paths.update(UP_TO_3_9)
    if interpreter.version >= (3, 14):
        paths.update(FROM_3_14)
    if interpreter.has("numpy"):
        paths.update(WITH_NUMPY)
    return paths


def test_each_is_kept_as_python_would_write_it(interpreter: Interpreter) -> None:
    """Weak references keep nothing: what has one is found along a longer path."""
    found = dict(found_in(interpreter).paths)
    del found["Shared"]
    assert found == expected(interpreter)


def line_of(text: str) -> int:
    """Of the one line of the program that has it."""
    (found,) = [number for number, line in enumerate(PROGRAM.read_text().splitlines(), 1) if text in line]
    return found


@pytest.mark.parametrize(
    ("name", "line", "thread"),
    [
        ("HeldByFrame", "threading.Event().wait()", "planted worker"),
        ("HeldByGenerator", "    yield kept", ""),
        ("HeldByTraceback", "raise ValueError(kept.__class__)", ""),
        ("HeldByTracked", "    for _ in rest():", "planted resting"),
        ("HeldByMain", "        time.sleep(1000)", "MainThread"),
    ],
)
def test_a_frame_that_holds_says_where_it_is(interpreter: Interpreter, name: str, line: str, thread: str) -> None:
    """The line that it is at, and the name of its thread; of what a traceback has, where it was raised."""
    (place,) = found_in(interpreter).places[name]
    assert File(place.file).name == PROGRAM.name
    assert (place.line, place.thread) == (line_of(line), thread)


def test_what_is_in_no_frame_has_no_place(interpreter: Interpreter) -> None:
    places = found_in(interpreter).places
    assert [name for name in ("HeldByGlobal", "HeldByClosure", "HeldByC", "HeldByNothing") if places[name]] == []


def test_what_has_weak_references_alone_is_gone(interpreter: Interpreter) -> None:
    names = found_in(interpreter).names
    assert "__main__.HeldElsewhere" in names
    assert "__main__.Gone" not in names


def test_garbage_is_what_was_planted(interpreter: Interpreter) -> None:
    """And neither what the interpreter keeps for itself nor what the agent holds."""
    image = found_in(interpreter).image
    assert image.cycles == CYCLES
    assert image.gc_enabled is False
    assert image.gaps == ()
    assert image.kinds[KINDS.index("none")].objects == 2 * CYCLES


def test_what_the_interpreter_keeps_for_itself_is_not_held_by_c(interpreter: Interpreter) -> None:
    """One of each node of a syntax tree that has no fields, say."""
    found = found_in(interpreter)
    assert "__main__.HeldByC" in found.by_c
    assert [name for name in found.by_c if name.startswith(("_ast.", "ast.", "typing."))] == []


def test_what_two_caches_share(interpreter: Interpreter) -> None:
    """It goes with both and with neither alone, and what is above both is what it cannot do without."""
    found = found_in(interpreter)
    first, second, shared = (found.planted[name] for name in ("first", "second", "shared"))
    assert found.paths["Shared"] in (named(MAIN + ".caches .first [*]"), named(MAIN + ".caches .second [*]"))
    assert found.shared.dominator == found.planted["caches"][0]
    assert found.shared.referrer_count == 2
    both = found.losses["first", "second"]
    assert (both.objects, both.bytes) == tuple(sum(each[i] for each in (first, second, shared)) for i in (1, 2))
    assert sorted(both.alone) == sorted([first, second])


@pytest.mark.parametrize("name", ["shared", "first", "second", "caches", "names"])
def test_what_goes_with_one(interpreter: Interpreter, name: str) -> None:
    """Keys of a dict that are all str are among it, of which the collector is not told."""
    found = found_in(interpreter)
    answer = found.losses[name,]
    assert (answer.objects, answer.bytes) == found.planted[name][1:]
    assert answer.alone == (found.planted[name],)
