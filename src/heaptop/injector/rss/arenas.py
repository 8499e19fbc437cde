"""CPython's arenas of small objects, found and walked from outside.

Why from outside: the interpreter's own figures (``_PyObject_DebugMallocStats``) are virtual, need the GIL and a
native core, and are refused as soon as anything is hooked in above pymalloc (tracemalloc, a sampler). Its table of
arenas is a static variable that no symbol table need have; so it is searched for, and proven by what it points to.

``Objects/obmalloc.c`` , a table of arena_object in memory of malloc::

    arenas ──► [0] address, pool_address, nfreepools, ntotalpools, freepools, nextarena, prevarena    48 bytes each
               [1]    │          │
                      ▼          ▼
                      ├ pool ┬ pool ┬ pool ┬ never used ┤     4 KiB (3.8, 3.9) or 16 KiB pools, 64 to an arena
                         │
                         ▼
                         count, freeblock, nextpool, prevpool, arenaindex, szidx, nextoffset, maxnextoffset

From 3.12 on an interpreter of its own (PEP 684) has a table of its own, in memory of malloc.

An arena that is not allocated has address 0, and is linked by ``nextarena`` to others of the table. A pool knows its
arena's place in the table, and ``maxnextoffset`` is the pool's size less one block: that proves all sizes.

The target runs on meanwhile: each pool is seen at its own moment. This module never writes, and never reads a page
that is not resident.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from heaptop.injector.inspect.layout import POOL_SIZES
from heaptop.injector.inspect.memory import RemoteFault
from heaptop.injector.rss.residency import PAGE, PRESENT, ResidentMemory
from heaptop.protocol.messages import Pymalloc

ENTRY: Final = struct.Struct("<QQIIQQQ")
POOL: Final = struct.Struct("<IIQQQIIII")
INITIAL_ARENAS: Final = 16  # INITIAL_ARENA_OBJECTS; the table doubles from there
MOST_ARENAS: Final = 1 << 20
ALIGNMENT: Final = 16
SIZE_CLASSES: Final = 32
POOLS_TO_AN_ARENA: Final = 1 << 10  # At most: 64, or 128 in the arenas of 2 MiB that 3.15 can be built with

Range = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Arena:
    """One arena in use."""

    index: int
    address: int
    carved: int  # Where the part begins that was never made into pools (`pool_address`)
    pools: int  # `ntotalpools`


@dataclass(frozen=True, slots=True)
class ArenaTable:
    """The arenas in use at one moment, and the geometry that their pools prove."""

    arenas: tuple[Arena, ...]
    pool_size: int
    arena_size: int  # A power of two; an arena that is not aligned to a pool has one pool less

    def ranges(self) -> list[Range]:
        return [(arena.address, arena.address + self.arena_size) for arena in self.arenas]


class AddressRanges:
    """Where something that malloc or mmap gave can lie."""

    def __init__(self, ranges: Iterable[Range]) -> None:
        self._ranges = sorted(ranges)
        self._starts = [start for start, _ in self._ranges]
        self.low = self._starts[0] if self._starts else 0
        self.high = self._ranges[-1][1] if self._ranges else 0

    def __contains__(self, address: int) -> bool:
        if not self.low <= address < self.high:
            return False
        start, end = self._ranges[bisect_right(self._starts, address) - 1]
        return start <= address < end


def find_tables(memory: ResidentMemory, holders: Sequence[Range], spaces: AddressRanges) -> list[ArenaTable]:
    """The tables that words of ``holders`` (an interpreter's data) point to, one unless there is none."""
    found = []
    for address in dict.fromkeys(_pointers(memory, holders, spaces)):
        try:
            table = read_table(memory, address, spaces)
        except RemoteFault:
            continue
        if table is not None:
            found.append(table)
    return found


def distinct(tables: Iterable[ArenaTable]) -> list[ArenaTable]:
    """The tables without arenas that one before them has: two interpreters have none in common."""
    seen: set[int] = set()
    found = []
    for table in tables:
        arenas = tuple(arena for arena in table.arenas if arena.address not in seen)
        seen.update(arena.address for arena in arenas)
        if arenas:
            found.append(replace(table, arenas=arenas))
    return found


def _pointers(memory: ResidentMemory, holders: Sequence[Range], spaces: AddressRanges) -> Iterator[int]:
    low, high = spaces.low, spaces.high
    for start, end in holders:
        for page in memory.pages.present(start, end):
            try:
                data = memory.read_known(page, PAGE)
            except RemoteFault:  # it was unmapped since the page table was read
                continue
            for (word,) in struct.iter_unpack("<Q", data):
                if low <= word < high and not word % ALIGNMENT and word in spaces:
                    yield word


def read_table(memory: ResidentMemory, address: int, spaces: AddressRanges) -> ArenaTable | None:
    """The table at ``address``, or None when there is none. Raises RemoteFault for memory that is not resident."""
    # Nearly all candidates are objects, and end with their first word: a reference count.
    first = ENTRY.unpack(memory.read(address, ENTRY.size))
    if not (first[0] == 0 or (first[0] % PAGE == 0 and first[0] in spaces)):
        return None
    arenas: list[Arena] = []
    size = 0
    while size < MOST_ARENAS:
        part = _read_entries(memory, address, size, max(size, INITIAL_ARENAS), spaces)
        if part is None:
            break
        arenas += part
        size = 2 * size or INITIAL_ARENAS
    pool_size = next(filter(None, (_proof(memory, arena) for arena in arenas)), 0)
    # A table may have grown or moved while it was read; what is not an arena of this geometry is left out.
    sound = tuple(arena for arena in arenas if arena.carved <= arena.address + (arena.pools + 1) * pool_size)
    if not pool_size or not sound:
        return None
    most = max(arena.pools for arena in sound) * pool_size
    return ArenaTable(sound, pool_size, 1 << (most - 1).bit_length())


def _read_entries(
    memory: ResidentMemory, table: int, first: int, count: int, spaces: AddressRanges
) -> list[Arena] | None:
    """The arenas in use among ``count`` entries; None when one of them is no entry, or all are zeros."""
    try:
        data = memory.read(table + first * ENTRY.size, count * ENTRY.size)
    except RemoteFault:
        return None
    if not any(data):
        return None
    found = []
    for index, (address, carved, free, total, _, following, _) in enumerate(ENTRY.iter_unpack(data), first):
        if address == 0:
            place, odd = divmod(following - table, ENTRY.size)
            if following and (odd or not 0 <= place < MOST_ARENAS):
                return None
            continue
        if address % PAGE or not 0 < total <= POOLS_TO_AN_ARENA or free > total:
            return None
        if not address <= carved <= address + (total + 1) * POOL_SIZES[-1]:
            return None
        if address in spaces:  # else it was mapped since the mappings were read: a target that grows does that
            found.append(Arena(index, address, carved, total))
    return found


def _proof(memory: ResidentMemory, arena: Arena) -> int:
    """The pool size, if the arena's first pool has this arena's number; else 0."""
    for size in POOL_SIZES:
        pool = _aligned(arena.address, size)
        if pool >= arena.carved:
            continue
        try:
            _, _, _, _, _, index, size_class, _, last = POOL.unpack(memory.read(pool, POOL.size))
        except RemoteFault:
            continue
        if index == arena.index and size_class < SIZE_CLASSES and last == size - (size_class + 1) * ALIGNMENT:
            return size
    return 0


def _aligned(address: int, size: int) -> int:
    return -(-address // size) * size


# -- what the arenas hold --------------------------------------------------------------------------------------


def measure(memory: ResidentMemory, tables: Iterable[ArenaTable], bit: int = PRESENT) -> Pymalloc:
    """The resident bytes of all arenas, by what they are used for; a page is resident if its entry has ``bit``.

    Blocks that were never given out lie at a pool's end: what of a pool is not resident is taken from its free
    blocks first.
    """
    sums = [0, 0, 0, 0]
    for table in tables:
        for arena in table.arenas:
            for i, part in enumerate(_measure_arena(memory, table, arena, bit)):
                sums[i] += part
    return Pymalloc(sum(sums), *sums)


def _measure_arena(memory: ResidentMemory, table: ArenaTable, arena: Arena, bit: int) -> tuple[int, int, int, int]:
    """(in use, free blocks, free pools, overhead)."""
    in_use = free_blocks = free_pools = 0
    size = table.pool_size
    resident = memory.pages.resident(arena.address, arena.address + table.arena_size, bit)
    # An entry that was read while it changed may say more than the arena has.
    carved = min(arena.carved, arena.address + table.arena_size)
    for pool in range(_aligned(arena.address, size), carved - size + 1, size):
        place = (pool - arena.address) // PAGE
        pages = PAGE * resident.count(1, place, place + size // PAGE)
        if not resident[place]:
            free_pools += pages
            continue
        try:
            count, _, _, _, _, _, size_class, _, _ = POOL.unpack(memory.read_known(pool, POOL.size))
        except RemoteFault:  # the arena was unmapped a moment ago
            free_pools += pages
            continue
        if not count or size_class >= SIZE_CLASSES:
            free_pools += pages
            continue
        block = (size_class + 1) * ALIGNMENT
        blocks = (size - POOL.size) // block
        absent = size - pages
        free = (blocks - min(count, blocks)) * block
        used = min(count, blocks) * block
        in_use += used - max(0, absent - free)
        free_blocks += max(0, free - absent)
    free_pools += PAGE * resident.count(1, (carved - arena.address) // PAGE)
    return in_use, free_blocks, free_pools, max(0, PAGE * resident.count(1) - in_use - free_blocks - free_pools)
