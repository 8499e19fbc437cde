"""How far a snapshot is, in words."""

from __future__ import annotations

import pytest

from heaptop.analysis.snapshot.building import StepPace, hunt_seconds_left, progress_words, seconds_left
from heaptop.injector.agent.snapshot import SNAPSHOT_PHASES
from heaptop.protocol.images import Progress

BUILD = SNAPSHOT_PHASES[:-1]


def at(phase: str, done: int, total: int = 1_000) -> Progress:
    return Progress(1, phase, done, total)


def test_the_time_left_shrinks_from_step_to_step_to_nothing() -> None:
    left = [seconds_left(at(phase, done), 10.0) for phase in BUILD for done in (1, 300, 700, 1_000)]
    known = [each for each in left if each is not None]
    assert known == sorted(known, reverse=True)
    assert len(known) == len(left)
    assert known[0] > 100
    assert known[-1] == pytest.approx(0)


def test_half_a_build_leaves_as_much_time_as_it_took() -> None:
    assert seconds_left(at("finding roots", 0), 12.0) == pytest.approx(12.0)


def test_no_time_is_forecast_where_nothing_tells_it() -> None:
    assert seconds_left(at("walking the heap", 5_000, 0), 9.0) is None
    assert seconds_left(at("walking the heap", 0), 9.0) is None
    assert seconds_left(at("answering", 500), 9.0) is None
    assert seconds_left(at("finding dominators", 500), 0.2) is None
    assert seconds_left(at("of another version", 500), 9.0) is None
    assert seconds_left(at("finding dominators", 5_000), 9.0) == pytest.approx(0)


def test_words_of_each_part_that_is_known() -> None:
    assert progress_words(at("walking the heap", 5_000, 0), 9.0) == "walking the heap"
    assert progress_words(at("answering", 430), 9.0) == "answering, 43 %"
    assert progress_words(at("finding roots", 0), 12.0) == "finding roots, 0 %, about 12 s left"
    assert progress_words(at("finding dominators", 1_000), 12.0).endswith("100 %, about 1 s left")


def left_after(pace: StepPace, progress: Progress, now: float) -> float | None:
    pace.take(progress, now)
    return pace.left


def test_a_step_of_an_answer_takes_at_least_what_its_own_pace_says() -> None:
    pace = StepPace()
    assert left_after(pace, at("answering", 100), 50.0) is None  # how long the first part took is unknown
    assert left_after(pace, at("answering", 200), 50.2) is None  # too soon
    assert left_after(pace, at("answering", 300), 51.0) == pytest.approx(3.5)
    assert left_after(pace, at("answering", 300), 52.0) == pytest.approx(7.0)  # it waits
    assert progress_words(at("answering", 300), 99.0, 7.9) == "answering, 30 %, at least 7 s left"
    assert progress_words(at("answering", 300), 99.0, 0.9) == "answering, 30 %"  # less than a second


@pytest.mark.parametrize("then", [at("answering", 0), at("answering", 10, 500), Progress(2, "answering", 500, 1_000)])
def test_the_next_step_or_query_has_a_pace_of_its_own(then: Progress) -> None:
    pace = StepPace()
    for done, now in ((100, 1.0), (200, 2.0)):
        left_after(pace, at("answering", done), now)
    assert left_after(pace, then, 3.0) is None


@pytest.mark.parametrize("said", [at("finding dominators", 500), at("answering", 500, 0), at("answering", 0)])
def test_a_step_that_tells_nothing_has_no_pace(said: Progress) -> None:
    """Of a build the whole is forecast."""
    pace = StepPace()
    assert [left_after(pace, said, now) for now in (1.0, 2.0, 3.0)] == [None] * 3


def test_the_walk_is_forecast_by_the_objects_of_the_last_census() -> None:
    walk = at("walking the heap", 500, 0)
    assert seconds_left(walk, 2.0, objects=1_000) == pytest.approx(2 * 0.87 / 0.13)
    assert seconds_left(at("walking the heap", 5_000, 0), 2.0, objects=1_000) == pytest.approx(2 * 0.74 / 0.26)
    assert progress_words(walk, 2.0, objects=1_000) == "walking the heap, about 13 s left"
    assert seconds_left(at("searching", 500, 0), 2.0, objects=1_000) is None


def test_a_check_takes_longer_than_a_first_mark_and_both_end() -> None:
    assert hunt_seconds_left(4.0, 4.0, is_first=False) > hunt_seconds_left(4.0, 4.0, is_first=True) > 0
    assert hunt_seconds_left(4.0, 9.0, is_first=False) < 0
