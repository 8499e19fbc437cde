"""View 9 in words: where resident memory is, in a sentence, and what each use of it means and what one can do.

This module never draws and never asks: it is given what is known.
"""

from __future__ import annotations

from typing import Final

from heaptop.analysis.rss.memory import NAMES, NOT_SAID, grown_since_attach
from heaptop.analysis.rss.memory_history import LATE, OWNERS, SHORTEST, MemoryFacts, growth, interval, largest, took_ns
from heaptop.analysis.text.units import format_bytes, format_change, format_duration_ns
from heaptop.tui.state.session import Display

ABOUT: Final = {
    "live": (
        "What the last census counted: Python's own objects, in arenas and in malloc's memory. If this is what grows, "
        "look for the leak (4) and for the types (1); if it is not, the objects are not what fills the memory."
    ),
    "other": (
        "Given out by Python's allocator or malloc, and no object that was counted: buffers of C libraries, the "
        "interpreter's own tables, free lists. If this grows and live objects do not, native code keeps memory: an "
        "extension or ctypes; a profiler of native code says which, a restart of the worker gives it back."
    ),
    "pools": (
        "Free blocks in pools that others still live in: Python reuses them for objects of the same size only, and "
        "can give none back. Much of it is fragmentation, few survivors scattered among many dead: make what stays "
        "before what goes, or let a child process do the work that needs so much at once."
    ),
    "free_pools": (
        "Empty pools: any small object may take them, so the next growth costs nothing. An arena goes back to the "
        "system only when all of its pools are empty: what still lives there is scattered (see free in pools)."
    ),
    "overhead": (
        "Pool headers, and ends that no block or pool fills. A few percent of the arenas are usual, and nothing can "
        "be done about them."
    ),
    "malloc_free": (
        "Freed, and kept by malloc for the next allocation. malloc_trim(0) gives most of it back (by ctypes, say); "
        "MALLOC_ARENA_MAX=2 or MALLOC_TRIM_THRESHOLD_ in the environment keeps less from the beginning."
    ),
    "stacks": (
        "Stacks of threads, as far as each was ever touched; what is only mapped costs nothing. Fewer threads make it "
        "less, and shallower recursion."
    ),
    "files": (
        "Pages of programs, libraries and data files that are in memory, most of them shared with other processes and "
        "dropped by the kernel when memory is short. If it grows, a data file is mapped (mmap, numpy.memmap): the "
        "rows say which."
    ),
    "shared": (
        "memfd, /dev/shm and shared mappings of no file: multiprocessing's, for one. Each process that has touched a "
        "page has it in its own RSS; it goes when the last one unmaps it, and nobody has it open or linked."
    ),
    "rest": (
        "Memory that neither Python's allocator nor malloc knows of: mapped by libraries on their own (allocators of "
        "theirs, JITs), or kept of threads that ended. If it grows it is native, and who maps it is to be asked of the "
        "kernel: perf trace -e mmap --call-graph dwarf -p PID."
    ),
    "own": (
        "What heaptop has in the process while it is attached: mappings of its own, and about what its Python objects "
        "take elsewhere. Pages of libraries that it was the first to touch are in mapped files, and what is free again "
        "in Python's arenas is in their rows."
    ),
    "arenas": (
        "Memory of Python's allocator of objects up to 512 bytes; an arena goes back to the system when nothing in it "
        "lives. Free blocks and empty pools beside much in use are fragmentation: key b shows them over time."
    ),
    "malloc": (
        "Memory of malloc: objects above 512 bytes, NumPy's and other libraries' buffers. Large blocks have mappings "
        "of their own, which are given back when they are freed; heaps shrink only from their ends."
    ),
}
"""Two sentences or three on each use, and on owners that are no use."""

OWNED: Final = {
    "arenas": "Python's allocator of objects up to 512 bytes",
    "malloc": "larger objects, and what libraries in C allocate",
    "stacks": "as far as the threads ever touched them",
    "files": "programs, libraries, data",
    "shared": "memfd, /dev/shm, shared mappings of no file",
    "rest": "mapped by libraries on their own, or kept of ended threads",
    "own": "heaptop's native core and tables, its thread and the memory malloc has for it",
}

FRESH: Final = 1_500_000_000
"""Nanoseconds up to which its age is not worth a word: a tick is as old."""

FIRST: Final = "Nothing is known yet: it is asked while this view is shown, and not while paused."
RECORDED: Final = (
    "In this recording nobody has asked what memory was used for up to this moment: view 9 asks while it is shown, "
    "marks (view 4) do, and nothing else. The chart is RSS, with what the censuses counted."
)
DENIED: Final = f"{NOT_SAID} heaptop needs the rights of the process's own user, or root's: try it with sudo."


def share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else ""


def answer(facts: MemoryFacts) -> str:
    """How much is resident, what of it Python's objects are, what most of the rest is, and what has grown."""
    latest = facts.latest
    if latest is None:
        return ""
    rss, live, other = latest.explained.rss, latest.row("live"), largest(latest.explained)
    text = f"RSS {format_bytes(rss)}: "
    if live is not None:
        text += f"≈{format_bytes(live.bytes)} ({share(live.bytes, rss)}) live Python objects; "
    else:
        text += "live objects are not counted yet; "
    if other is not None:
        about = "≈" if other.approximate else ""
        text += f"then {other.name} {about}{format_bytes(other.bytes)} ({share(other.bytes, rss)})"
    return f"{text}. {grown(facts)}".rstrip()


def grown(facts: MemoryFacts) -> str:
    """What has become of it since it was first seen."""
    if facts.elapsed_ns <= 0:
        return ""
    since = format_duration_ns(facts.elapsed_ns)
    found = growth(facts)
    if found is None:
        return f"Hardly any change in {since}."
    change, key, part = found
    most = "grown most" if change > 0 else "shrunk most"
    return f"{format_change(change)} in {since}; {most}: {NAMES[key]}, {format_change(part)}."


def about(facts: MemoryFacts, key: str) -> str:
    """What a use or an owner is, and what one can do; of heaptop's own also what RSS has become since it is there."""
    change = grown_since_attach(facts.latest.memory) if key == "own" and facts.latest is not None else None
    text = ABOUT[key]
    return text if change is None else f"{text} RSS has changed by {format_change(change)} since the attach."


def cadence(display: Display, *, wide: bool) -> str:
    """How often it is asked, and what that costs; how old it is where nobody asks."""
    latest = display.memory.latest
    if latest is None:
        return ""
    every, age = interval(latest.memory), max(display.now_ns - latest.memory.time_ns, 0)
    old = f"{format_duration_ns(round(age, -9))} old" if age > FRESH else ""
    if display.held or not display.live or age > LATE * every * 1e9:
        return old
    took = format_duration_ns(took_ns(latest.memory))
    again = f"every {every:.0f} s" + (f" ({took} each)" if wide and every > SHORTEST else "")
    return ", ".join(part for part in (old, again) if part)


def missing(display: Display) -> str:
    """Why there is nothing; empty where there is."""
    if display.memory.latest is not None:
        return ""
    if display.memory.unsaid:
        return DENIED
    return RECORDED if display.shown is not None else FIRST


def notes(display: Display) -> list[str]:
    """Sentences on what is not known, and on figures that do not fit each other."""
    latest = display.memory.latest
    return [*latest.explained.notes] if latest is not None else []


def name_of(key: str) -> str:
    return NAMES.get(key) or OWNERS[key]
