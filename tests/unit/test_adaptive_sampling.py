"""The sampling interval follows the program: which one the agent chooses, and that intervals of estimates stay right
where it changes. The simulation draws samples as the native core does, of blocks much smaller than any interval."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heaptop.analysis.samples.estimate import Sums, weight
from heaptop.analysis.samples.missed import LAG, MissedSamples
from heaptop.injector.agent.pacing import LEAST_INTERVAL, LIVE_ROOM, MOST_INTERVAL, QUOTA, next_interval
from heaptop.protocol.messages import Sampler, Tick
from tests.support.fake_core import SamplingCore, Talk, talking

KB, MB, GB = 1e3, 1e6, 1e9
TARGET = 200
START = 64 << 10
BLOCK = 64
powers = st.integers(9, 22).map(lambda power: 1 << power)


# -- the choice ---------------------------------------------------------------------------------------------


@given(powers, st.floats(0, 1e12), st.integers(1, 5000), st.integers(0, 1 << 20))
def test_an_interval_is_a_power_of_two_within_its_bounds(interval: int, rate: float, target: int, live: int) -> None:
    chosen = next_interval(interval, rate, target, live)
    assert LEAST_INTERVAL <= chosen <= MOST_INTERVAL
    assert chosen & (chosen - 1) == 0


@given(powers, st.floats(1, 1e12), st.integers(10, 5000))
def test_a_steady_program_has_half_to_twice_the_samples_asked_for_and_one_interval(
    interval: int, rate: float, target: int
) -> None:
    for _ in range(20):
        interval = next_interval(interval, rate, target, 0)
    assert next_interval(interval, rate, target, 0) == interval
    if interval < MOST_INTERVAL:
        assert rate / interval <= 2 * target
    if interval > LEAST_INTERVAL:
        assert rate / interval >= target / 2


def test_a_faster_program_is_sampled_more_coarsely_at_once_and_a_slower_one_more_finely_by_steps() -> None:
    assert next_interval(512, GB, TARGET, 0) == 4 << 20
    assert next_interval(4 << 20, 100 * KB, TARGET, 0) == 512 << 10
    assert next_interval(64 << 10, 5 * MB, TARGET, 0) == 32 << 10
    assert next_interval(1024, 0.0, TARGET, 0) == 512


def test_a_leak_of_days_does_not_fill_the_tables() -> None:
    """All of it lives: so much that each second's samples are in the tables for good."""
    interval, live = START, 0.0
    for _ in range(86_400):
        interval = next_interval(interval, 300 * KB, TARGET, int(live))
        live += 300 * KB / interval
    assert live < 1.3 * LIVE_ROOM


# -- the agent ----------------------------------------------------------------------------------------------


def following(core: SamplingCore, talk: Talk) -> Sampler:
    talk.give_core()
    return talk.sample(START, target=TARGET)


def intervals(talk: Talk, ticks: int) -> list[int]:
    """That heaptop knows of after each tick."""
    found = []
    for _ in range(ticks):
        talk.tick(Tick)
        assert talk.sampling.state is not None
        found.append(talk.sampling.state.interval)
    return found


def by_the_second(core: SamplingCore) -> Callable[[object], Callable[[], int]]:
    """A clock that goes on by a second with each read."""
    return lambda _: lambda: (core.reads + 1) * 10**9


def test_the_interval_follows_the_program_and_each_change_is_reported_before_its_samples() -> None:
    core = SamplingCore()
    with talking(core, clock=by_the_second(core)) as talk:
        state = following(core, talk)
        assert (state.on, state.interval, state.target) == (True, START, TARGET)
        assert core.options["quota"] == QUOTA * TARGET
        core.bytes_per_read = int(100 * MB)
        assert intervals(talk, 4)[-1] == 512 << 10
        core.bytes_per_read = 0
        assert intervals(talk, 4)[1:] == [64 << 10, 8 << 10, 1 << 10]
        assert core.options["quota"] == QUOTA * TARGET
        assert talk.sampling.samples.live_block_count == core.reads
        assert talk.sampling.sampling_status.voids == 0


