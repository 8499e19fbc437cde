"""Survival and mortality curves from what died and what was censored at each age.

Sums of weights are given, by bins of age.

Words, as in Stefanović and Moss, "Characterisation of object behaviour in Standard ML of New Jersey" (LFP 1994),
§1.1. The *age* of a block is what was allocated since its birth, in bytes; a *lifetime* is the age at death.

====================  =========  ====================================================================================
object survival       sₒ(x)      the fraction of what was allocated that lives to the age x or longer; by volume as
                                 in the paper (``bytes``), or by number of blocks (``blocks``)
nursery survival      s(x)       the fraction of the last x bytes allocated that lives still: (1/x) ∫₀ˣ sₒ
object mortality      mₒ(x)      −sₒ′(x) / sₒ(x): the share of those aged x that dies within the next byte allocated
nursery mortality     m(x)       −s′(x) / s(x) = (s − sₒ) / (x s): what a nursery larger by one byte would gain
====================  =========  ====================================================================================

The paper measures s and differentiates twice; here deaths are seen one by one, so that sₒ is measured, s is its
integral, and m needs no derivative at all. Only mₒ does.

**Survival** is Kaplan and Meier's estimate: blocks that live count as at risk up to their age (*censored*). Only
looking at the dead makes lifetimes too short, all the more the longer they are. Each sample counts by its
Horvitz–Thompson weight. The **bands** are by the infinitesimal jackknife, the sum of the squared influences of the
samples on ln sₒ, which is Greenwood's formula where all weights are equal, and right where a heavy sample lives
differently from a light one (Jaeckel, 1972; as in survfit of R, with weights). An interval is Wilson's, for as
many samples as would have that variance without censoring (Rothman, J. Chronic Diseases 31, 1978), which stays
within 0 … 1 and is of use where nothing has died yet.

**Mortality** mₒ is smoothed before it is differentiated, on a logarithmic axis of age, as the paper does; by
penalized likelihood (:mod:`heaptop.analysis.samples.smoothing`) instead of the paper's spline: it never goes below 0,
chooses its smoothness by itself, and has a standard error.

At the edges of bins the curve would be exact but for blocks censored in a bin, which count for half of it (the
actuarial rule): a bin makes it wrong by less than (deaths · censored) / (2 · at risk²) of its value, which for 500
samples added up to 0.005 at most. Between edges the mortality of the bin is taken as constant: an age is known to 9 %.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import exp, log, log10, sqrt
from typing import Final, Literal

from heaptop.analysis.samples.estimate import NORMAL
from heaptop.analysis.samples.smoothing import smooth_rates

STEPS: Final = 27  # Bins a decade: each ends 9 % above its beginning, and powers of ten are edges

Measure = Literal["bytes", "blocks"]


@dataclass(frozen=True, slots=True)
class SurvivalPoint:
    """The curve at one age."""

    age: float
    object_survival: float
    low: float
    high: float  # The 95 % interval of sₒ
    nursery_survival: float  # s
    nursery_mortality: float  # m, per byte allocated
    at_risk: float  # As many samples of equal weight as those that reached this age are worth


@dataclass(frozen=True, slots=True)
class MortalityPoint:
    """mₒ at one age, per byte allocated, with its 95 % interval."""

    age: float
    object_mortality: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Survival:
    """How long the blocks of one group live, as far as can be seen."""

    measure: Measure
    points: tuple[SurvivalPoint, ...]
    """By age, from 0 to the greatest age seen (its bin's end): nothing is known beyond."""
    mortality: tuple[MortalityPoint, ...]
    """From the first bin with a death to the last; empty where there are too few, or it was not asked for."""
    deaths: int  # Samples whose death was seen
    censored: int  # Samples that live, or were followed no longer

    def at(self, age: float) -> SurvivalPoint | None:
        """The curve at this age; None beyond the greatest age seen. ``at_risk`` is that of the point before."""
        place = bisect_right(self.points, age, key=lambda point: point.age)
        if place == len(self.points):
            return self.points[-1] if age == self.points[-1].age else None
        left, right = self.points[place - 1], self.points[place]
        share = (age - left.age) / (right.age - left.age)
        survival = _between(left.object_survival, right.object_survival, share)
        height = (
            _mean(left.object_survival, survival) if right.object_survival else (left.object_survival + survival) / 2
        )
        nursery = (left.nursery_survival * left.age + (age - left.age) * height) / age if age else 1.0
        return SurvivalPoint(
            age,
            survival,
            _between(left.low, right.low, share) if left.age else right.low,  # at 0, and only there, 1 is certain
            _between(left.high, right.high, share),
            nursery,
            _nursery_mortality(age, survival, nursery),
            left.at_risk,
        )

    def age_at(self, survival: float) -> float | None:
        """The age that this fraction (above 0) lives to: 0.5 for the median; None where the curve stays above it."""
        for left, right in zip(self.points, self.points[1:], strict=False):
            if right.object_survival <= survival:
                fall = left.object_survival - right.object_survival
                if not fall:
                    return left.age
                if right.object_survival > 0:
                    share = log(left.object_survival / survival) / log(left.object_survival / right.object_survival)
                else:
                    share = (left.object_survival - survival) / fall
                return left.age + max(share, 0.0) * (right.age - left.age)
        return None


@dataclass(frozen=True, slots=True)
class AgeBin:
    """Weights, and squared weights, of what died and of what was censored in one bin."""

    begin: float
    end: float
    died: float
    died_squared: float
    censored: float
    censored_squared: float


def bin_of(age: float) -> int:
    """The number of the bin of this age: from 0."""
    return int(log10(age) * STEPS) if age > 1 else 0


def edge(index: int) -> float:
    """Where a bin begins."""
    return 10.0 ** (index / STEPS) if index else 0.0


def survival_of(bins: Sequence[AgeBin], measure: Measure, deaths: int, censored: int, *, mortality: bool) -> Survival:
    """The curve.

    Args:
        bins: one or more, each beginning where the one before ends; the first and the last hold something.
        mortality: whether mₒ is wanted too, which costs many times as much as the rest.
    """
    return Survival(measure, tuple(_points(bins)), tuple(_mortality(bins)) if mortality else (), deaths, censored)


def _points(bins: Sequence[AgeBin]) -> Iterable[SurvivalPoint]:
    """Kaplan and Meier, with the infinitesimal jackknife's variance of ln sₒ.

    With N = at risk less half of the censored, and h = died / N in a bin, ln sₒ = Σ ln (1 − h). A sample of weight w
    that dies in the bin moves it by w (A − 1/N), where A is the sum of h / (N (1 − h)) over the bins before; one
    censored there by w times A and half the bin's own term; one that lives on by w A.
    """
    # from the oldest on, so that nothing is lost to rounding where few are left of many
    risks = [*accumulate((cell.died + cell.censored for cell in reversed(bins)), initial=0.0)]
    squares = [*accumulate((cell.died_squared + cell.censored_squared for cell in reversed(bins)), initial=0.0)]
    at_risk, squared = risks.pop(), squares.pop()
    worth = at_risk * at_risk / squared  # No interval is narrower than that of all samples would be without censoring
    survival, influence, gone, area = 1.0, 0.0, 0.0, 0.0
    yield SurvivalPoint(0.0, 1.0, 1.0, 1.0, 1.0, 0.0, worth)
    if bins[0].begin:
        area = bins[0].begin
        yield SurvivalPoint(area, 1.0, *_interval(1.0, 0.0, worth), 1.0, 0.0, worth)
    for cell in bins:
        before = survival
        exposed = at_risk - cell.censored / 2
        hazard = min(cell.died / exposed, 1.0) if cell.died else 0.0
        gone += cell.died_squared * _square(influence - 1 / exposed)
        survival *= 1 - hazard
        own = hazard / (exposed * (1 - hazard)) if hazard < 1 else 0.0
        gone += cell.censored_squared * _square(influence + own / 2)
        influence += own
        at_risk, squared = risks.pop(), squares.pop()
        if cell is bins[-1] and not cell.censored:
            survival = 0.0  # exactly, whatever rounding made of it: the last one died
        left = at_risk * at_risk / squared if squared > 0 else 0.0
        variance = gone + squared * _square(influence)
        area += (cell.end - cell.begin) * _mean(before, survival)
        nursery = area / cell.end
        low, high = _interval(survival, variance, worth if survival < 1 or not left else left)
        yield SurvivalPoint(
            cell.end, survival, low, high, nursery, _nursery_mortality(cell.end, survival, nursery), left
        )


def _interval(survival: float, variance: float, worth: float) -> tuple[float, float]:
    """Wilson's 95 % interval, for the number of samples that would have this variance of ln sₒ; ``worth`` at most."""
    number = worth
    if 0 < survival < 1 and survival * variance > 0:
        number = max(min(worth, (1 - survival) / (survival * variance)), _LEAST)
    square = NORMAL**2 / number
    middle = survival + square / 2
    reach = NORMAL * sqrt(survival * (1 - survival) / number + square / (4 * number))
    low, high = (middle - reach) / (1 + square), (middle + reach) / (1 + square)
    return min(max(low, 0.0), survival), max(min(high, 1.0), survival)


_LEAST: Final = 1e-3  # Samples that an interval is made of: with fewer there is none


def _square(value: float) -> float:
    """Infinite where ``**`` would raise."""
    return value * value


def _nursery_mortality(age: float, survival: float, nursery: float) -> float:
    return (nursery - survival) / (age * nursery) if age and nursery > 0 else 0.0


def _between(left: float, right: float, share: float) -> float:
    """Of a curve that falls at a constant mortality from left to right, or evenly to 0."""
    if left > 0 and right > 0:
        return left * exp(share * log(right / left))
    return left + (right - left) * share


def _mean(left: float, right: float) -> float:
    """The mean height of such a curve."""
    if right > 0 and left > right:
        return (left - right) / log(left / right)
    return (left + right) / 2


_UNSURE: Final = 50.0  # A rate whose logarithm has such a standard error may be anything: it is left out

_LEAD: Final = 16  # Bins before the first death that the smoothing gets: that nothing died there is information


def _mortality(bins: Sequence[AgeBin]) -> Iterable[MortalityPoint]:
    """mₒ, smoothed as d(−ln sₒ) / d(ln x), the mortality on the logarithmic axis, and then divided by the age.

    Weights make counts scatter more than Poisson's: both counts and exposure are divided by Σw² / Σw of the dead, so
    that they are worth as much as they say.
    """
    died = [place for place, cell in enumerate(bins) if cell.died and cell.begin]
    if not died:
        return
    scale = sum(cell.died_squared for cell in bins) / sum(cell.died for cell in bins)
    width = log(10) / STEPS
    at_risk = [0.0]
    for cell in reversed(bins):
        at_risk.append(at_risk[-1] + cell.died + cell.censored)
    at_risk.reverse()
    first = max(died[0] - _LEAD, 1 if not bins[0].begin else 0)
    used = range(first, len(bins))
    events = [bins[place].died / scale for place in used]
    exposure = [width * (at_risk[place] + at_risk[place + 1]) / 2 / scale for place in used]
    rates = smooth_rates(events, exposure)
    if rates is None:
        return
    for place in range(died[0], died[-1] + 1):
        cell = bins[place]
        age = sqrt(cell.begin * cell.end)
        rate, error = rates.rates[place - first] / age, rates.errors[place - first]
        if error < _UNSURE:
            yield MortalityPoint(age, rate, rate * exp(-NORMAL * error), rate * exp(NORMAL * error))
