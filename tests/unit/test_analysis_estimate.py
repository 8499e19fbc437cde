"""Estimates from samples: unbiased, exact where they say so, and 95 times in 100 the truth lies in the interval."""

from __future__ import annotations

import math
import random
import tracemalloc
from bisect import bisect_right
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heaptop.analysis.samples import estimate
from heaptop.analysis.samples.estimate import Estimate, Sums, chance, joint_error, poisson_interval, weight

INTERVAL = 64 * 1024
MB = 1_000_000

BLOCKS = {
    "small": (64,),
    "mixed": (48,) * 200 + (120,) * 100 + (1_000,) * 20 + (8_192,) * 3 + (40_000, 200_000),
}
"""Sizes of the blocks of a planted site, over and over until it is full."""


def sampled(pattern: tuple[int, ...], total: int, seed: int, interval: int = INTERVAL) -> tuple[list[int], int]:
    """Plant blocks of these sizes in turn, about ``total`` bytes of them, and sample them as the native core does:
    a geometric gap of bytes from one sample to the next, drawn anew at the end of a sampled block.

    Returns:
        The sizes of the sampled blocks, and how many bytes were planted.
    """
    random_source = random.Random(seed)
    ends = list(accumulate(pattern))
    planted = ends[-1] * max(round(total / ends[-1]), 1)
    blocks, at, rate = [], 0, math.log1p(-1 / interval)
    while True:
        byte = at + int(math.log(1.0 - random_source.random()) / rate)
        if byte >= planted:
            return blocks, planted
        begin = byte // ends[-1] * ends[-1]
        which = bisect_right(ends, byte - begin)
        blocks.append(pattern[which])
        at = begin + ends[which]


def estimates(name: str, total: int, seeds: range) -> tuple[list[Estimate], int]:
    runs = [sampled(BLOCKS[name], total, seed) for seed in seeds]
    return [Sums.of([(size, INTERVAL) for size in blocks]).estimate() for blocks, _ in runs], runs[0][1]


@pytest.mark.parametrize("blocks", BLOCKS)
@pytest.mark.parametrize("megabytes", [1, 10, 100])
def test_the_truth_lies_in_the_interval_in_93_to_97_of_100_runs(megabytes: int, blocks: str) -> None:
    """Ten times a hundred runs, since one hundred says 95 for anything from 91 to 98; no seed is chosen."""
    found, planted = estimates(blocks, megabytes * MB, range(1_000))
    assert 93 <= sum(one.low <= planted <= one.high for one in found) / 10 <= 97
    assert sum(one.bytes for one in found) / len(found) == pytest.approx(planted, rel=0.03)


