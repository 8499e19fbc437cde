"""The cheap watch: steady growth is seen, and what comes and goes is not."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heaptop.choices import MIN_GROWTH
from heaptop.fleet.growth import LEAST_RATE, READINGS, WATCHED, GrowthWatch

MB = 1_000_000


def growth(*courses: Sequence[int], seconds: float = 60.0) -> dict[str, float]:
    """What is seen of types a, b …, of which each census counted so many bytes."""
    watch = GrowthWatch()
    for number, sizes in enumerate(zip(*courses, strict=True)):
        watch.add(number * seconds, {chr(97 + place): (size, 1) for place, size in enumerate(sizes)})
    return watch.growth


def test_steady_growth_is_seen_with_its_rate() -> None:
    leak = [50 * MB + 6 * MB * number for number in range(READINGS)]
    assert growth(leak, [900 * MB] * READINGS) == {"a": pytest.approx(100_000)}


def test_growth_with_one_dip_is_steady() -> None:
    assert growth([10 * MB, 12 * MB, 14 * MB, 13 * MB, 17 * MB, 19 * MB]).keys() == {"a"}


@pytest.mark.parametrize(
    "course",
    [
        [10 * MB] * 6,
        [10 * MB, 90 * MB, 90 * MB, 90 * MB, 90 * MB, 90 * MB],
        [10 * MB, 20 * MB, 30 * MB, 10 * MB, 20 * MB, 30 * MB],
        [60 * MB, 50 * MB, 40 * MB, 30 * MB, 20 * MB, 10 * MB],
        [10 * MB, 12 * MB, 14 * MB, 16 * MB, 18 * MB, 11 * MB],
        [10 * MB, 20 * MB, 30 * MB, 30 * MB, 30 * MB, 30 * MB],
    ],
    ids=["constant", "one jump", "sawtooth", "shrinking", "given back at last", "filled up"],
)
def test_what_does_not_grow_all_the_time_is_not_seen(course: Sequence[int]) -> None:
    assert growth(course) == {}


def test_growth_that_fills_no_machine_is_not_seen() -> None:
    slow = [10 * MB + int(0.9 * LEAST_RATE * 60) * number for number in range(READINGS)]
    assert growth(slow) == {}
    little = [MB + MIN_GROWTH // READINGS * number for number in range(READINGS)]
    assert growth(little, seconds=1.0) == {}


def test_fewer_censuses_judge_nothing() -> None:
    leak = [50 * MB + 6 * MB * number for number in range(READINGS)]
    assert growth(leak[1:]) == {}
    watch = GrowthWatch()
    for number, size in enumerate([*leak, *leak]):
        if number == READINGS:
            watch.clear()
        watch.add(number * 60.0, {"a": (size, 1)})
        assert bool(watch.growth) == (number in (READINGS - 1, 2 * READINGS - 1))


def test_a_type_that_was_not_always_there_is_not_judged() -> None:
    watch = GrowthWatch()
    for number in range(READINGS):
        types = {"old": (MB, 1), "new": (5 * MB * number, 1)}
        if not number:
            del types["new"]
        watch.add(number * 60.0, types)
    assert watch.growth == {}


def test_a_process_of_many_types_is_watched_in_bounded_memory() -> None:
    watch = GrowthWatch()
    for number in range(3 * READINGS):
        watch.add(number * 60.0, {f"t{place}": (place, 1) for place in range(10 * WATCHED)})
    assert sum(len(types) for _, types in watch._readings) == READINGS * WATCHED


@given(st.lists(st.integers(0, 1 << 40), min_size=READINGS, max_size=READINGS))
def test_what_is_seen_has_grown(course: list[int]) -> None:
    for rate in growth(course).values():
        assert rate >= LEAST_RATE
        assert course[-1] - course[0] >= MIN_GROWTH
        assert min(course[-2:]) > max(course[:2])
