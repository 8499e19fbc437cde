"""Where a process's resident memory lies, seen from outside: files, heaps, arenas, stacks, shared memory, the rest.

It puts together what :mod:`~heaptop.injector.rss.smaps`, :mod:`~heaptop.injector.rss.arenas`,
:mod:`~heaptop.injector.rss.stacks` and :func:`find_chunks` say. The regions do not overlap, and what is resident in
them sums to the process's RSS, as smaps has it: whatever else moves between the first reading and the last, that holds.

This module never changes the target, never stops it, and never reads a page that is not resident. But while the
kernel makes smaps out, which for many GB takes a while, the target's mmap and munmap wait for their lock.
"""

from __future__ import annotations

import os
import re
import struct
import time
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Final

from heaptop.injector.inspect import proc
from heaptop.injector.inspect.layout import FIRST_WITH_OWN_ARENAS
from heaptop.injector.inspect.memory import MOST_MAPPINGS, RemoteFault
from heaptop.injector.inspect.threads import thread_ids
from heaptop.injector.preload.malloc_table import TableInvalid
from heaptop.injector.rss import arenas, bss, heaps, native_sites, own, stacks
from heaptop.injector.rss.residency import PAGE, ResidentMemory
from heaptop.injector.rss.smaps import ANONYMOUS, ARENA, CHUNK, FILE, LARGE, OWN, STACK, Sort, Vma, classified, parse
from heaptop.protocol.messages import OWN_ARENA, Outside, OwnPages, Pymalloc, Region
from heaptop.protocol.text import LONGEST, printable

MAPPED_BIT: Final = 2  # `malloc/malloc.c`: IS_MMAPPED, in the low three bits of a chunk's size
MOST_PROBES: Final = 400_000  # Pages that are examined for chunks: half a second

STATES: Final = (1 << 18) + 1, 1 << 19
"""Bytes that a chunk has which holds an interpreter's ``_obmalloc_state``: the root of its tree of arenas alone has
256 KiB (``pycore_obmalloc.h``, arena_map_top). What it takes in each version with its chunk is ``Facts.state_size``: in
3.12 it is a part of PyInterpreterState."""
MOST_STATES: Final = 64
LARGEST_SMAPS: Final = 128 << 20  # 700 bytes a mapping are usual. They are never held at once.
MINOR: Final = re.compile(r"python3\.(\d+)|\.cpython-3(\d+)-")
"""A version in the name of an interpreter, of its library, or of an extension."""


@dataclass(frozen=True, slots=True)
class MappingPart:
    """A part of anonymous memory whose use is known."""

    start: int
    end: int
    kind: str
    name: str


Measured = dict[int, list[tuple[MappingPart, int]]]
"""By the start of a mapping: the pieces of it, and what of each is resident."""


@dataclass(frozen=True, slots=True)
class MemoryContents:
    """What was read from memory itself; only the mappings, where it could not be read."""

    sorts: Sequence[Sort]
    measured: Measured = field(default_factory=dict)
    pymalloc: Pymalloc | None = None
    unsearched: bool = False  # There was more than MOST_PROBES pages


@dataclass(frozen=True, slots=True)
class OwnMemory:
    """What is known to heaptop's own side only."""

    told: Sequence[OwnPages]
    before: own.AttachBaseline
    agent: int | None  # The agent's thread


class Pieces:
    """Pieces by address. They do not overlap: where two readings say otherwise, the later gives way."""

    def __init__(self, pieces: Iterable[MappingPart]) -> None:
        self._pieces: list[MappingPart] = []
        for piece in sorted(pieces, key=lambda each: (each.start, each.end)):
            if not self._pieces or piece.start >= self._pieces[-1].end:
                self._pieces.append(piece)
        self._ends = [piece.end for piece in self._pieces]

    def within(self, vma: Vma) -> Iterator[MappingPart]:
        """Those that a mapping has a part of, cut to it."""
        for piece in islice(self._pieces, bisect_right(self._ends, vma.start), None):
            if piece.start >= vma.end:
                return
            yield MappingPart(max(piece.start, vma.start), min(piece.end, vma.end), piece.kind, piece.name)

    def between(self, vma: Vma) -> Iterator[tuple[int, int]]:
        """What they leave of a mapping."""
        at = vma.start
        for piece in self.within(vma):
            if piece.start > at:
                yield at, piece.start
            at = piece.end
        if at < vma.end:
            yield at, vma.end


