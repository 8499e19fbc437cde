"""What resident memory was used for over time: sums that hold at every time, and what changes are counted from."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from heaptop.analysis.heap.history import CensusRecord, History
from heaptop.analysis.rss.memory_history import (
    LIMIT,
    UNSEEN,
    LiveBytes,
    MemoryHistory,
    course,
    growth,
    interval,
    largest,
    owners,
)
from heaptop.protocol.messages import Memory, MemoryRequest, Outside, Region, Row, Tick, TickRequest
from tests.fakes.source import OUTSIDE, FakeAgent
from tests.support.doors import TYPES, census

MIB = 1 << 20
SECOND = 1_000_000_000


def memory(seconds: float, *, files: int = 0, **changes: object) -> Memory:
    (said,) = FakeAgent().answer(MemoryRequest(1))
    assert isinstance(said, Memory)
    outside = replace(OUTSIDE, regions=(*OUTSIDE.regions, Region("file", "/data", files, files)))
    given = {"time_ns": int(seconds * SECOND), "outside": outside, **changes}
    return replace(said, **given)  # type: ignore[arg-type]  # a test names the fields it changes


def tick(seconds: float, rss: int | None) -> Tick:
    (said, *_) = FakeAgent().answer(TickRequest(1))
    assert isinstance(said, Tick)
    return replace(said, time_ns=int(seconds * SECOND), rss=rss)


def snapshot(seconds: float, size: int) -> CensusRecord:
    history = History()
    history.feed(TYPES)
    history.feed(census(mode="clone", time_ns=int(seconds * SECOND), rows=(Row(1, 2, 9, size, 0),)))
    assert history.latest is not None
    return history.latest


RSS = sum(region.rss for region in OUTSIDE.regions)


def test_owners_sum_to_rss_and_a_foreign_malloc_owns_what_has_no_name() -> None:
    found = owners(memory(1))
    assert found == {
        "arenas": 22_000_000, "malloc": 16_000_000, "stacks": 400_000, "files": 6_000_000, "shared": 65_536,
        "rest": 1_404_096,
    }  # fmt: skip
    assert sum(found.values()) == RSS
    foreign = owners(memory(1, malloc=None, malloc_library="libjemalloc.so.2"))
    assert (foreign["malloc"], foreign["rest"]) == (17_400_000, 4_096)


def test_arenas_that_were_not_found_are_no_owner() -> None:
    outside = Outside((Region("file", "/bin/x", 5, 5),), 0, 0, 0, None, 0, ())
    assert "arenas" not in owners(memory(1, outside=outside))
    assert owners(memory(1, outside=None)) == {}


def test_it_is_asked_the_seldomer_the_longer_it_takes() -> None:
    assert interval(None) == interval(memory(1)) == 5.0
    assert interval(memory(1, duration_ns=962_000_000)) == 20.0


def test_changes_are_since_the_first_answer_that_knew_the_same_uses() -> None:
    history = MemoryHistory()
    history.feed(memory(1, files=0), ())
    facts = history.facts
    assert facts.first is facts.latest is not None
    assert facts.latest.live is None, "there was no census"
    history.feed(memory(6, files=4 * MIB), [snapshot(5, 20 * MIB)])
    assert history.facts.first is history.facts.latest, "now live objects are known: they are no change"
    history.feed(memory(11, files=12 * MIB), [snapshot(10, 20 * MIB)])
    assert growth(history.facts) == (8 * MIB, "files", 8 * MIB)
    assert history.facts.elapsed_ns == 5 * SECOND
    history.feed(memory(16, files=0), [snapshot(15, 20 * MIB)])
    assert growth(history.facts) == (-4 * MIB, "files", -4 * MIB)


def test_what_is_no_more_than_a_percent_is_no_growth() -> None:
    history = MemoryHistory()
    for seconds, files in ((1, 200 * MIB), (6, 202 * MIB)):
        history.feed(memory(seconds, files=files), [snapshot(1, 20 * MIB)])
    assert growth(history.facts) is None


def test_a_census_that_is_nearer_explains_the_last_answer_anew() -> None:
    history = MemoryHistory()
    history.counted(snapshot(0, 5))  # there is no answer yet
    history.feed(memory(10), [snapshot(2, 20 * MIB)])
    history.counted(snapshot(11, 22 * MIB))
    latest = history.facts.latest
    assert latest is not None
    assert (latest.live, latest.counted_ns) == (22 * MIB, 11 * SECOND)
    assert history.facts.first is latest, "it is the same answer, and no change"
    assert history.facts.samples[-1].uses["live"] == 22 * MIB
    history.counted(snapshot(30, 25 * MIB))
    assert history.facts.latest is latest, "that one is further away"
    history.feed(memory(12), [snapshot(2, 20 * MIB), snapshot(11, 22 * MIB), snapshot(30, 25 * MIB)])
    assert history.facts.latest is not latest
    assert history.facts.latest.counted_ns == 11 * SECOND, "a recording tells the later ones first"


def test_an_answer_without_the_kernels_leaves_the_last_one() -> None:
    history = MemoryHistory()
    history.feed(memory(1), ())
    history.feed(memory(6, outside=None), ())
    assert history.facts.unsaid
    assert history.facts.latest is not None
    history.feed(memory(11), ())
    assert not history.facts.unsaid


def test_largest_is_no_live_object() -> None:
    history = MemoryHistory()
    history.feed(memory(1), [snapshot(1, 30_000_000)])
    assert history.facts.latest is not None
    found = largest(history.facts.latest.explained)
    assert found is not None
    assert found.key == "files"


def test_answers_are_thinned_and_a_pause_in_them_stays_one() -> None:
    history = MemoryHistory()
    times = [5 * n for n in range(LIMIT)] + [5 * LIMIT + 100 + 5 * n for n in range(LIMIT)]
    for seconds in times:
        history.feed(memory(seconds), ())
    samples = history.facts.samples
    assert len(samples) <= LIMIT
    assert {look.run for look in samples} == {0, 1}
    ticks = [tick(seconds, RSS) for seconds in range(0, times[-1], 2)]
    shown = course(history.facts, ticks, ())
    unseen = [time for time, size in zip(shown.times_ns, shown.values[-1], strict=True) if size]
    assert shown.keys[-1] == UNSEEN
    # The last answer of the first run may have been thinned out.
    assert (5 * LIMIT - 60) * SECOND < min(unseen) < max(unseen) < (5 * LIMIT + 100) * SECOND


def test_where_ticks_are_sparse_too_nothing_is_missing_between_answers() -> None:
    """Of a long time, a recording tells some of both."""
    history = MemoryHistory()
    for seconds in (0, 1000, 2000):
        history.feed(memory(seconds), ())
    assert [look.run for look in history.facts.samples] == [0, 1, 2]
    sparse = [tick(seconds, RSS) for seconds in (*range(50, 1000, 100), *range(1010, 1900, 10))]
    shown = course(history.facts, sparse, ())
    assert [time // SECOND for time in shown.times_ns] == [0, 1000, *range(1010, 1900, 10), 2000]


def test_the_course_before_anybody_looked_is_of_ticks_and_censuses() -> None:
    history = MemoryHistory()
    history.feed(memory(10), [snapshot(9, 20 * MIB)])
    old = course(history.facts, [tick(17, 50 * MIB), tick(19, 50 * MIB)], ())
    assert old.times_ns == (10 * SECOND, 19 * SECOND), "no longer"
    live = LiveBytes().of([snapshot(2, 10 * MIB), snapshot(4, 90 * MIB)])
    ticks = [tick(1, 50 * MIB), tick(3, 50 * MIB), tick(5, 60 * MIB), tick(6, None), tick(12, 50 * MIB)]
    shown = course(history.facts, ticks, live)
    columns = zip(*shown.values, strict=True)
    rows = (dict(zip(shown.keys, column, strict=True)) for column in columns)
    at = {time // SECOND: row for time, row in zip(shown.times_ns, rows, strict=True)}
    assert list(at) == [1, 3, 5, 10], "the answer is good for longer than until the last tick"
    assert (at[1]["live"], at[1][UNSEEN]) == (0, 50 * MIB)
    assert (at[3]["live"], at[3][UNSEEN]) == (10 * MIB, 40 * MIB)
    assert (at[5]["live"], at[5][UNSEEN]) == (60 * MIB, 0), "more objects than are resident"
    assert at[10][UNSEEN] == 0
    by_owner = course(history.facts, ticks, live, by_owner=True)
    assert "live" not in by_owner.keys
    assert by_owner.values[-1][:3] == (50 * MIB, 50 * MIB, 60 * MIB)


@given(
    samples=st.lists(
        st.tuples(st.integers(0, 500), st.integers(0, 1 << 40)), max_size=8, unique_by=lambda pair: pair[0]
    ),
    ticks=st.lists(
        st.tuples(st.integers(0, 500), st.integers(0, 1 << 40)), max_size=12, unique_by=lambda pair: pair[0]
    ),
    live=st.integers(0, 1 << 40),
    by_owner=st.booleans(),
)
def test_the_course_sums_to_rss_at_every_time(
    samples: list[tuple[int, int]], ticks: list[tuple[int, int]], live: int, by_owner: bool
) -> None:
    history = MemoryHistory()
    for seconds, files in sorted(samples):
        history.feed(memory(seconds, files=files), [snapshot(seconds, live)])
    said = [tick(seconds, rss) for seconds, rss in sorted(ticks)]
    shown = course(history.facts, said, [(0, live)], by_owner=by_owner)
    known = {(seconds * SECOND, RSS + files) for seconds, files in samples}
    known |= {(seconds * SECOND, rss) for seconds, rss in ticks}
    sums = [sum(column) for column in zip(*shown.values, strict=True)] if shown.values else [0] * len(shown.times_ns)
    assert set(zip(shown.times_ns, sums, strict=True)) <= known
    assert sorted(shown.times_ns) == list(shown.times_ns)
    assert {seconds * SECOND for seconds, _ in samples} <= set(shown.times_ns)
