"""Survival and mortality: the estimates against textbook formulas, and against lifetimes whose truth is known."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from math import exp, log, log1p, log10, sqrt
from random import Random
from statistics import mean, median

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from heaptop.analysis.samples.block_lifetimes import LiveBlock, Lives
from heaptop.analysis.samples.estimate import Weight, chance, weight
from heaptop.analysis.samples.survival import STEPS, Measure, Survival, SurvivalPoint, bin_of, edge

Z = 1.959964


def plain(volume: int = 1) -> Weight:
    """Of a block that is always sampled."""
    return weight(volume, 1)


def survival(
    lives: Lives, live_blocks: list[LiveBlock] | None = None, group: str | None = None, measure: Measure = "bytes"
) -> Survival:
    found = lives.survival(group, live_blocks or [], measure)
    assert found is not None
    return found


def at(curve: Survival, age: float) -> SurvivalPoint:
    found = curve.at(age)
    assert found is not None
    return found


@given(st.lists(st.tuples(st.integers(0, 5000), st.integers(1, 300)), min_size=1, max_size=120), st.integers(0, 120))
def test_it_makes_no_difference_when_deaths_are_summed_up(deaths: list[tuple[int, int]], copied_at: int) -> None:
    late, always, copied = Lives(), Lives(), None
    for number, (age, size) in enumerate(deaths):
        if number == copied_at:
            copied = late.freeze()
        for lives in (late, always):
            lives.add_dead((None, "a"), bin_of(age), plain(size))
        survival(always, group="a")
    assert late.ended("a") == always.ended("a") == (len(deaths), sum(size for _, size in deaths))
    assert survival(late, group="a") == survival(always, group="a")
    assert late.classes((100, 1000), "a") == always.classes((100, 1000), "a")
    if copied is not None:
        assert copied.ended("a")[0] == copied_at
        assert copied_at == 0 or survival(copied, group="a").deaths == copied_at


# -- formulas -----------------------------------------------------------------------------------------------

EXITS = st.lists(st.tuples(st.integers(0, 5000), st.integers(1, 9), st.booleans()), min_size=1, max_size=40)
"""(age, volume, whether it died)."""


def fed(exits: list[tuple[int, int, bool]]) -> Survival:
    """Half of those that did not die live, half were lost: it makes no difference."""
    lives, live_blocks = Lives(), []
    for number, (age, volume, died) in enumerate(exits):
        if died:
            lives.add_dead((None,), bin_of(age), plain(volume))
        elif number % 2:
            lives.add_lost((), bin_of(age), plain(volume))
        else:
            live_blocks.append(LiveBlock(age, plain(volume)))
    return survival(lives, live_blocks)


def kaplan_meier(exits: list[tuple[float, int, bool]], age: float) -> float:
    """Weighted, of single ages; deaths before what is censored at the same age."""
    out = 1.0
    for when in sorted({one for one, _, died in exits if died and one < age}):
        at_risk = sum(volume for one, volume, _ in exits if one >= when)
        out *= 1 - sum(volume for one, volume, died in exits if died and one == when) / at_risk
    return out


@given(st.integers(0, 1 << 62))
def test_a_bin_holds_its_ages(age: int) -> None:
    index = bin_of(age)
    assert edge(index) * (1 - 1e-12) <= age or index == 0
    assert age < edge(index + 1) * (1 + 1e-12)
    assert edge(index + 1) / max(edge(index), 1) < 1.09


@pytest.mark.parametrize("power", range(1, 19))
def test_powers_of_ten_are_edges(power: int) -> None:
    assert bin_of(10**power) == power * STEPS
    assert edge(power * STEPS) == 10**power
    assert bin_of(10**power * 0.999999) == power * STEPS - 1


@given(EXITS)
def test_the_curve_is_kaplan_and_meiers_but_for_the_order_within_a_bin(exits: list[tuple[int, int, bool]]) -> None:
    """At the edges it lies between the curves with all that is censored in a bin first, and last."""
    curve = fed(exits)
    first = [(bin_of(age) + (0.5 if died else 0.25), volume, died) for age, volume, died in exits]
    last = [(bin_of(age) + (0.5 if died else 0.75), volume, died) for age, volume, died in exits]
    for point in curve.points[1:]:
        index = round(log10(point.age) * STEPS)
        low, high = kaplan_meier(first, index), kaplan_meier(last, index)
        assert low - 1e-9 <= point.object_survival <= high + 1e-9


@given(EXITS)
def test_without_anything_censored_the_curve_is_the_share_that_lived_so_long(
    exits: list[tuple[int, int, bool]],
) -> None:
    dead = [(age, volume, True) for age, volume, _ in exits]
    curve = fed(dead)
    total = sum(volume for _, volume, _ in dead)
    for point in curve.points[1:]:
        index = round(log10(point.age) * STEPS)
        longer = sum(volume for age, volume, _ in dead if bin_of(age) >= index)
        assert point.object_survival == pytest.approx(longer / total, abs=1e-9)
    assert curve.points[-1].object_survival == 0
    assert (curve.deaths, curve.censored) == (len(dead), 0)


def wilson(share: float, number: float) -> tuple[float, float]:
    square = Z**2 / number
    middle, reach = share + square / 2, Z * sqrt(share * (1 - share) / number + square / (4 * number))
    return max((middle - reach) / (1 + square), 0), min((middle + reach) / (1 + square), 1)


@given(st.lists(st.tuples(st.integers(1, 60), st.booleans()), min_size=2, max_size=40))
def test_with_equal_weights_the_bands_are_greenwoods(exits: list[tuple[int, bool]]) -> None:
    """Deaths and censored blocks are in bins of their own, where the curve is exactly Kaplan and Meier's."""
    places = [(2 * place + (not died), died) for place, died in exits]
    curve = fed([(round(edge(place + 40) * 1.04), 3, died) for place, died in places])
    number = len(places)
    variance, left = 0.0, 1.0
    for point in curve.points[2:]:
        index = round(log10(point.age) * STEPS) - 41
        at_risk = sum(1 for place, _ in places if place >= index)
        died = sum(1 for place, dead in places if place == index and dead)
        if died == at_risk:
            break
        variance += died / (at_risk * (at_risk - died))
        left *= 1 - died / at_risk
        if variance:
            worth = min((1 - left) / (left * variance), number)
            assert (point.low, point.high) == pytest.approx(wilson(left, worth), abs=1e-6)
            assert point.low <= point.object_survival <= point.high


