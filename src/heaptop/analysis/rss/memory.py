"""RSS explained: what a process's resident memory is used for, as rows that sum to it exactly.

The kernel's figures are taken as they are. Into them go, as far as they fit, the allocators' and the census's, which
are of other moments and count bytes that are not resident too; what they leave is a row of its own::

    RSS ─┬─ arenas ── live, other, free in pools, free pools, overhead
         ├─ malloc ── live, other, free               live and other: of both together, since a census does
         ├─ stacks, mapped files, shared memory       not say which allocator an object lies in
         ├─ the rest
         └─ heaptop's own: its mappings, and what its objects take of arenas and malloc's memory
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Final, cast

from heaptop.analysis.heap.history import CensusRecord, known_hidden
from heaptop.analysis.rss import allocators
from heaptop.analysis.rss.malloc_sites import by_site, site_json
from heaptop.analysis.rss.malloc_sites import notes as native_notes
from heaptop.analysis.text.units import format_bytes
from heaptop.protocol.messages import OWN_ARENA, Malloc, Memory, Outside, Pymalloc, Region

if TYPE_CHECKING:
    from heaptop.documents import (
        ArenasJson,
        MallocJson,
        MappingJson,
        MemoryJson,
        MemoryRowJson,
        OtherMallocJson,
    )

NARROW: Final = 1 << 32  # Where mallinfo's figures, of 32 bits, begin again at 0

MEANINGS: Final = {
    "live": "what the census counted, in arenas and in malloc's memory",
    "other": "C libraries, the interpreter, free lists, rounding",
    "pools": "free blocks in partly used pools: each is for one object size",
    "free_pools": "empty pools: for any small object",
    "overhead": "pool headers and unused ends",
    "malloc_free": "kept by malloc for the next allocation",
    "stacks": "the part that was ever used",
    "files": "programs, libraries, data",
    "shared": "memfd, /dev/shm, shared mappings without a file",
    "rest": "mapped by libraries directly, or left from exited threads",
    "own": "native core, sampler, agent",
}
NAMES: Final = {
    "live": "live Python objects",
    "other": "other allocations in use",
    "pools": "free in pools",
    "free_pools": "free pools in arenas",
    "overhead": "arena headers",
    "malloc_free": "free in malloc",
    "stacks": "thread stacks",
    "files": "mapped files",
    "shared": "shared memory",
    "rest": "other mappings",
    "own": "heaptop",
}
"""The rows by key, in the order of the screen."""

OWN_LEFT_OUT: Final = (
    "heaptop's overhead is a lower bound: what its agent freed in Python's arenas, and library pages that it "
    "touched first, are in other rows. In an idle program it was 80 to 90 % of what an attach adds to private "
    "memory."
)
"""What the row ``own`` is without: nothing distinguishes such memory from the program's."""

HIDDEN_UNKNOWN: Final = (
    "Live objects leave out what sys.getsizeof leaves out (Python mode does not see it): that is in other allocations."
)

MEASURED: Final = frozenset({"stacks", "files", "shared"})
"""Rows that are the kernel's figures alone; the others hold what moved between the readings too."""


@dataclass(frozen=True, slots=True)
class MemoryRow:
    """One use of resident memory."""

    key: str
    name: str
    bytes: int
    approximate: bool  # Made of figures that were taken at different moments
    meaning: str


@dataclass(frozen=True, slots=True)
class MemoryByUse:
    """Resident memory by use."""

    rss: int
    rows: tuple[MemoryRow, ...]  # In the order of NAMES, those that are not known left out; they sum to `rss`
    notes: tuple[str, ...]  # Sentences on what is not known, and on figures that do not fit each other
    advice: tuple[str, ...] = ()
    """Sentences on what makes malloc keep less free memory, where its figures show that it helps."""


