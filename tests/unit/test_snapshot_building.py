"""How far a snapshot is, in words."""

from __future__ import annotations

import pytest

from heaptop.analysis.snapshot.building import progress_words, seconds_left
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
