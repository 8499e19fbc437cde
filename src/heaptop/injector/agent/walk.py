"""Count objects and what they reach, once each.

What is counted: every object in the collector's lists when counting began, and every object reached from those
that the collector does not track. Objects tracked since are left out; objects that died since are left in, or
a steady process would seem to shrink.

   gc.get_objects(0), (1), (2) ──► batch ──► count ──► queues: plain, sequences, dicts, types, codes
                                                             │ drain: gc.get_referents and what it misses
                                             count ◄─ visit ◄┘ (once each: the bitmap has who was seen)

After gc.freeze() some tracked objects are in no list. Then the lists are marked in the bitmap beforehand, and
a tracked object that is visited unmarked is frozen, or new.

The bitmap is a dict {address >> 16: bytearray(1024)}, one bit for 8 bytes: 1.6 % of the heap's address range.
"""

from __future__ import annotations

import sys
from typing import Any

from heaptop.injector.agent.base import gc
from heaptop.injector.agent.counting import end_slice, trace
from heaptop.injector.agent.own import code_members
from heaptop.injector.agent.type_table import MODULE, add_type, basic_size, type_members
from heaptop.injector.agent.values import take_batch

module_dict = MODULE.__dict__["__dict__"].__get__
UNTRACKED = -1
PERMANENT = 3
BIG = 512
"""Containers longer than this are walked by pieces instead of with their batch."""

BITS = (1, 2, 4, 8, 16, 32, 64, 128)


def unseen(chunks: dict[int, bytearray], objects: Any) -> list[Any]:
    """Those of ``objects`` whose bit was not set yet; it is now."""
    find = chunks.get
    bits = BITS
    new = []
    for o in objects:
        address = id(o)
        chunk = find(address >> 16)
        if chunk is None:
            chunk = chunks[address >> 16] = bytearray(1024)
        i = (address >> 6) & 1023
        bit = bits[(address >> 3) & 7]
        byte = chunk[i]
        if not byte & bit:
            chunk[i] = byte | bit
            new.append(o)
    return new


mark = unseen  # where who was new does not matter


def unmark(chunks: dict[int, bytearray], address: int) -> bool:
    """Clear a bit; whether it was set. Once only: a collection in between puts an object into two lists."""
    chunk = chunks.get(address >> 16)
    bit = BITS[(address >> 3) & 7]
    if chunk is None or not chunk[(address >> 6) & 1023] & bit:
        return False
    chunk[(address >> 6) & 1023] ^= bit
    return True


def count(c: Any, objects: Any, generation: int) -> None:
    """Add objects, known to be new, to the rows of a generation, and queue those that refer to others."""
    find = c.index.get
    counts, sizes, queue_of = c.counts[generation], c.sizes, c.queue_of
    total = c.bytes[generation]
    getsizeof = sys.getsizeof
    traced = c.trace is not None
    for o in objects:
        k = find(id(type(o)))
        if k is None:
            k = add_type(c, type(o))
        counts[k] += 1
        is_unsafe = generation == UNTRACKED and c.strange[k]
        try:
            size = sizes[k] or (basic_size(type(o)) if is_unsafe else getsizeof(o))
        except Exception:
            size = basic_size(type(o))
            c.guessed += 1
        total[k] += size
        if traced:
            trace(c, o, k, size, 1)
        queue = queue_of[k]
        if is_unsafe:
            c.unfollowed += 1
            c.guessed += not sizes[k]
        elif queue is not None:
            queue.append(o)
    end_slice(c)


def uncount(c: Any, o: Any, generation: int) -> None:
    """Take one object out of a generation's row again."""
    k = c.index.get(id(type(o)))
    if k is None or not c.counts[generation][k]:
        return
    size = c.sizes[k] or sys.getsizeof(o, basic_size(type(o)))
    c.counts[generation][k] -= 1
    c.bytes[generation][k] -= min(c.bytes[generation][k], size)
    if c.trace is not None:
        trace(c, o, k, size, -1)


