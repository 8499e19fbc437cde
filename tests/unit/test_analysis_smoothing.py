"""Smooth rates from noisy counts: the likelihood is at its maximum, and the truth is met."""

from __future__ import annotations

from math import exp, log
from random import Random
from statistics import mean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heaptop.analysis.samples.smoothing import smooth_rates


def poisson(random: Random, wanted: float) -> int:
    """Knuth's, in parts: exp(-wanted) must not be 0."""
    count, left = 0, wanted
    while left > 0:
        part, product = min(left, 30.0), random.random()
        while product > exp(-part):
            count += 1
            product *= random.random()
        left -= part
    return count


CASES = st.lists(st.tuples(st.floats(0, 50), st.floats(0.01, 100)), min_size=3, max_size=25).filter(
    lambda bins: sum(1 for events, _ in bins if events > 1e-3) >= 2
)


@given(CASES)
def test_the_penalized_likelihood_is_at_its_maximum(bins: list[tuple[float, float]]) -> None:
    """Its gradient is 0: what is seen less what is expected is what the penalty pulls with."""
    events, exposure = zip(*bins, strict=True)
    rates = smooth_rates(events, exposure)
    assert rates is not None
    logs = [log(rate) for rate in rates.rates]
    bends = [left - 2 * middle + right for left, middle, right in zip(logs, logs[1:], logs[2:], strict=False)]
    pulls = [0.0] * len(logs)
    for place, bend in enumerate(bends):
        for offset, factor in ((0, 1), (1, -2), (2, 1)):
            pulls[place + offset] += rates.strength * factor * bend
    for seen, exposed, rate, pull in zip(events, exposure, rates.rates, pulls, strict=True):
        assert seen - exposed * rate == pytest.approx(pull, abs=1e-3 * (1 + sum(events)))
    # the penalty spares constants and slopes, so events and their mean place are met exactly
    assert sum(exposed * rate for exposed, rate in zip(exposure, rates.rates, strict=True)) == pytest.approx(
        sum(events), rel=1e-4
    )


def test_a_power_law_is_met_and_its_error_is_honest() -> None:
    random = Random(7)
    truth = [0.02 * 1.05**place for place in range(80)]
    inside = errors = 0.0
    freedoms = []
    for _ in range(40):
        exposure = [500.0] * len(truth)
        rates = smooth_rates([poisson(random, 500 * rate) for rate in truth], exposure)
        assert rates is not None
        freedoms.append(rates.freedom)
        for found, error, rate in zip(rates.rates, rates.errors, truth, strict=True):
            errors += abs(log(found / rate)) / len(truth) / 40
            inside += (abs(log(found / rate)) < 1.96 * error) / len(truth) / 40
    assert errors < 0.05  # single bins scatter by 0.2 on average
    assert 0.88 < inside < 0.99
    assert 2 <= mean(freedoms) < 6


def test_a_sharp_peak_is_not_smoothed_away() -> None:
    events = [1] * 20 + [400] * 4 + [1] * 20
    rates = smooth_rates(events, [100.0] * 44)
    assert rates is not None
    assert max(rates.rates) == pytest.approx(4, rel=0.1)
    assert rates.rates[5] == pytest.approx(0.01, rel=0.6)


@pytest.mark.parametrize("events", [[], [3, 4], [0, 0, 0, 0], [0, 9, 0, 0]])
def test_too_little_to_tell_a_slope_from(events: list[float]) -> None:
    assert smooth_rates(events, [1.0] * len(events)) is None