def read(
    pid: int, told: Sequence[OwnPages] = (), before: own.AttachBaseline = own.UNKNOWN, agent: int | None = None
) -> Outside | None:
    """The memory of ``pid``; None when its smaps may not be read, or it is gone.

    ``told`` are pages of heaptop's own that nothing else identifies, ``before`` is what was there without it, ``agent``
    is the agent's thread: the program can give its name to others.
    """
    began = time.monotonic_ns()
    tid, vmas = _read_smaps(pid)
    if not vmas:
        return None
    sorts = list(classified(vmas))
    gaps: list[str] = []
    try:
        with ResidentMemory(pid, tid) as memory:
            inside = _read_contents(memory, pid, vmas, sorts, OwnMemory(told, before, agent))
    except OSError as error:
        inside = MemoryContents(sorts)
        gaps.append(f"The memory itself could not be read ({os.strerror(error.errno or 0)}).")
    except (RemoteFault, IndexError):
        # The target runs on, and what is read of it may be half of one moment and half of another.
        inside = MemoryContents(sorts)
        gaps.append("The memory itself could not be read: it changed meanwhile.")
    if inside.unsearched:
        gaps.append("Not all anonymous memory was searched for malloc's large chunks.")
    try:
        native = native_sites.read(pid, tid, vmas)
    except (OSError, RemoteFault, TableInvalid):
        native = None
        gaps.append("The table of native samples could not be read.")
    if any(vma.plain and vma.rss and not vma.searchable for vma in vmas):
        gaps.append("Very large, nearly empty mappings were not searched for arenas and stacks.")
    return Outside(
        regions=_regions(inside.sorts, inside.measured),
        huge=sum(vma.huge for vma in vmas),
        hugetlb=sum(vma.hugetlb for vma in vmas),
        swap=sum(vma.swap for vma in vmas),
        pymalloc=inside.pymalloc,
        duration_ns=time.monotonic_ns() - began,
        gaps=tuple(gaps),
        rss_before=before.rss,
        native=native,
    )


def _read_contents(
    memory: ResidentMemory, pid: int, vmas: Sequence[Vma], sorts: Sequence[Sort], known: OwnMemory
) -> MemoryContents:
    """Raises OSError, RemoteFault and IndexError for memory that is not as it was a moment before."""
    sorts = list(heaps.proven(memory, sorts))
    mask = _mask(memory, vmas)
    spaces = arenas.AddressRanges(_plain(vmas))
    ends = bss.ends(memory, sorts)
    tables = arenas.find_tables(memory, _holders(sorts, ends), spaces)
    apart, pieces = _apart(sorts, ends)
    apart, ours = _own(memory, pid, apart, known)
    pieces += [*ours, *_stacks(memory, pid, known.agent), *_arenas(tables)]
    chunks, looked = _chunks(memory, apart, Pieces(pieces))
    tables = arenas.distinct([*tables, *arenas.find_tables(memory, _states(chunks, sorts), spaces)])
    pymalloc = arenas.measure(memory, tables, mask) if tables else None
    measured = _measure(memory, vmas, Pieces([*pieces, *_arenas(tables), *chunks]), mask)
    return MemoryContents(apart, measured, pymalloc, looked >= MOST_PROBES)


def _read_smaps(pid: int) -> tuple[int, list[Vma]]:
    """Through a thread that still has the memory: a leader that has exited shows none. Nothing of a process that has
    more mappings than are read: part of them would be a wrong figure."""
    for tid in thread_ids(pid):
        try:
            vmas = parse(proc.lines(f"/proc/{pid}/task/{tid}/smaps", LARGEST_SMAPS), MOST_MAPPINGS)
        except OSError:
            continue
        if vmas:
            return tid, vmas
    return pid, []


