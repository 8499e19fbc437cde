"""Several processes as one: the sum of the parts is the whole, and nobody comes or goes without a word."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from heaptop.analysis.bands.summed import PATIENCE, ProcessShare, ProcessSum, Summing, change_text, largest, sum_text
from heaptop.analysis.filters.filters import EVERYTHING, parse_filter
from heaptop.analysis.heap.history import Amount, Cell, CensusRecord, History
from heaptop.protocol.messages import Census, Message, Tick, TypeName
from tests.support.doors import census

SECOND = 1_000_000_000
DICT, SESSION = TypeName("builtins", "dict"), TypeName("shop.models", "Session")
Rows = dict[tuple[TypeName, int], tuple[int, int]]


def counted(seconds: float, rows: Rows, **fields: Any) -> CensusRecord:
    message = census(**{"mode": "clone", **fields}, time_ns=int(seconds * SECOND), rows=())
    cells = (Cell(kind, generation, count, size, 1, 2) for (kind, generation), (count, size) in rows.items())
    total = Amount(sum(count for count, _ in rows.values()), sum(size for _, size in rows.values()))
    return CensusRecord(message.time_ns, message, tuple(cells), total)


def tick(seconds: float, rss: int | None = 100, cpu: int = 5) -> Tick:
    return Tick(1, int(seconds * SECOND), rss, 10, True, (1, 2, 3), 4, 2, cpu, garbage=1)


def only(said: Sequence[Message]) -> Census:
    [found] = [message for message in said if isinstance(message, Census)]
    return found


SMALL: Rows = {(DICT, 2): (3, 300)}


def both(summing: Summing) -> None:
    """Two processes, counted once each."""
    for pid in (1, 2):
        summing.expect(pid)
    assert summing.count(1, counted(1, SMALL)) == []
    only(summing.count(2, counted(1.5, {(DICT, 2): (1, 50), (SESSION, 0): (4, 400)})))


# -- the sum of the parts --------------------------------------------------------------------------------------

ROWS = st.dictionaries(
    st.tuples(st.sampled_from([DICT, SESSION, TypeName("", "x")]), st.sampled_from([-1, 0, 2])),
    st.tuples(st.integers(0, 1 << 40), st.integers(0, 1 << 40)),
)
STEP = st.tuples(st.integers(1, 4), st.none() | ROWS)
"""A process, and what was counted in it; None where it leaves."""


@given(st.lists(STEP, max_size=30))
def test_the_sum_is_what_its_parts_add_up_to(steps: list[tuple[int, Rows | None]]) -> None:
    """Whoever comes and goes in whatever order: a history takes what is said, and has the sum of the latest of each."""
    summing, history = Summing(), History()
    parts: dict[int, Rows] = {}
    before: set[int] | None = None
    told = 0
    for at, (pid, rows) in enumerate(steps):
        if rows is None:
            parts.pop(pid, None)
            said = summing.leave(pid)
        else:
            parts[pid] = rows
            said = summing.count(pid, counted(at, rows))
        for message in said:
            history.feed(message)
        if not said:
            continue
        assert {part.pid for part in summing.last.parts} == parts.keys()
        told += len(parts.keys() ^ before) if before is not None else 0
        assert len(summing.last.changes) == told
        before = set(parts)
        whole: Counter[tuple[TypeName, int]] = Counter()
        objects: Counter[tuple[TypeName, int]] = Counter()
        for counts in parts.values():
            for key, (count, size) in counts.items():
                whole[key] += size
                objects[key] += count
        latest = history.latest
        assert latest is not None
        found = {(cell.type, cell.generation): (cell.count, cell.bytes) for cell in latest.cells}
        assert found == {key: (objects[key], whole[key]) for key in whole if objects[key] or whole[key]}
        assert latest.total.bytes == sum(part.bytes for part in summing.last.parts)
    times = [snapshot.time_ns for snapshot in history.records]
    assert times == sorted(set(times)), "each later than the one before"


def test_hidden_and_guessed_are_added_up_too() -> None:
    summing = Summing()
    both(summing)
    said = only(summing.leave(3) or summing.count(1, counted(2, SMALL)) or summing.count(2, counted(2, SMALL)))
    assert [(row.hidden, row.guessed) for row in said.rows] == [(2, 4)]


# -- when there is a new one ---------------------------------------------------------------------------------


def test_the_first_sum_waits_for_all_that_are_expected_but_not_for_ever() -> None:
    summing = Summing()
    for pid in (1, 2, 3):
        summing.expect(pid)
    for second in range(PATIENCE):
        assert summing.count(1, counted(second, SMALL)) == []
    said = only(summing.count(1, counted(9, SMALL)))
    assert not said.complete
    assert said.cut == "2 of 3 processes without a census yet"
    assert summing.last.missing == (2, 3)
    assert "2 without a census yet" in sum_text(summing.last, 0)


def test_one_that_is_not_attached_to_after_all_is_not_waited_for() -> None:
    summing = Summing()
    for pid in (1, 2):
        summing.expect(pid)
    assert summing.count(1, counted(1, SMALL)) == []
    said = only(summing.leave(2))
    assert said.complete
    assert summing.last.changes == (), "it never was in a sum"


def test_a_slow_process_holds_nobody_up_and_its_age_is_said() -> None:
    summing = Summing()
    both(summing)
    assert summing.count(1, counted(60, SMALL)) == []
    assert only(summing.count(1, counted(61.5, SMALL))).complete
    assert summing.last.spread_ns == 60 * SECOND
    assert "sum of 2 censuses within 60.0 s" in sum_text(summing.last, 0)


def test_who_comes_and_goes_is_said() -> None:
    summing = Summing()
    both(summing)
    assert summing.count(3, counted(2, SMALL)) == []
    said = only(summing.leave(1))
    assert sum(row.bytes for row in said.rows) == 450 + 300
    came, left = summing.last.changes
    assert change_text(came, SECOND) == "3 joined at 1 s, with 300 B"
    assert change_text(left, SECOND) == "1 left at 1 s, with 300 B"
    assert sum_text(summing.last, SECOND).endswith("s · 1 left at 1 s, with 300 B")
    only(summing.leave(2))
    assert sum_text(summing.last, SECOND).endswith("2 processes left, the last: 2 left at 1 s, with 450 B")


def test_when_the_last_one_leaves_the_last_sum_stays() -> None:
    summing = Summing()
    both(summing)
    only(summing.leave(1))
    assert summing.leave(2) == []
    assert [part.pid for part in summing.last.parts] == [2]
    assert [change.pid for change in summing.last.changes] == [1]


def test_the_worst_of_the_parts_is_said_of_the_whole() -> None:
    summing = Summing()
    for pid in (1, 2):
        summing.expect(pid)
    summing.count(1, counted(1, SMALL, pause_ns=7, mode_reason=""))
    cut = counted(2, SMALL, mode="python", mode_reason="no core", complete=False, cut="garbage", pause_ns=3, cpu_ns=9)
    said = only(summing.count(2, cut))
    assert (said.mode, said.mode_reason) == ("python", "process 2: no core")
    assert (said.complete, said.cut) == (False, "process 2: garbage")
    assert said.pause_ns == 7


# -- ticks ---------------------------------------------------------------------------------------------------


def test_ticks_are_added_up_once_all_have_ticked() -> None:
    summing = Summing()
    [first] = summing.tick(1, tick(1))
    assert first.rss == 100
    assert summing.tick(2, tick(1.5, rss=50)) == []
    [again] = summing.tick(1, tick(2))
    assert (again.rss, again.blocks, again.agent_cpu_ns, again.garbage) == (150, 20, 10, 2)
    assert summing.tick(1, tick(2.5)) == []
    [third] = summing.tick(1, tick(3))
    assert third.time_ns == 3 * SECOND


def test_a_process_whose_rss_nobody_knows_leaves_none_for_the_sum() -> None:
    summing = Summing()
    summing.tick(1, tick(1))
    summing.tick(2, tick(1, rss=None))
    [said] = summing.tick(1, tick(2))
    assert said.rss is None


def test_processor_time_never_falls() -> None:
    summing = Summing()
    summing.tick(1, tick(1, cpu=100))
    summing.tick(2, tick(1, cpu=7))
    summing.leave(1)
    [said] = summing.tick(2, tick(2, cpu=9))
    assert said.agent_cpu_ns == 109


# -- the largest -----------------------------------------------------------------------------------------------


def test_the_process_that_has_most_of_each_band() -> None:
    parts = [
        ProcessShare(1, counted(1, {(DICT, 2): (1, 10), (SESSION, 0): (1, 90)})),
        ProcessShare(2, counted(1, {(DICT, 2): (1, 20), (DICT, 0): (1, 20)})),
    ]
    assert largest(parts, "type", EVERYTHING) == {"dict": (2, 40), "shop.models.Session": (1, 90)}
    assert largest(parts, "generation", EVERYTHING) == {"gen 2": (2, 20), "gen 0": (1, 90)}
    assert largest(parts, "type", parse_filter("gen:0")) == {"dict": (2, 20), "shop.models.Session": (1, 90)}


def test_words_for_few_processes() -> None:
    assert sum_text(ProcessSum(), 0) == "no census yet"
    one = ProcessShare(1, counted(1, SMALL))
    assert sum_text(ProcessSum((one,)), 0) == "of 1 process"
    assert sum_text(ProcessSum((one, replace(one, pid=2))), 0) == "≈ sum of 2 censuses within 0.0 s"
