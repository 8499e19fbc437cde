"""Bands by eventual lifetime: the transformation of "New dimensions in heap profiling", and what is made of it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heaptop.analysis.samples.estimate import Weight, weight
from heaptop.analysis.samples.generations import (
    DECADES,
    Cohort,
    Cohorts,
    LifetimeBands,
    LifetimeChart,
    LiveSample,
    class_bounds,
    class_label,
)
from tests.unit.oracles import by_lifetime

Matrix = list[list[int]]

CENSUSES: Matrix = [[3, 0, 0, 0], [2, 2, 0, 0], [2, 1, 4, 0], [1, 0, 0, 3]]
"""Fig. 6, left: [census][generation]."""
LIFETIMES: Matrix = [[1, 1, 4, 3], [0, 1, 1, 0], [1, 1, 1, 0], [1, 1, 1, 1]]
"""Fig. 6, right: [lifetime][census]."""


def died(bands: LifetimeBands, groups: Sequence[str], birth: int, death: int, one: Weight) -> None:
    """A block was born and died at these clocks."""
    span = bands.died(birth, death)
    if span is not None:
        bands.add(groups, span, one)


def lost(bands: LifetimeBands, groups: Sequence[str], birth: int, last: int, one: Weight) -> None:
    """It was alive at the clock ``last``, and followed no longer."""
    span = bands.lost(birth, last)
    if span is not None:
        bands.add(groups, span, one)


def straightforward(censuses: Matrix) -> Matrix:
    """Fig. 7, its result transposed: [lifetime][census]."""
    left = [list(row) for row in censuses]
    size = len(left)
    out = [[0] * size for _ in range(size)]
    for x in reversed(range(size)):
        for g in reversed(range(x + 1)):
            p = left[x][g]
            for seen in range(g, x + 1):
                out[x - g][seen] += p
                left[seen][g] -= p
    return out


@st.composite
def matrices(draw: st.DrawFn) -> Matrix:
    """Censuses that can be: each generation only loses."""
    size = draw(st.integers(0, 8))
    out = [[0] * size for _ in range(size)]
    for y in range(size):
        falling = sorted(draw(st.lists(st.integers(0, 99), min_size=size - y, max_size=size - y)), reverse=True)
        for x, count in enumerate(falling, y):
            out[x][y] = count
    return out


def test_lifetimes_by_generation_are_those_of_the_worked_example() -> None:
    matrix = [list(row) for row in CENSUSES]
    by_lifetime(matrix)
    assert matrix == LIFETIMES
    assert straightforward(CENSUSES) == LIFETIMES


def lifetimes_of(censuses: Matrix) -> Matrix:
    """What lives is as if it died at the last census."""
    matrix = [list(row) for row in censuses]
    by_lifetime(matrix)
    return matrix


@given(matrices())
def test_in_place_is_as_straightforward(censuses: Matrix) -> None:
    matrix = [list(row) for row in censuses]
    by_lifetime(matrix)
    assert matrix == straightforward(censuses)
    assert [sum(column) for column in zip(*matrix, strict=True)] == [sum(row) for row in censuses]


# -- cohorts ------------------------------------------------------------------------------------------------

EVENTS = st.lists(
    st.tuples(st.integers(0, 600), st.integers(0, 600), st.integers(1, 9), st.booleans()).map(
        lambda event: (min(event[:2]), max(event[:2]), event[2], event[3])
    ),
    max_size=25,
)
"""(birth, death, volume, whether it died); who lives does so for ever."""


def filled(cohorts: Cohorts, events: Sequence[tuple[int, int, int, bool]]) -> list[Cohort]:
    """Feed them; says who lives."""
    for birth, death, volume, died in events:
        if died:
            cohorts.add_death(birth, death, volume)
    return [Cohort(birth, volume) for birth, _, volume, died in events if not died]


def test_the_worked_example_as_births_and_deaths() -> None:
    """The same four censuses, at clocks 10, 20, 30 and 40."""
    cohorts = Cohorts(step=10, limit=8)
    for birth, death, volume in ((1, 12, 1), (2, 39, 1), (11, 25, 1), (12, 31, 1), (22, 33, 4), (24, 28, 9)):
        cohorts.add_death(birth, death, volume)
    live_blocks = [Cohort(3, 1), Cohort(38, 3)]
    assert cohorts.matrix(40, live_blocks) == CENSUSES
    assert lifetimes_of(cohorts.matrix(40, live_blocks)) == LIFETIMES
    assert cohorts.by_age(40, live_blocks) == [[3], [2, 2], [4, 1, 2], [3, 0, 0, 1]]


@given(EVENTS, st.integers(600, 900), st.integers(1, 40), st.sampled_from([2, 4, 16, 64]))
def test_cohorts_count_what_lives_at_each_step_however_often_it_doubled(
    events: list[tuple[int, int, int, bool]], clock: int, step: int, limit: int
) -> None:
    cohorts = Cohorts(step, limit)
    live_blocks = filled(cohorts, events)
    matrix = cohorts.matrix(clock, live_blocks)
    assert len(matrix) <= limit
    assert cohorts.step * limit > clock
    wanted = [
        [
            sum(
                volume
                for birth, death, volume, died in events
                if birth // cohorts.step == y <= x and not (died and death < (x + 1) * cohorts.step)
            )
            for y in range(len(matrix))
        ]
        for x in range(clock // cohorts.step)
    ]
    assert matrix == wanted
    assert lifetimes_of(matrix) == straightforward(wanted)


@given(EVENTS, st.integers(600, 900))
def test_the_joint_distribution_has_every_living_byte_once(
    events: list[tuple[int, int, int, bool]], clock: int
) -> None:
    cohorts = Cohorts(16, 16)
    live_blocks = filled(cohorts, events)
    joint = cohorts.by_age(clock, live_blocks)
    for census, ages in enumerate(joint):
        at = (census + 1) * cohorts.step
        alive = [event for event in events if event[0] < at and not (event[3] and event[1] < at)]
        assert sum(ages) == sum(volume for _, _, volume, _ in alive)
        for age, volume in enumerate(ages):
            low, high = at - (age + 1) * cohorts.step, at - age * cohorts.step
            assert volume == sum(event[2] for event in alive if low <= event[0] < high)


def test_a_death_that_is_said_to_be_later_than_now_was_alive_until_now() -> None:
    """Clocks of threads may be ahead of the one that is shown."""
    cohorts = Cohorts(step=10, limit=8)
    cohorts.add_death(5, 47, 3)
    assert cohorts.matrix(29) == [[3, 0], [3, 0]]


@pytest.mark.parametrize(("step", "limit"), [(0, 4), (1, 3), (1, 0)])
def test_cohorts_without_room_are_refused(step: int, limit: int) -> None:
    with pytest.raises(ValueError, match="even number"):
        Cohorts(step, limit)


# -- bands --------------------------------------------------------------------------------------------------


def whole(size: int) -> Weight:
    """Of a block that is always sampled."""
    return weight(size, 1)


def chart(bands: LifetimeBands, live_blocks: Sequence[LiveSample] = ()) -> LifetimeChart:
    found = bands.chart(None, live_blocks)
    assert found is not None
    return found


def shown(found: LifetimeChart) -> dict[str, tuple[int, ...]]:
    return {band.label: band.bytes for band in found.bands if any(band.bytes)}


def bands_of(censuses: Matrix) -> Matrix:
    """These populations as births and deaths of blocks, where censuses are 10 bytes apart: a block is born at a census,
    and dies 9 bytes after the last that sees it. What the last census sees dies after it."""
    size = len(censuses)
    bands = LifetimeBands(tuple(range(10, 10 * size, 10)))
    deaths = []
    for y in range(size):
        for x in range(y, size):
            count = censuses[x][y] - (censuses[x + 1][y] if x + 1 < size else 0)
            deaths += [(10 * y, 10 * x + 9)] * count
    for number in range(size):
        bands.census(10 * number, number)
        for birth, death in deaths:
            if death == 10 * number + 9:
                died(bands, (), birth, death, whole(1))
    return [list(band.bytes) for band in chart(bands).bands if band.fate == "died"]


def test_the_worked_example_as_bands() -> None:
    assert bands_of(CENSUSES) == LIFETIMES


@given(matrices().filter(lambda matrix: len(matrix) > 1))
def test_bands_are_as_straightforward(censuses: Matrix) -> None:
    assert bands_of(censuses) == straightforward(censuses)


def test_a_band_is_named_by_its_lifetimes() -> None:
    assert [class_label(*bounds) for bounds in class_bounds(DECADES)] == [
        "< 1 MB",
        "1–10 MB",
        "10–100 MB",
        "100 MB–1 GB",
        "1–10 GB",
        "≥ 10 GB",
    ]
    assert class_bounds((5,)) == [(0, 5), (5, None)]
    assert class_label(1500, 2500) == "1.5–2.5 kB"


def test_each_block_is_in_the_band_of_its_eventual_lifetime_all_its_life() -> None:
    bands = LifetimeBands((100, 1000))
    for number in range(6):
        bands.census(number * 300, number)
        if number == 4:
            died(bands, (), 300, 1250, whole(7))  # 950: seen at 300, 600, 900 and 1200
    died(bands, (), 1150, 1201, whole(9))  # 51: seen at 1200 only
    lost(bands, (), 250, 600, whole(5))  # seen at 300 and 600
    live_blocks = [LiveSample(0, whole(11)), LiveSample(1450, whole(13))]
    found = chart(bands, live_blocks)
    assert found.clocks == (0, 300, 600, 900, 1200, 1500)
    assert shown(found) == {
        "< 100 B": (0, 0, 0, 0, 9, 0),
        "100 B–1 kB": (0, 7, 7, 7, 7, 0),
        "no longer tracked": (0, 5, 5, 0, 0, 0),
        "alive, < 100 B": (0, 0, 0, 0, 0, 13),
        "alive, ≥ 1 kB": (11, 11, 11, 11, 11, 11),
    }
    line = bands.longer(100, None, live_blocks)
    assert line is not None
    assert line.totals(6)[0] == (11, 18, 18, 18, 18, 11)
    with pytest.raises(ValueError, match="begins at 99"):
        bands.longer(99)


def test_bands_are_kept_by_group() -> None:
    bands = LifetimeBands((100,), groups=1)
    bands.census(10, 1)
    died(bands, ["a"], 5, 20, whole(3))
    died(bands, ["b"], 5, 20, whole(4))
    died(bands, ["a", "b"], 5, 20, whole(5))
    bands.census(30, 2)
    assert bands.groups() == ("a",)
    only = bands.chart("a")
    assert only is not None
    assert shown(only) == {"< 100 B": (8, 0)}
    assert shown(chart(bands)) == {"< 100 B": (12, 0)}
    assert (bands.keeps("b"), bands.chart("b")) == (False, None)


def test_a_group_without_deaths_is_known_to_have_none() -> None:
    bands = LifetimeBands((100,))
    bands.census(10, 1)
    found = bands.chart("new", [LiveSample(5, whole(6))])
    assert found is not None
    assert shown(found) == {"alive, < 100 B": (6,)}


def test_estimates_are_whole_bytes_and_blocks() -> None:
    bands = LifetimeBands((100,))
    bands.census(10, 1)
    one = weight(100, 65536)
    died(bands, (), 5, 20, one)
    (band, *_) = chart(bands).bands
    assert (band.bytes, band.counts) == (((one.bytes + (1 << 15)) >> 16,), ((one.count + (1 << 15)) >> 16,))
    assert band.counts[0] == pytest.approx(655.86, abs=0.6)


def test_a_clock_that_runs_back_is_refused() -> None:
    bands = LifetimeBands()
    bands.census(10, 1)
    with pytest.raises(ValueError, match="runs back"):
        bands.census(9, 2)
    for bounds in ((), (5, 5), (6, 5), (0, 5)):
        with pytest.raises(ValueError, match="rising bounds"):
            LifetimeBands(bounds)
    with pytest.raises(ValueError, match="room"):
        LifetimeBands(columns=3)


BLOCKS = st.lists(
    st.tuples(st.integers(0, 99), st.integers(0, 99), st.sampled_from(["died", "lost", "living"]), st.integers(1, 9)),
    max_size=20,
)


@given(BLOCKS, st.lists(st.integers(1, 20), min_size=1, max_size=30), st.integers(4, 8), st.integers(0, 40))
def test_bands_are_what_a_look_at_every_block_gives(
    blocks: list[tuple[int, int, str, int]], gaps: list[int], columns: int, steps: int
) -> None:
    """Fed a census at a time, with few columns and few steps: at those that are left nothing is missing or moved."""
    bounds = (5, 20, 50)
    bands = LifetimeBands(bounds, columns=columns, steps=steps)
    clock = 0
    waiting = [(min(a, b), max(a, b), fate, size) for a, b, fate, size in blocks]
    for number, gap in enumerate(gaps):
        clock += gap
        for birth, end, fate, size in waiting:
            if fate == "died" and (clock - gap < end <= clock or (number == 0 and end <= clock)):
                died(bands, (), birth, end, whole(size))
        bands.census(clock, number)
        for birth, end, fate, size in waiting:
            if fate == "lost" and (clock - gap < end <= clock or (number == 0 and end <= clock)):
                lost(bands, (), birth, end, whole(size))
    live_blocks = [block for block in waiting if (block[2] == "living" or block[1] > clock) and block[0] <= clock]
    found = chart(bands, [LiveSample(block[0], whole(block[3])) for block in live_blocks])
    assert len(found.clocks) <= columns
    assert (found.clocks[-1], found.times_ns[-1]) == (clock, len(gaps) - 1)
    gone = [block for block in waiting if block[2] != "living" and block[1] <= clock]
    for band in found.bands:
        if band.fate == "living":
            of = [
                (birth, clock + 1, size)
                for birth, _, _, size in live_blocks
                if fits(clock - birth, band.low, band.high)
            ]
        elif band.fate == "died":
            of = [
                (birth, end, size)
                for birth, end, fate, size in gone
                if fate == "died" and fits(end - birth, band.low, band.high)
            ]
        else:
            of = [(birth, end + 1, size) for birth, end, fate, size in gone if fate == "lost"]
        assert band.bytes == tuple(sum(s for birth, end, s in of if birth <= at < end) for at in found.clocks)
        assert band.counts == tuple(sum(1 for birth, end, _ in of if birth <= at < end) for at in found.clocks)


def fits(lifetime: int, low: int, high: int | None) -> bool:
    return low <= lifetime and (high is None or lifetime < high)
