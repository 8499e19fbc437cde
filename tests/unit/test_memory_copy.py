"""Which pages of a process are copied, and what happens to those that cannot be read."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import itertools
import mmap
import os
from collections.abc import Iterator

import pytest

from heaptop.injector.entry import memory_copy
from heaptop.injector.entry.memory_copy import ZERO, CopyLayout, CopyPlan, lay_out
from heaptop.injector.inspect.memory import Mapping
from heaptop.injector.inspect.proc import TooLarge
from heaptop.injector.inspect.process import image, start_time

PAGE = 4096
AT = 0x7F0000000000

libc = ctypes.CDLL(None)
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


def mapping(pages: int, inode: int = 0, permissions: str = "rw-p") -> Mapping:
    return Mapping(AT, AT + pages * PAGE, permissions, 0, "00:00", inode, "/lib.so" if inode else "")


def added(pages: int, *runs: tuple[int, int], inode: int = 0) -> CopyLayout:
    layout = CopyLayout()
    memory_copy._add(layout, mapping(pages, inode), iter((AT + a * PAGE, AT + b * PAGE) for a, b in runs))
    return layout


def in_pages(layout: CopyLayout) -> list[tuple[int, int, int]]:
    return [
        ((start - AT) // PAGE, (end - AT) // PAGE, offset if offset == ZERO else offset // PAGE)
        for start, end, _, offset in layout.ranges
    ]


def test_pages_that_were_never_written_to_are_zeros_and_a_few_of_them_a_part_of_the_copy() -> None:
    layout = added(100, (1, 3), (5, 6), (60, 70))
    assert in_pages(layout) == [(0, 1, ZERO), (1, 6, 0), (6, 60, ZERO), (60, 70, 5), (70, 100, ZERO)]
    assert [(offset // PAGE, size // PAGE) for _, size, offset in layout.reads] == [(0, 2), (4, 1), (5, 10)]
    assert (layout.size, layout.bytes) == (15 * PAGE, 13 * PAGE)


def test_unchanged_pages_of_a_file_are_in_the_file() -> None:
    layout = added(10, (1, 3), (4, 5), inode=7)
    assert in_pages(layout) == [(1, 3, 0), (4, 5, 2)]
    assert [((start - AT) // PAGE, (end - AT) // PAGE) for start, end, _ in layout.absent] == [(0, 1), (3, 4), (5, 10)]


@pytest.fixture
def sparse() -> Iterator[tuple[mmap.mmap, Mapping]]:
    """A large mapping of this process without a page, and how the kernel lists it."""
    with mmap.mmap(-1, memory_copy.LARGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as pages:
        pages.madvise(mmap.MADV_NOHUGEPAGE)
        first = ctypes.c_char.from_buffer(pages)
        at = ctypes.addressof(first)
        yield pages, Mapping(at, at + len(pages), "rw-p", 0, "00:00", 0, "")
        del first


def scanned(mapping: Mapping) -> list[tuple[int, int]]:
    pagemap = os.open("/proc/self/pagemap", os.O_RDONLY)
    try:
        found = memory_copy._scanned(pagemap, mapping)
    finally:
        os.close(pagemap)
    if found is None:
        pytest.skip("this kernel cannot be asked where the pages of a mapping are")
    return found


@pytest.mark.parametrize("count", [1, 511, 512, 513, 700, 1024, 4096, 4097, 9000])
def test_the_kernel_is_asked_for_pages_so_that_it_returns_each_once(
    sparse: tuple[mmap.mmap, Mapping], count: int
) -> None:
    pages, mapping = sparse
    apart = 16 * PAGE
    for number in range(count):
        pages[number * apart] = 1
    first = mapping.start
    assert scanned(mapping) == [(first + at, first + at + PAGE) for at in range(0, count * apart, apart)]


@pytest.mark.parametrize("number", [errno.ENOTTY, errno.EINVAL, errno.ENOSYS, errno.EPERM])
def test_where_the_kernel_or_a_filter_refuses_to_list_pages_each_page_is_looked_at(
    sparse: tuple[mmap.mmap, Mapping], monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "ioctl", refuse)
    pagemap = os.open("/proc/self/pagemap", os.O_RDONLY)
    assert memory_copy._scanned(pagemap, sparse[1]) is None
    os.close(pagemap)


def test_a_mapping_with_pages_in_too_many_places_is_given_up_before_they_fill_the_memory(
    sparse: tuple[mmap.mmap, Mapping], monkeypatch: pytest.MonkeyPatch
) -> None:
    pages, mapping = sparse
    for number in range(2000):
        pages[number * 16 * PAGE] = 1
    monkeypatch.setattr(memory_copy, "MOST_RUNS", 700)
    with pytest.raises(TooLarge):
        scanned(mapping)
    runs = ((AT + 2 * number * PAGE, AT + (2 * number + 1) * PAGE) for number in itertools.count())
    with pytest.raises(TooLarge):
        memory_copy._add(CopyLayout(), Mapping(AT, AT << 1, "rw-p", 0, "00:00", 0, ""), runs)


def test_a_mapping_that_the_copy_has_in_too_many_ranges_is_given_up_before_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(memory_copy, "MOST_RANGES", 100)
    runs = ((AT + 40 * number * PAGE, AT + (40 * number + 1) * PAGE) for number in itertools.count())
    with pytest.raises(TooLarge):
        memory_copy._add(CopyLayout(), Mapping(AT, AT << 1, "rw-p", 0, "00:00", 0, ""), runs)


@pytest.fixture
def plan() -> CopyPlan:
    pid = os.getpid()
    return CopyPlan(pid, start_time(pid), image(pid, pid), pid, 10**9, 1 << 30, -1, 0)


@pytest.fixture
def memory() -> Iterator[tuple[int, mmap.mmap]]:
    """Eight pages of this process, all but the sixth written to, and where they are."""
    with mmap.mmap(-1, 8 * PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as pages:
        for number in (0, 1, 2, 3, 4, 6, 7):
            pages[number * PAGE] = number + 1
        first = ctypes.c_char.from_buffer(pages)
        yield ctypes.addressof(first), pages
        del first


def test_a_look_at_a_process_finds_the_pages_that_it_has_and_makes_none(
    plan: CopyPlan, memory: tuple[int, mmap.mmap]
) -> None:
    at, _ = memory
    pagemap = os.open("/proc/self/pagemap", os.O_RDONLY)
    try:
        for _ in range(2):
            reads = [each for each in lay_out(plan, pagemap).reads if at <= each[0] < at + 8 * PAGE or each[0] <= at]
            covered = {page for start, size, _ in reads for page in range(start, start + size, PAGE)}
            assert [at + number * PAGE in covered for number in range(8)] == [True] * 5 + [False] + [True] * 2
    finally:
        os.close(pagemap)


def test_a_page_that_cannot_be_read_is_counted_and_the_others_are_read(memory: tuple[int, mmap.mmap]) -> None:
    at, _ = memory
    room = ctypes.create_string_buffer(8 * PAGE)
    batch = [(at, 3 * PAGE, 0), (at + 3 * PAGE, 5 * PAGE, 3 * PAGE)]
    libc.mprotect(at + 4 * PAGE, PAGE, 0)
    try:
        assert memory_copy._read_batch(os.getpid(), ctypes.addressof(room), batch) == PAGE
    finally:
        libc.mprotect(at + 4 * PAGE, PAGE, 3)
    assert [room.raw[number * PAGE] for number in range(8)] == [1, 2, 3, 4, 0, 0, 7, 8]


def test_no_call_reads_more_than_its_part() -> None:
    reads = [(AT, memory_copy.AT_ONCE + PAGE, 0), *((AT * 2 + number * PAGE, PAGE, 0) for number in range(3000))]
    batches = list(memory_copy._batches(reads))
    assert all(len(batch) <= memory_copy.MOST_PIECES for batch in batches)
    assert all(sum(size for _, size, _ in batch) <= memory_copy.AT_ONCE for batch in batches)
    assert sum(size for batch in batches for _, size, _ in batch) == sum(size for _, size, _ in reads)
