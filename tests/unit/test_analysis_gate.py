"""Which leaks fail a build."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heaptop.analysis.leaks.gate import DECISIVE, LeakGate, is_decided, matches, read_patterns
from heaptop.protocol.findings import BACKLOG, LEAK, NO_LEAK, UNCLEAR, Findings, MarkFacts, Suspect
from tests.unit.hunting_cases import SUSPECT

SESSION = replace(SUSPECT, count=100, bytes=200_000, rate=5.0)
SMALL = replace(SESSION, type="weakref.ReferenceType", bytes=5_000, count=70, site="")
SLOW = replace(SESSION, type="app.jobs.Job", rate=0.01, site="app/jobs.py:3 run")


def findings(*suspects: Suspect) -> Findings:
    return Findings(1, (MarkFacts("A", 0, 0, 0),) * DECISIVE, LEAK, 0, 0, suspects, (), ())


def test_only_leaks_fail_and_small_ones_do_not() -> None:
    harmless = [replace(SESSION, verdict=verdict) for verdict in (UNCLEAR, NO_LEAK)]
    assert LeakGate().failing(findings(*harmless, SMALL, SESSION)) == [SESSION]
    assert LeakGate().line(findings(*harmless)) == "passes"
    assert LeakGate().document(findings(*harmless, SMALL, SESSION))["failing"] == [4]


def test_a_hunt_of_two_checks_does_not_pass() -> None:
    """Of two, nothing is called a leak: that none was found says nothing."""
    short = replace(findings(replace(SESSION, verdict=UNCLEAR)), marks=(MarkFacts("A", 0, 0, 0),) * 2)
    assert not is_decided(short)
    assert LeakGate().line(short) == "decides nothing: 2 checks, and a leak needs 3"
    assert LeakGate().document(short)["decided"] is False
    assert LeakGate().document(findings(SESSION))["decided"] is True


def test_a_backlog_fails_as_a_leak_does() -> None:
    backlog = replace(SESSION, verdict=BACKLOG)
    assert LeakGate().failing(findings(backlog)) == [backlog]
    assert LeakGate().line(findings(backlog, SMALL)) == (
        "fails: 1 of 2 leaks and backlogs counts; not counted: 1 below --min-growth 64.0 KiB"
    )
    assert LeakGate(ignored=("*.Session",)).failing(findings(backlog)) == []


def test_each_leak_that_is_left_out_is_counted_with_its_reason() -> None:
    gate = LeakGate(min_rate=1_000, ignored=("*.Session",))
    assert gate.failing(findings(SESSION, SMALL, SLOW)) == []
    assert gate.line(findings(SESSION, SMALL, SLOW)) == (
        "passes; not counted: 1 ignored, 1 below --min-growth 64.0 KiB, 1 below --min-rate 1000 B/s"
    )
    other = replace(SESSION, type="app.models.Cart")
    assert gate.line(findings(SESSION, other)) == "fails: 1 of 2 leaks counts; not counted: 1 ignored"


def test_a_rate_is_of_all_that_comes_with_an_object() -> None:
    assert SESSION.byte_rate == 5 * 2_000
    assert LeakGate(min_rate=10_000).failing(findings(SESSION)) == [SESSION]
    assert LeakGate(min_rate=10_001).failing(findings(SESSION)) == []


@pytest.mark.parametrize(
    "pattern",
    [
        "app.models.Session",
        "app.models.*",
        "app/views.py:88 create_session",
        "app/views.py:88",
        "app/views.py",
        "create_session",
        "app/*",
    ],
)
def test_a_pattern_is_of_the_type_or_of_the_site(pattern: str) -> None:
    assert matches(pattern, SESSION)
    assert not matches(pattern, SMALL)


def test_an_empty_site_is_met_by_no_pattern() -> None:
    assert not matches("", SMALL)
    assert not matches("?", SMALL)
    assert matches("*", SMALL), "by its type"


@given(st.lists(st.from_regex(r"[a-z.*]+", fullmatch=True)))
def test_patterns_come_back_from_a_file(patterns: list[str]) -> None:
    assert read_patterns("# known\n" + "\n\n".join(f"  {pattern}  # why" for pattern in patterns)) == patterns