def explain(memory: Memory, live: int | None, *, hidden_known: bool = True) -> MemoryByUse | None:
    """``live`` is what a census of nearly the same moment counted, in bytes; None when there was none.

    ``hidden_known``: whether ``live`` includes what ``sys.getsizeof`` leaves out. None when the kernel did not
    say what is resident.
    """
    outside = memory.outside
    if outside is None:
        return None
    kinds = dict.fromkeys(region.kind for region in outside.regions)
    whole = {kind: sum(region.rss for region in outside.regions if region.kind == kind) for kind in kinds}
    found = dict.fromkeys(NAMES, 0)
    arenas = _arenas(outside.pymalloc, whole.get("arena", 0))
    found.update(arenas)
    malloc = memory.malloc if heaps_certain(memory) else None
    own = OwnUse.of(memory, outside)
    taken, found["malloc_free"] = _of_malloc(memory, malloc, outside, own)
    in_use = found.pop("in_use") + taken
    beside = min(own.beside, in_use)
    in_use -= beside
    found["own"] = own.mapped + beside
    found["live"] = _resident(live or 0, in_use, _absent(outside, malloc, own))
    found["other"] = in_use - found["live"]
    found["stacks"], found["files"], found["shared"] = (whole.get(kind, 0) for kind in ("stack", "file", "shared"))
    rss = sum(whole.values())
    found["rest"] = rss - sum(found.values())
    malloc_unknown = malloc is None and memory.other_malloc is None
    unknown = {"malloc_free"} if malloc_unknown else set()
    if not found["own"]:
        unknown.add("own")
    if live is None:
        unknown.add("live")
    meanings = {key: _meaning(key, malloc_unknown, live is None, outside.rss_before) for key in NAMES}
    meanings["malloc_free"] = allocators.kept_words(memory) or meanings["malloc_free"]
    names = {**NAMES, "malloc_free": f"free in {allocators.malloc_name(memory)}"}
    rows = (
        MemoryRow(key, name, found[key], key not in MEASURED, meanings[key])
        for key, name in names.items()
        if key not in unknown
    )
    notes = [*_notes(memory, outside, live, in_use)]
    if live is not None and not hidden_known:
        notes.append(HIDDEN_UNKNOWN)
    advised = () if malloc_unknown else tuple(allocators.advice(memory, found["malloc_free"], rss))
    return MemoryByUse(rss, tuple(rows), tuple(notes), advised)


def _of_malloc(memory: Memory, malloc: Malloc | None, outside: Outside, own: OwnUse) -> tuple[int, int]:
    """Resident bytes that malloc has given out, and that it keeps free. Blocks that were never touched are not
    resident, and nothing distinguishes them from others: so what is free is rather too small."""
    if not memory.malloc_library:
        heaps = sum(region.rss for region in outside.regions if region.kind == "heap")
        taken = min(max(malloc.in_use - own.in_arena, 0), heaps) if malloc else heaps
        return _heaps(outside) - heaps + taken, heaps - taken
    # The kernel does not know whose anonymous memory is: with the allocator's own figures, what it does not account for
    # is someone else's.
    memory_of_it = _plain(outside) + _heaps(outside)
    other = memory.other_malloc
    if other is None:
        return memory_of_it, 0
    taken = min(other.in_use, memory_of_it)
    free = min(other.free_blocks + other.free_pages, memory_of_it - taken)
    # Last: much of an allocator's tables was never touched.
    return taken + min(other.metadata, memory_of_it - taken - free), free


def _heaps(outside: Outside) -> int:
    """Resident memory that looks like malloc's."""
    return sum(region.rss for region in outside.regions if region.kind in ("heap", "chunk"))


def _plain(outside: Outside) -> int:
    """Resident anonymous memory without a name."""
    return sum(region.rss for region in outside.regions if region.kind == "anonymous" and not _is_named(region))


@dataclass(frozen=True, slots=True)
class OwnUse:
    """What of a process's memory is heaptop's own."""

    mapped: int  # Resident bytes of mappings that are its own
    in_arena: int
    """What of malloc's memory in use is in one of them, about: its larger objects, where its thread has an arena."""
    beside: int  # What its objects take of memory that the target uses too, about

    @classmethod
    def of(cls, memory: Memory, outside: Outside) -> OwnUse:
        regions = [region for region in outside.regions if region.kind == "own"]
        has_arena = any(region.name == OWN_ARENA and region.rss for region in regions)
        large, small = memory.own_large, memory.own_small
        if outside.pymalloc is None and memory.blocks == 0:  # all of them are malloc's
            large, small = large + small, 0
        in_arena = large if has_arena else 0
        return cls(sum(region.rss for region in regions), in_arena, small + large - in_arena)


def grown_since_attach(memory: Memory) -> int | None:
    """By how much RSS has changed since heaptop began to attach; None where it was not read then."""
    outside = memory.outside
    if outside is None or outside.rss_before is None:
        return None
    return sum(region.rss for region in outside.regions) - outside.rss_before


