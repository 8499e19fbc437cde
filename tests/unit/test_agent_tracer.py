"""The agent's tables of what tracemalloc says, and when it does not switch it on; in this interpreter, without it."""

from __future__ import annotations

import sys
import tracemalloc
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.agents import agent_space
from tests.support.fake_core import idle_session

Places = tuple[tuple[str, int], ...]

frames = st.tuples(st.sampled_from(("a.py", "b.py", "c.py")), st.integers(1, 6))
stacks = st.lists(st.lists(frames, min_size=1, max_size=4).map(tuple), max_size=40)


SPACE, LIMITED = agent_space(), agent_space()


def session() -> Any:
    return SimpleNamespace(traced_files={}, traced_codes={}, traced_nodes={})


def census(owner: Any, places: dict[str, Places]) -> Any:
    """One in which an object is the name of its stack; of types 7 and 9 on the wire."""
    return SimpleNamespace(
        session=owner,
        trace=places.get,
        stack_of={},
        wire=[7, 9],
        traced_counts={},
        traced_bytes={},
        left_out=0,
        left_out_bytes=0,
    )


def path(owner: Any, stack: int) -> Places:
    """A stack again as tracemalloc says it, from the agent's tables alone."""
    files, codes, nodes = (list(table) for table in (owner.traced_files, owner.traced_codes, owner.traced_nodes))
    found = []
    while stack:
        parent, code = nodes[stack - 1] >> 32, nodes[stack - 1] & 0xFFFFFFFF
        assert parent < stack, "a caller was said before"
        found.append((files[codes[code] >> 32], codes[code] & 0xFFFFFFFF))
        stack = parent
    return tuple(found)


@given(stacks, st.integers(1, 160))
def test_a_stack_is_what_its_number_says_or_has_none(seen: list[Places], limit: int) -> None:
    owner, found = session(), dict[Places, int]()
    LIMITED["MAX_TRACED"] = limit
    for places in seen:
        number = LIMITED["stack_number"](owner, places)
        assert found.setdefault(places, number) == number, "the same again"
        if number >= 0:
            assert path(owner, number) == places
    for table in (owner.traced_files, owner.traced_codes, owner.traced_nodes):
        assert len(table) <= limit
        assert list(table.values()) == list(range(len(table)))
    if limit >= 4 * len(seen):
        assert all(number > 0 for number in found.values())


def test_objects_are_summed_by_stack_type_and_size_and_taken_away_again() -> None:
    places: dict[str, Places] = {"x": (("a.py", 1), ("b.py", 2)), "y": (("a.py", 3),)}
    c = census(session(), places)
    for name, k, size, sign in (
        ("x", 0, 32, 1), ("x", 0, 33, 1), ("x", 0, 256, 1), ("x", 1, 257, 1), ("y", 1, 2049, 1), ("y", 1, 2049, 1),
        ("before the attach", 0, 100, 1), ("y", 1, 2049, -1),
    ):  # fmt: skip
        SPACE["trace"](c, name, k, size, sign)
    rows = {
        (path(c.session, key >> 34), key >> 2 & 0xFFFFFFFF, key & 3): (count, c.traced_bytes[key])
        for key, count in c.traced_counts.items()
    }
    assert rows == {
        (places["x"], 7, 0): (1, 32),
        (places["x"], 7, 1): (2, 33 + 256),
        (places["x"], 9, 2): (1, 257),
        (places["y"], 9, 3): (1, 2049),
    }
    assert (c.left_out, c.left_out_bytes) == (0, 0)


def test_what_there_is_no_room_for_is_counted() -> None:
    within = agent_space()
    within["MAX_TRACED"] = 2
    places: dict[str, Places] = {str(line): (("a.py", line),) for line in range(1, 5)}
    c = census(session(), places)
    for name in places:
        within["trace"](c, name, 0, 100, 1)
    assert len(c.traced_counts) == 2
    assert (c.left_out, c.left_out_bytes) == (2, 200)


def test_stacks_are_remembered_within_a_limit() -> None:
    within = agent_space()
    within["MAX_TRACED"] = 2
    places: dict[str, Places] = {str(line): (("a.py", line),) for line in range(1, 9)}
    c = census(session(), places)
    for name in [*places, *places]:
        within["trace"](c, name, 0, 100, 1)
    assert len(c.stack_of) == 2
    assert (sum(c.traced_counts.values()), c.left_out) == (4, 12)


def test_a_file_whose_name_cannot_be_hashed() -> None:
    """A program may compile under a name of a type of its own."""

    class Name(str):
        __hash__ = None  # type: ignore[assignment]

    c = census(session(), {"x": ((Name("a.py"), 1),)})
    SPACE["trace"](c, "x", 0, 100, 1)
    assert (c.traced_counts, c.left_out, c.left_out_bytes) == ({}, 1, 100)