@given(EXITS)
def test_every_curve_falls_and_its_parts_belong_together(exits: list[tuple[int, int, bool]]) -> None:
    curve = fed(exits)
    assert curve.points[0].age == 0
    for left, right in zip(curve.points, curve.points[1:], strict=False):
        assert left.age < right.age
        assert right.object_survival <= left.object_survival
        assert right.nursery_survival <= left.nursery_survival + 1e-12
    for point in curve.points:
        assert 0 <= point.low <= point.object_survival <= point.high <= 1
        assert point.object_survival <= point.nursery_survival + 1e-12  # §1.1: everywhere lower
        assert point.nursery_mortality >= -1e-12
    for rate in curve.mortality:
        assert 0 < rate.low <= rate.object_mortality <= rate.high


@given(EXITS, st.floats(0.02, 0.98))
def test_nursery_survival_is_the_mean_of_object_survival_and_its_mortality_the_slope(
    exits: list[tuple[int, int, bool]], share: float
) -> None:
    """By the definitions, in small steps."""
    curve = fed(exits)
    age = curve.points[-1].age * share
    steps = 1000
    area = sum(at(curve, age * (place + 0.5) / steps).object_survival for place in range(steps)) * age / steps
    point = at(curve, age)
    assert point.nursery_survival == pytest.approx(area / age, abs=2e-3)
    small = age * 1e-5
    before, after = at(curve, age - small), at(curve, age + small)
    assume(after.nursery_survival > 0.01)
    slope = (log(before.nursery_survival) - log(after.nursery_survival)) / (2 * small)
    assert point.nursery_mortality * age == pytest.approx(slope * age, abs=2e-3)


