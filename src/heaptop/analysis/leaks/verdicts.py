"""Whether a growth is a leak: judged by who survives, by how many there were at each moment, and by how that went on.

A leak rises in every interval between two marks, what was born in an early interval lives on as what was born in a late
one does, and the old ones stay. What only looks like one differs in one of these::

                        survivors by interval    how many there were      the old ones
    leak                even                    rises in each            stay
    cache at its bound  the last ones           the same                 go, as many as come
    heavy churn         of the last one         about the same           go
    warm-up             of the first ones       rises, then the same     stay
    sawtooth            since the last fall     rises and falls          go
    grown and shrunk    few                     less than it was         go

What is none of these, or is too little to judge, is unclear. This module never asks anything; it judges by shares and
relative rates alone, so a verdict is the same whether the same happened in a minute or in an hour.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from heaptop.analysis.text.units import format_count
from heaptop.protocol.findings import LEAK, NO_LEAK, UNCLEAR

FEW: Final = 6  # New objects: fewer are too few to judge by
STEADY: Final = 0.4  # The last interval's rate as a part of the mean of the earlier ones: a leak's is not below
STEADY_OF_TWO: Final = 0.5
"""Likewise where there are two intervals: what warms up slows down by as much from the first to the second."""
STOPPED: Final = 0.1  # Likewise: what is below has come to an end
FLEETING: Final = 0.25
"""What survives of early intervals as a part of what there is of the last one: what is below is short-lived."""
REPLACED: Final = 0.9  # Gone, as a part of what has come: from here on it does not grow
MIXED: Final = 0.5  # Likewise: from here on it is no plain leak
FALL: Final = 0.5  # The deepest fall as a part of the whole range: from here on it goes up and down
STEADY_GROWTH: Final = "it grew in every interval, as fast in the last as before"
ENDED: Final = "it grew and has stopped"
WEAK: Final = "they may refer to garbage"
SLOWER: Final = "it grows more slowly than before"
THIRD_MARK: Final = "set a third mark (key m, or --marks 3)"
ADDRESSES: Final = "estimate: addresses are reused"
"""Said of who was born when: an address used again for another object of the type makes that one pass for older. What
was born in the last interval is at least so many; of an earlier one it may be more or fewer."""
_FINE: Final = 12  # Moments between the marks: fewer are not looked at for how it went last


@dataclass(frozen=True, slots=True)
class Turnover:
    """How objects came and went."""

    seconds: tuple[float, ...]  # How long each interval lasted
    born: tuple[int, ...]
    """Those that are there now, by the stretch in which they were born, as far as that is known (:data:`ADDRESSES`)."""
    old: int  # Those that are there now and were at the first mark
    totals: tuple[int, ...]
    """How many there were at each mark and at last; -1 where it is not known. The last is ``old`` and all of ``born``,
    or what else is counted and goes with it."""
    between: tuple[tuple[float, int], ...] = ()
    """How many there were at moments from the first mark to the last one: the seconds of each since the first mark, and
    the number. It may be of none."""
    counted: str = "objects"  # What `totals` are numbers of
    few: int = FEW

    @property
    def new(self) -> int:
        return sum(self.born)

    @property
    def is_exact(self) -> bool:
        """Whether the number is known of each mark. It decides then: births by address miss what came to an address
        that was used before."""
        return min(self.totals) >= 0

    @property
    def risen(self) -> int:
        """By how many there are more than at the first mark, where that is known of each."""
        return self.totals[-1] - self.totals[0] if self.is_exact else 0

    @property
    def grown(self) -> int:
        """Likewise, or born since and there, as far as that is known."""
        return max(self.new, self.risen)

    @property
    def gone(self) -> int | None:
        """Of those that were there at the first mark, at least; None where it is not known."""
        return self.gone_since(0)

    def gone_since(self, mark: int) -> int | None:
        """Likewise of those that were there at this mark."""
        there = self.totals[mark]
        return max(0, there - self.old - sum(self.born[:mark])) if there >= 0 else None

    @property
    def floors(self) -> list[int]:
        """From each mark on, and at last, the fewest that there were at any moment: no more can be left of those that
        were there at the mark."""
        marks = [sum(self.seconds[:place]) for place in range(len(self.totals))]
        seen = [*self.between, *((mark, total) for mark, total in zip(marks, self.totals, strict=True) if total >= 0)]
        return [min((count for time, count in seen if time >= mark), default=-1) for mark in marks]

    @property
    def rates(self) -> list[float]:
        """Survivors a second, by interval."""
        return [born / seconds if seconds > 0 else 0.0 for born, seconds in zip(self.born, self.seconds, strict=True)]

    @property
    def net_rates(self) -> list[float | None]:
        """By how many a second the number rose, by interval; None where it is not known."""
        return [
            (after - before) / seconds if min(before, after) >= 0 and seconds > 0 else None
            for (before, after), seconds in zip(pairwise(self.totals), self.seconds, strict=True)
        ]


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict, and why: sentences without their full stops, the weightiest first."""

    verdict: str
    evidence: tuple[str, ...]