MENDED = [(3, 12, 9), (3, 12, 13), (3, 13, 2), (3, 13, 9), (3, 14, 4), (3, 15, 0), (3, 16, 0)]
CRASHING = [(3, 8, 20), (3, 11, 99), (3, 12, 8), (3, 13, 0), (3, 13, 1), (3, 14, 0), (3, 14, 3)]


@pytest.fixture
def mended(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Python whose tracemalloc.stop() is safe."""
    monkeypatch.setattr(sys, "version_info", (3, 12, 9, "final", 0))


@pytest.mark.parametrize("version", MENDED)
def test_where_it_can_be_stopped_beside_threads(version: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (*version, "final", 0))
    assert SPACE["tracing_refusal"](None) == ""


@pytest.mark.parametrize("version", CRASHING)
def test_not_where_to_stop_it_could_crash(version: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (*version, "final", 0))
    text = SPACE["tracing_refusal"](None)
    assert text.startswith("Python {}.{}.{} can crash when tracemalloc is switched off".format(*version))
    assert "from 3.12.9, 3.13.2 and 3.14.4 on" in text


def test_the_programs_own_is_read_on_every_version(monkeypatch: pytest.MonkeyPatch) -> None:
    owner = SimpleNamespace(tracing=False, started_tracing=False, tracer=None, epoch=0)
    monkeypatch.setattr(sys, "version_info", (3, 8, 0, "final", 0))
    tracemalloc.start(2)
    try:
        assert SPACE["tracing_refusal"](None) == ""
        assert SPACE["start_tracing"](owner, 4) == ""
        assert (owner.tracing, owner.started_tracing, tracemalloc.get_traceback_limit()) == (True, False, 2)
        assert SPACE["stop_tracing"](owner) == ""
        assert tracemalloc.is_tracing()
    finally:
        tracemalloc.stop()


def test_it_is_not_begun_where_the_program_ends_its_own_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    owner = SimpleNamespace(tracing=False, started_tracing=False, tracer=None, epoch=0)
    within = agent_space()
    monkeypatch.setattr(sys, "version_info", (3, 8, 0, "final", 0))
    tracemalloc.start()
    try:
        asked = within["tracing_refusal"]

        def no_tracing(s: Any) -> str:
            text = asked(s)
            tracemalloc.stop()
            return str(text)

        within["tracing_refusal"] = no_tracing
        assert within["start_tracing"](owner, 4).startswith("Python 3.8.0 can crash")
        assert (owner.tracing, owner.tracer, tracemalloc.is_tracing()) == (False, None, False)
    finally:
        tracemalloc.stop()


@pytest.mark.usefixtures("mended")
@pytest.mark.parametrize(("module", "name"), [("memray._memray", "memray"), ("scalene.pywhere", "scalene")])
def test_not_beside_a_tool_that_hooks_in_too(module: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert SPACE["tracing_refusal"](None) == ""
    monkeypatch.setitem(sys.modules, module, ModuleType(module))
    assert SPACE["tracing_refusal"](None).startswith(f"{name} is loaded")


@pytest.mark.usefixtures("mended")
def test_not_where_there_may_be_several_interpreters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "_interpreters", ModuleType("_interpreters"))
    assert "several interpreters" in SPACE["tracing_refusal"](None)


def test_not_where_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "builtin_module_names", ("sys",))
    assert SPACE["tracing_refusal"](None) == "this Python has no tracemalloc"


@pytest.mark.usefixtures("mended")
@pytest.mark.parametrize("meanwhile", ["nothing", "off", "off and on", "the program stops it"])
def test_of_a_census_in_which_tracing_changed_nothing_is_told(meanwhile: str) -> None:
    """Its objects were looked up in two tables, or some in none."""
    within, told = agent_space(), list[str]()
    within["send"] = lambda s, kind, fields: told.append(kind)
    s = idle_session(within)
    s.sampler_request = {"interval": 64, "depth": 1, "tracer": True}
    within["sampler"](s, 1)
    try:
        assert s.tracing
        c = within["new_census"](s, 1, "")
        if meanwhile.startswith("off"):
            s.sampler_request = {"interval": 0}
            within["sampler"](s, 2)
        if meanwhile == "off and on":
            s.sampler_request = {"interval": 64, "depth": 1, "tracer": True}
            within["sampler"](s, 3)
        if meanwhile == "the program stops it":
            tracemalloc.stop()
        within["send_census"](c)
        assert ("traced" in told) == (meanwhile == "nothing")
        assert told[-1] == "census"
        assert s.tracing == tracemalloc.is_tracing()
    finally:
        tracemalloc.stop()
