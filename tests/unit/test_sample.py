"""What ``make test`` takes of what is long."""

from __future__ import annotations

from tests.interpreters import SUPPORTED
from tests.support import sample


def test_a_test_runs_on_two_of_its_pythons_and_all_tests_together_on_all() -> None:
    chosen = [sample.pythons(SUPPORTED, f"test_{number}") for number in range(100)]
    assert {len(each) for each in chosen} == {2}
    assert {name for each in chosen for name in each} == {*SUPPORTED}
    assert sample.pythons(SUPPORTED, "test_1") == chosen[1], "it is the same each time"
    assert sample.pythons(("3.8", "3.12"), "test_1") == ("3.8", "3.12")


def test_of_each_test_at_least_one_case_runs_and_all_of_what_is_short() -> None:
    items = [f"{test}[{case}]" for test in ("long", "longer", "short") for case in range(7)] + ["alone"]
    kept = sample.cases(items, lambda item: 1 if item.startswith("short") else 3, str)
    assert sum(item.startswith("long[") for item in kept) in (2, 3)
    assert sum(item.startswith("longer[") for item in kept) in (2, 3)
    assert sum(item.startswith("short[") for item in kept) == 7
    assert kept[-1] == "alone"


def test_the_cases_that_run_have_every_word_of_each_parameter() -> None:
    names, ways = ("busy", "sleeper", "lock", "threads8"), ("in", "out")
    items = [f"test[{number}-{name}-{way}]" for number in range(8) for name in names for way in ways]
    kept = sample.cases(items, lambda _: 4, str)
    assert len(kept) == len(items) // 4
    assert {word for item in kept for word in item[5:-1].split("-")} >= {*names, *ways}