def judge(course: Turnover) -> Judgement:
    """The first rule that applies gives the verdict; the evidence lists what all rules found."""
    told = [*_facts(course)]
    for rule in (_replaced, _fallen, _too_little, _short_lived, _ended, _gaps, _mixed):
        found = rule(course)
        if found is not None:
            return Judgement(found.verdict, (*found.evidence, *told))
    return Judgement(LEAK, (f"{STEADY_GROWTH}, and early ones are still there", *told))


# -- rules ---------------------------------------------------------------------------------------------------


def _replaced(course: Turnover) -> Judgement | None:
    """As many have gone as have come: since the first mark, or since a later one in the first half of the time, where
    most of those that were there then are gone."""
    last = course.totals[-1]
    for mark, then in enumerate(course.totals[:-1]):
        is_late = 2 * sum(course.seconds[:mark]) > sum(course.seconds)
        if not is_late and last >= 0 and _is_replaced(course, mark):
            how = "as many are freed as are new" if last >= then else "fewer than before"
            at = f"mark {mark + 1}" if mark else "the first mark"
            return _no(f"{how}: {_number(then)} at {at}, {_number(last)} now")
    return None


def _is_replaced(course: Turnover, mark: int) -> bool:
    """Whether as many have gone since this mark as have come."""
    gone, new = course.gone_since(mark), sum(course.born[mark:])
    grown = course.totals[-1] - course.totals[mark]
    if gone is None or not (new or gone) or (mark and gone <= MIXED * course.totals[mark]):
        return False
    return grown <= max((1 - REPLACED) * new, 2 * math.sqrt(gone) if gone > MIXED * new else 0)


def _fallen(course: Turnover) -> Judgement | None:
    """It goes up and down."""
    seen = [count for _, count in course.between] or [total for total in course.totals if total >= 0]
    if len(seen) < 3:
        return None
    high, fall, top, bottom = seen[0], 0, 0, 0
    for each in seen:
        high = max(high, each)
        if high - each > fall:
            fall, top, bottom = high - each, high, each
    if fall <= FALL * (max(seen) - min(seen)):
        return None
    why = f"it fell in between, from {_number(top)} to {_number(bottom)}"
    # A new object at a reused address counts as one that stayed: the smallest number of objects bounds how many can.
    stay = len(course.born) > 1 and all(before < after for before, after in pairwise(course.floors))
    steady = stay and all(course.born) and not _is_short_lived(course)
    return Judgement(UNCLEAR, (f"{why}; but some of each interval stayed",)) if steady else _no(why)


def _too_little(course: Turnover) -> Judgement | None:
    if course.grown < course.few:
        return Judgement(UNCLEAR, (f"too few new {course.counted} ({_number(course.grown)})",))
    if len(course.born) < 2:
        return Judgement(UNCLEAR, (f"growth between two marks may be a warm-up: {THIRD_MARK}",))
    return None


