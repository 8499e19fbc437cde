"""A smooth rate from counts that are noisy: penalized likelihood over bins of equal width, without numpy.

Events and exposure go in, bin by bin, and rates come out.

Events are taken as Poisson of mean ``exposure · exp(η)``, and η as smooth: the likelihood is charged
``strength / 2 · Σ (η[i-1] − 2 η[i] + η[i+1])²`` (Whittaker and Henderson's graduation; for rates: Eilers and Marx,
"Flexible smoothing with B-splines and penalties", Statistical Science 11(2), 1996, with splines of degree 0).
The strength is the one of :data:`STRENGTHS` with the least AIC. As the penalty spares straight lines, strong
smoothing ends in a power law of the axis that the bins divide in logarithms, and a rate is never negative.

Each step of Newton's method solves a system of five diagonals: O(bins).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, isfinite, log, sqrt
from typing import Final

STRENGTHS: Final = tuple(10.0**power for power in range(8))  # From hardly any smoothing to nearly a straight line

_STEPS: Final = 60
_LEAP: Final = 2.0
"""η changes by no more in one step: far from the solution Newton's step overshoots where exp is steep."""


_FAR: Final = 300.0  # No η lies beyond: a rate of e³⁰⁰ is none, and sums of them would be no numbers


@dataclass(frozen=True, slots=True)
class EventRates:
    """The rate in each bin: events by exposure."""

    rates: tuple[float, ...]
    errors: tuple[float, ...]  # Standard errors of the rates' natural logarithms
    strength: float
    freedom: float  # Effective degrees of freedom: 2 is a straight line


def smooth_rates(events: Sequence[float], exposure: Sequence[float]) -> EventRates | None:
    """The rates behind these events.

    Args:
        events: how many, in each bin, 0 or more; the likelihood's Poisson counts, though they need not be whole.
        exposure: above 0 in each bin.

    Returns:
        None with fewer than three bins, or events in fewer than two: too little for a slope.
    """
    if len(events) < 3 or sum(1 for count in events if count > 0) < 2:
        return None
    level = log(sum(events) / sum(exposure))
    fits = []
    start = [level] * len(events)
    for strength in reversed(STRENGTHS):  # the strongest is nearest to the level: each fit begins at the one before
        fit = _fit(events, exposure, strength, start)
        if fit is not None:
            fits.append(fit)
            start = fit.logs
    if not fits:
        return None
    best = min(fits, key=lambda fit: fit.aic)
    return EventRates(tuple(map(exp, best.logs)), tuple(best.errors), best.strength, best.freedom)


@dataclass(frozen=True, slots=True)
class _Fit:
    strength: float
    logs: list[float]
    errors: list[float]
    freedom: float
    aic: float


def _fit(events: Sequence[float], exposure: Sequence[float], strength: float, start: list[float]) -> _Fit | None:
    """Newton's method from ``start``; None where it does not settle."""
    logs = list(start)
    penalty = _penalty(len(logs), strength)
    for _ in range(_STEPS):
        if not max(map(abs, logs)) < _FAR:
            return None
        means = [exposed * exp(level) for exposed, level in zip(exposure, logs, strict=True)]
        wanted = [mean * (level - 1) + count for mean, level, count in zip(means, logs, events, strict=True)]
        factors = _factor(means, penalty)
        steps = [new - old for new, old in zip(_solve(factors, wanted), logs, strict=True)]
        largest = max(map(abs, steps))
        shrink = min(1.0, _LEAP / largest) if largest else 1.0
        logs = [level + shrink * step for level, step in zip(logs, steps, strict=True)]
        if largest < 1e-6:
            break
    else:
        return None
    if not max(map(abs, logs)) < _FAR:
        return None
    variances = _inverse_diagonal(factors)
    freedom = sum(mean * variance for mean, variance in zip(means, variances, strict=True))
    aic = _deviance(events, means) + 2 * freedom
    if not isfinite(aic):
        return None
    return _Fit(strength, logs, [sqrt(max(variance, 0.0)) for variance in variances], freedom, aic)


def _deviance(events: Sequence[float], means: Sequence[float]) -> float:
    return 2 * sum(
        (count * (log(count) - log(mean)) if count > 0 else 0.0) - (count - mean)
        for count, mean in zip(events, means, strict=True)
    )


_Diagonals = tuple[list[float], list[float], list[float]]
"""Of a symmetric matrix: the main one, the first and the second beside it."""


def _penalty(size: int, strength: float) -> _Diagonals:
    """``strength`` times the squared second differences, as a quadratic form."""
    main, first, second = [0.0] * size, [0.0] * (size - 1), [0.0] * (size - 2)
    for place in range(size - 2):
        for offset, value in ((0, 1.0), (1, 4.0), (2, 1.0)):
            main[place + offset] += strength * value
        first[place] -= 2 * strength
        first[place + 1] -= 2 * strength
        second[place] += strength
    return main, first, second


def _factor(weights: Sequence[float], penalty: _Diagonals) -> _Diagonals:
    """The LDLᵀ of diag(weights) + penalty: D, and the two diagonals of L below its ones."""
    main, first, second = penalty
    pivots: list[float] = []
    near: list[float] = []  # L[i, i-1]
    far: list[float] = []  # L[i, i-2]
    for place, value in enumerate(main):
        pivot = value + weights[place]
        if place >= 2:
            far.append(second[place - 2] / pivots[place - 2])
            pivot -= far[-1] * far[-1] * pivots[place - 2]
        if place >= 1:
            beside = first[place - 1]
            if place >= 2:
                beside -= far[-1] * near[-1] * pivots[place - 2]
            near.append(beside / pivots[place - 1])
            pivot -= near[-1] * near[-1] * pivots[place - 1]
        pivots.append(max(pivot, 1e-300))  # what rounding made of a pivot that is nearly 0
    return pivots, near, far


def _solve(factors: _Diagonals, wanted: Sequence[float]) -> list[float]:
    pivots, near, far = factors
    out = list(wanted)
    for place in range(1, len(out)):
        out[place] -= near[place - 1] * out[place - 1]
        if place >= 2:
            out[place] -= far[place - 2] * out[place - 2]
    out = [value / pivot for value, pivot in zip(out, pivots, strict=True)]
    for place in range(len(out) - 2, -1, -1):
        out[place] -= near[place] * out[place + 1]
        if place + 2 < len(out):
            out[place] -= far[place] * out[place + 2]
    return out


def _inverse_diagonal(factors: _Diagonals) -> list[float]:
    """The inverse's diagonal, from the end, without the rest of it.

    Hutchinson and de Hoog, "Smoothing noisy data with spline functions", Numerische Mathematik 47, 1985.
    """
    pivots, near, far = factors
    size = len(pivots)
    out = [0.0] * (size + 2)
    beside = [0.0] * (size + 1)  # inverse[i, i+1]
    for place in range(size - 1, -1, -1):
        one = near[place] if place + 1 < size else 0.0
        two = far[place] if place + 2 < size else 0.0
        beside[place] = -one * out[place + 1] - two * beside[place + 1]
        second = -one * beside[place + 1] - two * out[place + 2]
        out[place] = 1 / pivots[place] - one * beside[place] - two * second
    return out[:size]
