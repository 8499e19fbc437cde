"""Jumps of a recorded heap: what stands out from how it usually grows."""

from __future__ import annotations

from itertools import accumulate, pairwise

from hypothesis import given
from hypothesis import strategies as st

from heaptop.analysis.reports.jumps import Jump, jumps, largest

MIB = 1 << 20
SECOND = 10**9


def course(*steps: int, size: int = 100 * MIB, seconds: int = 60) -> list[tuple[int, int]]:
    """A heap of this size that grows by these steps, so many seconds apart."""
    return [(place * seconds * SECOND, max(size, 0)) for place, size in enumerate(accumulate(steps, initial=size))]


def test_a_step_far_beyond_the_usual_growth_is_a_jump() -> None:
    points = course(*[MIB // 10] * 20, 30 * MIB, *[MIB // 10] * 20)
    assert jumps(points) == [Jump(20 * 60 * SECOND, 21 * 60 * SECOND, 30 * MIB)]


def test_steady_growth_has_no_jump_however_fast_or_unevenly_it_is_counted() -> None:
    sparse, dense = course(*[10 * MIB] * 20), course(*[MIB] * 20, size=300 * MIB, seconds=6)
    late = [(sparse[-1][0] + time, size) for time, size in dense[1:]]
    assert jumps(sparse) == []
    assert jumps([*sparse, *late]) == []


def test_a_jump_over_several_censuses_is_one() -> None:
    (jump,) = jumps(course(*[0] * 10, 5 * MIB, 9 * MIB, 4 * MIB, *[0] * 10))
    assert jump == Jump(10 * 60 * SECOND, 13 * 60 * SECOND, 18 * MIB)


def test_noise_and_what_is_freed_again_is_no_jump() -> None:
    assert jumps(course(*[3 * MIB, -3 * MIB] * 20)) == []
    assert jumps(course(*[0] * 10, -50 * MIB, *[0] * 10)) == []


def test_of_few_censuses_the_least_growth_is_the_usual_one() -> None:
    found = jumps(course(MIB // 4, 37 * MIB, 40 * MIB, size=2 * MIB))
    assert [jump.bytes // MIB for jump in found] == [37, 40]
    assert jumps(course(3 * MIB, -3 * MIB, 3 * MIB)) == []
    assert jumps(course(20 * MIB, 20 * MIB, 21 * MIB)) == []
    assert jumps(course(20 * MIB)) == [], "nothing is known of what is usual"
    assert jumps([]) == []


def test_resident_memory_that_jumps_alone_is_a_jump_of_its_own() -> None:
    heap = course(*[0] * 10, 30 * MIB, *[0] * 10)
    rss = course(*[0] * 10, 30 * MIB, *[0] * 5, 20 * MIB, *[0] * 4)
    assert [(jump.bytes // MIB, jump.is_rss) for jump in jumps(heap, rss)] == [(30, False), (20, True)]


def test_heaptops_own_memory_after_the_attach_is_no_jump_of_the_program() -> None:
    heap = course(*[MIB] * 10, seconds=10)
    attach = course(5 * MIB, *[MIB] * 9, seconds=10)
    assert jumps(heap, attach) == []
    more, later = course(50 * MIB, *[MIB] * 9, seconds=10), course(*[MIB] * 4, 5 * MIB, *[MIB] * 5, seconds=10)
    assert [(jump.bytes // MIB, jump.is_rss) for jump in jumps(heap, more)] == [(50, True)]
    assert [(jump.bytes // MIB, jump.is_rss) for jump in jumps(heap, later)] == [(5, True)]


def test_the_largest_come_first() -> None:
    found = jumps(course(*[0] * 5, 4 * MIB, *[0] * 5, 9 * MIB, *[0] * 5, 6 * MIB, *[0] * 5))
    assert [jump.bytes // MIB for jump in found] == [4, 9, 6]
    assert [jump.bytes // MIB for jump in largest(found, 2)] == [9, 6]


@given(st.lists(st.integers(-50 * MIB, 50 * MIB), max_size=40))
def test_jumps_are_rises_that_do_not_overlap(steps: list[int]) -> None:
    points = course(*steps, size=2000 * MIB)
    sizes = dict(points)
    found = jumps(points)
    for jump in found:
        assert jump.begin_ns < jump.end_ns
        assert jump.bytes == sizes[jump.end_ns] - sizes[jump.begin_ns]
    assert all(before.end_ns < after.begin_ns for before, after in pairwise(found))
