"""The census of Python mode against a reference that the target computes itself, on every interpreter."""

from __future__ import annotations

import re

import pytest

from heaptop.protocol.messages import PERMANENT, UNTRACKED, Census, CensusRequest, DetachRequest
from tests.interpreters import SAMPLE, SUPPORTED, Interpreter
from tests.support import native
from tests.support.agents import Session, session
from tests.support.processes import with_proc

Rows = dict[tuple[str, str, int], tuple[int, int]]

BUILTINS = "builtins"


def rows_of(census: Census, found: Session) -> Rows:
    rows: Rows = {}
    for row in census.rows:
        name = found.types[row.type]
        key = (name.module, name.qualname, row.generation)
        assert key not in rows, "one row for a type and generation"
        rows[key] = (row.count, row.bytes)
    return rows


def different(reference: Rows, rows: Rows) -> dict[tuple[str, str, int], tuple[int, int]]:
    """Where two counts differ, and by how much."""
    keys = reference.keys() | rows.keys()
    pairs = {key: (rows.get(key, (0, 0)), reference.get(key, (0, 0))) for key in keys}
    return {key: (got[0] - want[0], got[1] - want[1]) for key, (got, want) in pairs.items() if got != want}


@pytest.mark.parametrize("frozen", [False, True], ids=["usual", "gc.freeze"])
def test_agrees_with_the_target_s_own_count(interpreter: Interpreter, frozen: bool) -> None:
    with session(interpreter, "heap_mixed.py", ["freeze"] if frozen else []) as target:
        before = target.ask(b"s")
        reference: Rows = target.ask(b"r")
        target.start_agent()
        target.send(CensusRequest(1, slice_ns=500_000, rest_ns=100_000))
        census = target.expect(Census)
        during = target.ask(b"s")

        # Every object, every generation, every byte; but for the lists that our hooks are in, which have grown:
        # gc.callbacks and, from 3.12 on, warnings.filters. The target says by how much.
        grown = during["list bytes"] - before["list bytes"]
        assert grown > 0
        generation = PERMANENT if frozen else 2
        differing = different(reference, rows_of(census, target))
        if interpreter.version >= (3, 14) and not frozen:
            # Dicts are always tracked there, the interpreter's table of interned strings too: what it reaches has
            # the names in the agent's code among it, and nothing says whose a string is.
            strings, _ = differing.pop((BUILTINS, "str", UNTRACKED))
            assert 0 < strings < 800
            differing.pop((BUILTINS, "dict", 2), None)  # that table, where it had to grow
        assert differing == {(BUILTINS, "list", generation): (0, grown)}

        assert census.mode == "python"
        assert census.sizeof_guessed == 13, "7 OwnSize and 6 RaisingSize"
        assert during["called"] == [], "no code of the target's own ran"
        assert 0 < census.pause_ns <= census.duration_ns
        assert census.cpu_ns > 0
        assert 0 < census.agent_bytes < 10_000_000
        if frozen:
            met = sum(count for (_, _, of), (count, _) in rows_of(census, target).items() if of == PERMANENT)
            not_met = int(census.cut.split()[0])
            assert met + not_met == during["frozen"]
        else:
            assert census.cut.startswith("left out: ")
        assert not census.complete


def test_a_second_census_agrees_with_the_first(interpreter: Interpreter) -> None:
    with session(interpreter, "heap_mixed.py") as target:
        target.start_agent()
        found = []
        for number in (1, 2, 3):
            target.send(CensusRequest(number))
            census = target.expect(Census)
            assert census.id == number
            found.append(rows_of(census, target))
        assert different(found[0], found[1]) == {}
        assert different(found[1], found[2]) == {}