def visit(c: Any, referents: Any) -> None:
    """Count, once each, those of ``referents`` that no list has: untracked ones, and frozen ones."""
    for start in range(0, len(referents), c.piece):
        piece = referents if len(referents) <= c.piece else referents[start : start + c.piece]
        if c.frozen:
            new = unseen(c.chunks, piece)
            tracked = list(filter(gc.is_tracked, new))
            if tracked:
                new = untracked(new)
                mark(c.candidates, tracked)
                c.permanent += len(tracked)
                count(c, tracked, PERMANENT)
        else:
            new = unseen(c.chunks, untracked(piece))
        count(c, new, UNTRACKED)


def untracked(objects: Any) -> list[Any]:
    is_tracked = gc.is_tracked
    return [o for o in objects if not is_tracked(o)]


def drain(c: Any) -> None:
    """Expand what is queued until nothing is: no recursion, so depth costs nothing."""
    referents = gc.get_referents
    while True:
        if c.codes:
            batch = take_batch(c.codes)
            visit(c, [member for o in batch for member in code_members(o)])
        elif c.klasses:
            batch = take_batch(c.klasses)
            visit(c, referents(*batch) + [member for o in batch for member in type_members(o)])
        elif c.modules:
            # Never by their traversal, which may visit what has ended: on 3.12 asyncio's iterators to use again.
            # A reference to one of these frees it once more.
            visit(c, [module_dict(o) for o in take_batch(c.modules)])
        elif c.dicts:
            batch = take_batch(c.dicts)
            for o in split_big(batch):
                walk(c, dict.keys, o)
                walk(c, dict.values, o)
            visit_mappings(c, batch)
        elif c.mappings:
            visit_mappings(c, take_batch(c.mappings))
        elif c.sequences:
            batch = take_batch(c.sequences)
            for o in split_big(batch):
                walk(c, iter, o)
            visit(c, referents(*batch))
        elif c.functions:
            batch = take_batch(c.functions)
            for o in batch:
                if o.__globals__ is c.boot:
                    uncount(c, o, c.generation)
            visit(c, referents(*(o for o in batch if o.__globals__ is not c.boot)))
        elif c.plain:
            visit(c, referents(*take_batch(c.plain)))
        else:
            return


def visit_mappings(c: Any, batch: list[Any]) -> None:
    """Dicts and their subclasses: all they refer to, and the keys, which a traversal leaves out when all are str."""
    refs = gc.get_referents(*batch)
    for o in batch:
        refs += dict.__iter__(o)
    visit(c, refs)


def split_big(batch: list[Any]) -> list[Any]:
    """Take the long containers out of ``batch``, which are of exact builtin types: ``len`` is C's own."""
    if max(map(len, batch)) <= BIG:
        return []
    big = [o for o in batch if len(o) > BIG]
    batch[:] = [o for o in batch if len(o) <= BIG]
    return big


def walk(c: Any, view: Any, container: Any) -> None:
    """Meet the items of a long container by pieces, resting in between.

    A dict or set that changes size meanwhile stops its iterator. Then go on behind what was done, with longer
    pieces, so that it ends also when the target never stops changing it.
    """
    done = 0
    piece = c.piece
    while True:
        items = iter(view(container))
        all(map(id, first(items, done)))  # go past them, without a list of them: no address is 0
        try:
            while True:
                part = list(first(items, piece))
                if not part:
                    return
                done += len(part)
                visit(c, part)
        except RuntimeError:
            piece *= 4


def first(items: Any, count: int) -> Any:
    """The next so many, as ``itertools.islice`` has them: whoever goes through them in C does that in one piece, and no
    thread changes the container meanwhile. An empty dict has none of the numbers, so that it gives back the items."""
    pick: Any = {}.get
    return map(pick, range(count), items)