def _mask(memory: ResidentMemory, vmas: Sequence[Vma]) -> int:
    """The bit that marks a resident page of this process's anonymous memory."""
    return memory.pages.bit_of_memory(_plain(vmas), sum(vma.rss for vma in vmas if vma.searchable))


def _plain(vmas: Iterable[Vma]) -> list[tuple[int, int]]:
    return [(vma.start, vma.end) for vma in vmas if vma.searchable]


def _holders(sorts: Sequence[Sort], ends: Mapping[int, int]) -> list[tuple[int, int]]:
    """Data of the files that can be an interpreter's: its library's or program's first, any other's after them. Without
    what the kernel has joined to their zeros: tens of megabytes of pointers, each of which would be followed."""
    data = [(vma, name) for vma, kind, name in sorts if kind == FILE and vma.writable and vma.permissions[3] == "p"]
    data.sort(key=lambda each: "python" not in os.path.basename(each[1]))
    return [(vma.start, ends.get(vma.start, vma.end)) for vma, _ in data]


def _apart(sorts: Sequence[Sort], ends: Mapping[int, int]) -> tuple[list[Sort], list[MappingPart]]:
    """A file's zeros apart from what the kernel has joined to them."""
    apart, pieces = list(sorts), []
    for i, (vma, _, name) in enumerate(sorts):
        if vma.start in ends:
            pieces.append(MappingPart(vma.start, ends[vma.start], FILE, name))
            apart[i] = (vma, ANONYMOUS, "")
    return apart, [piece for piece in pieces if piece.end > piece.start]


def _states(chunks: Iterable[MappingPart], sorts: Iterable[Sort]) -> list[tuple[int, int]]:
    """Chunks that can hold the table of an interpreter of its own; none where no version has one."""
    minors = [int(found[1] or found[2]) for _, _, name in sorts for found in MINOR.finditer(name)]
    if minors and (3, max(minors)) < FIRST_WITH_OWN_ARENAS:
        return []
    smallest, largest = STATES
    found = [(piece.start, piece.end) for piece in chunks if smallest <= piece.end - piece.start <= largest]
    return found[:MOST_STATES]


def _arenas(tables: Iterable[arenas.ArenaTable]) -> list[MappingPart]:
    return [MappingPart(start, end, ARENA, "") for table in tables for start, end in table.ranges()]


def _stacks(memory: ResidentMemory, pid: int, agent: int | None) -> list[MappingPart]:
    found = []
    for tid in thread_ids(pid):
        place = stacks.stack_range(memory, tid)
        if place is not None:
            name = f"thread {tid} {_comm(pid, tid)}".strip()
            found.append(MappingPart(*place, *((OWN, own.STACK) if tid == agent else (STACK, name))))
    return found


def _own(
    memory: ResidentMemory, pid: int, sorts: Sequence[Sort], known: OwnMemory
) -> tuple[list[Sort], list[MappingPart]]:
    """Mark heaptop's own mappings, and its pieces of others."""
    ranges = [(pages.start, pages.start + pages.size, pages.name) for pages in known.told]
    ranges += [(*place, own.DATA) for place in own.images(memory, ((vma.start, name) for vma, _, name in sorts))]
    executable = (vma.start for vma, _, name in sorts if vma.permissions == "r-xp" and not name)
    if found := own.way_in(memory, executable):
        ranges.append((*found, own.WAY_IN))
    if known.agent is not None:
        own_heaps = own.arena(memory, thread_ids(pid), known.agent, sorts)
        there = known.before.heaps
        if there is not None and not any(heap.start in there for heap in own_heaps):
            ranges += [(heap.start, heap.end, OWN_ARENA) for heap in own_heaps]
    whole = {
        vma.start: name
        for vma, kind, _ in sorts
        for start, end, name in ranges
        if kind != FILE and start <= vma.start and vma.end <= end
    }
    marked = [(vma, OWN, whole[vma.start]) if vma.start in whole else (vma, kind, name) for vma, kind, name in sorts]
    return marked, [MappingPart(start, end, OWN, name) for start, end, name in ranges]