def test_an_interval_that_was_asked_for_stays() -> None:
    core = SamplingCore()
    with talking(core, clock=by_the_second(core)) as talk:
        following(core, talk)
        core.bytes_per_read = int(100 * MB)
        intervals(talk, 3)
        state = talk.sample(8 << 10)
        assert (state.interval, state.target, core.options["quota"]) == (8 << 10, 0, 0)
        assert intervals(talk, 3) == [8 << 10] * 3


def test_more_samples_or_frames_leave_the_interval_that_was_found() -> None:
    core = SamplingCore()
    with talking(core, clock=by_the_second(core)) as talk:
        following(core, talk)
        core.bytes_per_read = int(100 * MB)
        found = intervals(talk, 4)[-1]
        state = talk.sample(START, target=1000, depth=7)
        assert (state.interval, state.target, state.depth) == (found, 1000, 7)


def test_reads_that_are_close_together_choose_once() -> None:
    core = SamplingCore()
    with talking(core, clock=lambda _: lambda: 10**9 + core.reads * 10**8) as talk:
        following(core, talk)
        core.bytes_per_read = int(100 * MB)
        assert intervals(talk, 5) == [START] * 5


def test_where_the_core_cannot_be_asked_the_choice_is_made_at_the_next_tick() -> None:
    core = SamplingCore()
    with talking(core, clock=by_the_second(core)) as talk:
        following(core, talk)
        core.bytes_per_read = int(100 * MB)
        core.set_errors = [RuntimeError("sampling is off")] * 3
        assert intervals(talk, 3) == [START] * 3
        assert intervals(talk, 4)[-1] == 512 << 10


# -- estimates ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Site:
    """What it allocates each second, where all sites allocate so much, and how much of it lives to the end."""

    rate: Callable[[float], float]
    lives: Callable[[float], float] = lambda _: 1.0


def poisson(source: random.Random, mean: float) -> int:
    if mean > 20:
        return max(0, round(source.gauss(mean, math.sqrt(mean))))
    count, product, least = 0, source.random(), math.exp(-mean)
    while product > least:
        count += 1
        product *= source.random()
    return count


@dataclass
class Outcome:
    """Of a site: what was allocated and what lives of it, and what a missed sample may have represented of both."""

    allocated: Sums
    live: Sums
    missed: MissedSamples


def simulate(seed: int, seconds: Sequence[float], site: Site) -> Outcome:
    """A second is a tick. What the site does not allocate, others do, of which as much lives."""
    source = random.Random(seed)
    interval = START
    found = Outcome(Sums(), Sums(), MissedSamples())
    for total in seconds:
        left, lives = total, site.lives(total)
        while left > 0:
            piece = left if interval == MOST_INTERVAL else source.gammavariate(QUOTA * TARGET, 1) * interval
            piece = min(piece, left)
            for rate, is_site in ((site.rate(total), True), (total - site.rate(total), False)):
                mean = rate * piece / total / interval
                survivors, dead = poisson(source, mean * lives), poisson(source, mean * (1 - lives))
                found.missed.born([interval] * (survivors + dead))
                found.missed.died([interval] * dead)
                if is_site:
                    found.allocated.add_alike(weight(BLOCK, interval), survivors + dead)
                    found.live.add_alike(weight(BLOCK, interval), survivors)
            left -= piece
            if left > 0:
                interval *= 2
        found.missed.allocated(interval, round(total))
        interval = next_interval(interval, total, TARGET, 0)
    return found


def share(part: float, lives: Callable[[float], float] = lambda _: 1.0) -> Site:
    return Site(lambda total: part * total, lives)


def steady(rate: float) -> Site:
    return Site(lambda total: min(rate, total))


STEPS = [100 * KB] * 10 + [100 * MB] * 5 + [MB] * 10 + [GB] * 3 + [100 * KB] * 10
BURST = [100 * KB] * 20 + [GB] + [100 * KB] * 20
TURNS = [100 * KB, 100 * MB] * 10
WANDERING = [10 ** (5 + 3 * abs(math.sin(second / 7))) for second in range(60)]
RUNS = 500


