"""The slope that the soak judges by."""

from __future__ import annotations

import random

import pytest

from tests.support.slopes import BLOCKS, slope_of, t_quantile
from tests.support.soak import CONTROL, SERVE, TOGETHER, Soak

SECONDS = [float(second) for second in range(600)]


@pytest.mark.parametrize(
    ("share", "freedom", "expected"),
    [(0.975, 18, 2.1009), (0.975, 28, 2.0484), (0.995, 18, 2.8784), (0.9995, 18, 3.9216), (0.9999, 18, 4.6480)],
)
def test_quantiles_are_those_of_the_tables(share: float, freedom: int, expected: float) -> None:
    assert t_quantile(share, freedom) == pytest.approx(expected, rel=0.002)


def test_what_never_changes_is_flat() -> None:
    slope = slope_of(SECONDS, [7.0] * len(SECONDS))
    assert (slope.value, slope.low, slope.high) == (0, 0, 0)
    assert slope.is_flat


def test_growth_is_found_with_its_size() -> None:
    noise = random.Random(1)
    slope = slope_of(SECONDS, [50e6 + 1000 * second + noise.gauss(0, 100_000) for second in SECONDS])
    assert slope.low < 1000 < slope.high
    assert not slope.is_flat
    assert not slope_of(SECONDS, [-second for second in SECONDS]).is_flat


def test_noise_is_called_flat_as_often_as_promised() -> None:
    """Also where each reading is much like the one before."""
    noise = random.Random(2)
    flat = 0
    for _ in range(500):
        reading, readings = 0.0, []
        for _ in SECONDS:
            reading = 0.7 * reading + noise.gauss(0, 1)
            readings.append(reading)
        flat += slope_of(SECONDS, readings).is_flat
    assert 0.92 < flat / 500 < 0.98


def test_too_few_readings_have_no_slope() -> None:
    with pytest.raises(ValueError, match="too few"):
        slope_of(SECONDS[: BLOCKS - 1], SECONDS[: BLOCKS - 1])


def test_a_process_passes_a_soak_where_it_changes_as_those_that_nothing_is_attached_to() -> None:
    noise = random.Random(4)

    def usages(growth: float) -> list[tuple[int, ...]]:
        return [(round(20e6 + growth * second + noise.gauss(0, 1000)), 4, 2, 60) for second in SECONDS]

    soak = Soak(SECONDS, {SERVE: usages(0), "process 1": usages(900), "process 2": usages(901)})
    soak.usages |= {f"{CONTROL} 1": usages(900), f"{CONTROL} 2": usages(900)}
    passes = {row.name: row.passes for row in soak.rows() if row.figure == "RSS"}
    assert all(passes.values()), "they change as these do"
    soak.usages["process 2"] = usages(1000)
    soak.usages[SERVE] = usages(900)
    passes = {row.name: row.passes for row in soak.rows() if row.figure == "RSS"}
    failed = {name for name, passed in passes.items() if not passed}
    assert failed == {SERVE, "process 2", TOGETHER}, "the host agent is compared with nothing"
