"""The census in slices: in Python, in the target itself, with rests. It needs no native core."""

from __future__ import annotations

import sys
from typing import Any

from heaptop.injector.agent.base import gc, may_have_interpreters
from heaptop.injector.agent.clock import clock, cpu_clock, pauses
from heaptop.injector.agent.collector import begun_collections
from heaptop.injector.agent.counting import PIECE, census_bytes, drop_lists, end_slice, new_census, send_traced
from heaptop.injector.agent.own import (
    HIDDEN_NAMES,
    builtins_dict,
    ids_text,
    own_frames,
    own_reach,
    own_spaces,
)
from heaptop.injector.agent.type_table import INLINE_VALUES, MAX_TYPES
from heaptop.injector.agent.values import NAMES_PER_MESSAGE, take_batch
from heaptop.injector.agent.walk import BITS, PERMANENT, UNTRACKED, count, drain, mark, uncount, unmark, visit
from heaptop.injector.agent.wire import send, unpack

# 3.12 is born with some 400 frozen tuples, of its frozen modules; to a few of them only C fields point.
OWN_FROZEN = 64 if sys.version_info[:2] == (3, 12) else 0


def census_in_slices(s: Any, number: int, reason: str) -> None:
    """Count the heap, and answer with Types (of types new to this session) and Census."""
    learn_types(s)
    c = s.counting = new_census(s, number, reason)  # a child forked in the middle finds there what it must drop
    try:
        enumerate_tracked(c)
        if c.frozen:
            mark_lists(c)
            visit(c, [sys.modules, sys.__dict__, builtins_dict()])
        for generation in (0, 1, 2):  # the young first: they are the likeliest to be kept alive by us alone
            count_list(c, generation)
        if c.frozen:
            check_frozen(c)
        send_census(c)
    finally:
        s.counting = None
        drop_lists(c)
        c.__dict__.clear()


def learn_types(s: Any) -> None:
    """Take over the types that the core has named, so that they keep their numbers."""
    unread, s.unread = s.unread, []
    for first, packed in unread:
        for number, names in enumerate(unpack(packed), first):
            s.names["\0".join(names)] = number


def enumerate_tracked(c: Any) -> None:
    """Fill ``c.lists`` with the objects of generations 0, 1, 2, and ``c.own`` with the ids of ours among them.

    Each list is one call of C that cannot be sliced; its time is part of the pause. Objects only move up, so
    asking for the young first loses none, and a collection in between can only make some appear twice.
    """
    s = c.session
    c.frozen = gc.get_freeze_count()
    for _ in range(4):
        drop_lists(c)
        c.own_names = {}
        find_own(c)
        c.collections = begun_collections(s)
        take_generations(c, (0, 1, 2))
        if begun_collections(s) == c.collections:
            break
    else:
        drop_doubles(c.lists)
    c.own.update(map(id, c.lists))
    end_slice(c)


def take_generations(c: Any, generations: tuple[int, ...]) -> None:
    """Append the objects of each to ``c.lists``, within one call of C: a list that is on the way between two opcodes
    is in no variable, and a child forked there would keep all it holds."""
    source = iter(generations)
    pulling = map(gc.get_objects, source)
    passing = [o for o in gc.get_referents(pulling) if type(o) is tuple]  # what map keeps its iterators in
    c.own.update((id(source), id(pulling)), map(id, passing))
    del passing
    c.lists.extend(pulling)


def drop_doubles(lists: list[list[Any]]) -> None:
    """Leave out of each list what the ones before it have."""
    seen: set[int] = set()
    for objects in lists:
        objects[:] = [o for o in objects if id(o) not in seen]
        seen.update(map(id, objects))


def find_own(c: Any) -> None:
    """Set ``c.own`` to the ids of the agent's own tracked objects, and ``c.own_names`` to names of variables.

    They are what the agent's dicts and frames lead to; at what belongs to the target (modules, types, C
    functions, the lists that we have our hooks in) it stops.
    """
    frames, codes = own_frames()
    c.own = own_reach(c.session, [*own_spaces(), c.session, c, *codes], [], c.own_names)
    c.own.update(frames)
    c.own.add(id(c.own))


def count_list(c: Any, generation: int) -> None:
    """Count one list of tracked objects and what they reach; the list is emptied as it goes."""
    objects = c.lists[generation]
    c.generation = generation
    while objects:
        count(c, without_own(c, take_batch(objects)), generation)
        drain(c)


def without_own(c: Any, batch: list[Any]) -> list[Any]:
    if not c.own.isdisjoint(map(id, batch)):
        batch = [o for o in batch if id(o) not in c.own]
    if HIDDEN_NAMES and not c.session.collections:
        batch = [o for o in batch if not (type(o) is tuple and is_own_names(c.own_names, o))]
    return batch


