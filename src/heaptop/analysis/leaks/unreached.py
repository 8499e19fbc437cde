"""Blocks that live and that no live object has: a reference lost in C, or memory that an extension holds.

Sampled blocks tell where they were allocated and how many there are; a snapshot tells which of them no object leads to.
A site where their number rises from mark to mark becomes a suspect and is judged like any other. The one query is
yielded to the caller.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from heaptop.analysis.leaks.verdicts import FEW, STEADY_GROWTH, Judgement, Turnover, judge
from heaptop.analysis.samples.estimate import Estimate, Sums
from heaptop.analysis.samples.sampling import Sampling
from heaptop.analysis.samples.stacks import FORGOTTEN
from heaptop.analysis.snapshot.asking import Asking, NotAnswered, answered
from heaptop.analysis.snapshot.kept_sites import SamplingIntervals, handler_shares
from heaptop.analysis.text.units import format_bytes, format_count, format_number, format_rate
from heaptop.protocol import images
from heaptop.protocol.findings import LEAK, NO_LEAK, UNCLEAR, UNREACHED, Suspect
from heaptop.protocol.images import Blocks, Question

_MOST_STACKS: Final = 10_000
_MOST: Final = 3  # Suspects
_ENOUGH: Final = 16  # Sampled blocks by which a site has grown: fewer call nothing a leak
_LEAST: Final = 64 << 10  # Bytes, likewise
HOLDING: Final = "they belong to no live object that heaptop can examine"


@dataclass(slots=True)
class SiteBlocks:
    """Sampled blocks of one site."""

    sums: Sums = field(default_factory=Sums)
    stacks: Counter[int] = field(default_factory=Counter)  # Samples by stack
    missed: int = 0  # As Sums.estimate() has it

    @property
    def estimate(self) -> Estimate:
        return self.sums.estimate(self.missed)


def unreached_of(sampling: Sampling) -> Asking[Mapping[str, SiteBlocks] | None]:
    """The blocks that no object of this image has, by site; None where that is not known."""
    if not sampling.follows:
        return None
    try:
        answer = yield from answered(Blocks, Question(images.UNREACHED, limit=_MOST_STACKS))
    except NotAnswered:
        return None
    samples, intervals = sampling.samples, SamplingIntervals(sampling.samples)
    found: dict[str, SiteBlocks] = {}
    for row in answer.rows:
        stack = samples.stack_of(row.stack)
        if stack != FORGOTTEN and row.count:
            site = found.setdefault(sampling.sites.name(stack, "site"), SiteBlocks(missed=samples.live_missed))
            site.sums.add_alike(intervals.weight(row, stack), row.count)
            site.stacks[stack] += row.count
    return found


def unreached_suspects(
    courses: Mapping[str, Sequence[SiteBlocks]],
    seconds: tuple[float, ...],
    sampling: Sampling,
    leaking: Collection[str],
    beside: Mapping[str, str] | None = None,
) -> list[Suspect]:
    """Sites of which more and more such blocks live, the most bytes first.

    Args:
        courses: by site, its blocks at each mark and now.
        seconds: how long each interval lasted.
        leaking: sites of objects that leak: what belongs to these in C is no other leak.
        beside: by site, a type whose new objects come from there and are no leak: the blocks may belong to these in C.
    """
    of_objects = beside or {}
    due = ((site, course) for site, course in courses.items() if site not in leaking)
    grown = [_Grown(site, course, seconds, of_objects.get(site, "")) for site, course in due]
    grown = [each for each in grown if each.is_seen and each.judged.verdict != NO_LEAK]
    grown.sort(key=lambda each: -each.bytes)
    count = sum(each.count for each in grown)
    return [each.suspect(count, sampling) for each in grown[:_MOST]]


class _Grown:
    """The blocks of one site, from the first mark on."""

    def __init__(self, site: str, course: Sequence[SiteBlocks], seconds: tuple[float, ...], beside: str) -> None:
        self._site, self._now, self._seconds = site, course[-1], seconds
        estimates = [each.estimate for each in course]
        first, now = estimates[0], estimates[-1]
        self.count, self.bytes = now.count - first.count, now.bytes - first.bytes
        self._series = tuple(each.count for each in estimates)
        # Judged by as many as were sampled, for these alone are known: an estimate has no more to go by.
        part = now.samples / max(now.count, 1)
        known = tuple(round(count * part) for count in self._series)
        self.samples = known[-1] - known[0]
        born = tuple(max(0, after - before) for before, after in pairwise(known))
        self._error = now.error
        self._beside = beside
        self.judged = self._sure(judge(Turnover(seconds, born, known[0], known)))

    @property
    def is_seen(self) -> bool:
        """Whether their number grew, as far as samples show."""
        return self.samples >= FEW and self.bytes > self._error

    def _sure(self, judged: Judgement) -> Judgement:
        """Few samples rise at each mark by chance, and little may be what a library keeps for itself. Of what is
        replaced only what came since the attach was sampled: that is more at each mark as well."""
        if judged.verdict == LEAK and self._beside:
            why = f"they may belong to the {self._beside} that the same site allocates, which are no leak"
            return Judgement(UNCLEAR, (why, *judged.evidence))
        if judged.verdict != LEAK or (self.samples >= _ENOUGH and self.bytes >= max(_LEAST, 1.5 * self._error)):
            return judged
        why = f"too little to tell: {format_number(self.samples, 'sample')} more, ≈{format_bytes(self.bytes)}"
        return Judgement(UNCLEAR, (why, *judged.evidence))

    def suspect(self, count: int, sampling: Sampling) -> Suspect:
        (stack, _), = self._now.stacks.most_common(1)
        series = self._series
        rate = max(0.0, (series[-1] - series[-2]) / self._seconds[-1]) if self._seconds[-1] > 0 else 0.0
        return Suspect(
            verdict=self.judged.verdict,
            type=UNREACHED,
            count=count,
            bytes=self.bytes,
            rate=rate,
            site=self._site,
            stack=tuple(frame.label for frame in sampling.sites.frames(stack)),
            site_share=1.0,
            samples=self._now.estimate.samples,
            retainer="no live object",
            holder="",
            path=(),
            kind="c",
            held=self.count,
            point=0,
            example=0,
            generations=(),
            series=series,
            evidence=tuple(self._evidence()),
            sentence=self._sentence(rate),
            holding=HOLDING,
            handlers=handler_shares(self._now.stacks, sampling),
        )

    def _evidence(self) -> Iterator[str]:
        yield STEADY_GROWTH if self.judged.verdict == LEAK else self.judged.evidence[0]
        counts = [f"≈{format_count(each)}" for each in self._series]
        yield f"blocks at each mark: {', '.join(counts[:-1])} and {counts[-1]}"
        samples = format_number(self._now.estimate.samples, "sampled block")
        yield f"estimated from {samples}: ±{format_bytes(round(self._error))}"
        yield f"{HOLDING}: C code lost a reference to them, or an extension holds them"

    def _sentence(self, rate: float) -> str:
        size = f"≈{format_bytes(self.bytes)}"
        if self.judged.verdict == LEAK and rate > 0:
            byte_rate = format_rate(rate * self.bytes / max(self.count, 1), bytes_=True)
            size += f", still growing ≈{format_rate(rate)}, ≈{byte_rate}"
        place, _, function = self._site.partition(" ")
        where = f"{place} in {function}" if function and not place.startswith("(") else self._site
        blocks = f"≈{format_count(self.count)} more memory block{'s' * (self.count != 1)}"
        return f"{blocks} ({size}) allocated at {where} stay, and {HOLDING}"
