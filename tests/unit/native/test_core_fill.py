"""How many items an object has and the most that it takes, as a snapshot reads them: of CPython's own types, of classes
that keep it as an attribute, and of what only looks like these."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

from heaptop.protocol.images import OBJECTS, Objects, Question, Selection
from tests.interpreters import Interpreter
from tests.support import core_builds
from tests.unit.native.test_core_image import Exercise, exercising

OF_DEQUES: Final = ("deque", "bounded deque", "subclass of deque")
OF_CACHES: Final = ("lru_cache", "full lru_cache", "lru_cache without a limit")


@pytest.fixture
def planted(interpreter: Interpreter) -> Iterator[Exercise]:
    with exercising(interpreter, "fill_planted.py") as made:
        yield made


def fills(planted: Exercise) -> dict[str, tuple[int, int]]:
    """Lengths and bounds as a snapshot tells them."""
    names = {address: name for name, (address, _, _) in planted("planted").items()}
    planted.open()
    found = planted.ask(Objects, Question(OBJECTS, Selection(addresses=tuple(names)), limit=len(names)))
    planted.close()
    assert len(found.rows) == len(names)
    return {names[row.address]: (row.length, row.bound) for row in found.rows}


def wanted(planted: Exercise) -> dict[str, tuple[int, int]]:
    return {name: (length, bound) for name, (_, length, bound) in planted("planted").items()}


def test_lengths_and_bounds(planted: Exercise) -> None:
    assert fills(planted) == wanted(planted)


def test_what_is_made_from_a_container_is_one_whatever_its_name(planted: Exercise) -> None:
    names = {address: name for name, (address, _, _) in planted("planted").items()}
    planted.open()
    everything = Selection(addresses=tuple(names))
    found = planted.ask(Objects, Question(OBJECTS, everything, limit=len(names), containers=True))
    planted.close()
    assert sorted(names[row.address] for row in found.rows) == planted("containers")
    assert found.total == len(found.rows)


def test_a_deque_counts_what_is_added_and_taken(planted: Exercise) -> None:
    def changes(name: str) -> int:
        at = Selection(addresses=(planted("planted")[name][0],))
        planted.open()
        (row,) = planted.ask(Objects, Question(OBJECTS, at)).rows
        planted.close()
        return row.changes

    before = changes("its deque")
    assert planted("work", [100, 30]) == 3 + 100 - 30
    assert changes("its deque") == before + 130
    assert changes("list") == -1


@pytest.mark.parametrize(
    ("fact", "names"),
    [
        ("deque_state", OF_DEQUES),
        ("deque_maxlen", OF_DEQUES),
        ("cache_table", OF_CACHES),
        ("cache_maxsize", OF_CACHES),
    ],
)
@pytest.mark.pythons("3.8", "3.13")
def test_what_the_check_does_not_find_where_it_should_be_is_not_read(
    planted: Exercise, fact: str, names: tuple[str, ...]
) -> None:
    assert planted("forget", fact) == ("", 0)
    assert {fills(planted)[name] for name in names} == {(-1, -1)}


@pytest.mark.pythons("3.8", "3.13", stress=("3.8", "3.11", "3.12", "3.13"))
def test_sanitizers_find_nothing(interpreter: Interpreter, monkeypatch: pytest.MonkeyPatch) -> None:
    core_builds.build("sanitized", *core_builds.SANITIZED)
    monkeypatch.setenv(core_builds.SANITIZED_VARIABLE, "1")
    for name, value in core_builds.sanitizer_variables().items():
        monkeypatch.setenv(name, value)
    with exercising(interpreter, "fill_planted.py") as planted:
        assert fills(planted) == wanted(planted)
