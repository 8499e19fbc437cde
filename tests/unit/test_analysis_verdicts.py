"""Whether a growth is called a leak: by programs played step by step, and by what must hold of any course."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heaptop.analysis.leaks.verdicts import Turnover, judge
from heaptop.protocol.findings import LEAK, NO_LEAK, UNCLEAR

STRETCHES: Final = 3
STEPS: Final = 40
"""In one stretch."""


def played(step: Callable[[int, deque[int]], object], stretches: int = STRETCHES, before: int = STEPS) -> Turnover:
    """A program of which each object is the step that it was born in, from ``before`` steps before the first mark."""
    live_blocks: deque[int] = deque()
    totals = []
    for now in range(-before, stretches * STEPS):
        if now >= 0:
            totals.append(len(live_blocks))
        step(now, live_blocks)
    totals.append(len(live_blocks))
    return Turnover(
        seconds=(10.0,) * stretches,
        born=tuple(sum(each // STEPS == stretch for each in live_blocks) for stretch in range(stretches)),
        old=sum(each < 0 for each in live_blocks),
        totals=tuple(totals[::STEPS]),
        between=tuple((each / 4, totals[each]) for each in range(0, len(totals), 5)),
    )


def leaking(now: int, live_blocks: deque[int]) -> None:
    live_blocks.extend([now] * 3)


def slowly_leaking(now: int, live_blocks: deque[int]) -> None:
    if now % 4 == 0:
        live_blocks.append(now)


def at_its_bound(now: int, live_blocks: deque[int]) -> None:
    live_blocks.extend([now] * 3)
    while len(live_blocks) > 100:
        live_blocks.popleft()


def large_at_its_bound(now: int, live_blocks: deque[int]) -> None:
    live_blocks.extend([now] * (400 if now == -STEPS else 2))
    while len(live_blocks) > 440:
        live_blocks.popleft()


def churning(now: int, live_blocks: deque[int]) -> None:
    live_blocks.extend([now] * 50)
    while len(live_blocks) > 75 + now % 7:
        live_blocks.popleft()


def warming_up(now: int, live_blocks: deque[int]) -> None:
    if now < 25:
        live_blocks.extend([now] * 5)


def sawtooth(now: int, live_blocks: deque[int]) -> None:
    live_blocks.extend([now] * 4)
    if now % 35 == 0:
        live_blocks.clear()


def grown_and_shrunk(now: int, live_blocks: deque[int]) -> None:
    if now < 50:
        live_blocks.extend([now] * 5)
    else:
        for _ in range(min(4, len(live_blocks))):
            live_blocks.pop()


@pytest.mark.parametrize("step", [leaking, slowly_leaking])
@pytest.mark.parametrize("stretches", [2, 3, 8])
def test_steady_growth_is_a_leak(step: Callable[[int, deque[int]], object], stretches: int) -> None:
    assert judge(played(step, stretches)).verdict == LEAK


@pytest.mark.parametrize(
    "step",
    [at_its_bound, large_at_its_bound, churning, warming_up, sawtooth, grown_and_shrunk],
    ids=lambda f: f.__name__,
)
@pytest.mark.parametrize("stretches", [2, 3, 8])
def test_what_only_looks_like_one(step: Callable[[int, deque[int]], object], stretches: int) -> None:
    assert judge(played(step, stretches)).verdict != LEAK


@pytest.mark.parametrize(
    ("step", "why"),
    [
        (at_its_bound, "as many are freed as are new: 100 at the first mark, 100 now"),
        (large_at_its_bound, "as many are freed as are new: 440 at the first mark, 440 now"),
        (warming_up, "it grew and has stopped"),
        (grown_and_shrunk, "fewer than before: 200 at the first mark, 170 now"),
    ],
)
def test_no_leak_says_why_it_is_none(step: Callable[[int, deque[int]], object], why: str) -> None:
    judged = judge(played(step))
    assert (judged.verdict, judged.evidence[0]) == (NO_LEAK, why)


def test_one_stretch_does_not_tell() -> None:
    assert judge(played(leaking, stretches=1)).verdict == UNCLEAR
    assert judge(played(at_its_bound, stretches=1)).verdict == NO_LEAK


def test_few_do_not_tell() -> None:
    assert judge(Turnover((10.0, 10.0), (2, 3), 0, (0, 2, 5))).verdict == UNCLEAR


def test_what_is_known_is_told() -> None:
    evidence = judge(Turnover((10.0, 10.0, 10.0), (40, 41, 39), 70, (80, -1, 151, 190))).evidence
    survivors = "survivors per interval (estimate: addresses are reused): 40, 41 and at least 39"
    assert survivors in evidence
    assert "objects at each mark: 80, ?, 151 and 190" in evidence
    assert "of 80 at the first mark, at least 10 are gone" in evidence


def evenly(counts: list[int], gaps: tuple[int, ...] = ()) -> tuple[tuple[float, int], ...]:
    """Once a second, but not then."""
    return tuple((float(second), count) for second, count in enumerate(counts) if second not in gaps)


def test_what_came_to_an_end_between_the_last_marks_is_no_leak() -> None:
    course = Turnover((10.0,) * 2, (100, 50), 0, (0, 100, 150))
    assert judge(course).verdict == LEAK
    ended = evenly([min(10 * second, 150) for second in range(21)])
    assert judge(replace(course, between=ended)).evidence[0] == "it grew and has stopped"


def test_where_nothing_was_counted_growth_has_not_ended() -> None:
    course = Turnover((10.0,) * 2, (100, 100), 0, (0, 100, 200))
    counts = [10 * second for second in range(21)]
    assert judge(replace(course, between=evenly(counts))).verdict == LEAK
    assert judge(replace(course, between=evenly(counts, gaps=tuple(range(13, 18))))).verdict == LEAK


def test_growth_that_slows_down_is_unclear() -> None:
    assert judge(Turnover((10.0,) * 3, (100, 100, 30), 0, (0, 100, 200, 230))).verdict == UNCLEAR


def test_marks_of_one_moment_are_judged() -> None:
    assert judge(Turnover((0.0, 0.0), (30, 30), 80, (80, 110, 140))).verdict in {LEAK, UNCLEAR}


def test_of_two_intervals_the_second_has_half_of_the_first_where_it_is_a_leak() -> None:
    assert judge(Turnover((10.0,) * 2, (56, 25), 64, (64, 120, 145))).verdict == UNCLEAR
    assert judge(Turnover((10.0,) * 2, (56, 30), 64, (64, 120, 150))).verdict == LEAK


def test_what_hardly_grows_in_one_interval_is_no_plain_leak() -> None:
    """As a cache that has filled, and drops some at times."""
    judged = judge(Turnover((8.3, 6.8, 4.6), (346, 405, 556), 196, (363, 1_248, 1_269, 1_503)))
    assert (judged.verdict, judged.evidence[0]) == (UNCLEAR, "it hardly grew in one interval")


def test_what_is_mostly_replaced_is_no_plain_leak() -> None:
    assert judge(Turnover((10.0,) * 2, (100, 100), 20, (160, 190, 220))).verdict == UNCLEAR


def test_an_exact_number_decides_and_births_by_address_refute_nothing() -> None:
    """Under churn what is new comes to addresses that were used before, and passes for old."""
    course = Turnover((10.0,) * 3, (285, 195, 12), 240, (125, 340, 535, 735))
    assert judge(course).verdict == LEAK
    assert judge(replace(course, born=(285, 0, 12))).verdict == LEAK
    assert judge(replace(course, born=(1, 0, 1), old=733)).verdict == LEAK
    assert judge(replace(course, totals=(125, -1, 535, 735))).verdict == UNCLEAR
    assert judge(replace(course, totals=(125, 340, 535, 540))).verdict == NO_LEAK


def test_what_is_replaced_since_a_later_mark_is_no_leak() -> None:
    """At the first mark there happened to be few: most of those that were there at the second have gone."""
    judged = judge(Turnover((10.0,) * 3, (1, 5, 14), 1, (7, 20, 20, 20)))
    assert (judged.verdict, judged.evidence[0]) == (NO_LEAK, "as many are freed as are new: 20 at mark 2, 20 now")
    dipped = judge(Turnover((10.0,) * 3, (3, 7, 5), 6, (7, 20, 14, 20)))
    assert (dipped.verdict, dipped.evidence[0]) == (NO_LEAK, "as many are freed as are new: 20 at mark 2, 20 now")
    staying = Turnover((10.0,) * 3, (13, 0, 6), 7, (7, 20, 14, 26))
    assert judge(staying).verdict == UNCLEAR, "they do not go"
    late = Turnover((10.0,) * 3, (4, 4, 12), 0, (4, 8, 20, 20))
    assert not judge(late).evidence[0].startswith("as many are freed as are new"), "one interval is too short to say so"


def test_after_a_fall_no_more_are_left_than_there_were_at_the_bottom() -> None:
    """Whatever addresses say: one that is used again makes a new object pass for one that stayed."""
    deep = Turnover((10.0,) * 3, (30, 30, 30), 0, (20, 60, 10, 90))
    assert deep.floors == [10, 10, 10, 90]
    assert judge(deep).verdict == NO_LEAK
    rising = replace(deep, totals=(20, 30, 40, 90), between=((5.0, 90), (12.0, 35), (18.0, 110), (24.0, 50)))
    assert rising.floors == [20, 30, 40, 90]
    assert judge(rising).evidence[0] == "it fell in between, from 110 to 50; but some of each interval stayed"


def test_what_was_counted_is_named() -> None:
    course = Turnover((10.0,) * 2, (10, 10), 5, (5, 15, 25), counted="items of the dict")
    assert "items of the dict at each mark: 5, 15 and 25" in judge(course).evidence


def test_without_totals_survivors_tell() -> None:
    assert judge(Turnover((10.0,) * 3, (100, 105, 98), 30, (-1,) * 4)).verdict == LEAK
    assert judge(Turnover((10.0,) * 3, (0, 5, 98), 30, (-1,) * 4)).verdict == UNCLEAR


# -- what holds of any course --------------------------------------------------------------------------------

amounts = st.integers(0, 10_000)


@st.composite
def courses(draw: st.DrawFn) -> Turnover:
    """As the hunt makes them: all that live were born in a stretch, or are old, and no more than there were."""
    born = draw(st.lists(amounts, min_size=1, max_size=6))
    old = draw(amounts)
    first = draw(st.one_of(st.just(-1), st.integers(old, 20_000)))
    middle = [draw(st.one_of(st.just(-1), amounts)) for _ in born[1:]]
    seconds = [draw(st.floats(0.5, 1_000.0)) for _ in born]
    times = sorted(draw(st.lists(st.floats(0.0, sum(seconds)), max_size=24)))
    between = [(each, draw(amounts)) for each in times]
    totals = (first, *middle, old + sum(born))
    return Turnover(tuple(seconds), tuple(born), old, totals, tuple(between))


def same(course: Turnover, total: int) -> Turnover:
    return replace(
        course, totals=(total,) * len(course.totals), between=tuple((time, total) for time, _ in course.between)
    )


@given(courses(), amounts)
def test_a_total_that_stays_the_same_is_no_leak(course: Turnover, total: int) -> None:
    assert judge(same(course, total)).verdict != LEAK


@given(courses())
def test_what_is_less_than_it_was_is_no_leak(course: Turnover) -> None:
    shrunk = replace(course, totals=(course.totals[-1] + 1, *course.totals[1:]))
    assert judge(shrunk).verdict == NO_LEAK


@given(courses(), st.sampled_from([2.0**-10, 0.25, 2.0, 4.0, 1024.0]))
def test_how_fast_time_goes_does_not_matter(course: Turnover, factor: float) -> None:
    between = tuple((time * factor, count) for time, count in course.between)
    scaled = replace(course, seconds=tuple(each * factor for each in course.seconds), between=between)
    assert judge(scaled) == judge(course)


@given(st.integers(2, 8), st.integers(3, 1_000), amounts)
def test_an_even_growth_is_a_leak(stretches: int, each: int, old: int) -> None:
    totals = tuple(old + each * place for place in range(stretches + 1))
    assert judge(Turnover((7.0,) * stretches, (each,) * stretches, old, totals)).verdict == LEAK


@given(courses())
def test_a_leak_has_survivors_of_each_stretch_or_a_number_that_rises_in_each(course: Turnover) -> None:
    if judge(course).verdict == LEAK:
        assert all(course.born) or course.is_exact
        assert len(course.born) > 1
        assert _rises([total for total in course.totals if total >= 0])


def _rises(totals: Sequence[int]) -> bool:
    return all(before < after for before, after in pairwise(totals)) or len(totals) < 2
