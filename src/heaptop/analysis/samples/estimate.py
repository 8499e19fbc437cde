"""What a few sampled blocks say of all blocks: estimates by Horvitz and Thompson, and how sure they are.

It turns sizes and intervals into weights, and sums of weights into figures.

The sampler lays a Poisson process over allocated bytes (Jourdan, "Statistically profiling memory in OCaml", 2016), so
a block of ``size`` bytes is sampled with the chance ``p = 1 - (1 - 1/interval)^size``. A sampled block represents
``1/p`` blocks and ``size/p`` bytes. Summed over the sampled blocks of any group this is right on average (Horvitz and
Thompson, 1952), also when the interval was changed meanwhile, and it is exact for blocks much larger than the
interval. Unbiased estimates of the second and the third central moment of the sum of bytes come from the same samples::

    one block                      its estimate from one sample of it
    V = s² (1-p) / p               s² (1-p) / p²
    T = s³ (1-p) (1-2p) / p²       s³ (1-p) (1-2p) / p³

**The interval.** A sum over small blocks is ``interval`` times a Poisson count, a sum over large ones is a constant;
between them we take a constant plus a scaled Poisson count, ``d + c N``, with the same three moments: ``c = T/V``,
``N`` of the mean ``k = V/c²``, ``d = X - c k``; ``c`` is at least ``V/X``, so that ``d`` is not negative (at that bound
``k = X²/V``, the effective number of samples, which is 1 or more). The 95 % interval for the mean of N is the mid-P one
of a Poisson count, carried on to counts that are not whole. What was seen is there: the lower end is never below the
bytes of the sampled blocks themselves. Of blocks that none was sampled of nothing is known: where a group's samples are
a few large blocks, and small ones were all missed, the interval is too narrow by up to three times the sampling
interval (half a megabyte of such a mixture: right in 93 of 100 cases).

**Where the interval was changed** that would be far too narrow: a group that was sampled each 512 bytes may have
allocated megabytes while one sample represented 4 MiB, with no sample of those. So the distribution of N that counts
one more than was seen gets a sample of what a missed one may have represented (see
:mod:`heaptop.analysis.samples.missed`). That is the mid-P gamma interval of Fay and Kim (2017), for sums of counts with
weights; where all weights are equal it is the mid-P interval again.

Sums are integers, so that what is added and taken away again leaves nothing behind.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist
from typing import Final

_SHIFT: Final = 16
_UNIT: Final = 1 << _SHIFT  # Weights are kept in this part of a byte, and of a block

CONFIDENCE: Final = 0.95  # Of a hundred intervals so many hold the truth
INTERVAL: Final = f"{CONFIDENCE * 100:.0f} % interval"  # What it is called wherever one is shown
NORMAL: Final = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
"""Standard errors from the middle of a normal distribution to the end of its interval."""
_TAIL: Final = (1 - CONFIDENCE) / 2


@dataclass(frozen=True, slots=True)
class Estimate:
    """Bytes and blocks, estimated from samples."""

    bytes: int
    count: int
    low: int  # The truth of `bytes` lies from here …
    high: int  # … to here in 95 of 100 cases. Of a group without any sample nothing is known: all figures are 0.
    samples: int

    @property
    def exact(self) -> bool:
        """Whether the interval is a point."""
        return self.low == self.high

    @property
    def error(self) -> int:
        """What is written behind ± wherever there is one: the larger side of the interval, so that ± never promises
        more than the interval does. Errors of figures that share no block add up by :func:`joint_error`."""
        return max(self.high - self.bytes, self.bytes - self.low)


def joint_error(errors: Iterable[float]) -> int:
    """Of sums and differences of figures that share no block: the root of the sum of squares."""
    return math.ceil(math.hypot(*errors))


@dataclass(frozen=True, slots=True, eq=False)
class Weight:
    """What one sampled block adds to a group's :class:`Sums`: all whole numbers, see there. Equal only to itself, so
    that it is quickly found in a table; :func:`weight` gives the same one again while it remembers it."""

    seen: int
    bytes: int
    count: int
    variance: int
    third: int


def chance(size: int, interval: int) -> float:
    """That a block of ``size`` bytes (1 or more) is sampled, at one sample each ``interval`` bytes (1 or more)."""
    return 1.0 if interval == 1 else -math.expm1(size * math.log1p(-1.0 / interval))


@lru_cache(maxsize=1 << 11)
def weight(size: int, interval: int) -> Weight:
    """Of a sampled block of ``size`` bytes (1 or more), found at one sample each ``interval`` bytes (1 or more)."""
    p = chance(size, interval)
    missed = 0.0 if interval == 1 else math.exp(size * math.log1p(-1.0 / interval))
    if missed == 0.0:
        return Weight(size, size << _SHIFT, _UNIT, 0, 0)
    stands_for = size / p
    variance = stands_for * stands_for * missed
    return Weight(
        seen=size,
        bytes=round(stands_for * _UNIT),
        count=round(_UNIT / p),
        variance=round(variance),
        third=round(variance * stands_for * (1.0 - 2.0 * p)),
    )


def whole(units: int) -> int:
    """Bytes or blocks, to the nearest one, from the unit that weights are written in."""
    return (units + _UNIT // 2) >> _SHIFT


def parts_of(units: int) -> tuple[int, int]:
    """Whole bytes or blocks, rounded down, and what is left, in the unit that weights are written in."""
    return units >> _SHIFT, units & (_UNIT - 1)


def of_parts(number: int, rest: int) -> int:
    """What :func:`parts_of` cut."""
    return (number << _SHIFT) + rest


class Sums:
    """Sums over the sampled blocks of a group. Groups add up, and what was added can be taken away."""

    __slots__ = ("bytes", "count", "samples", "seen", "third", "variance")

    def __init__(self) -> None:
        self.samples = 0
        self.seen = 0  # Bytes of the sampled blocks themselves
        self.bytes = 0  # Estimated bytes, in units of 2⁻¹⁶
        self.count = 0  # Estimated blocks, in units of 2⁻¹⁶
        self.variance = 0  # Estimated variance of the estimated bytes, in bytes²
        self.third = 0  # Their estimated third central moment, in bytes³

    @classmethod
    def of(cls, blocks: list[tuple[int, int]]) -> Sums:
        """Over sampled blocks, each a (size, interval)."""
        sums = cls()
        for size, interval in blocks:
            sums.add(weight(size, interval))
        return sums

    @classmethod
    def made_of(cls, parts: Sequence[int]) -> Sums:
        """From what :attr:`parts` gave, or sums of such."""
        sums = cls()
        sums.samples, sums.seen, sums.bytes, sums.count, sums.variance, sums.third = parts
        return sums

    @classmethod
    def exact(cls, count: int, size: int) -> Sums:
        """Of so many objects of ``size`` bytes together, none of which was left out."""
        return cls.made_of((count, size, size << _SHIFT, count << _SHIFT, 0, 0))

    @property
    def parts(self) -> tuple[int, int, int, int, int, int]:
        """All of it as numbers that add up: samples, seen, bytes, count, variance, third."""
        return self.samples, self.seen, self.bytes, self.count, self.variance, self.third

    def add(self, one: Weight) -> None:
        """One more sampled block."""
        self.samples += 1
        self.seen += one.seen
        self.bytes += one.bytes
        self.count += one.count
        self.variance += one.variance
        self.third += one.third

    def add_alike(self, one: Weight, number: int) -> None:
        """So many more that are alike."""
        self.samples += number
        self.seen += number * one.seen
        self.bytes += number * one.bytes
        self.count += number * one.count
        self.variance += number * one.variance
        self.third += number * one.third

    def remove(self, one: Weight) -> None:
        """A block that was added before has gone."""
        self.samples -= 1
        self.seen -= one.seen
        self.bytes -= one.bytes
        self.count -= one.count
        self.variance -= one.variance
        self.third -= one.third

    def merge(self, other: Sums) -> None:
        """All the blocks of another group, which shares none with this one."""
        if not other.samples:
            return
        self.samples += other.samples
        self.seen += other.seen
        self.bytes += other.bytes
        self.count += other.count
        self.variance += other.variance
        self.third += other.third

    def copy(self) -> Sums:
        """One that changes for itself."""
        new = Sums()
        new.merge(self)
        return new

    def __add__(self, other: Sums) -> Sums:
        new = self.copy()
        new.merge(other)
        return new

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sums):
            return NotImplemented
        return self.parts == other.parts

    __hash__ = None  # type: ignore[assignment]  # they change

    def __repr__(self) -> str:
        return f"Sums(samples={self.samples}, bytes={self.rounded_bytes}, count={self.rounded_count})"

    @property
    def rounded_bytes(self) -> int:
        """Estimated bytes, to the nearest one."""
        return whole(self.bytes)

    @property
    def rounded_count(self) -> int:
        """Estimated blocks, to the nearest one."""
        return whole(self.count)

    def estimate(self, missed: int = 0) -> Estimate:
        """The figures, with their 95 % interval.

        Args:
            missed: bytes that a sample may have represented that was not taken, where the sampling interval was changed
                meanwhile; else 0.
        """
        low, high = self._interval_with(missed) if missed and self.samples else self._interval()
        return Estimate(self.rounded_bytes, self.rounded_count, low, high, self.samples)

    def _interval(self) -> tuple[int, int]:
        if not self.variance:
            return self.rounded_bytes, self.rounded_bytes
        fixed, scale, effective = _scaled_poisson(self.bytes / _UNIT, self.variance, self.third)
        low, high = poisson_interval(effective)
        return max(math.floor(fixed + scale * low), self.seen), math.ceil(fixed + scale * high)

    def _interval_with(self, missed: int) -> tuple[int, int]:
        total = self.bytes / _UNIT
        above = _scaled_poisson(total + missed, self.variance + missed**2, self.third + missed**3)
        below = _scaled_poisson(total, self.variance, self.third) if self.variance else None
        plain_low, plain_high = self._interval()

        def end(part: float, low: float, high: float) -> float:
            """Between these two, where the mean of both distribution functions is this."""
            for _ in range(30):
                middle = (low + high) / 2.0
                lower = _part_below(middle, *below) if below is not None else float(middle >= total)
                low, high = (middle, high) if lower + _part_below(middle, *above) < 2.0 * part else (low, middle)
            return high

        highest = plain_high + 10.0 * missed
        low = min(end(_TAIL, plain_low / 2.0, total), total)
        return max(math.floor(low), self.seen), max(math.ceil(end(1.0 - _TAIL, total, highest)), plain_high)


def _scaled_poisson(total: float, variance: float, third: float) -> tuple[float, float, float]:
    """``d``, ``c`` and ``k`` of the head of this module."""
    scale = max(third / variance, variance / total)
    effective = variance / (scale * scale)
    return total - scale * effective, scale, effective


@lru_cache(maxsize=1 << 12)
def poisson_interval(count: float) -> tuple[float, float]:
    """The mid-P 95 % interval for the mean of a Poisson count, when ``count`` was seen: 1 or more, maybe no whole."""
    return _mid_p(count, _TAIL, -NORMAL), _mid_p(count, 1.0 - _TAIL, NORMAL)


def _mid_p(count: float, part: float, normal: float) -> float:
    """The mean at which a count above ``count``, and half of those equal to it, have this ``part`` of the chance.

    That chance is the mean of the distribution functions of two gamma distributions, of shape ``count`` and ``count``
    + 1, which is how it continues between whole counts. Nearly it is that of shape ``count`` + ½, whose quantile Wilson
    and Hilferty (1931) give by the normal one; from there by Newton's steps in the logarithm, where they cannot leave
    the positive numbers. From a count of 100 on the start is good to a thousandth of a standard deviation.
    """
    shape = count + 0.5
    root = 1.0 - 1.0 / (9.0 * shape) + normal / (3.0 * math.sqrt(shape))
    mean = shape * max(root, 0.05) ** 3
    if count >= 100.0:
        return mean
    for _ in range(50):
        equal = math.exp(count * math.log(mean) - mean - math.lgamma(count + 1.0))
        slope = equal * (count + mean) / 2.0
        step = (_gamma_below(count, mean) - equal / 2.0 - part) / slope
        mean *= math.exp(-min(max(step, -1.0), 1.0))
        if abs(step) < 1e-9:
            break
    return mean


def _part_below(x: float, fixed: float, scale: float, shape: float) -> float:
    """The part below ``x`` of a gamma distribution with this scale and shape, moved by ``fixed``: nearly, by Wilson and
    Hilferty."""
    root = max((x - fixed) / (scale * shape), 0.0) ** (1.0 / 3.0)
    deviation = (root - 1.0 + 1.0 / (9.0 * shape)) * 3.0 * math.sqrt(shape)
    return 0.5 * math.erfc(-deviation / math.sqrt(2.0))


def _gamma_below(shape: float, x: float) -> float:
    """The regularized lower incomplete gamma function, by its power series (Abramowitz and Stegun, 6.5.29)."""
    term = total = 1.0 / shape
    above = shape
    while term > total * 1e-13:
        above += 1.0
        term *= x / above
        total += term
    return min(total * math.exp(shape * math.log(x) - x - math.lgamma(shape)), 1.0)
