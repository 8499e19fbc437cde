"""View 9 in words: where resident memory is, in a sentence, and what each use of it means and what one can do."""

from __future__ import annotations

from typing import Final

from heaptop.analysis.rss.memory import NAMES, NOT_SAID, grown_since_attach
from heaptop.analysis.rss.memory_history import LATE, OWNERS, SHORTEST, MemoryFacts, growth, interval, largest, took_ns
from heaptop.analysis.text.units import format_bytes, format_change, format_duration_ns, format_share
from heaptop.tui.state.session import Display

ABOUT: Final = {
    "live": (
        "Python objects from the last census, in arenas and in malloc's memory. If this grows, look for a leak "
        "(view 4) and at types (view 1). If it does not, something other than Python objects fills the memory."
    ),
    "other": (
        "Allocated by Python's allocator or malloc, but not a counted object: buffers of C libraries, interpreter "
        "tables, free lists. If this grows and live objects do not, native code keeps memory: an extension or "
        "ctypes. A start with heaptop run --native shows which line; restarting the worker frees it."
    ),
    "pools": (
        "Free blocks in partly used pools: Python reuses them only for objects of the same size and cannot return "
        "them. Much of this is fragmentation: a few survivors among many dead objects. Create long-lived objects "
        "before short-lived ones, or do the peak work in a child process."
    ),
    "free_pools": (
        "Empty pools: any small object can use them, so the next growth costs nothing. An arena returns to the "
        "system only when all of its pools are empty; scattered survivors keep it (see free in pools)."
    ),
    "overhead": (
        "Pool headers, and pool ends that no block fits. A few percent of the arenas is normal; nothing to do."
    ),
    "malloc_free": (
        "Freed, but kept by malloc for later allocations. A page returns to the system only when no block on it is in "
        "use."
    ),
    "stacks": (
        "The part of thread stacks that was ever used; unused pages cost nothing. Fewer threads and less "
        "recursion reduce it."
    ),
    "files": (
        "Resident pages of programs, libraries and data files; most are shared, and the kernel drops them when "
        "memory is short. If this grows, a data file is mapped (mmap, numpy.memmap): the rows show which."
    ),
    "shared": (
        "memfd, /dev/shm and anonymous shared mappings, for example of multiprocessing. A page is in the RSS of "
        "every process that touched it; it is freed when it is no longer mapped, open or linked anywhere."
    ),
    "rest": (
        "Memory outside Python's allocator and malloc: mapped by libraries directly (their own allocators, JITs), "
        "or left from exited threads. If it grows it is native; find who maps it with: perf trace -e mmap "
        "--call-graph dwarf -p PID."
    ),
    "own": (
        "Memory of heaptop in the process while it is attached: its mappings, and an estimate for its Python "
        "objects. Library pages that it touched first are in mapped files; what it freed in Python's arenas is in "
        "their rows."
    ),
    "arenas": (
        "Python's allocator for objects up to 512 bytes. An arena returns to the system when nothing in it is "
        "live. Many free blocks and pools beside used ones are fragmentation: key b shows them over time."
    ),
    "malloc": (
        "malloc: objects above 512 bytes, buffers of NumPy and other libraries. Large blocks have their own "
        "mappings, returned when freed; heaps shrink only at their ends."
    ),
}
"""Two sentences or three on each use, and on owners that are no use."""

OWNED: Final = {
    "arenas": "Python's allocator of objects up to 512 bytes",
    "malloc": "larger objects, and what libraries in C allocate",
    "stacks": "the part that was ever used",
    "files": "programs, libraries, data",
    "shared": "memfd, /dev/shm, shared mappings without a file",
    "rest": "mapped by libraries directly, or left from exited threads",
    "own": "heaptop's native core and tables, its thread and the memory malloc has for it",
}

FRESH: Final = 1_500_000_000  # Nanoseconds up to which its age is not worth a word: a tick is as old

FIRST: Final = "No figures yet: they are read while this view is shown and not paused."
RECORDED: Final = (
    "This recording has no memory figures up to this moment: only view 9 and marks (view 4) request them. The "
    "chart shows RSS and what the censuses counted."
)
NOT_IN_FILE: Final = "This file does not say what memory was used for: heap dumps of a process do, core files do not."
DENIED: Final = f"{NOT_SAID} heaptop must run as the process's user or as root: try sudo."


def answer(facts: MemoryFacts) -> str:
    """How much is resident, what of it Python's objects are, what most of the rest is, and what has grown."""
    latest = facts.latest
    if latest is None:
        return ""
    rss, live, other = latest.explained.rss, latest.row("live"), largest(latest.explained)
    text = f"RSS {format_bytes(rss)}: "
    if live is not None:
        text += f"≈{format_bytes(live.bytes)} ({format_share(live.bytes, rss)}) live Python objects; "
    else:
        text += "no census of live objects yet; "
    if other is not None:
        about = "≈" if other.approximate else ""
        text += f"then {other.name} {about}{format_bytes(other.bytes)} ({format_share(other.bytes, rss)})"
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
    most = "grew most" if change > 0 else "shrank most"
    return f"{format_change(change)} in {since}; {most}: {NAMES[key]}, {format_change(part)}."


def about(facts: MemoryFacts, key: str) -> str:
    """What a use or an owner is, and what one can do; of heaptop's own also what RSS has become since it is there."""
    change = grown_since_attach(facts.latest.memory) if key == "own" and facts.latest is not None else None
    text = ABOUT[key]
    if key in ("malloc", "malloc_free") and facts.latest is not None:
        text = " ".join((text, *facts.latest.explained.advice))
    return text if change is None else f"{text} RSS has changed by {format_change(change)} since the attach."


def cadence(display: Display, *, wide: bool) -> str:
    """How often it is measured, and what that costs; its age where it is no longer measured."""
    latest = display.memory.latest
    if latest is None:
        return ""
    every, age = interval(latest.memory), max(display.now_ns - latest.memory.time_ns, 0)
    old = f"{format_duration_ns(round(age, -9))} old" if age > FRESH else ""
    if display.is_file:
        return ""
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
    if display.is_file:
        return NOT_IN_FILE
    return RECORDED if display.shown is not None else FIRST


def notes(display: Display) -> list[str]:
    """Sentences on what is not known, and on figures that do not fit each other."""
    latest = display.memory.latest
    return [*latest.explained.notes] if latest is not None else []


def name_of(key: str) -> str:
    return NAMES.get(key) or OWNERS[key]