def _short_lived(course: Turnover) -> Judgement | None:
    """Hardly any of the earlier intervals live."""
    if not _is_short_lived(course):
        return None
    why = "almost none of the earlier intervals survive"
    if course.gone is not None and course.gone > MIXED * course.new:
        return _no(f"{why}, and the old ones go")
    return Judgement(UNCLEAR, (f"{why}: it just began, or they are short-lived",))


def _is_short_lived(course: Turnover) -> bool:
    *earlier, last = course.rates
    return bool(earlier) and _mean(earlier) < FLEETING * last


def _gaps(course: Turnover) -> Judgement | None:
    """An interval of which none live, or in which their number did not rise, or hardly."""
    *earlier, last = course.rates
    if last and not all(earlier) and not course.is_exact:
        return Judgement(UNCLEAR, ("one interval has no survivors",))
    if any(after <= before for before, after in pairwise(total for total in course.totals if total >= 0)):
        return Judgement(UNCLEAR, ("it did not grow in every interval",))
    seconds, slowest = sum(course.seconds), min(rate or 0.0 for rate in course.net_rates)
    if course.is_exact and slowest * seconds < STOPPED * course.risen and seconds > 0:
        return Judgement(UNCLEAR, ("it hardly grew in one interval",))
    return None


def _ended(course: Turnover) -> Judgement | None:
    """It grew, and has stopped, or grows more slowly. Births by address never show that it has stopped."""
    slow = min(_slowing([rate for rate in course.net_rates if rate is not None]), _tail(course))
    if slow < STOPPED:
        return _no(ENDED)
    steady = STEADY_OF_TWO if len(course.born) == 2 else STEADY
    if slow < steady or (not course.is_exact and _slowing(course.rates) < steady):
        return Judgement(UNCLEAR, (SLOWER,))
    return None


def _slowing(rates: Sequence[float]) -> float:
    """The last rate as a part of the mean of the earlier ones; 1 where there are none."""
    *earlier, last = rates or [0.0]
    mean = _mean(earlier) if earlier else 0.0
    return max(last, 0.0) / mean if mean > 0 else 1.0


def _tail(course: Turnover) -> float:
    """How fast it rose in the last quarter of the time, as a part of the mean; 1 where that is not known, or little."""
    seen = course.between
    if len(seen) < _FINE or seen[-1][1] - seen[0][1] < 4 * FEW:
        return 1.0
    (begin, first), (end, last) = seen[0], seen[-1]
    quarter = (end - begin) / 4
    (before, low), (after, high) = next(pair for pair in pairwise(seen) if pair[1][0] >= end - quarter)
    if after - before > quarter / 2 or after <= before:
        return 1.0
    then = low + (high - low) * (end - quarter - before) / (after - before)
    return max(0.0, (last - then) * 4 / (last - first))


def _mixed(course: Turnover) -> Judgement | None:
    gone = course.gone
    if gone is None or gone <= MIXED * course.new:
        return None
    return Judgement(UNCLEAR, ("many old ones are gone, although there are more new ones",))


def _no(why: str) -> Judgement:
    return Judgement(NO_LEAK, (why,))


# -- evidence for any verdict --------------------------------------------------------------------------------


def _facts(course: Turnover) -> Iterator[str]:
    if len(course.born) > 1:
        yield f"survivors per interval ({ADDRESSES}): {_list(course.born, 'at least ')}"
    if sum(total >= 0 for total in course.totals) > 1:
        yield f"{course.counted} at each mark: {_list(course.totals)}"
    first, gone = course.totals[0], course.gone
    if gone is not None and first:
        went = f"at least {_number(gone)} are gone" if gone else f"none is gone ({ADDRESSES})"
        yield f"of {_number(first)} at the first mark, {went}"


def _list(numbers: Sequence[int], bound: str = "") -> str:
    """``bound``: a word in front of the last of them."""
    words = [_number(each) if each >= 0 else "?" for each in numbers]
    return f"{', '.join(words[:-1])} and {bound}{words[-1]}" if len(words) > 1 else "".join(words)


def _number(value: int) -> str:
    return format_count(value)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
