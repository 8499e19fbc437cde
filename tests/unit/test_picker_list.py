"""Processes in a list: grouped under who started them, sorted by their sums, and how fast each grows."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heaptop.analysis.text.picker_list import SHORTEST, SORTS, WINDOW, Growths, ListedProcess, arranged
from heaptop.protocol.source import ProcessRow

MIB = 1 << 20


def process(pid: int, rss: int = 1, parent: int = 0, attachable: bool = True, created: float = 0.0) -> ProcessRow:
    return ProcessRow(
        pid, "shop", "3.12", rss * MIB, f"python {pid}.py", attachable, parent=parent, created=created
    )  # fmt: skip


def unknown(row: ProcessRow) -> float | None:
    return None


def pids(listed: Sequence[ListedProcess]) -> list[int]:
    return [each.row.pid for each in listed]


def test_children_stand_under_their_parent_and_a_group_where_its_sum_puts_it() -> None:
    rows = [process(1, 50), process(2, 10), process(3, 30, parent=2), process(4, 40, parent=2), process(5, 5, parent=3)]
    found = arranged(rows, unknown, "rss", True)
    assert pids(found) == [2, 4, 3, 5, 1]
    assert [each.depth for each in found] == [0, 1, 1, 2, 0]
    assert [each.last for each in found] == [False, False, True, True, True]
    assert [each.rss // MIB for each in found] == [85, 40, 35, 5, 50]
    assert pids(arranged(rows, unknown, "rss", False)) == [1, 2, 3, 5, 4]
    assert pids(arranged(rows, unknown, "pid", False)) == [1, 2, 3, 5, 4]


def test_what_cannot_be_attached_to_is_last_in_any_order() -> None:
    rows = [process(1, 90, attachable=False), process(2, 10), process(3, 1, attachable=False), process(4, 1, parent=3)]
    assert pids(arranged(rows, unknown, "rss", True)) == [2, 3, 4, 1]
    assert pids(arranged(rows, unknown, "rss", False)) == [3, 4, 2, 1]


def test_unknown_growth_is_last_in_any_order() -> None:
    rows = [process(1), process(2), process(3), process(4, parent=3)]
    growth = {1: 5.0, 2: None, 3: -9.0, 4: 2.0}
    assert pids(arranged(rows, lambda row: growth[row.pid], "growth", True)) == [1, 3, 4, 2]
    assert pids(arranged(rows, lambda row: growth[row.pid], "growth", False)) == [3, 4, 1, 2]


@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(0, 9), st.booleans()), unique_by=lambda row: row[0]),
    st.sampled_from(SORTS),
    st.booleans(),
)
def test_every_process_is_listed_once_whatever_the_parents(
    some: list[tuple[int, int, bool]], sort: str, descending: bool
) -> None:
    """Pids that were given again may make circles."""
    rows = [process(pid, parent=parent, attachable=attachable) for pid, parent, attachable in some]
    found = arranged(rows, unknown, sort, descending)
    assert sorted(pids(found)) == sorted(row.pid for row in rows)
    assert sum(each.rss for each in found if each.depth == 0) == sum(row.rss for row in rows)
    for at, each in enumerate(found):
        assert [row.pid for row in each.members] == pids(found[at : at + len(each.members)])


def test_growth_is_said_once_it_is_known() -> None:
    growths = Growths()
    growths.feed(0.0, [process(1, 10)])
    growths.feed(SHORTEST - 1, [process(1, 20)])
    assert growths.per_minute(process(1)) is None
    growths.feed(SHORTEST, [process(1, 16)])
    assert growths.per_minute(process(1)) == pytest.approx(6 * MIB * 60 / SHORTEST)
    assert growths.per_minute(process(2)) is None


def test_growth_is_of_the_last_minute() -> None:
    growths = Growths()
    for second in range(0, 600, 2):
        growths.feed(second, [process(1, min(second, 400))])
    assert growths.per_minute(process(1)) == 0.0
    for second in range(600, 600 + int(WINDOW) // 2, 2):
        growths.feed(second, [process(1, 401)])
    assert growths.per_minute(process(1)) == pytest.approx(1 * MIB, rel=0.05)


def test_another_process_of_the_same_pid_begins_anew() -> None:
    growths = Growths()
    growths.feed(0.0, [process(1, 10)])
    growths.feed(10.0, [process(1, 500, created=7.0)])
    assert growths.per_minute(process(1, created=7.0)) is None
    assert growths.per_minute(process(1)) is None, "it ended"
