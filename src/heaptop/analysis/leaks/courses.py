"""How the objects at one place came and went: by the length of their container, by all of their type, or by paths.

The first of these that is known decides. Everything here is computed from answers that the hunt already has.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from heaptop.analysis.heap.history import Amount, History
from heaptop.analysis.heap.path_words import type_name
from heaptop.analysis.leaks.container_growth import LEAST_GROWTH, LEAST_SHARE
from heaptop.analysis.leaks.growth import BirthCounts, BirthIntervals
from heaptop.analysis.leaks.marks import Holder, Mark, MarkContext, Trends, retainer_words, totals_by_type
from heaptop.analysis.leaks.suspects import Candidate, TypeSum
from heaptop.analysis.leaks.verdicts import ENDED, FEW, MIXED, Judgement, Turnover, judge
from heaptop.analysis.samples.sampling import Sampling
from heaptop.analysis.text.units import format_bytes, format_count
from heaptop.protocol.findings import LEAK, NO_LEAK, UNCLEAR, MarkFacts
from heaptop.protocol.images import KINDS, AccumulationPoint, Ages, Image, ObjectRow, Step
from heaptop.protocol.messages import Census, TypeName

_WHOLE: Final = 0.8  # Of the new objects of a type: a place that holds so many is judged by all objects of the type
_PART: Final = 0.25  # Likewise: what holds so many is seen in the number of all objects of the type
_ALIKE: Final = 0.1  # Two counts of the same differ by no more than this part
_KNOWN: Final = 3  # Moments, with the last one: from so many numbers on it is seen that it grew
_BETWEEN: Final = 24  # Moments between the marks at which a type's total is examined
_MOST_LARGER: Final = 16  # Objects: of more, some are larger by chance
_RECORDS: Final = 6
"""Times that a type took more bytes than ever before, at such moments: one object that is replaced by others of any
size hardly does so without a fall."""


@dataclass(frozen=True, slots=True)
class HuntMoment:
    """All that is known in a hunt before the first query about new objects."""

    image: Image
    types: Sequence[TypeName]
    history: History
    sampling: Sampling
    around: MarkContext
    last: MarkFacts
    marks: Sequence[Mark]  # Those that are compared with; what is new is since the first of them
    epochs: BirthIntervals
    ages: Ages
    trends: Trends
    rounds: bool = False  # The same work was done from each mark to the next, and nothing else
    names: bool = False  # What is new is grouped by names alone

    @property
    def seconds(self) -> tuple[float, ...]:
        """How long each interval lasted. Of rounds each counts as long as the others: their work is the clock."""
        times = [*(mark.facts.time_ns for mark in self.marks), self.last.time_ns]
        if self.rounds:
            return (max(times[-1] - times[0], 0) / 1e9 / len(self.marks),) * len(self.marks)
        return tuple(max(after - before, 0) / 1e9 for before, after in pairwise(times))

    @property
    def few(self) -> int:
        """New objects: fewer are too few to judge by. In rounds one each is enough."""
        return len(self.marks) if self.rounds else FEW


@dataclass(frozen=True, slots=True)
class LargerObjects:
    """As many objects as before, made anew again and again, and larger each time."""

    judged: Judgement
    sizes: tuple[int, ...]  # The bytes that they took at each mark and take now, together
    born: tuple[int, ...]  # By how many more, by interval

    @property
    def grown(self) -> int:
        return self.sizes[-1] - self.sizes[0]


class Courses:
    """Those of one hunt."""

    def __init__(self, moment: HuntMoment, aged: Mapping[TypeName, BirthCounts]) -> None:
        self._at = moment
        self._aged = aged
        self._totals = totals_by_type(moment.ages, moment.types)

    def course(self, candidate: Candidate, named: TypeSum, aged: BirthCounts) -> Turnover:
        """By the length of the container, where that is how many there are; of all objects of the type, where most of
        the new ones are here; else by what was seen here at the marks, which goes first where the container is new."""
        lengths, everywhere = self._lengths(candidate, aged), self.everywhere(named.type)
        # What others hold as well is not below the container, and may be old.
        shared = max(0, lengths[-1] - aged.count) if lengths else 0
        here = Turnover(self._at.seconds, tuple(aged.born), aged.old + shared, lengths, few=self._at.few)
        if lengths and here.is_exact:
            return replace(here, between=everywhere.between) if _differ_evenly(everywhere.totals, lengths) else here
        holder = candidate.holder
        is_young = holder is not None and not self._at.epochs.was_there(holder.seen, 0)
        kept = self._kept(candidate, named, aged) if is_young or not lengths else ()
        here = replace(here, totals=kept if not lengths or (is_young and min(kept) >= 0) else lengths)
        if self.is_most(named) and not (here.is_exact and is_young):
            return everywhere
        return here if here.is_exact else self._by_length(candidate) or here

    def _by_length(self, candidate: Candidate) -> Turnover | None:
        """Of a container, as if each item more were an object born then; None where it did not grow in each interval,
        or that is not known."""
        holder = candidate.holder
        lengths = self._lengths_of(holder) if holder is not None else ()
        born = tuple(after - before for before, after in pairwise(lengths))
        if holder is None or not born or min(lengths) < 0 or min(born) <= 0:
            return None
        counted = f"items of the {type_name(self._at.types, holder.type)}"
        return Turnover(self._at.seconds, born, lengths[0], lengths, counted=counted, few=self._at.few)

    def everywhere(self, type: TypeName) -> Turnover:
        """Of all objects of a type."""
        at, aged = self._at, self._aged.get(type, BirthCounts([0] * self._at.epochs.birth_intervals))
        then = (mark.types.get(type, Amount(0, 0)).count for mark in at.marks)
        totals = (*then, aged.count)
        return Turnover(at.seconds, tuple(aged.born), aged.old, totals, self._between(type), few=at.few)

    def as_all_do(self, judged: Judgement, course: Turnover, named: TypeSum, kind: int) -> Judgement:
        """Of what goes again at once, survivors by address alone look as those of a leak do: where hardly anything else
        says that there are more here, or a running call holds them, all of the type have to grow, and by what is new
        here."""
        in_call = KINDS[kind] == "frame"
        is_known = not in_call and sum(total >= 0 for total in course.totals) >= _KNOWN
        if judged.verdict not in (LEAK, UNCLEAR):
            return judged
        all_of_type = self.everywhere(named.type)
        if is_known and judged.verdict == LEAK:
            return _less_went(judged, course, all_of_type)
        everywhere = judge(all_of_type)
        here = judged.evidence[0] if is_known else "the earlier number here is unknown"
        here = "a running call holds them, and may free them when it returns" if in_call else here
        # Had what is new here come to stay, they would be more by as many, unless most new ones are elsewhere.
        is_told = _PART * all_of_type.new <= named.count and 2 * all_of_type.risen <= named.count
        is_told = is_told or self.is_most(named)
        if everywhere.verdict == NO_LEAK and is_told:
            verdict, there = NO_LEAK, everywhere.evidence[0]
        elif judged.verdict == UNCLEAR or (everywhere.verdict == LEAK and 2 * named.count >= all_of_type.new):
            return judged
        else:
            verdict = UNCLEAR
            there = everywhere.evidence[0] if everywhere.verdict != LEAK else "most new ones are elsewhere"
        return Judgement(verdict, (f"{here}; of all {named.type.full}: {there}", *judged.evidence[1:]))

    def by_bytes(self, judged: Judgement, named: TypeSum, candidate: Candidate) -> Judgement:
        """Objects that are as many as they were may be larger ones."""
        before = self._at.marks[0].types.get(named.type, Amount(0, 0)).bytes
        grown = self._totals.get(named.type, Amount(0, 0)).bytes - before
        if judged.verdict != NO_LEAK or judged.evidence[0] == ENDED or not self.is_most(named):
            return judged
        if grown < max(LEAST_GROWTH, candidate.bytes // 2):
            return judged
        why = f"all {named.type.full} together take {format_bytes(grown)} more than at the first mark"
        return Judgement(UNCLEAR, (why, *judged.evidence))

    def larger(self, judged: Judgement, steps: Sequence[Step], named: TypeSum) -> LargerObjects | None:
        """The few objects along a path, where they are as many as they were and take more bytes: a text that is
        joined to, an array that is made anew with more in it. None where they do not, or nobody knows."""
        if judged.verdict != NO_LEAK or judged.evidence[0] == ENDED:
            return None
        sizes = self._sizes_of_few(retainer_words(steps), named)
        if not sizes or not 0 < max(LEAST_GROWTH, LEAST_SHARE * sizes[-1]) <= sizes[-1] - sizes[0]:
            return None
        between = self._between(named.type, in_bytes=True)
        born = tuple(max(0, after - before) for before, after in pairwise(sizes))
        found = judge(Turnover(self._at.seconds, born, sizes[0], sizes, between, counted="bytes"))
        is_seen = self._is_growth_of_type(named.type, sizes) and _records([size for _, size in between]) >= _RECORDS
        if found.verdict == LEAK and not is_seen:
            found = Judgement(UNCLEAR, ("their sizes between the marks are not known well enough",))
        return LargerObjects(found, sizes, born)

    def _sizes_of_few(self, words: str, named: TypeSum) -> tuple[int, ...]:
        """Bytes of the type along such paths at each mark and now; empty where that is not known, or they are many."""
        at = self._at
        kept = [trends.amount(words, named.type.full) for trends in (*(mark.trends for mark in at.marks), at.trends)]
        few = [each for each in kept if each is not None and max(each.count, named.count) <= _MOST_LARGER]
        return tuple(each.bytes for each in few) if len(few) == len(kept) else ()

    def _is_growth_of_type(self, type: TypeName, sizes: Sequence[int]) -> bool:
        """Whether the type's bytes between the marks belong to these objects: all others take as much at each mark."""
        totals = [*(mark.types.get(type, Amount(0, 0)).bytes for mark in self._at.marks)]
        totals.append(self._totals.get(type, Amount(0, 0)).bytes)
        others = [total - size for total, size in zip(totals, sizes, strict=True)]
        return max(others) - min(others) <= MIXED * (sizes[-1] - sizes[0])

    def at_marks(self, holder: AccumulationPoint | ObjectRow) -> list[Holder | None]:
        """This container at each mark; None where it is not known how it was."""
        name = type_name(self._at.types, holder.type)
        known = (mark.trends.holders.get(holder.address) for mark in self._at.marks)
        return [each if each is not None and each.type == name else None for each in known]

    def is_most(self, named: TypeSum) -> bool:
        """Whether most of the type's new objects are at this place."""
        everywhere = self._aged.get(named.type)
        return everywhere is not None and named.count >= _WHOLE * everywhere.new

    def _between(self, type: TypeName, *, in_bytes: bool = False) -> tuple[tuple[float, int], ...]:
        """The type's totals, or their bytes, by the whole censuses since the first mark, or by some of them; empty
        where they are few, or none has the type, as where there are too many types, and in rounds, whose clock is
        another."""
        if self._at.rounds:
            return ()
        records, first = self._at.history.records, self._at.marks[0].facts.time_ns
        times = [each.time_ns for each in records]
        begin, end = bisect_left(times, first), bisect_right(times, self._at.last.time_ns)
        if end - begin < 2:
            return ()
        step = max(1.0, (end - begin - 1) / (_BETWEEN - 1))
        places = [begin + round(step * each) for each in range(_BETWEEN)]
        seen = tuple(
            (
                (times[place] - first) / 1e9,
                sum(cell.bytes if in_bytes else cell.count for cell in records[place].cells if cell.type == type),
            )
            for place in places
            if place < end and _is_whole(records[place].census)
        )
        return seen if any(count for _, count in seen) else ()

    def _lengths(self, candidate: Candidate, aged: BirthCounts) -> tuple[int, ...]:
        """How long the container was at each mark; empty where that is not the number of objects."""
        holder = candidate.holder
        return self._lengths_of(holder) if holder is not None and _is_alike(holder.length, aged.count) else ()

    def _lengths_of(self, holder: AccumulationPoint) -> tuple[int, ...]:
        """How long a container was at each mark and is now, -1 where that is not known; empty where it never is. Before
        it was there, another one may have held as many."""
        was_there = self._at.epochs.was_there
        lengths = [
            each.length if each is not None and was_there(holder.seen, place) else -1
            for place, each in enumerate(self.at_marks(holder))
        ]
        return (*lengths, holder.length) if any(length >= 0 for length in lengths) else ()

    def _is_young(self, holder: AccumulationPoint | None) -> bool:
        """Whether that container was not there at the first mark."""
        return holder is not None and not self._at.epochs.was_there(holder.seen, 0)

    def _kept(self, candidate: Candidate, named: TypeSum, aged: BirthCounts) -> tuple[int, ...]:
        """How many of the type were kept along such paths at each mark."""
        at = self._at
        words = retainer_words(candidate.steps)
        now = at.trends.amount(words, named.type.full)
        if now is None or not _is_alike(now.count, aged.count):
            return (-1,) * (len(at.marks) + 1)
        then = (mark.trends.amount(words, named.type.full) for mark in at.marks)
        return (*(-1 if known is None else known.count for known in then), now.count)


