"""pymalloc's arenas from outside: found by proof, measured to the byte, and nothing absent is ever read."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heaptop.injector.rss.arenas import (
    ENTRY,
    POOL,
    AddressRanges,
    ArenaTable,
    distinct,
    find_tables,
    measure,
    read_table,
)
from heaptop.injector.rss.residency import PAGE
from heaptop.protocol.messages import Pymalloc
from tests.support.pretend import PretendMemory

DATA = 0x1000_0000
HEAP = 0x2000_0000
FIRST = 0x7F00_0000_0000
HEAD = 48


@dataclass(frozen=True)
class Plan:
    """An arena to make: where it lies in its pages, and (size class, blocks in use) of each pool carved so far."""

    skew: int
    pools: tuple[tuple[int, int], ...]


def build(
    memory: PretendMemory, plans: Sequence[Plan], pool_size: int, size: int
) -> tuple[int, AddressRanges, Pymalloc]:
    """Make a table at HEAP, and arenas as planned; the table's address, and what must be measured."""
    spaces = [(HEAP, HEAP + (1 << 20))]
    in_use = free = empty = overhead = 0
    entries = 16
    while entries < len(plans):
        entries *= 2
    memory.make(HEAP, HEAP + entries * ENTRY.size)
    for index, plan in enumerate(plans):
        start = FIRST + index * 4 * size + plan.skew * PAGE
        first = -(-start // pool_size) * pool_size
        total = size // pool_size - (first != start)
        spaces.append((start, start + size))
        carved = first + len(plan.pools) * pool_size
        memory.write(HEAP + index * ENTRY.size, ENTRY.pack(start, carved, total - len(plan.pools), total, 0, 0, 0))
        for place, (size_class, wanted) in enumerate(plan.pools):
            pool = first + place * pool_size
            block = (size_class + 1) * 16
            blocks = (pool_size - HEAD) // block
            count = min(wanted, blocks)
            memory.make(pool, pool + pool_size)
            memory.write(pool, POOL.pack(count, 0, 0, 0, 0, index, size_class, 0, pool_size - block))
            if not count:
                empty += pool_size
                continue
            in_use, free = in_use + count * block, free + (blocks - count) * block
            overhead += pool_size - blocks * block
    for index in range(len(plans), entries):
        following = HEAP + (index + 1) * ENTRY.size if index + 1 < entries else 0
        memory.write(HEAP + index * ENTRY.size, ENTRY.pack(0, 7, 7, 7, 7, following, 7))  # what is unused is not zero
    return HEAP, AddressRanges(spaces), Pymalloc(in_use + free + empty + overhead, in_use, free, empty, overhead)


pools = st.tuples(st.integers(0, 31), st.integers(0, 300))
plans = st.builds(Plan, st.integers(0, 3), st.lists(pools, min_size=1, max_size=5).map(tuple))


@settings(max_examples=25)
@given(st.lists(plans, min_size=1, max_size=20), st.sampled_from([(1 << 12, 1 << 18), (1 << 14, 1 << 20)]))
def test_what_was_made_is_measured_to_the_byte(made: list[Plan], geometry: tuple[int, int]) -> None:
    memory = PretendMemory()
    address, spaces, expected = build(memory, made, *geometry)
    table = read_table(memory, address, spaces)
    assert table is not None
    assert (table.pool_size, len(table.arenas)) == (geometry[0], len(made))
    assert table.arena_size == geometry[1]
    assert measure(memory, [table]) == expected


def test_it_is_found_among_words_that_mean_nothing() -> None:
    memory = PretendMemory()
    address, spaces, _ = build(memory, [Plan(1, ((3, 10), (0, 5)))], 1 << 14, 1 << 20)
    noise = random.Random(7)
    memory.words(DATA, *(noise.getrandbits(64) for _ in range(200)))
    memory.words(DATA + 2000, HEAP + 64, FIRST + PAGE, HEAP + 0x8000, 0, HEAP + 8)  # objects, and such
    memory.words(DATA + 5 * PAGE, address)
    assert find_tables(memory, [(DATA, DATA + 5 * PAGE)], spaces) == []
    (found,) = find_tables(memory, [(DATA, DATA + 6 * PAGE)], spaces)
    assert [arena.index for arena in found.arenas] == [0]


def test_a_page_that_has_gone_since_it_was_seen_is_passed_over() -> None:
    memory = PretendMemory()
    address, spaces, _ = build(memory, [Plan(1, ((3, 10), (0, 5)))], 1 << 14, 1 << 20)
    memory.make(DATA, DATA + 3 * PAGE)
    memory.words(DATA + 2 * PAGE, address)
    memory.unmap(DATA + PAGE, DATA + 2 * PAGE)
    assert len(find_tables(memory, [(DATA, DATA + 3 * PAGE)], spaces)) == 1
    memory.unmap(HEAP, HEAP + PAGE)
    assert find_tables(memory, [(DATA, DATA + 3 * PAGE)], spaces) == []


def test_an_arena_that_came_since_the_mappings_were_read_hides_no_other() -> None:
    """A target that grows makes one about whenever it is looked at."""
    memory = PretendMemory()
    made = [Plan(0, ((3, 10),)) for _ in range(20)]
    address, _, _ = build(memory, made, 1 << 14, 1 << 20)
    known = [(HEAP, HEAP + (1 << 20)), *((FIRST + i * (4 << 20), FIRST + (i * 4 + 1 << 20)) for i in range(17))]
    table = read_table(memory, address, AddressRanges(known))
    assert table is not None
    assert [arena.index for arena in table.arenas] == list(range(17))


def table_of(memory: PretendMemory) -> tuple[ArenaTable, AddressRanges]:
    address, spaces, _ = build(memory, [Plan(0, ((3, 100), (4, 0), (31, 2)))], 1 << 14, 1 << 20)
    table = read_table(memory, address, spaces)
    assert table is not None
    return table, spaces


@pytest.mark.parametrize(
    ("field", "value"),
    [
        (0, FIRST + 1),  # address: not of a page
        (0, 0x5555_0000_0000),  # address: nothing is there
        (1, FIRST - 16),  # pool_address: before the arena
        (1, FIRST + (1 << 24)),  # pool_address: far behind it
        (2, 99),  # nfreepools: more than there are
        (3, 0),  # ntotalpools
        (3, 1 << 20),
    ],
)
def test_an_entry_that_cannot_be_one_is_no_table(field: int, value: int) -> None:
    memory = PretendMemory()
    _, spaces = table_of(memory)
    entry = list(ENTRY.unpack(memory.read(HEAP, ENTRY.size)))
    entry[field] = value
    memory.write(HEAP, ENTRY.pack(*entry))
    assert read_table(memory, HEAP, spaces) is None


@pytest.mark.parametrize(("field", "value"), [(5, 1), (6, 32), (8, 4096 - 48)])
def test_a_pool_that_does_not_know_its_arena_proves_nothing(field: int, value: int) -> None:
    memory = PretendMemory()
    _, spaces = table_of(memory)
    pool = list(POOL.unpack(memory.read(FIRST, POOL.size)))
    pool[field] = value
    memory.write(FIRST, POOL.pack(*pool))
    assert read_table(memory, HEAP, spaces) is None


def test_an_arena_counts_once_and_every_table_counts() -> None:
    memory = PretendMemory()
    table, _ = table_of(memory)
    arena = table.arenas[0]
    other = replace(table, arenas=(replace(arena, address=arena.address + (4 << 20)), arena))
    first, second = distinct([table, other, table])
    assert first == table
    assert [each.address for each in second.arenas] == [arena.address + (4 << 20)]
    assert measure(memory, [table, second]) == measure(memory, [table])  # nothing is resident in the second


def test_an_arena_that_seems_carved_beyond_its_end_ends_there() -> None:
    """Its entry is read while the process changes it: what lies behind is of another arena, or of nobody."""
    memory = PretendMemory()
    table, _ = table_of(memory)
    (arena,) = table.arenas
    whole = [replace(arena, carved=arena.address + table.arena_size + more) for more in (0, PAGE, 1 << 14, 1 << 16)]
    first, *others = [measure(memory, [replace(table, arenas=(each,))]) for each in whole]
    assert others == [first] * 3
    assert first.in_use == measure(memory, [table]).in_use


def test_an_arena_that_has_gone_since_is_free() -> None:
    memory = PretendMemory()
    table, _ = table_of(memory)
    whole = measure(memory, [table])
    memory.unmap(FIRST, FIRST + table.arena_size)
    assert measure(memory, [table]) == Pymalloc(whole.arenas, 0, 0, whole.arenas, 0)


def test_zeros_are_no_table() -> None:
    memory = PretendMemory()
    memory.make(HEAP, HEAP + 16 * PAGE)
    assert read_table(memory, HEAP, AddressRanges([(HEAP, HEAP + 16 * PAGE)])) is None


def test_what_is_swapped_out_is_not_read_and_not_counted() -> None:
    memory = PretendMemory()
    table, _ = table_of(memory)
    whole = measure(memory, [table])
    memory.make(FIRST + 3 * PAGE, FIRST + 4 * PAGE, 0)  # the end of the first pool: its free blocks
    part = measure(memory, [table])
    assert (part.in_use, part.free_blocks) == (whole.in_use, whole.free_blocks - PAGE)
    memory.make(FIRST, FIRST + 2 * PAGE, 0)  # its head: nothing is known of what is left of it
    last = measure(memory, [table])
    assert (last.arenas, last.in_use) == (whole.arenas - 3 * PAGE, 2 * 512)
    assert last.free_pools == whole.free_pools + PAGE
