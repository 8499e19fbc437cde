"""The state of a census in slices, its rests, and the allocation sites that tracemalloc reports for what it counts."""

from __future__ import annotations

import sys
from typing import Any

from heaptop.injector.agent.base import Namespace
from heaptop.injector.agent.clock import clock, cpu_clock, rest
from heaptop.injector.agent.outbox import send_reliably
from heaptop.injector.agent.own import traced_tables
from heaptop.injector.agent.sampler import watch_tracing
from heaptop.injector.agent.values import MAX_NAME, NAMES_PER_MESSAGE, bounded
from heaptop.injector.agent.wire import send

ROWS = 5
"""Generations 0, 1, 2, permanent, untracked; -1 indexes the last, so a generation is its own index."""
PIECE = 2_000
TRACED_PIECE = 100
"""Objects that are counted between two looks at the clock: one takes 10 µs on 3.8, 40 µs on 3.11."""
MAX_TRACED = 1 << 15
"""Rows of a census, and in a session files, places in them, and nodes of the tree of stacks. What is beyond is reported
as left out."""
MAX_32 = 0xFFFFFFFF
TRACED_FIELDS = (4, 4, 4, 8, 8)


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
        strange=[],  # whether only C code of the program's knows what an instance refers to
        unfollowed=0,  # instances of such types that were counted without that
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
        modules=[],
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
    return [c.plain, c.functions, c.sequences, c.dicts, c.mappings, c.klasses, c.modules, c.codes]


def drop_lists(c: Any) -> None:
    """Empty what holds objects, one by one: each list may hold the census, and the census holds them."""
    for objects in c.lists + queues(c):
        del objects[:]
    c.lists = []


def trace(c: Any, o: Any, k: int, size: int, sign: int) -> None:
    """Add an object of type ``c.types[k]`` to who allocated it, or take it away again."""
    places = c.trace(o)
    if places is None:
        return
    stack = stack_of(c, places)
    kind = 0 if size <= 32 else 1 if size <= 256 else 2 if size <= 2048 else 3
    key = (stack << 32 | c.wire[k]) << 2 | kind
    if stack < 0 or (key not in c.traced_counts and len(c.traced_counts) >= MAX_TRACED):
        c.left_out += sign
        c.left_out_bytes += sign * size
        return
    c.traced_counts[key] = c.traced_counts.get(key, 0) + sign
    c.traced_bytes[key] = c.traced_bytes.get(key, 0) + sign * size


def stack_of(c: Any, places: Any) -> int:
    """The session's number of a stack, or -1. It is known again by its hash alone, of which there are 2**64: a tuple
    that is kept would be visited by the next census."""
    try:
        key = hash(places)
    except Exception:  # a file's name may be of a type of the program's own
        return -1
    stack = c.stack_of.get(key)
    if stack is None:
        if len(c.stack_of) >= MAX_TRACED:
            return -1
        stack = c.stack_of[key] = stack_number(c.session, places)
    return int(stack)


def stack_number(s: Any, places: Any) -> int:
    """The session's number of a stack, which comes innermost first; -1 where there is no more room."""
    node = 0
    for i in range(len(places) - 1, -1, -1):
        file, line = places[i]
        number = number_of(s.traced_files, file[:MAX_NAME] if type(file) is str else "?")
        code = number_of(s.traced_codes, number << 32 | line) if number >= 0 else -1
        node = 1 + number_of(s.traced_nodes, node << 32 | code) if code >= 0 else 0
        if not node:
            return -1
    return node


def number_of(table: dict[Any, int], key: Any) -> int:
    """Of an entry of a table, which may be a new one; -1 where the table is full."""
    number = table.get(key)
    if number is None:
        if len(table) >= MAX_TRACED:
            return -1
        number = table[key] = len(table)
    return number


def send_traced(c: Any) -> None:
    """Who allocated what this census has counted, in pieces; a node comes before those it leads to."""
    s = c.session
    files, codes = list(s.traced_files), list(s.traced_codes)
    for start in range(s.codes_sent, len(codes), NAMES_PER_MESSAGE):
        part = codes[start : start + NAMES_PER_MESSAGE]
        send_reliably(s, "codes", {"first": start, "names": [(files[key >> 32], "", key & MAX_32) for key in part]})
        s.codes_sent = start + len(part)
        end_slice(c)
    nodes = list(s.traced_nodes)
    for start in range(s.nodes_sent, len(nodes), NAMES_PER_MESSAGE):
        part = nodes[start : start + NAMES_PER_MESSAGE]
        told = [(key >> 32, key & MAX_32, codes[key & MAX_32] & MAX_32) for key in part]
        send_reliably(s, "stacks", {"first": start + 1, "nodes": told})
        s.nodes_sent = start + len(part)
        end_slice(c)
    rows = bytearray()
    for key, count in c.traced_counts.items():
        if count:
            figures = (key >> 34, key >> 2 & MAX_32, key & 3, count, max(c.traced_bytes[key], 0))
            for i in range(len(figures)):
                rows += figures[i].to_bytes(TRACED_FIELDS[i], "little")
            end_slice(c)
    reply = {"time_ns": c.begin, "rows": rows, "left_out": max(c.left_out, 0)}
    reply["left_out_bytes"] = max(c.left_out_bytes, 0)
    watch_tracing(s)
    if s.tracing and c.epoch == s.epoch:  # else it was off meanwhile: what was counted then has no trace, or another's
        send(s, "traced", reply)
