"""The table and the JSON document: the same figures as a plain count of the cells gives."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heaptop.analysis.bands.report import census_json
from heaptop.analysis.bands.series import SeriesCache
from heaptop.analysis.bands.table import SORTS, SPARK, TableRow, rows, table
from heaptop.analysis.filters.attributes import BAND_KEYS, band_key
from heaptop.analysis.filters.filters import EVERYTHING, parse_filter
from heaptop.analysis.heap.history import Amount, CensusRecord, History
from heaptop.protocol.messages import Pauses, Row, Types
from tests.unit.census_cases import NAMES, Heap, census, filters, heaps, history, keys, ramp, snapshots


def counted(snapshot: CensusRecord, key: str, text: str) -> tuple[Counter[str], Counter[str]]:
    """Objects and bytes by band, the slow way."""
    counts: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for cell in parse_filter(text).select(snapshot):
        counts[band_key(key).label(cell)] += cell.count
        sizes[band_key(key).label(cell)] += cell.bytes
    return counts, sizes


@given(st.lists(heaps, min_size=1, max_size=20), keys, filters)
def test_rows_are_what_a_plain_count_gives(given_heaps: list[Heap], key: str, text: str) -> None:
    taken = snapshots(given_heaps)
    rows = table(taken, key, parse_filter(text))
    counts, sizes = counted(taken[-1], key, text)
    assert {row.name: (row.count, row.bytes) for row in rows} == {name: (counts[name], sizes[name]) for name in counts}
    past = [counted(snapshot, key, text) for snapshot in taken]
    for row in rows:
        assert row.spark == tuple(size[row.name] for _, size in past)[-SPARK:]
        if len(taken) == 1:
            assert (row.count_change, row.bytes_change) == (0, 0)
        elif not any(row.name in count for count, _ in past[:-1]):
            assert (row.count_change, row.bytes_change) == (None, None)
        else:
            assert row.count_change == row.count - past[-2][0][row.name]
            assert row.bytes_change == row.bytes - past[-2][1][row.name]
    total = sum(row.bytes for row in rows)
    assert sum(row.share for row in rows) == pytest.approx(1.0 if total else 0.0)


@given(st.lists(heaps, min_size=1, max_size=5), keys, st.sampled_from(sorted(SORTS)), st.booleans())
def test_every_sort_orders_rows_and_ties_by_name(
    given_heaps: list[Heap], key: str, sort: str, descending: bool
) -> None:
    rows = table(snapshots(given_heaps), key, EVERYTHING, sort, descending, memo=SeriesCache())
    ordered = [(SORTS[sort](row), row.name) for row in rows]
    by_name = sorted(ordered, key=lambda pair: pair[1])
    assert ordered == sorted(by_name, key=lambda pair: pair[0], reverse=descending)  # type: ignore[arg-type,return-value]


@given(st.lists(heaps, min_size=2, max_size=12), keys, filters, st.data())
def test_rows_that_are_looked_at_late_are_of_their_own_moment(
    given_heaps: list[Heap], key: str, text: str, data: st.DataObject
) -> None:
    taken, memo, where = snapshots(given_heaps), SeriesCache(), parse_filter(text)
    length = data.draw(st.integers(1, len(taken)))
    found = rows(taken[:length], key, where, memo=memo)
    memo.series(taken, key, where)
    assert tuple(found) == table(taken[:length], key, where)
    assert found.total == sum(row.bytes for row in found)
    assert found.largest == max((row.bytes for row in found), default=0)
    assert found.hides == any(row.hidden for row in found)
    assert list(found[1:3]) == list(found)[1:3]


def test_a_row_in_full() -> None:
    taken = ramp({2: [100, 300], 3: [100, 100]})
    session, order = table(taken, "type", EVERYTHING)
    assert session == TableRow("shop.models.Session", 1, 300, 0.75, 0, 200, (100, 300))
    assert session.growth == 200
    assert order == TableRow("shop.models.Order", 1, 100, 0.25, 0, 0, (100, 100))


def test_no_snapshot_no_row() -> None:
    assert table((), "type", EVERYTHING) == ()


def test_the_registry_knows_its_names() -> None:
    counted, sampled, frozen = (
        ("type", "module", "generation", "interpreter"),
        ("producer", "producer-module", "size"),
        ("retainer", "kind"),
    )
    assert tuple(BAND_KEYS) == (*counted, *sampled, *frozen)
    (snapshot,) = snapshots([{(2, generation): (1, 1) for generation in (-1, 0, 1, 2, 3)}])
    labels = {key: [band.label(cell) for cell in snapshot.cells] for key, band in BAND_KEYS.items()}
    assert labels["generation"] == ["untracked", "gen 0", "gen 1", "gen 2", "permanent"]
    assert set(labels["interpreter"]) == {"(not distinguished)"}
    assert set(labels["type"]) == {"shop.models.Session"}
    assert set(labels["module"]) == {"shop.models"}
    assert {label for key in sampled for label in labels[key]} == {"(not sampled)"}
    assert {label for key in frozen for label in labels[key]} == {"(not in a snapshot)"}


def test_rows_by_interpreter_have_the_objects_of_each_by_its_id() -> None:
    taken = history([])
    found = [Row(2, 0, 1, 100, 0, 0, 0), Row(2, 0, 2, 20, 0, 0, 1), Row(2, 1, 3, 3, 0, 0, 1), Row(2, 0, 4, 4, 0, 0, 12)]
    taken.feed(replace(census(0, {}), rows=tuple(found)))
    (snapshot,) = taken.records
    assert snapshot.has_interpreters
    assert snapshot.total == Amount(10, 127)
    rows = table((snapshot,), "interpreter", EVERYTHING)
    assert {row.name: (row.count, row.bytes) for row in rows} == {
        "interpreter 0 (main)": (1, 100),
        "interpreter 1": (5, 23),
        "interpreter 12": (4, 4),
    }
    for text, count in [("interpreter:1", 5), ("interpreter:1,12", 9), ("!interpreter:1", 5), ("interpreter:main", 1)]:
        assert sum(cell.count for cell in parse_filter(text).select(snapshot)) == count, text


def test_where_there_is_one_interpreter_none_is_distinguished() -> None:
    assert not snapshots([{(2, 0): (1, 1)}])[0].has_interpreters
    assert not snapshots([{}])[0].has_interpreters


@given(heaps, keys, filters, st.none() | st.integers(0, 5))
def test_the_document_is_json_and_honest_about_what_it_cut(heap: Heap, key: str, text: str, top: int | None) -> None:
    (snapshot,) = snapshots([heap])
    document = census_json(snapshot, pid=7, python="3.11.7", by=key, where=parse_filter(text), top=top)
    assert json.loads(json.dumps(document)) == document
    counts, sizes = counted(snapshot, key, text)
    total = {"count": sum(counts.values()), "bytes": sum(sizes.values()), "hidden_bytes": None}
    assert document["total"] == total
    assert document["of"] == len(counts)
    assert document["shown"] == len(document["rows"]) == len(counts if top is None else list(counts)[:top])
    shown = [row["bytes"] for row in document["rows"]]
    assert shown == sorted(sizes.values(), reverse=True)[: len(shown)]


def test_the_document_says_what_the_census_cost() -> None:
    (snapshot,) = snapshots([{(0, 2): (3, 300)}])
    document = census_json(snapshot, pid=7, python="3.11.7")
    assert document["mode"] == "python"
    assert [document[key] for key in ("owned_bytes", "mapped_bytes", "at_least")] == [None] * 3, "it cannot see them"
    assert document["complete"] is True
    assert document["pause_ms"] == 1 / 1_000_000
    assert document["duration_ms"] == 2 / 1_000_000
    assert document["mode_reason"] == ""
    row = {"name": "dict", "count": 3, "bytes": 300, "hidden_bytes": None, "sizeof_guessed": 0}
    assert document["rows"] == [row]


@pytest.mark.parametrize(("mode", "stopped"), [("clone", (5_000, 0)), ("stop", (0, 5_000)), ("python", (0, 0))])
def test_the_document_says_the_longest_pause_and_that_of_each_cause(mode: str, stopped: tuple[int, int]) -> None:
    """The agent starts where the stop of the attach ends, so these two are one pause."""
    (snapshot,) = snapshots([{(0, 2): (3, 300)}])
    pauses = Pauses(4_000, 2_000, 1_000, 300, 5_000 if mode != "python" else 0, 4_500)
    felt = replace(snapshot, census=replace(snapshot.census, mode=mode, pause_ns=5_200, pauses=pauses))
    document = census_json(felt, pid=7, python="3.11.7", stopped_ns=3_000)
    assert document["pause_ms"] == 7_000 / 1_000_000
    assert document["pause_by_cause"] == {
        "attach_stop_ns": 3_000,
        "start_ns": 4_000,
        "compile_ns": 2_000,
        "core_ns": 1_000,
        "gil_ns": 300,
        "clone_ns": stopped[0],
        "count_ns": stopped[1],
    }
    assert census_json(felt, pid=7, python="3.11.7")["pause_ms"] == 5_200 / 1_000_000
    older = replace(felt, census=replace(felt.census, pauses=None))
    assert set(census_json(older, pid=7, python="3.11.7", stopped_ns=1)["pause_by_cause"].values()) == {1, None}


def test_hidden_bytes_and_guesses_are_summed_by_band_and_come_and_go() -> None:
    history = History()
    history.feed(Types(0, NAMES))
    for number, hidden in enumerate((40, 50)):
        rows = (Row(2, 2, 5, 500, hidden, 1), Row(2, 0, 1, 100, 8, 0), Row(3, 2, 2, 60), Row(0, 2, 1, 9, 3, 0))
        history.feed(replace(census(number, {}), rows=rows, mode="clone", mode_reason="it is so"))
    document = census_json(history.records[-1], pid=7, python="3.11.7", by="module")
    found = {row["name"]: (row["bytes"], row["hidden_bytes"], row["sizeof_guessed"]) for row in document["rows"]}
    assert found == {"shop.models": (660, 58, 1), "builtins": (9, 3, 0)}
    assert document["total"]["hidden_bytes"] == 61
    assert document["mode_reason"] == "it is so"
    # the same through the series, which only sees what changed
    memo = SeriesCache()
    before, after = (table(history.records[:end], "type", EVERYTHING, memo=memo) for end in (1, 2))
    assert [row.hidden for row in before] == [48, 0, 3]
    assert [row.hidden for row in after] == [58, 0, 3]
