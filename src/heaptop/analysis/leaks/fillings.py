"""Holders that have a bound, or are emptied by somebody: what collects there may stop by itself, and is no leak yet.

A new kind of holder is known by its type, and by what shows that it is bounded, here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from heaptop.analysis.heap.path_words import type_name
from heaptop.analysis.leaks.suspects import TypeSum
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


def filling_words(steps: Iterable[Step], types: Sequence[TypeName], named: TypeSum, sums: Iterable[TypeSum]) -> str:
    """Why what collects there may stop by itself, as a sentence without its full stop; empty where nothing says so.

    Args:
        steps: the path to what holds it.
        sums: all that is new there.
    """
    holders = [type_name(types, step.type) for step in steps]
    links = sum(each.count for each in sums if each.type.full == _LINK)
    if _CACHE in holders and 2 * links >= named.count:
        return "an lru_cache with a maxsize holds them: it may not be full yet"
    queue = next((name for name in holders if name in _QUEUES), "")
    return f"a {queue} holds them: they may be waiting for their turn" if queue else ""