def is_own_names(expected: dict[str, int], names: Any) -> bool:
    """Whether a tuple is one of ours, or one of the target's that is equal to it in all that we count."""
    key = ids_text(names) if 0 < len(names) < 100 else ""
    left = expected.get(key, 0)
    if left:
        expected[key] = left - 1
    return left > 0


def left_out(c: Any) -> str:
    """What no call from Python reaches, by how many objects have such; a phrase.

    To ask for a code object's variables would make and keep tuples in the target; an array may be resized by another
    thread while its items are walked.
    """
    met = [sum([row[k] for row in c.counts]) for k in range(len(c.types))]
    codes = sum([met[k] for k in range(len(met)) if c.queue_of[k] is c.codes])
    classes = sum([met[k] for k in range(len(met)) if c.queue_of[k] is c.klasses])
    modules = sum([met[k] for k in range(len(met)) if c.queue_of[k] is c.modules])
    arrays = sum([met[k] for k in c.arrays])
    parts = ["names of variables of %d code objects" % codes] if HIDDEN_NAMES else []
    parts.append("names of slots and attributes of %d classes" % classes)
    parts.append("what C code of %d modules keeps" % modules)
    if INLINE_VALUES:
        parts.append("dicts of attributes that the collector does not track")
    if arrays:
        parts.append("items, bases and dtypes of %d numpy arrays" % arrays)
    if c.unfollowed:
        parts.append("what %d objects refer to that the collector does not track" % c.unfollowed)
    if sys.version_info >= (3, 9) and may_have_interpreters():  # before, they shared the collector's lists
        parts.append("objects of other interpreters, if there are any")
    return "left out: " + ", ".join(parts)


def mark_lists(c: Any) -> None:
    """Set the bits of everything listed and of our own, so that what is visited unmarked is in no list."""
    listed = 0
    for objects in c.lists:
        for start in range(0, len(objects), PIECE):
            mark(c.chunks, objects[start : start + PIECE])
            listed += len(c.own.intersection(map(id, objects[start : start + PIECE])))
            end_slice(c)
    for i in c.own:
        chunk = c.chunks.setdefault(i >> 16, bytearray(1024))
        chunk[(i >> 6) & 1023] |= BITS[(i >> 3) & 7]
    if c.frozen > c.session.frozen:  # frozen since we came, and we with it; the three lists are not in themselves
        c.own_frozen = max(0, len(c.own) - 3 - listed)


def check_frozen(c: Any) -> None:
    """Take those counted as frozen that are in a list by now (they were new), and report how many were not visited.

    New objects are young; only a collection since the start can have moved some to generation 2.
    """
    for generation in (0, 1, 2) if c.session.collections != c.collections else (0, 1):
        take_generations(c, (generation,))
        end_slice(c)
        while c.lists[-1]:
            uncount_new(c, take_batch(c.lists[-1]))
            end_slice(c)
    missing = min(c.frozen, gc.get_freeze_count()) - c.permanent - c.own_frozen
    if missing > OWN_FROZEN:
        c.cuts.append("%d frozen objects not reachable from modules or tracked objects" % missing)


def uncount_new(c: Any, batch: list[Any]) -> None:
    for o in batch:
        if unmark(c.candidates, id(o)):
            c.permanent -= 1
            uncount(c, o, PERMANENT)


def send_census(c: Any) -> None:
    """Types new to the session first, then the rows."""
    s = c.session
    rows: dict[int, list[int]] = {}
    guessed = c.guessed
    for generation in (0, 1, 2, PERMANENT, UNTRACKED):
        for k, number in enumerate(c.counts[generation]):
            if number:
                # types that share their names, or the last place of a full table, share a row
                row = rows.setdefault(c.wire[k] * 8 + generation, [c.wire[k], generation, 0, 0])
                row[2] += number
                row[3] += c.bytes[generation][k]
                guessed += number if c.guess[k] else 0
    if s.type_count > MAX_TYPES:
        c.cuts.append("types after the first %d are counted together" % MAX_TYPES)
    c.cuts.append(left_out(c))
    now = clock()
    reply = {
        "id": c.id,
        "time_ns": c.begin,
        "mode": "python",
        "mode_reason": c.reason,
        "complete": False,
        "cut": "; ".join(c.cuts),
        "rows": list(rows.values()),
        "duration_ns": now - c.begin,
        "cpu_ns": cpu_clock() - c.cpu,
        "agent_bytes": max(c.peak, census_bytes(c)),
        "sizeof_guessed": guessed,
    }
    while s.new_names:
        part = s.new_names[:NAMES_PER_MESSAGE]
        first = s.type_count - len(s.new_names)
        send(s, "types", {"first": first, "names": [key.split("\0") for key in part]})
        del s.new_names[: len(part)]
    if c.trace is not None:
        send_traced(c)
    reply.update(pauses(s, (0, 0)))
    send(s, "census", reply)