def test_between_edges_the_mortality_is_constant() -> None:
    lives = Lives()
    for age in (100, 5000):
        lives.add_dead((None,), bin_of(age), plain())
    curve = survival(lives)
    low, high = edge(bin_of(100)), edge(bin_of(100) + 1)
    assert at(curve, low).object_survival == 1
    assert at(curve, high).object_survival == pytest.approx(0.5)
    assert at(curve, (low + high) / 2).object_survival == pytest.approx(sqrt(0.5))
    assert at(curve, 1000).object_survival == pytest.approx(0.5)
    assert curve.age_at(0.75) == pytest.approx(low + (high - low) * log(4 / 3) / log(2))
    assert curve.age_at(0.5) == pytest.approx(high)
    assert curve.at(edge(bin_of(5000) + 1) + 1) is None
    assert at(curve, edge(bin_of(5000) + 1)).object_survival == 0


def test_beyond_the_oldest_nothing_is_known() -> None:
    curve = survival(Lives(), [LiveBlock(1000, plain())])
    assert at(curve, 900).object_survival == 1
    assert curve.at(1200) is None
    assert curve.age_at(0.5) is None


def test_few_that_live_are_no_certainty() -> None:
    """Three blocks of which none died: at least 44 % live so long, says Wilson, and not 100 %."""
    curve = survival(Lives(), [LiveBlock(1000, plain())] * 3)
    point = at(curve, 800)
    assert (point.object_survival, point.high) == (1, 1)
    assert point.low == pytest.approx(wilson(1, 3)[0])
    assert 0.4 < point.low < 0.5


def test_those_that_are_younger_say_nothing_of_the_age_that_few_have_reached() -> None:
    curve = survival(Lives(), [LiveBlock(100, plain())] * 100 + [LiveBlock(5000, plain())] * 3)
    assert at(curve, 90).low > 0.96
    assert at(curve, 4500).low == pytest.approx(wilson(1, 3)[0])


def test_a_light_death_among_heavy_blocks_says_little() -> None:
    lives = Lives()
    lives.add_dead((None,), bin_of(100), plain(1))
    heavy = [LiveBlock(2000, plain(10**6))] * 4
    point = at(survival(lives, heavy), 1000)
    assert point.object_survival == pytest.approx(1, abs=1e-6)
    assert point.low < 0.6


def test_nothing_known_is_no_curve() -> None:
    assert Lives().survival() is None
    assert Lives().survival("group") is None


# -- what is kept -------------------------------------------------------------------------------------------


def test_groups_are_apart_and_the_whole_has_all() -> None:
    lives = Lives(group_limit=2)
    lives.add_dead((None, "a"), bin_of(10), plain(1))
    lives.add_dead((None, "a", "b"), bin_of(1000), plain(3))
    lives.add_dead((None, "c"), bin_of(10), plain(4))
    assert lives.groups() == ("a", "b")
    assert (lives.full, lives.keeps("b"), lives.keeps("c"), lives.keeps(None)) == (True, True, False, True)
    assert at(survival(lives, group="a"), 100).object_survival == pytest.approx(0.75)
    assert at(survival(lives, group="b"), 100).object_survival == 1
    assert at(survival(lives), 100).object_survival == pytest.approx(3 / 8)
    assert lives.survival("c") is None


def test_a_view_leaves_no_trace() -> None:
    lives = Lives()
    lives.add_dead((None, "a"), bin_of(10), plain())
    lives.add_lost(["a"], bin_of(20), plain())
    before = survival(lives, group="a")
    assert survival(lives, [LiveBlock(20, plain())] * 5, "a") != before
    assert survival(lives, group="a") == before


def test_threads_clocks_may_make_a_lifetime_negative() -> None:
    lives = Lives()
    lives.add_dead((None,), bin_of(-5), plain())
    assert (survival(lives).points[-1].age, survival(lives).points[-1].object_survival) == (edge(1), 0)


def test_however_many_deaths_a_group_takes_few_numbers() -> None:
    lives, random = Lives(), Random(1)
    one = weight(100, 65536)
    for _ in range(20_000):
        lives.add_dead((None,), bin_of(int(random.lognormvariate(14, 4))), one)
    curve = survival(lives)
    assert curve.deaths == 20_000
    assert len(curve.points) < 400


@given(EXITS, st.integers(2, 6000))
def test_classes_have_everything_once_and_bounds_are_near(exits: list[tuple[int, int, bool]], bound: int) -> None:
    lives = Lives()
    for age, volume, died in exits:
        (lives.add_dead if died else lives.add_lost)((None,) if died else (), bin_of(age), plain(volume))
    below, above = lives.classes((bound,))
    parts = [one.bytes for found in (below, above) for one in (found.died, found.lost)]
    assert sum(parts) == sum(volume for _, volume, _ in exits)
    surely = [volume for age, volume, died in exits if died and age < bound * 0.87]
    perhaps = [volume for age, volume, died in exits if died and age < bound * 1.15]
    assert sum(surely) <= below.died.bytes <= max(sum(perhaps), sum(surely))