def explain_counted(memory: Memory, record: CensusRecord) -> MemoryByUse | None:
    """As :func:`explain`, by a census of nearly the same moment."""
    found = explain(memory, live_bytes(record), hidden_known=known_hidden(record.census, 0) is not None)
    mapped = record.census.mapped
    if found is None or not mapped:
        return found
    note = f"{format_bytes(mapped)} of buffers of live objects (mmap, Arrow) are counted in the rows of mappings."
    return replace(found, notes=(*found.notes, note))


def live_bytes(record: CensusRecord) -> int:
    """What a census's objects take of the allocators' memory, with what ``sys.getsizeof`` leaves out if it is known."""
    return max(0, sum(cell.bytes + cell.hidden for cell in record.cells) - record.census.mapped)


def _resident(live: int, in_use: int, absent: int) -> int:
    """What of the objects' bytes is resident.

    When they are more than all memory in use, large ones were never touched (``bytes(10**9)``), or are swapped out:
    then all of malloc's memory that is given out and ``absent`` is taken to be theirs.
    """
    return live if live <= in_use else min(in_use, max(0, live - absent))


def _absent(outside: Outside, malloc: Malloc | None, own: OwnUse) -> int:
    """Bytes of malloc's that are given out and not resident, by glibc's figures."""
    chunks = sum(region.size - region.rss for region in outside.regions if region.kind == "chunk")
    heaps = sum(region.rss for region in outside.regions if region.kind == "heap")
    return max(0, chunks) + max(0, malloc.in_use - own.in_arena - heaps if malloc else 0)


def _arenas(pymalloc: Pymalloc | None, resident: int) -> dict[str, int]:
    """The resident bytes of the arenas by use: each takes its figure, as long as there is some; overhead the rest."""
    names = ("in_use", "pools", "free_pools")
    wanted = (pymalloc.in_use, pymalloc.free_blocks, pymalloc.free_pools) if pymalloc else (resident, 0, 0)
    found = {}
    left = resident
    for name, figure in zip(names, wanted, strict=True):
        found[name] = min(figure, left)
        left -= found[name]
    return {**found, "overhead": left}


def heaps_certain(memory: Memory) -> bool:
    """Whether malloc's figures on its heaps are right: those of 32 bits are while the heaps are no larger."""
    return _certain(memory, "heap")


def mapped_certain(memory: Memory) -> bool:
    """Whether malloc's sum of its large blocks is right: one of 32 bits is while they cannot be larger together.

    Not every block is distinguished from other anonymous memory: one that was never touched is not, nor one aligned
    further.
    """
    return _certain(memory, "chunk", "anonymous")


def _certain(memory: Memory, *kinds: str) -> bool:
    """Whether a figure on memory that is of these kinds cannot have begun again at 0."""
    if memory.malloc is None or not memory.malloc.wraps:
        return True
    if memory.outside is None:
        return False
    found = (region for region in memory.outside.regions if _kind_to_malloc(region) in kinds and not _is_named(region))
    return sum(region.size for region in found) < NARROW


def _kind_to_malloc(region: Region) -> str:
    return "heap" if region.kind == "own" and region.name == OWN_ARENA else region.kind


def _is_named(region: Region) -> bool:
    """Whether it is anonymous memory that its owner has named: it is not malloc's."""
    return region.kind == "anonymous" and bool(region.name)


def _meaning(key: str, malloc_unknown: bool, live_unknown: bool, rss_before: int | None) -> str:
    text = MEANINGS[key]
    if key == "own" and rss_before is not None:
        text += f"; RSS was {format_bytes(rss_before)} before the attach"
    if key == "other" and live_unknown:
        text = "Python objects, data of C libraries and the interpreter"
    if key == "other" and malloc_unknown:
        text += "; and free memory in malloc, which is unknown"
    return text


