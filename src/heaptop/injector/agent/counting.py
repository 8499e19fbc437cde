"""The state of one census in slices, and its rests."""

from __future__ import annotations

import sys
from typing import Any

from heaptop.injector.agent.base import Namespace
from heaptop.injector.agent.clock import clock, cpu_clock, rest
from heaptop.injector.agent.own import traced_tables
from heaptop.injector.agent.values import bounded

ROWS = 5
"""Generations 0, 1, 2, permanent, untracked; -1 indexes the last, so a generation is its own index."""
PIECE = 2_000
TRACED_PIECE = 100
"""Objects that are counted between two looks at the clock: one takes 10 µs on 3.8, 40 µs on 3.11."""


def new_census(s: Any, number: int, reason: str) -> Any:
    """The state of one census; :func:`census_in_slices` empties it at the end."""
    now = clock()
    fields = s.request
    return Namespace(
        session=s,
        boot=globals().get("BOOT", s),
        id=number,
        reason=reason,
        slice=bounded(fields.get("slice_ns"), 1_000_000, 100_000, 1_000_000_000),
        rest=bounded(fields.get("rest_ns"), 1_000_000, 50_000, 10_000_000_000) / 1e9,
        begin=now,
        cpu=cpu_clock(),
        peak=0,
        guessed=0,
        cuts=[],
        lists=[],
        own=set(),
        own_names={},
        frozen=0,
        permanent=0,
        own_frozen=0,
        chunks={},
        candidates={},
        index={},  # id of a type: its place in the lists below
        types=[],
        wire=[],
        sizes=[],  # bytes of every instance, or 0: ask each
        guess=[],
        queue_of=[],  # where an instance waits to be expanded; None: it refers to nothing
        counts=[[] for _ in range(ROWS)],
        bytes=[[] for _ in range(ROWS)],
        generation=0,  # of the list that is being counted
        plain=[],
        epoch=s.epoch,
        trace=s.tracer._get_object_traceback if s.tracing else None,
        piece=TRACED_PIECE if s.tracing else PIECE,
        stack_of={},  # hash of a stack from tracemalloc: its number in this session
        traced_counts={},  # (stack << 32 | type) << 2 | size class: objects
        traced_bytes={},
        left_out=0,
        left_out_bytes=0,
        functions=[],
        sequences=[],
        dicts=[],
        mappings=[],
        klasses=[],
        codes=[],
        arrays=[],  # places of the types that are numpy's arrays
    )


def end_slice(c: Any) -> None:
    """Between two pieces of work: when the slice is used up, rest without the GIL, and look at the socket."""
    if cpu_clock() - c.session.hold_cpu < c.slice:
        return
    c.peak = max(c.peak, census_bytes(c))
    rest(c.session, c.rest)
    c.session.serve_meanwhile(c.session)


def census_bytes(c: Any) -> int:
    """Bytes of the census's own structures now."""
    size = sys.getsizeof
    lists = c.lists + c.counts + c.bytes + queues(c) + [c.index, c.types]
    tables = [c.stack_of, c.traced_counts, c.traced_bytes, *traced_tables(c.session)]
    numbers = 2 * 32 * sum(map(len, tables))
    bitmaps = (len(c.chunks) + len(c.candidates)) * (1024 + 1 + sys.getsizeof(bytearray()) + 32)
    return sum(map(size, lists + tables)) + numbers + bitmaps + size(c.chunks) + 9 * 32 * len(c.types)


def queues(c: Any) -> list[list[Any]]:
    """Where objects wait to be expanded."""
    return [c.plain, c.functions, c.sequences, c.dicts, c.mappings, c.klasses, c.codes]


def drop_lists(c: Any) -> None:
    """Empty what holds objects, one by one: each list may hold the census, and the census holds them."""
    for objects in c.lists + queues(c):
        del objects[:]
    c.lists = []
