"""What ``make test`` takes of what is long."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from tests.interpreters import MUSL, SUPPORTED
from tests.support import sample


def chosen(names: Sequence[str], cases: Sequence[str], test: str = "test") -> list[tuple[str, str]]:
    """Of all pairs of a Python and a case."""
    pairs = list(itertools.product(names, cases))
    return sample.on_few_pythons(pairs, lambda _: test, lambda pair: pair[1], lambda pair: pair[0], MUSL)


def test_the_only_case_of_a_test_runs_on_two_pythons_and_all_tests_together_on_all() -> None:
    of_each = [chosen(SUPPORTED, [""], f"test_{number}") for number in range(100)]
    assert {len(each) for each in of_each} == {2}
    assert {name for each in of_each for name, _ in each} == {*SUPPORTED}
    assert chosen(SUPPORTED, [""], "test_1") == of_each[1], "they are the same each time"
    assert chosen(["3.8"], [""]) == [("3.8", "")]


def test_each_of_several_cases_runs_on_one_python_and_they_together_on_as_many_as_there_are() -> None:
    for number in range(1, len(SUPPORTED) + 1):
        pairs = chosen(SUPPORTED[:number], [f"case {each}" for each in range(9)])
        assert sorted(case for _, case in pairs) == [f"case {each}" for each in range(9)]
        assert len({name for name, _ in pairs}) == number


def test_no_value_of_a_parameter_is_always_on_the_same_python() -> None:
    cases = ["-".join(each) for each in itertools.product("abcdef", "12")]
    pairs = chosen(("3.8", "3.13"), cases)
    assert {(name, case[-1]) for name, case in pairs} == {*itertools.product(("3.8", "3.13"), "12")}


def test_one_case_of_a_test_runs_on_musl_too_and_none_there_in_place_of_another() -> None:
    pairs = chosen(("3.8", "3.12", *MUSL), ["1", "2", "3"])
    assert [name for name, _ in pairs].count(MUSL[-1]) == 1
    assert sorted(case for name, case in pairs if name not in MUSL) == ["1", "2", "3"]
    assert [name for name, _ in chosen(MUSL, ["1", "2"])] == [MUSL[-1]]


def test_what_runs_on_no_python_of_a_target_runs() -> None:
    assert chosen([""], ["1", "2"]) == [("", "1"), ("", "2")]


def test_of_each_test_at_least_one_case_runs_and_all_of_what_is_short() -> None:
    items = [f"{test}[{case}]" for test in ("long", "longer", "short") for case in range(7)] + ["alone"]
    kept = sample.cases(items, lambda item: 1 if item.startswith("short") else 3, str)
    assert sum(item.startswith("long[") for item in kept) in (2, 3)
    assert sum(item.startswith("longer[") for item in kept) in (2, 3)
    assert sum(item.startswith("short[") for item in kept) == 7
    assert kept[-1] == "alone"


def test_as_many_cases_run_as_are_wanted_at_least() -> None:
    items = [f"test[{case}]" for case in range(7)]
    for least in (1, 2, 3):
        assert len(sample.cases(items, lambda _: 10, str, lambda _, least=least: least)) >= least  # type: ignore[misc]
    assert sample.cases(items[:2], lambda _: 10, str, lambda _: 3) == items[:2]


def test_the_cases_that_run_have_every_word_of_each_parameter() -> None:
    names, ways = ("busy", "sleeper", "lock", "threads8"), ("in", "out")
    items = [f"test[{number}-{name}-{way}]" for number in range(8) for name in names for way in ways]
    kept = sample.cases(items, lambda _: 4, str)
    assert len(kept) == len(items) // 4
    assert {word for item in kept for word in item[5:-1].split("-")} >= {*names, *ways}