def test_volume_is_counted_in_the_class_of_its_lifetime() -> None:
    lives = Lives(group_limit=1)
    for age, volume in ((0, 1), (999, 2), (1000, 4), (99_999, 8), (100_000, 16)):
        lives.add_dead((None, "a"), bin_of(age), plain(volume))
    lives.add_lost(["a"], bin_of(5000), plain(32))
    live_blocks = [LiveBlock(1000, plain(64)), LiveBlock(10**9, plain(128))]
    for group in (None, "a"):
        found = lives.classes((1000, 100_000), group, live_blocks)
        assert [(one.low, one.high) for one in found] == [(0, 1000), (1000, 100_000), (100_000, None)]
        assert [(one.died.bytes, one.live_blocks.bytes, one.lost.bytes) for one in found] == [
            (3, 0, 0),
            (12, 64, 32),
            (16, 128, 0),
        ]
        assert [one.died.samples for one in found] == [2, 2, 1]
    assert lives.classes((1000,), "b") == ()


def test_classes_have_intervals_of_the_samples_they_are_from() -> None:
    lives = Lives()
    for _ in range(10):
        lives.add_dead((None,), bin_of(10_000), weight(100, 65536))
    below, above = lives.classes((1000,))
    assert above.died.samples == 10
    assert above.died.bytes == pytest.approx(655_860, rel=1e-3)
    assert above.died.low < 400_000
    assert above.died.high > 1_000_000
    assert below.died.samples == 0


# -- truth --------------------------------------------------------------------------------------------------

INTERVAL = 65536
SIZES = (50, 800, 20_000, 500_000)


@dataclass(frozen=True)
class Truth:
    """Lifetimes of a known distribution."""

    draw: Callable[[Random], float]
    survival: Callable[[float], float]
    mortality: Callable[[float], float]


def mixture(*parts: tuple[float, float]) -> Truth:
    """Exponential lifetimes: (share, mean) each."""

    def draw(random: Random) -> float:
        (long,) = random.choices([long for _, long in parts], [share for share, _ in parts])
        return random.expovariate(1 / long)

    def live_blocks(age: float) -> float:
        return sum(share * exp(-age / long) for share, long in parts)

    return Truth(
        draw, live_blocks, lambda age: sum(s * exp(-age / long) / long for s, long in parts) / live_blocks(age)
    )


TRUTHS = {"exponential": mixture((1, 1.2e7)), "bimodal": mixture((0.9, 1e5), (0.1, 2e7))}
RUNS = 30


@dataclass
class Run:
    """A program that allocates as many bytes of each size, sampled as the sampler does."""

    exits: list[tuple[int, int, bool]]
    """(age, size, whether it died)."""
    clock: int

    def survival(self, measure: Measure = "bytes") -> Survival:
        lives = Lives()
        for age, size, died in self.exits:
            if died:
                lives.add_dead((None,), bin_of(age), weight(size, INTERVAL))
        live_blocks = [LiveBlock(age, weight(size, INTERVAL)) for age, size, died in self.exits if not died]
        return survival(lives, live_blocks, measure=measure)


def births(random: Random, size: int, every: float, clock: int) -> Iterator[float]:
    """When sampled blocks of this size are born, if one is allocated each ``every`` bytes: each has its own chance."""
    missed = log1p(-chance(size, INTERVAL))
    number = 0
    while (birth := every * (number := number + 1 + int(log(random.random()) / missed))) < clock:
        yield birth


def run(seed: int, truth_of: dict[int, Truth], samples: int = 500) -> Run:
    random = Random(seed)
    each = sum(chance(size, INTERVAL) / size for size in truth_of) / len(truth_of)  # samples a byte
    clock = round(samples / each)
    exits = []
    for size, truth in truth_of.items():
        for birth in births(random, size, size * len(truth_of), clock):
            lifetime = truth.draw(random)
            died = birth + lifetime < clock
            exits.append((int(lifetime if died else clock - birth), size, died))
    return Run(exits, clock)


