"""Holders that have a bound, or are emptied by somebody: what collects there may stop by itself, and is no leak yet.

A new kind of holder is known by its type, and by what shows that it is bounded, here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from heaptop.analysis.heap.path_words import type_name
from heaptop.analysis.leaks.suspects import TypeSum
from heaptop.analysis.leaks.verdicts import Turnover
from heaptop.analysis.text.units import format_rate
from heaptop.protocol.images import Step
from heaptop.protocol.messages import TypeName

_CACHE: Final = "functools._lru_cache_wrapper"
_LINK: Final = "functools._lru_list_elem"
"""One for each answer that an lru_cache with a maxsize keeps; one without has none (CPython's
Modules/_functoolsmodule.c, bounded_lru_cache_wrapper)."""
_QUEUES: Final = frozenset(
    f"{module}.{name}"
    for module in ("queue", "asyncio.queues", "_queue")
    for name in ("Queue", "LifoQueue", "PriorityQueue", "SimpleQueue")
)

_KNOWN: Final = 0.5
"""Of what waited at the first mark: where so much is seen to be gone, that says how fast it goes."""


def filling_words(
    steps: Iterable[Step], types: Sequence[TypeName], named: TypeSum, sums: Iterable[TypeSum], course: Turnover
) -> str:
    """Why what collects there may stop by itself, as a sentence without its full stop; empty where nothing says so.

    Args:
        steps: the path to what holds it.
        sums: all that is new there.
        course: how those of the named type came and went.
    """
    holders = [type_name(types, step.type) for step in steps]
    links = sum(each.count for each in sums if each.type.full == _LINK)
    if _CACHE in holders and 2 * links >= named.count:
        return "an lru_cache with a maxsize holds them: it may not be full yet"
    queue = next((name for name in holders if name in _QUEUES), "")
    return _backlog_words(queue, course) if queue else ""


def _backlog_words(queue: str, course: Turnover) -> str:
    """By how much more is put into a queue than is taken out of it."""
    seconds, grown, gone = sum(course.seconds), course.totals[-1] - course.totals[0], course.gone
    if min(course.totals[0], course.totals[-1]) < 0 or grown <= 0 or seconds <= 0:
        return f"a {queue} holds them: they may be waiting for their turn"
    known = gone is not None and gone >= _KNOWN * course.totals[0] > 0  # else addresses are reused too soon to tell
    taken = f", its consumer takes at least {format_rate((gone or 0) / seconds)}" if known else ""
    return f"backlog: a {queue} grows by {format_rate(grown / seconds)}{taken}"
