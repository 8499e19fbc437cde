"""History: what the agent said, named, in order, within its limits."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heaptop.analysis.heap.history import MAX_TOTAL, Amount, Cell, History, halve_older
from heaptop.errors import ProtocolError
from heaptop.protocol.messages import Bye, CensusRequest, Row, TickRequest, TypeName, Types
from tests.fakes.source import FakeAgent
from tests.unit.census_cases import NAMES, Heap, census, heaps, history


@given(st.lists(heaps, max_size=6))
def test_a_snapshot_says_what_the_census_said(given_heaps: list[Heap]) -> None:
    taken = history(given_heaps).records
    assert len(taken) == len(given_heaps)
    for number, (snapshot, heap) in enumerate(zip(taken, given_heaps, strict=True)):
        assert snapshot.time_ns == number * 10**9
        assert set(snapshot.cells) == {
            Cell(NAMES[kind], generation, count, size)
            for (kind, generation), (count, size) in heap.items()
            if count or size
        }
        assert snapshot.total == Amount(
            sum(count for count, _ in heap.values()), sum(size for _, size in heap.values())
        )
        assert snapshot.census.rows == ()


def test_an_unchanged_cell_is_shared() -> None:
    first, second = history([{(0, 2): (1, 8), (1, 2): (1, 8)}, {(0, 2): (1, 8), (1, 2): (2, 16)}]).records
    assert first.cells[0] is second.cells[0]
    assert first.cells[1] is not second.cells[1]


def test_types_come_in_parts() -> None:
    taken = History()
    taken.feed(Types(0, NAMES[:1]))
    taken.feed(Types(1, NAMES[1:2]))
    taken.feed(census(0, {(1, 0): (1, 1)}))
    assert taken.latest is not None
    assert taken.latest.cells[0].type == NAMES[1]


@pytest.mark.parametrize("first", [0, 7])
def test_types_that_overlap_or_leave_a_gap_are_refused(first: int) -> None:
    taken = history([])
    with pytest.raises(ProtocolError, match="number 6 comes next"):
        taken.feed(Types(first, (TypeName("a", "b"),)))


def test_a_row_of_an_unnamed_type_is_refused_and_nothing_is_taken() -> None:
    taken = history([{(0, 0): (1, 1)}])
    with pytest.raises(ProtocolError, match="never named"):
        taken.feed(census(1, {(0, 0): (2, 2), (len(NAMES), 0): (1, 1)}))
    assert len(taken.records) == 1


def test_a_type_counted_twice_is_refused() -> None:
    with pytest.raises(ProtocolError, match="twice"):
        history([]).feed(census(0, {(0, 0): (1, 1)}, order=[(0, 0), (0, 0)]))


def test_a_type_may_be_counted_once_in_each_interpreter() -> None:
    one, other = Row(0, 0, 1, 1, interpreter=0), Row(0, 0, 2, 2, interpreter=1)
    taken = history([])
    taken.feed(replace(census(0, {}), rows=(one, other)))
    assert [(cell.interpreter, cell.count) for cell in taken.records[0].cells] == [(0, 1), (1, 2)]
    with pytest.raises(ProtocolError, match="twice"):
        taken.feed(replace(census(1, {}), rows=(one, other, replace(other, count=7))))


def test_the_same_row_twice_is_refused_also_where_it_is_known() -> None:
    first = census(0, {(0, 0): (1, 1)})
    taken = history([])
    taken.feed(first)
    with pytest.raises(ProtocolError, match="twice"):
        taken.feed(replace(first, rows=first.rows * 2))
    assert len(taken.records) == 1


def test_a_row_that_comes_back_as_it_was_is_of_the_latest_cell() -> None:
    """The same Row object may stand for an older census than the last one that had its type."""
    taken = history([])
    one, other = census(0, {(0, 0): (1, 1)}), census(1, {(0, 0): (2, 2)})
    for message in (one, other, census(2, {}), one):
        taken.feed(message)
    assert [[(cell.count, cell.bytes) for cell in each.cells] for each in taken.records] == [
        [(1, 1)],
        [(2, 2)],
        [],
        [(1, 1)],
    ]


def test_a_census_beyond_64_bits_is_refused() -> None:
    with pytest.raises(ProtocolError, match="machine"):
        history([]).feed(census(0, {(0, 0): (1, MAX_TOTAL), (1, 0): (1, 1)}))


@given(st.integers(2, 12), st.integers(0, 60))
def test_the_limit_holds_and_both_ends_stay(limit: int, length: int) -> None:
    taken = history([{(0, 0): (1, number + 1)} for number in range(length)], limit)
    assert len(taken.records) <= limit
    assert len(taken.records) + taken.thinned == length
    times = [snapshot.time_ns for snapshot in taken.records]
    assert times == sorted(set(times))
    if length:
        assert times[0] == 0
        assert times[-1] == (length - 1) * 10**9


def test_the_limit_on_cells_holds() -> None:
    taken = History(limit=100, cell_limit=20)
    taken.feed(Types(0, NAMES))
    for number in range(50):
        taken.feed(census(number, {(kind, 0): (1, number + 1) for kind in range(4)}))
    assert sum(len(snapshot.cells) for snapshot in taken.records) <= 20
    assert taken.thinned == 50 - len(taken.records)


@given(st.lists(st.integers(), min_size=3, max_size=50))
def test_halving_drops_only_of_the_older_half(items: list[int]) -> None:
    left = list(items)
    dropped = halve_older(left)
    assert dropped >= 1
    assert len(left) == len(items) - dropped
    newer = max(len(items) // 2, 2)
    assert left[len(left) - (len(items) - newer) :] == items[newer:]


def test_ticks_are_kept_within_the_limit() -> None:
    agent = FakeAgent()
    taken = History(limit=10)
    for number in range(30):
        agent.advance()
        for message in agent.answer(TickRequest(number)):
            taken.feed(message)
    assert len(taken.ticks) <= 10
    assert taken.ticks[-1].id == 29


def test_what_is_no_data_is_ignored() -> None:
    taken = History()
    taken.feed(Bye("done"))
    taken.feed(CensusRequest(1))
    assert taken.latest is None
    assert taken.previous is None
