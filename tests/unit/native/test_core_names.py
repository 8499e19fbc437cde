"""Type names in the native core: each is written as Python mode writes it, and there may be more than it numbers."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgpack
import pytest

from tests.interpreters import Interpreter
from tests.support.native import told_in_lines


def names_in(answer: tuple[bytes, bytes, dict[str, Any]]) -> list[tuple[str, str]]:
    """The names that a census tells, by number from 0 on."""
    return [(module, qualname) for module, qualname in msgpack.unpackb(answer[0])]


def written(text: str) -> str:
    """How a name comes over the wire."""
    return text.encode("utf-8", "backslashreplace").decode()


def test_names_are_written_as_python_mode_writes_them(interpreter: Interpreter) -> None:
    environment = {} if interpreter.packages is None else {"PYTHONPATH": str(interpreter.packages)}
    for names, *answers in told_in_lines(interpreter, "core_names.py", environment=environment):
        wanted = {(written(module), written(qualname)) for module, qualname in names}
        for answer in answers:
            assert wanted - set(names_in(answer)) == set()


OTHERS = ("builtins", "(other types)")
MOST = 50_000
MADE = 50_010
CUT = {"complete": False, "cut": f"types after the first {MOST} are counted together"}


def objects_by_number(answer: tuple[bytes, bytes, dict[str, Any]]) -> Counter[int]:
    found: Counter[int] = Counter()
    for number, _, count, *_ in msgpack.unpackb(answer[1]):
        found[number] += count
    return found


def assert_cut(names: list[tuple[str, str]], answer: tuple[bytes, bytes, dict[str, Any]]) -> None:
    """The first names have their numbers, and whatever came behind them is one row under the next number."""
    assert names.index(OTHERS) == MOST == len(names) - 1 == len(set(names)) - 1
    counts = objects_by_number(answer)
    named = {number for number, name in enumerate(names) if name[1].startswith("Many")}
    assert all(counts[number] == 1 for number in named)
    assert counts[MOST] >= MADE - len(named)
    assert counts.total() == answer[2]["objects"]
    assert {key: answer[2][key] for key in CUT} == CUT


@pytest.mark.sample(2)
@pytest.mark.pythons("3.8", "3.12")
@pytest.mark.parametrize("mode", ["stop", "clone"])
def test_types_behind_the_last_number_are_counted_together(interpreter: Interpreter, mode: str) -> None:
    at_once, first, second = told_in_lines(interpreter, "core_many.py", mode)
    assert_cut(names_in(at_once), at_once)
    assert {key: first[2][key] for key in CUT} == {"complete": True, "cut": ""}
    assert_cut(names_in(first) + names_in(second), second)