def _is_whole(census: Census) -> bool:
    """Whether a type that it has not is not there."""
    return census.complete and census.mode != "python"


def _records(numbers: Sequence[int]) -> int:
    """How many of them are larger than all before."""
    return sum(max(numbers[:place]) < each for place, each in enumerate(numbers) if place)


def _less_went(judged: Judgement, course: Turnover, all_of_type: Turnover) -> Judgement:
    """A leak, unless most of those at a mark are gone: there were fewer of the type, anywhere, at a moment since."""
    for there, floor in zip(course.totals[:-1], all_of_type.floors[:-1], strict=True):
        if 0 <= floor < MIXED * there:
            why = f"they come and go: of {format_count(there)} at a mark, at most {format_count(floor)} were left later"
            return Judgement(NO_LEAK, (why, *judged.evidence[1:]))
    return judged


def _differ_evenly(totals: Sequence[int], lengths: Sequence[int]) -> bool:
    """Whether all objects of a type came and went as those of one container: there are as many others at each mark."""
    others = [total - length for total, length in zip(totals, lengths, strict=True)]
    return max(others) - min(others) <= _ALIKE * (max(lengths) - min(lengths))


def _is_alike(one: int, other: int) -> bool:
    return one >= 0 and abs(one - other) <= _ALIKE * max(one, other)