def test_after_a_collection_the_objects_are_old_and_still_agree(interpreter: Interpreter) -> None:
    """The agent's own objects have moved to other generations by then, and are still none of the rows."""
    with session(interpreter, "heap_mixed.py") as target:
        target.start_agent()
        target.ask(b"c")
        target.ask(b"c")
        target.send(CensusRequest(1))
        rows = rows_of(target.expect(Census), target)
        target.send(DetachRequest())
        target.drain()
        target.ask(b"c")
        reference: Rows = target.ask(b"r")
        # generations apart: what was young between two collections need not be at the third
        assert total(rows, "__main__", "Victim") == total(reference, "__main__", "Victim")
        for name in ("function", "code", "set", "tuple", "cell"):
            got, want = total(rows, BUILTINS, name), total(reference, BUILTINS, name)
            # the second list of ids that `reference` makes, and its own tuples, do not outlive it; what stays
            # is equal but for what the interpreter caches by itself in between
            assert abs(got - want) <= max(3, want // 100), name


CODE_PARTS = {"str", "tuple", "bytes"}
"""What names of variables, slots and attributes are, and what else a code object keeps."""
FLOATS = 1000
"""In an array of heap_mixed's."""


@pytest.mark.parametrize("arrays", [False, True], ids=["plain", "numpy"])
def test_what_it_leaves_out_is_said_and_nothing_else_is_missing(interpreter: Interpreter, arrays: bool) -> None:
    """Against the native core, in the same heap."""
    native.core()
    if arrays and not interpreter.has("numpy"):
        pytest.skip("no numpy here")
    wrapper = ["env", f"PYTHONPATH={interpreter.packages or ''}", *with_proc(interpreter)]
    with session(interpreter, "heap_mixed.py", ["small", "arrays"] if arrays else ["small"], wrapper=wrapper) as target:
        target.start_agent()
        assert target.give_core().loaded
        rows, cuts = {}, {}
        for number, mode in enumerate(("python", "clone")):
            target.send(CensusRequest(number, mode=mode))
            census = target.expect(Census)
            assert (census.mode, census.complete) == (mode, mode == "clone")
            rows[mode], cuts[mode] = rows_of(census, target), census.cut
    names = {(module, qualname) for module, qualname, _ in [*rows["python"], *rows["clone"]]}
    missing = {name: total(rows["clone"], *name) - total(rows["python"], *name) for name in names}
    said = cuts["python"]
    assert cuts["clone"] == ""
    codes = re.search(r"names of variables of (\d+) code objects", said)
    assert (codes is not None) == (interpreter.version >= (3, 11))
    assert codes is None or abs(int(codes[1]) - total(rows["clone"], BUILTINS, "code")) <= FEW
    met = re.search(r"(\d+) numpy arrays", said)
    assert (met is not None) == arrays
    assert met is None or int(met[1]) >= 2
    unsaid = {name: count for name, count in missing.items() if name[0] == BUILTINS and abs(count) > FEW}
    floats = unsaid.pop((BUILTINS, "float"), 0)
    assert (floats >= FLOATS) == arrays
    if arrays:
        unsaid = {name: count for name, count in unsaid.items() if name not in OF_ARRAYS}
    assert {qualname for _, qualname in unsaid} <= CODE_PARTS
    assert all(count > 0 for count in unsaid.values())
    assert not [name for name, count in missing.items() if name[0] not in (BUILTINS, "numpy", "numpy.dtypes") and count]


FEW = 64
"""Frozen tuples that only C leads to, and what a census is made of: tests of either against a reference count those."""
OF_ARRAYS = {(BUILTINS, "int"), (BUILTINS, "dict")}
"""Of numpy's own arrays and their dtypes."""


def total(rows: Rows, module: str, qualname: str) -> int:
    return sum(count for (m, q, _), (count, _) in rows.items() if (m, q) == (module, qualname))


@pytest.mark.sample(2)
@pytest.mark.pythons(*SAMPLE, stress=SUPPORTED)
def test_while_four_threads_change_the_heap(interpreter: Interpreter) -> None:
    with session(interpreter, "heap_mixed.py") as target:
        target.ask(b"c")
        target.start_agent()
        target.ask(b"w")
        for number in range(2):
            target.send(CensusRequest(number, slice_ns=5_000_000, rest_ns=500_000))
            census = target.expect(Census)
            assert census.cut.startswith("left out: "), "nothing else"
            rows = rows_of(census, target)
            assert total(rows, "__main__", "Slots") in range(51)
            assert 10_000 < sum(count for count, _ in rows.values()) < 1_000_000
        target.send(DetachRequest())
        target.drain()
        assert target.process.poll() is None
