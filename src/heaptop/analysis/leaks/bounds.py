"""Containers that have a bound, or are emptied by somebody: what collects there may stop by itself.

An lru_cache, a deque with a maxlen and a queue with a maxsize hold no more than that. What is full at two moments is no
leak, what fills is unclear until then. A queue without a bound that grows is a backlog: its consumer is too slow.

A new kind of holder is added here alone. Queries are built here and sent by the hunt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from heaptop.analysis.heap.path_words import type_name
from heaptop.analysis.leaks.marks import Holder
from heaptop.analysis.leaks.suspects import TypeSum
from heaptop.analysis.leaks.verdicts import THIRD_MARK, Judgement, Turnover, judge
from heaptop.analysis.text.units import format_bytes, format_count, format_rate
from heaptop.protocol import images
from heaptop.protocol.findings import BACKLOG, LEAK, NO_LEAK, UNCLEAR
from heaptop.protocol.images import ObjectRow, Objects, Question, Selection, Step
from heaptop.protocol.messages import TypeName

CACHE: Final = "functools._lru_cache_wrapper"
LINK: Final = "functools._lru_list_elem"
"""One for each answer that an lru_cache with a maxsize keeps; one without has none (CPython's
Modules/_functoolsmodule.c, bounded_lru_cache_wrapper)."""
_QUEUES: Final = frozenset(
    (
        *(
            f"{module}.{name}"
            for module in ("queue", "asyncio.queues", "_queue")
            for name in ("Queue", "LifoQueue", "PriorityQueue", "SimpleQueue")
        ),
        *("multiprocessing.queues.Queue", "multiprocessing.queues.JoinableQueue"),
    )
)
_WITHOUT_BOUND: Final = frozenset(("_queue.SimpleQueue", "queue.SimpleQueue"))
"""Types that have no bound and no attribute for one."""
_CLEARED: Final = {"sqlite3.Connection": 200}
"""Types in C that clear a list of their own of what is gone, after so many additions: a connection has a weak reference
to each cursor (CPython's Modules/_sqlite/connection.c, drop_unused_cursor_references). What is in use stays: such a
list may be longer."""
_NO_LIMIT: Final = 2**31 - 1
"""A bound from here on is none: references alone to so many items take 16 GiB. ``sys.maxsize`` is one, and what
multiprocessing uses by default."""
_SLACK: Final = 0.01
"""Of a bound: a cache that evicts after it has inserted is beyond it for a moment, with one item for each thread."""
_KNOWN: Final = 0.5  # Share of what waited at a mark: if so much is known to be gone, the rate is that of its leaving
_MOMENTS: Final = 3  # With the last one: from so many lengths on it is seen that a queue grows

@dataclass(frozen=True, slots=True)
class Fill:
    """How full the container is that holds what collects."""

    holder: str  # Full name of the type that has the bound, or is the queue; else of the container
    bound: int  # The most items that it takes; 0: it has no bound; -1: not known
    lengths: tuple[int, ...]  # At each mark and at last; -1 where it is not known
    seconds: tuple[float, ...]
    bytes: int = 0  # What it retains now
    changes: tuple[int, ...] = ()
    """How often items had been added or taken then, where the container counts that; else -1."""
    places: int = 1  # Containers that this is of, all together

    @property
    def now(self) -> int:
        return self.lengths[-1]

    @property
    def grown(self) -> int:
        """By how many items it is longer than at the first mark; 0 where that is not known."""
        return self.now - self.lengths[0] if min(self.lengths[0], self.now) >= 0 else 0

    @property
    def is_queue(self) -> bool:
        return self.holder in _QUEUES

    @property
    def is_exceeded(self) -> bool:
        """It has no such bound, whatever its attribute is."""
        return self.now > self.bound + self.slack

    @property
    def slack(self) -> float:
        return self.bound if self.holder in _CLEARED else max(1, _SLACK * self.bound)

    @property
    def is_explaining(self) -> bool:
        """Whether it explains why things collect: it has a bound, or is a queue."""
        return (self.bound > 0 and not self.is_exceeded) or (self.is_queue and self.bound == 0)

    @property
    def is_full(self) -> bool:
        """At the last mark and now."""
        return min(self.lengths[-2:]) >= self.bound > 0 and not self.is_exceeded

    @property
    def is_known_before(self) -> bool:
        return max(self.lengths[:-1], default=-1) >= 0

    @property
    def rate(self) -> float:
        """Items a second by which it grew in the last interval; 0 where it did not, or that is not known."""
        before, after = self.lengths[-2:]
        return max(0.0, (after - before) / self.seconds[-1]) if before >= 0 and self.seconds[-1] > 0 else 0.0

    @property
    def taken(self) -> float:
        """Items a second that were taken out in the last interval; below 0 where the container does not count that."""
        if min(self.lengths[-2:]) < 0 or min(self.changes[-2:], default=-1) < 0 or self.seconds[-1] <= 0:
            return -1.0
        changed, grown = self.changes[-1] - self.changes[-2], self.lengths[-1] - self.lengths[-2]
        return (changed - grown) / 2 / self.seconds[-1]

    def course(self) -> Turnover:
        """As if each item more were an object born then, from the mark on since which all lengths are known."""
        first = next((place for place in range(len(self.lengths)) if min(self.lengths[place:]) >= 0), len(self.seconds))
        known = self.lengths[first:]
        born = tuple(max(0, after - before) for before, after in pairwise(known))
        return Turnover(self.seconds[first:], born, known[0], known)


# -- queries -------------------------------------------------------------------------------------------------


def fill_question(steps: Sequence[Step]) -> Question | None:
    """About the end of the path to what holds the objects; None where no single object does."""
    if not steps or not steps[-1].address:
        return None
    nearest = tuple(step.address for step in steps[-2:] if step.address)
    return Question(images.OBJECTS, Selection(addresses=nearest), limit=len(nearest))


def fill_of(
    steps: Sequence[Step],
    answer: Objects,
    types: Sequence[TypeName],
    at_marks: Callable[[ObjectRow], Sequence[Holder | None]],
    seconds: tuple[float, ...],
) -> Fill | None:
    """The container at the end of the path, or the object before it whose container it is.

    Args:
        at_marks: of such an object, how it was at each mark.
    """
    rows = {row.address: row for row in answer.rows}
    last, owner = rows.get(steps[-1].address), rows.get(steps[-2].address) if len(steps) > 1 else None
    if last is None:
        return None
    name, bound, counted = type_name(types, last.type), last.bound, last
    if owner is not None and (type_name(types, owner.type) in _QUEUES or last.bound <= 0 < owner.bound):
        name, bound, counted = type_name(types, owner.type), owner.bound, owner if owner.length >= 0 else last
    if owner is not None and name == "list" and type_name(types, owner.type) in _CLEARED:
        name = type_name(types, owner.type)
        bound = _CLEARED[name]
    if bound >= _NO_LIMIT or name in _WITHOUT_BOUND:
        bound = 0
    if bound > 0 > counted.length:
        bound = -1  # of what there may be so many is not known
    then = at_marks(counted)
    lengths = (*(each.length if each is not None else -1 for each in then), counted.length)
    changes = (*(each.changes if each is not None else -1 for each in then), counted.changes)
    return Fill(name, bound, lengths, seconds, last.retained, changes)


def fill_of_all(fills: Sequence[Fill | None]) -> Fill | None:
    """Of containers that are alike, all together; None where one of them has no bound, or was not seen at the first
    mark: that there are more of them is a growth that no bound excuses."""
    known = [each for each in fills if each is not None and each.bound > 0 and not each.is_exceeded]
    if not known or len(known) < len(fills) or any(each.lengths[0] < 0 for each in known):
        return None
    lengths = (sum(then) if min(then) >= 0 else -1 for then in zip(*(each.lengths for each in known), strict=True))
    return replace(
        known[0],
        bound=sum(each.bound for each in known),
        lengths=tuple(lengths),
        bytes=sum(each.bytes for each in known),
        changes=(),
        places=len(known),
    )


# -- what it means for a verdict -----------------------------------------------------------------------------


def is_of_items(named: TypeSum, sums: Iterable[TypeSum], head: TypeName, heads: int) -> bool:
    """Whether what is new are items of the container, or comes with new items. Else it collects in older items, and a
    bound says nothing of that.

    Args:
        sums: all that is new there.
        head: the type of what the container holds directly, so many ``heads`` of it with something new.
    """
    new = sum(each.count for each in sums if each.type == head)
    if head.full == LINK and named.count <= (1 + _SLACK) * heads:
        return True  # a full cache takes the link of what it drops for what it adds
    return 2 * new >= heads


def by_fill(judged: Judgement, fill: Fill, course: Turnover, *, are_items: bool = True) -> Judgement:
    """The verdict with what is known of the container.

    Args:
        course: how the objects came and went.
        are_items: as :func:`is_of_items`.
    """
    if judged.verdict == NO_LEAK and fill.is_full:
        return Judgement(NO_LEAK, (f"{_holder(fill)} at its {_most(fill)}", *judged.evidence))
    if not are_items:
        return judged
    if fill.bound > 0:
        return _by_bound(judged, fill, course)
    return _by_queue(judged, fill, course) if fill.is_queue and fill.bound == 0 else judged


def _by_bound(judged: Judgement, fill: Fill, course: Turnover) -> Judgement:
    most = _most(fill)
    if fill.is_exceeded:
        why = f"its {most} is not enforced: it holds {format_count(fill.now)}"
        return Judgement(judged.verdict, (*judged.evidence, why))
    if judged.verdict == NO_LEAK:
        return judged
    if fill.is_full:
        why = f"{_holder(fill)} at its {most}"
        is_known = sum(total >= 0 for total in course.totals) >= _MOMENTS
        if judged.verdict == LEAK and is_known and course.totals[-1] > fill.now + fill.slack:
            return Judgement(LEAK, (*judged.evidence, why))  # they are more than its items, and more at each mark
        return Judgement(NO_LEAK, (why, *judged.evidence[1:]))
    if fill.now >= fill.bound:
        why = f"{_holder(fill)} has just reached its {most}: another mark shows whether it stays there"
    elif fill.rate > 0 or not fill.is_known_before:
        why = f"fills until {format_count(fill.bound)}{_when(fill)}: {_holder(fill)}, now {format_count(fill.now)}"
        why += f"; {THIRD_MARK}" if len(fill.seconds) < 2 else ""
    else:
        return judged
    return Judgement(UNCLEAR, (why, *judged.evidence[1:]))


def _by_queue(judged: Judgement, fill: Fill, course: Turnover) -> Judgement:
    """By its own length where that is known: what goes through it at once leaves survivors of the last interval."""
    own = fill.course()
    exact, verdict = (own, judge(own).verdict) if len(own.totals) >= _MOMENTS else (course, judged.verdict)
    if verdict == LEAK and sum(total >= 0 for total in exact.totals) >= _MOMENTS:
        return Judgement(BACKLOG, (_backlog_words(fill, course), *judged.evidence[1:]))
    if len(fill.seconds) < 2 and fill.rate > 0:
        why = f"it may be a backlog: {_backlog_words(fill, course)}; {THIRD_MARK}"
    elif judged.verdict == LEAK:
        why = _waiting(fill.holder)
    else:
        return judged
    return Judgement(UNCLEAR, (why, *judged.evidence[1:]))


def unknown_bound_words(
    steps: Iterable[Step], types: Sequence[TypeName], named: TypeSum, sums: Iterable[TypeSum]
) -> str:
    """Why what collects may stop by itself where no bound is known, as a sentence without its full stop; empty where
    nothing says so.

    Args:
        steps: the path to what holds it.
        sums: all that is new there.
    """
    holders = [type_name(types, step.type) for step in steps]
    links = sum(each.count for each in sums if each.type.full == LINK)
    if CACHE in holders and 2 * links >= named.count:
        return "an lru_cache with a maxsize holds them: it may not be full yet"
    queue = next((name for name in holders[-2:] if name in _QUEUES), "")
    return _waiting(queue) if queue else ""


# -- words ---------------------------------------------------------------------------------------------------


def _holder(fill: Fill) -> str:
    name = "lru_cache" if fill.holder == CACHE else fill.holder
    return _article(name) if fill.places == 1 else f"{fill.places} × {name}"


def _waiting(queue: str) -> str:
    return f"{_article(queue)} holds them: they may be waiting for their turn"


def _article(name: str) -> str:
    return f"{'an' if name[:1] in 'aeiou' or name.startswith('lru') else 'a'} {name}"


def _most(fill: Fill) -> str:
    """``maxsize of 1,000``"""
    name = "maxlen" if fill.holder == "collections.deque" else "bound"
    if fill.holder == CACHE or fill.is_queue or fill.holder.startswith("cachetools."):
        name = "maxsize"
    return f"{name} of {format_count(fill.bound)}{' together' * (fill.places > 1)}"


def _when(fill: Fill) -> str:
    """``, in ≈ 40 s at this rate, with ≈ 4.00 MiB then``"""
    words = "" if fill.rate <= 0 else f", in ≈ {_time((fill.bound - fill.now) / fill.rate)} at this rate"
    if fill.now > 0 < fill.bytes:
        words += f", with ≈ {format_bytes(round(fill.bytes * (fill.bound / fill.now)))} then"
    return words


def _time(seconds: float) -> str:
    """``40 s``, ``12 min``, ``5 h``, ``3 days``, ``2 years``: as precise as the current rate allows."""
    for unit, size in (("years", 365 * 86_400), ("days", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:,.0f} {unit}"
    return f"{max(seconds, 1):.0f} s"


def _backlog_words(fill: Fill, course: Turnover) -> str:
    """By how much more comes than goes: ``a queue.Queue grows by 92/s, its consumer takes 40/s``."""
    grown = fill.rate or next((rate for rate in reversed(course.net_rates) if rate), 0.0)
    words = f"{_holder(fill)} grows by {format_rate(grown)}" if grown > 0 else f"{_holder(fill)} grows"
    if fill.taken == 0:
        return f"{words}, and nothing is taken out"
    if fill.taken > 0:
        return f"{words}, its consumer takes {format_rate(fill.taken)}"
    taken = max(_seen_gone(fill.lengths if fill.is_known_before else course.totals, course))
    return f"{words}, its consumer takes at least {format_rate(taken)}" if taken > 0 else words


def _seen_gone(waiting: Sequence[int], course: Turnover) -> Iterable[float]:
    """Items a second that are gone of those that waited at each mark; 0 where addresses are reused too soon to know."""
    there, left = course.old, sum(course.seconds)
    for waited, born, seconds in zip(waiting, course.born, course.seconds, strict=False):
        gone = waited - there
        yield gone / left if gone >= _KNOWN * waited > 0 and left > 0 else 0.0
        there, left = there + born, left - seconds