@cache
def runs(kind: str) -> list[Run]:
    return [run(seed, dict.fromkeys(SIZES, TRUTHS[kind])) for seed in range(RUNS)]


def ages(clock: int) -> list[float]:
    return [clock * share for share in (0.0005, 0.002, 0.01, 0.05, 0.2, 0.5)]


def only_the_dead(one: Run, age: float) -> float:
    volume = sum(weight(size, INTERVAL).bytes for _, size, died in one.exits if died)
    return sum(weight(size, INTERVAL).bytes for old, size, died in one.exits if died and old >= age) / volume


@pytest.mark.parametrize("kind", TRUTHS)
def test_survival_is_within_three_hundredths_of_the_truth_at_500_samples(kind: str) -> None:
    """Over the runs, at each of six ages; and looking at the dead only is at least twice as wrong."""
    truth = TRUTHS[kind].survival
    assert mean(len(one.exits) for one in runs(kind)) == pytest.approx(500, rel=0.05)
    errors: dict[int, list[float]] = {}
    naive: dict[int, list[float]] = {}
    for one in runs(kind):
        curve = one.survival()
        for place, age in enumerate(ages(one.clock)):
            errors.setdefault(place, []).append(at(curve, age).object_survival - truth(age))
            naive.setdefault(place, []).append(only_the_dead(one, age) - truth(age))
    for found in errors.values():
        assert mean(map(abs, found)) < 0.03
        assert abs(mean(found)) < 0.012  # unbiased, as far as the runs can tell
    worst, worst_naive = (max(mean(map(abs, found)) for found in each.values()) for each in (errors, naive))
    assert worst_naive > 2 * worst


@pytest.mark.parametrize("kind", TRUTHS)
def test_19_of_20_intervals_hold_the_truth(kind: str) -> None:
    inside = []
    for one in runs(kind):
        curve = one.survival()
        for age in ages(one.clock):
            point = at(curve, age)
            inside.append(point.low <= TRUTHS[kind].survival(age) <= point.high)
    assert 0.91 <= mean(inside) <= 0.99


@pytest.mark.parametrize("kind", TRUTHS)
def test_bins_cost_next_to_nothing(kind: str) -> None:
    """Against Kaplan and Meier's curve of the single ages, at the edges of bins."""
    one = runs(kind)[0]
    exact = [(age, weight(size, INTERVAL).bytes, died) for age, size, died in one.exits]
    for point in one.survival().points[1:]:
        if point.age < one.clock / 2:
            assert point.object_survival == pytest.approx(kaplan_meier(exact, point.age), abs=0.002)


@pytest.mark.parametrize("kind", TRUTHS)
def test_mortality_is_near_the_truth(kind: str) -> None:
    wrong, inside = [], []
    for one in runs(kind):
        for point in one.survival().mortality:
            if one.clock / 1000 < point.age < one.clock / 3:
                truth = TRUTHS[kind].mortality(point.age)
                wrong.append(abs(log(point.object_mortality / truth)))
                inside.append(point.low <= truth <= point.high)
    assert median(wrong) < 0.25
    assert mean(inside) > 0.8


def test_by_bytes_and_by_blocks_are_two_questions() -> None:
    """Small blocks die early, large ones late: most blocks die early, most bytes do not."""
    early, late = mixture((1, 1e5)), mixture((1, 1e7))
    truth_of = {200: early, 40_000: late}
    blocks_of_late = (1 / 40_000) / (1 / 200 + 1 / 40_000)
    for measure, share in (("bytes", 0.5), ("blocks", blocks_of_late)):
        found = [at(run(seed, truth_of).survival(measure), 1e6).object_survival for seed in range(20)]
        assert mean(found) == pytest.approx(share * late.survival(1e6), abs=0.02)


def test_intervals_hold_the_truth_where_weight_and_lifetime_go_together() -> None:
    early, late = mixture((1, 1e5)), mixture((1, 1e7))
    inside = []
    for seed in range(60):
        curve = run(seed, {50: early, 400_000: late}, 200).survival()
        for age in (3e4, 3e5, 3e6):
            point = at(curve, age)
            inside.append(point.low <= 0.5 * early.survival(age) + 0.5 * late.survival(age) <= point.high)
    assert 0.91 <= mean(inside) <= 1