def _comm(pid: int, tid: int) -> str:
    try:
        return proc.name(f"/proc/{pid}/task/{tid}/comm").strip()
    except OSError:
        return ""


# -- malloc's large chunks -------------------------------------------------------------------------------------


def _chunks(memory: ResidentMemory, sorts: Sequence[Sort], others: Pieces) -> tuple[list[MappingPart], int]:
    """The chunks in what ``others`` leave of anonymous memory; and how many pages were examined for them."""
    found: list[MappingPart] = []
    looked = 0
    for run in _runs(sorts):
        for start, end in others.between(run):
            chunks, pages = find_chunks(memory, start, end, MOST_PROBES - looked)
            found += [MappingPart(first, last, CHUNK, "") for first, last in chunks]
            looked += pages
    return found, looked


def _runs(sorts: Sequence[Sort]) -> Iterator[Vma]:
    """Anonymous memory, mappings that adjoin as one: advice on huge pages, as NumPy gives it for large arrays, parts a
    chunk from the page that it begins with."""
    run: Vma | None = None
    for vma, kind, name in sorts:
        if kind != ANONYMOUS or name or not (vma.searchable or (vma.plain and not vma.rss and vma.size <= LARGE)):
            continue
        if run is not None and run.end == vma.start:
            run = replace(run, end=vma.end, rss=run.rss + vma.rss)
            continue
        if run is not None:
            yield run
        run = vma
    if run is not None:
        yield run


def find_chunks(memory: ResidentMemory, start: int, end: int, most: int) -> tuple[list[tuple[int, int]], int]:
    """The chunks of malloc that have a mapping of their own in a piece of anonymous memory; and pages looked at.

    Such a chunk begins a page with two words: 0, and its size, of whole pages (16 bytes less from glibc 2.42 on),
    with IS_MMAPPED. One that was aligned further (``memalign``) is not found, and stays anonymous.
    """
    found: list[tuple[int, int]] = []
    behind = start
    looked = 0
    for page in memory.pages.present(start, end):
        if page < behind:
            continue
        if looked >= most:
            break
        looked += 1
        try:
            before, size = struct.unpack("<QQ", memory.read_known(page, 16))
        except RemoteFault:
            continue
        whole = -(-(size & ~7) // PAGE) * PAGE
        if before == 0 and size & 7 == MAPPED_BIT and whole - (size & ~7) in (0, 16) and page < page + whole <= end:
            behind = page + whole
            found.append((page, behind))
    return found, looked


# -- from pieces to regions ------------------------------------------------------------------------------------


def _measure(memory: ResidentMemory, vmas: Sequence[Vma], pieces: Pieces, mask: int) -> Measured:
    """What of each piece is resident; of all pieces of a mapping together, no more than of the mapping."""
    found: Measured = {}
    for vma in vmas:
        if not vma.plain:
            continue
        left = vma.rss
        for piece in pieces.within(vma):
            resident = min(left, memory.pages.rss(piece.start, piece.end, mask)) if left else 0
            found.setdefault(vma.start, []).append((piece, resident))
            left -= resident
    return found


def _regions(sorts: Sequence[Sort], measured: Measured) -> tuple[Region, ...]:
    """Sums by kind and name."""
    sums: dict[tuple[str, str], tuple[int, int]] = {}

    def add(kind: str, name: str, rss: int, size: int) -> None:
        before = sums.get((kind, name), (0, 0))
        sums[kind, name] = (before[0] + rss, before[1] + size)

    for vma, kind, name in sorts:
        rss, size = vma.rss, vma.size
        for piece, resident in measured.get(vma.start, []):
            add(*own.sort_of(vma, piece.kind, piece.name), resident, piece.end - piece.start)
            rss, size = rss - resident, size - (piece.end - piece.start)
        if size or rss:
            add(*own.sort_of(vma, kind, name), rss, size)
    found = [Region(kind, printable(name, LONGEST), *row) for (kind, name), row in sums.items()]
    return tuple(sorted(found, key=lambda region: (-region.rss, region.kind, region.name)))
