"""The profile of collections: rows, totals, curves and phases from what the agent says."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from heaptop.analysis.samples.clock import Timeline
from heaptop.analysis.samples.gc_profile import GcProfile, GcSeries
from heaptop.protocol.messages import Bye, GcEvent, GcEvents, Phase, Phases, Sampler, Tick


def event(time: int, generation: int = 0, clock: int | None = None, live: int | None = None, lasts: int = 1) -> GcEvent:
    return GcEvent(time, generation, 10, 1, lasts, live, clock)


def events(*given_events: GcEvent, dropped: int = 0) -> GcEvents:
    return GcEvents(given_events, dropped)


def tick(time: int, rss: int | None, blocks: int = 0) -> Tick:
    return Tick(time, time, rss, blocks, True, (0, 0, 0), 0, 1, 0)


def sampler(time: int, on: bool, epoch: int = 0) -> Sampler:
    return Sampler(0, time, on, 65536 if on else 0, 128, (65536,), epoch)


def allocated(profile: GcProfile) -> list[int | None]:
    return [row.allocated for row in profile.rows]


def curves(profile: GcProfile) -> dict[tuple[str, str], GcSeries]:
    return {(series.name, series.unit): series for series in profile.series()}


def test_a_row_says_what_the_event_said() -> None:
    profile = GcProfile()
    profile.feed(events(GcEvent(5, 2, 30, 2, 7, 400, 1000)))
    (row,) = profile.rows
    assert (row.time_ns, row.generation, row.collected, row.uncollectable) == (5, 2, 30, 2)
    assert (row.duration_ns, row.live_blocks, row.number, row.total_ns) == (7, 400, 1, 7)


def test_allocated_is_the_difference_of_the_clock_over_messages() -> None:
    profile = GcProfile()
    profile.feed(events(event(1, clock=100), event(2, clock=350)))
    profile.feed(events(event(3, clock=350), event(4, clock=1350)))
    assert allocated(profile) == [None, 250, 0, 1000]
    assert (profile.totals.allocated, profile.totals.allocated_gaps) == (1250, 1)
    assert profile.totals.allocated_each == 1250 / 3


def test_allocated_is_not_known_around_a_sampler_that_was_off() -> None:
    profile = GcProfile()
    profile.feed(events(event(1, clock=100), event(2), event(3, clock=150), event(4, clock=170)))
    assert allocated(profile) == [None, None, None, 20]


def test_allocated_is_not_known_after_collections_that_were_lost() -> None:
    profile = GcProfile()
    profile.feed(events(event(1, clock=100), event(2, clock=200), dropped=3))
    profile.feed(events(event(9, clock=900), event(10, clock=950)))
    assert allocated(profile) == [None, 100, None, 50]
    assert (profile.totals.lost, profile.totals.collections) == (3, 4)


def test_a_clock_that_began_anew_is_no_allocation_though_it_has_passed_the_old_one() -> None:
    profile = GcProfile()
    profile.feed(sampler(0, True))
    profile.feed(events(event(1, clock=100)))
    profile.feed(sampler(5, False))
    profile.feed(sampler(6, True))
    profile.feed(events(event(2, clock=150), event(8, clock=500), event(9, clock=510)))
    assert allocated(profile) == [None, 50, None, 10]


def test_the_answer_to_a_change_of_the_rate_leaves_the_clock_alone() -> None:
    profile = GcProfile()
    profile.feed(sampler(0, True))
    profile.feed(events(event(1, clock=100)))
    profile.feed(sampler(2, True))
    profile.feed(events(event(3, clock=150)))
    assert allocated(profile) == [None, 50]


def test_the_heap_is_that_of_the_nearest_tick() -> None:
    profile = GcProfile()
    profile.feed(events(event(5)))
    assert profile.rows[0].rss is None
    profile.feed(tick(10, 1000, 50))
    assert (profile.rows[0].rss, profile.rows[0].heap_blocks) == (1000, 50)
    profile.feed(events(event(14), event(16)))
    assert [row.rss for row in profile.rows] == [1000, 1000, 1000]  # the next tick is still to come
    profile.feed(tick(20, 2000, 60))
    profile.feed(tick(21, None, 70))
    assert [row.rss for row in profile.rows] == [1000, 1000, 2000]
    assert [row.heap_blocks for row in profile.rows] == [50, 50, 60]


def test_totals_by_generation_and_rates() -> None:
    profile = GcProfile()
    profile.feed(tick(0, 1))
    profile.feed(events(event(10**9, 0, lasts=4), event(2 * 10**9, 2, lasts=9), event(3 * 10**9, 0, lasts=6)))
    profile.feed(tick(4 * 10**9, 1))
    totals = profile.totals
    assert [(each.generation, each.collections, each.duration_ns, each.longest_ns) for each in totals.generations] == [
        (0, 2, 10, 6),
        (2, 1, 9, 9),
    ]
    assert [(each.collected, each.uncollectable) for each in totals.generations] == [(20, 2), (10, 1)]
    assert (totals.collections, totals.duration_ns, totals.elapsed_ns) == (3, 19, 4 * 10**9)
    assert (totals.per_second, totals.time_share) == (0.75, 19 / (4 * 10**9))


def test_nothing_said_is_nothing_known() -> None:
    profile = GcProfile()
    profile.feed(Bye("done"))
    assert (profile.totals.per_second, profile.totals.time_share, profile.totals.allocated_each) == (None, None, None)
    assert (profile.totals.collections, profile.spans(), list(profile.rows)) == (0, (), [])
    assert all(series.times_ns == () for series in profile.series())


def test_each_curve_has_the_collections_that_say_it() -> None:
    profile = GcProfile()
    profile.feed(events(event(1, 0, clock=10), event(2, 2, clock=30, live=7)))
    profile.feed(tick(3, 500, 9))
    profile.feed(tick(4, None, 8))
    found = curves(profile)
    assert found["heap", "bytes"] == GcSeries("heap", "bytes", (3,), (500,))
    assert found["heap", "blocks"] == GcSeries("heap", "blocks", (3, 4), (9, 8))
    assert found["live", "blocks"] == GcSeries("live", "blocks", (2,), (7,))
    assert found["allocated", "bytes"] == GcSeries("allocated", "bytes", (2,), (20,))


def test_phases_are_spans_with_what_the_collector_did_in_them() -> None:
    profile = GcProfile()
    profile.feed(Phases((Phase("load", 10, None),), 0))
    profile.feed(events(event(5, lasts=3), event(10, lasts=4), event(20, lasts=5), event(31, lasts=6)))
    profile.feed(Phases((Phase("load", 10, 30), Phase("serve", 30, None), Phase("parse", 15, 25)), 2))
    profile.feed(tick(40, 1))
    timeline = Timeline()
    timeline.add(0, 0)
    timeline.add(4000, 40)
    spans = profile.spans(timeline)
    assert [(span.name, span.begin_ns, span.end_ns, span.open, span.lane) for span in spans] == [
        ("load", 10, 30, False, 0),
        ("parse", 15, 25, False, 1),
        ("serve", 30, 40, True, 0),
    ]
    assert [(span.collections, span.gc_ns, span.allocated) for span in spans] == [
        (2, 9, 2000),
        (1, 5, 1000),
        (1, 6, 1000),
    ]
    assert profile.phases_lost == 2
    assert profile.spans()[0].allocated is None


def test_a_phase_that_ended_does_not_open_again() -> None:
    profile = GcProfile()
    profile.feed(Phases((Phase("load", 10, 30), Phase("load", 10, None)), 0))
    assert [(span.end_ns, span.open) for span in profile.spans()] == [(30, False)]


def test_the_oldest_phase_that_has_ended_is_forgotten_first() -> None:
    profile = GcProfile(phase_limit=3)
    profile.feed(Phases((Phase("main", 0, None),), 0))
    profile.feed(Phases(tuple(Phase(f"step {number}", number, number + 1) for number in range(1, 6)), 0))
    assert [span.name for span in profile.spans()] == ["main", "step 4", "step 5"]
    assert profile.phases_lost == 3


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50), st.booleans()), max_size=12))
def test_spans_in_one_lane_never_overlap(given_spans: list[tuple[int, int, bool]]) -> None:
    profile = GcProfile()
    phases = [
        Phase(str(number), begin, None if last else begin + long)
        for number, (begin, long, last) in enumerate(given_spans)
    ]
    profile.feed(Phases(tuple(phases), 0))
    spans = profile.spans()
    assert len(spans) == len(phases)
    for place, left in enumerate(spans):
        for right in spans[place + 1 :]:
            assert left.lane != right.lane or left.end_ns <= right.begin_ns


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 2), st.integers(0, 99), st.booleans()), max_size=80),
    st.integers(2, 10),
)
def test_thinned_rows_leave_totals_and_what_each_row_says(steps: list[tuple[int, int, int, bool]], limit: int) -> None:
    """Rows that are left say the same as without a limit, and the totals are of all."""
    short, whole = GcProfile(row_limit=limit), GcProfile()
    time = clock = 0
    for wait, generation, more, ticks in steps:
        time, clock = time + wait, clock + more
        for profile in (short, whole):
            profile.feed(events(event(time, generation, clock)))
            if ticks:
                profile.feed(tick(time, clock))
    assert short.totals == whole.totals
    assert len(short.rows) <= limit
    assert len(whole.rows) == len(steps)
    by_number = {row.number: row for row in whole.rows}
    for row in short.rows:
        kept = by_number[row.number]
        assert (row.time_ns, row.allocated, row.total_ns) == (kept.time_ns, kept.allocated, kept.total_ns)
