"""How the process is, and what its allocators hold."""

from __future__ import annotations

import sys
from typing import Any

from heaptop.injector.agent.base import allocated_blocks, builtin_module, gc, is_builtin, posix, read_proc
from heaptop.injector.agent.clock import clock, cpu_clock
from heaptop.injector.agent.collector import ended_collections
from heaptop.injector.agent.fork_warning import keep_filters_first
from heaptop.injector.agent.own import own_bytes
from heaptop.injector.agent.phases import listen_to_phases, send_phases
from heaptop.injector.agent.sampler import send_samples
from heaptop.injector.agent.snapshot import send_snapshot_memory
from heaptop.injector.agent.wire import WORK, send

BLOCK_SIZE = 64
"""Bytes of a memory block, where nobody counts them."""


def tick(s: Any, number: int) -> None:
    """Answer with Tick, after the GC events, phases and samples since the last one, and what an open snapshot holds."""
    keep_filters_first(s)
    listen_to_phases(s)
    send_phases(s)
    send_samples(s)
    send_snapshot_memory(s)
    rows, dropped = ended_collections(s)
    if rows or dropped:
        send(s, "gc", {"events": rows, "dropped": dropped})
    send(
        s,
        "tick",
        {
            "id": number,
            "time_ns": clock(),
            "rss": resident(),
            "blocks": allocated_blocks(s),
            "gc_enabled": bool(gc.isenabled()),
            "gc_counts": list(gc.get_count()),
            "frozen": gc.get_freeze_count(),
            "threads": threads(),
            "agent_cpu_ns": cpu_clock() - s.cpu_start + s.clones_cpu,
            "garbage": garbage(),
            "exits": exits(),
        },
    )


def resident() -> int | None:
    """Resident bytes by /proc/self/statm, or None."""
    try:
        return int(read_proc("/proc/self/statm").split()[1]) * int(posix.sysconf("SC_PAGE_SIZE"))
    except (ValueError, IndexError):
        return None


def threads() -> int:
    """Python's own threads: the main one and those that ``_thread`` started; -1 when that is unknown.

    ``sys._current_frames()`` would make a frame object for each; this asks for the counter. The agent's thread,
    which is native, is not in it.
    """
    count: Any = getattr(builtin_module("_thread"), "_count", None)
    return 1 + int(count()) if is_builtin(count) else -1


def garbage() -> int:
    """How many objects the collector has set aside; the program may have put anything in that list's place."""
    found: Any = gc.__dict__.get("garbage")
    return len(found) if type(found) is list else 0


def exits() -> int | None:
    """Callbacks registered with atexit, where the program has imported it; None where that is unknown."""
    module: Any = sys.modules.get("atexit")
    count: Any = module.__dict__.get("_ncallbacks") if type(module) is type(sys) else None
    return int(count()) if is_builtin(count) else None


def memory_blocks(s: Any) -> int:
    """How many there are, or as many as resident memory has room for where Python's allocator is another (it counts
    none then) or cannot be asked; 0 where neither is known."""
    return allocated_blocks(s) or (resident() or 0) // BLOCK_SIZE


def memory(s: Any, number: int) -> None:
    """Answer with Memory: what the allocators report of themselves. heaptop reads from outside what is resident."""
    begin = clock()
    allocator, malloc, library, gap, name, other = "", None, "", "", "", None
    if s.core is None:
        gap = "Only the native core can query malloc's free memory, and it is not loaded: %s." % s.core_reason.rstrip(
            "."
        )
    else:
        stats = s.core.heap_stats()
        allocator, malloc = stats["allocator"] or "", stats["malloc"]
        library, name, other = stats["foreign"] or "", stats["name"] or "", stats["other"]
        if malloc is None and other is None:
            gap = "The program's malloc is %s: it does not report what is free in it." % (
                name or "not glibc's but that of %s" % (library or "another library")
            )
    end = clock()
    if s.own_bytes is None:
        s.own_bytes = own_bytes(s)
    send(
        s,
        "memory",
        {
            "id": number,
            "time_ns": begin,
            "blocks": allocated_blocks(s),
            "allocator": allocator,
            "malloc": malloc,
            "malloc_gap": gap,
            "malloc_library": library,
            "malloc_name": name,
            "other_malloc": other,
            "duration_ns": end - begin,
            "own_pages": [] if s.core is None else s.core.own_pages(),
            "own_small": s.own_bytes[0],
            "own_large": s.own_bytes[1],
        },
    )


WORK["memory?"] = memory