@pytest.mark.parametrize(("blocks", "least"), [("small", 0.94), ("mixed", 0.915)])
def test_the_interval_is_honest_from_a_few_samples_on(blocks: str, least: float) -> None:
    """Half a megabyte is eight samples of small blocks; or of mixed ones four, which may all be of the larger."""
    found, planted = estimates(blocks, MB // 2, range(2_000))
    assert least <= sum(one.low <= planted <= one.high for one in found) / len(found) <= 0.98


def test_large_blocks_are_nearly_exact() -> None:
    huge = Sums.of([(50 * MB, INTERVAL)] * 2).estimate()
    assert huge == Estimate(100 * MB, 2, 100 * MB, 100 * MB, 2)
    assert huge.exact
    large = Sums.of([(MB, INTERVAL)] * 2).estimate()
    assert (large.bytes, large.count, large.low) == (2 * MB, 2, 2 * MB)
    assert large.high < 2.01 * MB


def test_a_constant_part_widens_nothing() -> None:
    """Ten megabytes in one block, and a few small samples: the interval is that of the small ones, moved."""
    small = [(64, INTERVAL)] * 4
    alone, beside = Sums.of(small).estimate(), Sums.of([*small, (10 * MB, INTERVAL)]).estimate()
    assert beside.low == pytest.approx(alone.low + 10 * MB, abs=200)
    assert beside.high == pytest.approx(alone.high + 10 * MB, abs=200)


def test_nothing_sampled_is_nothing_said() -> None:
    assert Sums().estimate() == Estimate(0, 0, 0, 0, 0)


def test_intervals_may_change_in_between() -> None:
    """Half of a site sampled at one rate, half at another: right on average, by 2,000 runs."""
    total = 0
    for seed in range(2_000):
        fine, planted = sampled((96,), MB // 2, seed, 8_192)
        coarse, _ = sampled((96,), MB // 2, seed + 10_000, 524_288)
        total += Sums.of([(96, 8_192) for _ in fine] + [(96, 524_288) for _ in coarse]).rounded_bytes
    assert total / 2_000 == pytest.approx(2 * planted, rel=0.04)


sizes = st.integers(1, 1 << 40)
intervals = st.integers(1, 1 << 30)


@given(sizes, intervals)
def test_a_weight_is_the_inverse_of_the_chance(size: int, interval: int) -> None:
    one = weight(size, interval)
    p = chance(size, interval)
    assert 0 < p <= 1
    assert one.count / 65536 == pytest.approx(1 / p, rel=1e-4)
    assert one.bytes / 65536 == pytest.approx(size / p, rel=1e-4)
    assert one.bytes >= size * 65536
    assert one.variance == pytest.approx(size * size * (1 - p) / p**2, rel=1e-6, abs=max(1.0, size * size * 1e-15))


@given(st.lists(st.tuples(sizes, intervals), max_size=20), st.lists(st.tuples(sizes, intervals), max_size=20))
def test_what_is_taken_away_leaves_nothing_behind(stays: list[tuple[int, int]], goes: list[tuple[int, int]]) -> None:
    sums = Sums.of(stays + goes)
    assert sums == Sums.of(stays) + Sums.of(goes)
    for size, interval in goes:
        sums.remove(weight(size, interval))
    assert sums == Sums.of(stays)


@given(st.lists(st.tuples(sizes, intervals), min_size=1, max_size=20))
def test_an_interval_holds_its_estimate_and_not_less_than_was_seen(blocks: list[tuple[int, int]]) -> None:
    one = Sums.of(blocks).estimate()
    assert sum(size for size, _ in blocks) <= one.low <= one.bytes <= one.high
    assert one.count >= one.samples == len(blocks)


def poisson_below(count: int, mean: float) -> float:
    """The chance of less than ``count``, and half that of ``count`` itself, by the plain sum."""
    terms = [math.exp(k * math.log(mean) - mean - math.lgamma(k + 1)) for k in range(count + 1)]
    return sum(terms[:-1]) + terms[-1] / 2


@pytest.mark.parametrize("count", [1, 2, 3, 10, 50, 99, 100, 400])
def test_the_interval_of_a_count_is_mid_p(count: int) -> None:
    low, high = poisson_interval(float(count))
    assert poisson_below(count, low) == pytest.approx(0.975, abs=3e-4)
    assert poisson_below(count, high) == pytest.approx(0.025, abs=3e-4)


@given(st.floats(1, 1e12), st.floats(1, 1.5))
def test_more_samples_move_the_interval_up_and_make_it_relatively_narrower(count: float, factor: float) -> None:
    more = count * factor
    (low, high), (next_low, next_high) = poisson_interval(count), poisson_interval(more)
    slack = 3e-3 * math.sqrt(count)  # where the approximation takes over
    assert 0 < low < count < high
    assert next_low >= low - slack
    assert next_high >= high - slack
    assert (next_high - next_low) / more <= (high - low + 2 * slack) / count


def test_the_error_of_an_estimate_reaches_the_end_of_its_interval_that_is_farther() -> None:
    assert Estimate(1000, 1, 900, 1200, 5).error == 200
    assert Estimate(1000, 1, 700, 1100, 5).error == 300
    assert Estimate(1000, 1, 1000, 1000, 5).error == 0, "exact"
    assert joint_error((300, 400)) == 500
    assert joint_error(()) == 0


def test_the_interval_is_called_by_what_it_is_computed_with() -> None:
    assert estimate.INTERVAL == "95 % interval"
    assert round(estimate.NORMAL, 6) == 1.959964


def test_what_is_remembered_of_blocks_is_soon_full_and_small() -> None:
    """A host agent reads the blocks of many programs for months: what grows slowly looks like a leak there."""
    weight.cache_clear()
    poisson_interval.cache_clear()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for number in range(1, 1 << 15):
            weight(number, 1 << 19)
            poisson_interval(100.5 + number)
        assert tracemalloc.get_traced_memory()[0] - before < 3 << 20
    finally:
        tracemalloc.stop()