def _notes(memory: Memory, outside: Outside, live: int | None, in_use: int) -> Iterator[str]:
    yield from outside.gaps
    if memory.malloc is None and memory.malloc_gap:
        yield memory.malloc_gap
    if not heaps_certain(memory):
        yield "malloc's figures have 32 bits (glibc before 2.33), and its heaps are larger: they are left out."
    if not mapped_certain(memory):
        yield (
            "The size of malloc's large blocks is left out: the figure has 32 bits (glibc before 2.33), and they "
            "may be larger."
        )
    other = memory.other_malloc
    if other is not None and other.in_use > _plain(outside) + _heaps(outside):
        yield (
            f"{allocators.malloc_name(memory)} has given out more than is resident: large blocks were never touched. "
            "More of its memory may be free than is shown."
        )
    if outside.pymalloc is None and memory.blocks == 0:
        yield "Python's allocator of small objects is not in use: all its memory comes from malloc."
    elif outside.pymalloc is None and not outside.gaps:
        yield "The arenas of small objects were not found: they are in other mappings."
    if memory.allocator.endswith("_debug"):
        yield "Python's debug allocator adds about 32 bytes to every block: they are in other allocations."
    if live is not None and live > in_use:
        yield (
            f"Live objects are {format_bytes(live)}, more than all resident memory in use: large ones were never "
            "touched, are swapped out, or were freed since the census."
        )
    if outside.swap:
        yield f"{format_bytes(outside.swap)} more are swapped out."
    if outside.hugetlb:
        yield f"{format_bytes(outside.hugetlb)} more are pages of hugetlbfs, which no RSS has."
    if outside.native is not None:
        yield from native_notes(outside.native)


def memory_json(memory: Memory, record: CensusRecord, *, pid: int, python: str) -> MemoryJson:
    """The document of ``heaptop census --memory --json``. ``rss`` is None, and ``rows`` empty, when the kernel did not
    say what is resident."""
    explained, outside, census = explain_counted(memory, record), memory.outside, record.census
    regions = outside.regions if outside else ()
    return {
        "schema": "heaptop.memory",
        "version": 1,
        "pid": pid,
        "python": python,
        "mode": census.mode,
        "mode_reason": census.mode_reason,
        "complete": census.complete,
        "cut": census.cut,
        "sizeof_guessed": census.sizeof_guessed,
        "rss": explained.rss if explained else None,
        "huge_pages": outside.huge if outside else None,
        "hugetlb": outside.hugetlb if outside else None,
        "swap": outside.swap if outside else None,
        "live": live_bytes(record),
        "hidden_bytes": known_hidden(census, sum(cell.hidden for cell in record.cells)),
        "allocator": memory.allocator or None,
        "took_ms": (memory.duration_ns + (outside.duration_ns if outside else 0)) / 1e6,
        "rows": [_row_json(row, explained.rss) for row in explained.rows] if explained else [],
        "files": _regions_json(regions, "file"),
        "stacks": _regions_json(regions, "stack"),
        "own": _regions_json(regions, "own"),
        "own_objects": memory.own_small + memory.own_large,
        "own_at_least": True,
        "own_left_out": OWN_LEFT_OUT,
        "rss_before_attach": outside.rss_before if outside else None,
        "shared": _regions_json(regions, "shared"),
        "anonymous": _regions_json(regions, "anonymous"),
        "arenas": cast("ArenasJson", asdict(outside.pymalloc)) if outside and outside.pymalloc else None,
        "malloc": _malloc_json(memory),
        "other_malloc": _other_malloc_json(memory),
        "advice": list(explained.advice) if explained else [],
        "native": list(map(site_json, by_site(outside.native))) if outside and outside.native is not None else None,
        "notes": list(explained.notes) if explained else [NOT_SAID],
    }


NOT_SAID: Final = "The kernel does not show the process's resident memory (/proc/PID/smaps)."


def _malloc_json(memory: Memory) -> MallocJson | None:
    if memory.malloc is None:
        return None
    found = cast("MallocJson", asdict(memory.malloc))
    if not heaps_certain(memory):
        found["heaps"] = found["in_use"] = found["free"] = None
    if not mapped_certain(memory):
        found["mapped"] = None
    return found


def _other_malloc_json(memory: Memory) -> OtherMallocJson | None:
    name = allocators.malloc_name(memory)
    if name == "malloc":
        return None
    other = memory.other_malloc
    return {
        "name": name,
        "library": memory.malloc_library,
        "in_use": other.in_use if other else None,
        "free_blocks": other.free_blocks if other else None,
        "free_pages": other.free_pages if other else None,
        "metadata": other.metadata if other else None,
    }


def _row_json(row: MemoryRow, rss: int) -> MemoryRowJson:
    return {
        "key": row.key,
        "name": row.name,
        "bytes": row.bytes,
        "share": row.bytes / rss if rss else 0.0,
        "approximate": row.approximate,
        "meaning": row.meaning,
    }


def _regions_json(regions: Iterable[Region], kind: str) -> list[MappingJson]:
    return [
        {"name": region.name, "bytes": region.rss, "size": region.size} for region in regions if region.kind == kind
    ]