def covered(seconds: Sequence[float], site: Site) -> tuple[float, float, float]:
    """In percent of the runs in which it was sampled: how often the bytes that were allocated are within their
    interval, and those that live; and the mean of the estimates, beside the truth."""
    truth = sum(site.rate(total) for total in seconds)
    living = sum(site.rate(total) * site.lives(total) for total in seconds)
    hits, live_hits, runs, live_runs, mean = 0, 0, 0, 0, 0.0
    for seed in range(RUNS):
        found = simulate(seed, seconds, site)
        allocated, live = found.allocated, found.live
        mean += allocated.rounded_bytes / truth / RUNS
        one = allocated.estimate(found.missed.of_all())
        runs += one.samples > 0
        in_bytes = one.low <= truth <= one.high
        # Blocks of one size: their number is known as well as their bytes are.
        assert one.count == pytest.approx(one.bytes / BLOCK, abs=1)
        assert in_bytes == (one.low / BLOCK <= truth / BLOCK <= one.high / BLOCK)
        hits += one.samples > 0 and in_bytes
        alive = live.estimate(found.missed.of_live())
        live_runs += alive.samples > 0
        live_hits += alive.samples > 0 and alive.low <= living <= alive.high
    return 100 * hits / runs, 100 * live_hits / live_runs, mean


@pytest.mark.sample(2)
@pytest.mark.parametrize("seconds", [STEPS, BURST, TURNS, WANDERING], ids=["steps", "burst", "turns", "wandering"])
@pytest.mark.parametrize(("part", "most"), [(0.3, 97), (0.03, 98)])
def test_the_truth_lies_in_93_to_97_of_100_intervals_also_where_the_sampling_interval_changed(
    seconds: Sequence[float], part: float, most: float
) -> None:
    """Or 98, where a site has a few samples of the burst, at half the interval that was in force at its end."""
    allocated, live, mean = covered(seconds, share(part))
    assert 93 <= allocated <= most
    assert 93 <= live <= most
    assert mean == pytest.approx(1, rel=0.02)


@pytest.mark.parametrize("seconds", [STEPS, BURST, TURNS], ids=["steps", "burst", "turns"])
@pytest.mark.parametrize("rate", [5 * KB, 50 * KB])
def test_a_slow_site_beside_a_burst_has_an_interval_that_is_rather_too_wide(
    seconds: Sequence[float], rate: float
) -> None:
    """It hardly ever has a sample of the burst; without what the head of ``estimate`` says it would be right in 60."""
    allocated, _, mean = covered(seconds, steady(rate))
    assert 93 <= allocated <= 99.5
    assert mean == pytest.approx(1, rel=0.2)


def test_where_a_burst_has_died_what_lives_is_known_nearly_as_well_as_without_it() -> None:
    site = share(0.3, lambda total: 0.0 if total > 10 * MB else 0.5)
    _, live, _ = covered(BURST, site)
    assert 93 <= live <= 98.5
    found = simulate(1, BURST, site)
    assert found.missed.of_live() == LAG
    assert found.missed.of_all() > 10 * LAG
    one = found.live.estimate(found.missed.of_live())
    assert one.high - one.low < one.bytes


@given(st.lists(st.tuples(st.integers(1, 1 << 20), powers), min_size=1, max_size=20), powers)
def test_what_may_have_been_missed_never_makes_the_upper_end_lower(blocks: list[tuple[int, int]], missed: int) -> None:
    sums = Sums.of(blocks)
    plain, wide = sums.estimate(), sums.estimate(missed)
    assert wide.high >= plain.high
    assert sum(size for size, _ in blocks) <= wide.low <= wide.bytes <= wide.high


@pytest.mark.parametrize("count", [1, 3, 20, 200])
def test_where_all_were_sampled_at_the_coarsest_it_changes_nothing(count: int) -> None:
    sums = Sums.of([(BLOCK, MOST_INTERVAL)] * count)
    plain, same = sums.estimate(), sums.estimate(MOST_INTERVAL)
    assert same.high == pytest.approx(plain.high, rel=0.01)
    assert same.low == pytest.approx(plain.low, rel=0.05, abs=MOST_INTERVAL / 50)
