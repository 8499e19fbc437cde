"""How what is found in memory is put together: no byte twice, none lost, and never more than is resident."""

from __future__ import annotations

import errno
import mmap
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heaptop.injector.inspect.layout import VERSIONS
from heaptop.injector.inspect.memory import RemoteFault, read_mappings
from heaptop.injector.rss import arenas, bss, heaps, memory_map, stacks
from heaptop.injector.rss.memory_map import MappingPart, Pieces, find_chunks, read
from heaptop.injector.rss.residency import EXCLUSIVE, PAGE, PRESENT, ResidentMemory
from heaptop.injector.rss.smaps import Vma, classified
from tests.support.pretend import PretendMemory
from tests.support.processes import running, this_python

START = 0x7F00_0000_0000
MIB = 1 << 20


@pytest.fixture
def resting() -> Iterator[int]:
    """A process that does nothing. That of the tests has so much memory that to look at it takes long."""
    with running(this_python(), "sleeper") as target:
        yield target.pid


def vma(start: int, pages: int, resident: int | None = None) -> Vma:
    rss = PAGE * (pages if resident is None else resident)
    return Vma(start, start + pages * PAGE, "rw-p", 0, "", rss, 0, 0, 0)


pieces = st.lists(
    st.tuples(st.integers(0, 60), st.integers(1, 20), st.sampled_from(["arena", "chunk", "stack"])).map(
        lambda t: MappingPart(START + t[0] * PAGE, START + (t[0] + t[1]) * PAGE, t[2], "")
    ),
    max_size=8,
)


@given(pieces, st.integers(1, 30), st.integers(1, 30), st.sets(st.integers(0, 63)), st.integers(0, 40))
def test_regions_sum_to_what_is_resident(
    found: list[MappingPart], first: int, second: int, present: set[int], said: int
) -> None:
    """Whatever pieces were seen, in whatever order of moments: they need not agree with smaps."""
    memory = PretendMemory()
    for page in present:
        memory.make(START + page * PAGE, START + (page + 1) * PAGE)
    vmas = [vma(START, first, min(said, first)), vma(START + first * PAGE, second)]
    ordered = Pieces(found)
    measured = memory_map._measure(memory, vmas, ordered, PRESENT)
    regions = memory_map._regions([(each, "anonymous", "") for each in vmas], measured)
    assert sum(region.rss for region in regions) == sum(each.rss for each in vmas)
    assert sum(region.size for region in regions) == sum(each.size for each in vmas)
    assert all(region.rss >= 0 and region.size >= 0 for region in regions)
    for each in vmas:
        covered = [(piece.start, piece.end) for piece in ordered.within(each)]
        parts = sorted([*covered, *ordered.between(each)])
        assert [start for start, _ in parts] == [each.start, *(end for _, end in parts[:-1])]
        assert parts[-1][1] == each.end


@pytest.mark.parametrize("resident", [0, 2])
def test_what_is_told_is_so_of_memory_that_is_not_searched(resident: int) -> None:
    """Two tables of heaptop's that nothing was written to yet lie in one mapping; the kernel joins what is alike."""
    memory = PretendMemory()
    memory.make(START, START + resident * PAGE)
    sparse = vma(START, 1 << 20, resident)
    assert not sparse.searchable
    tables = Pieces([MappingPart(START + at * PAGE, START + (at + 3) * PAGE, "own", "tables") for at in (0, 3)])
    measured = memory_map._measure(memory, [sparse], tables, PRESENT)
    regions = {each.kind: each for each in memory_map._regions([(sparse, "anonymous", "")], measured)}
    assert (regions["own"].size, regions["own"].rss) == (6 * PAGE, resident * PAGE)
    assert (regions["anonymous"].size, regions["anonymous"].rss) == (((1 << 20) - 6) * PAGE, 0)


def test_aligned_memory_of_others_is_no_heap_of_mallocs() -> None:
    """As mimalloc reserves it; what begins as a heap does stays one, also where two adjoin, or nothing can be read."""
    size = 64 * MIB
    memory = PretendMemory()
    places = [START + i * 3 * size for i in range(4)]
    memory.words(places[0], places[0] + 0x30, 0, size, size)
    memory.words(places[0] + size, places[0] + 0x30, places[0], size, size)
    memory.words(places[1], 0, 0, 0, 0)
    memory.words(places[2], places[2] + 0x30, 0, size, size)
    memory.words(places[2] + size, 77, 0, size, size)
    sorts = [*classified([vma(place, 2 * size // PAGE) for place in places])]
    assert [kind for _, kind, _ in sorts] == ["heap"] * 4
    assert [kind for _, kind, _ in heaps.proven(memory, sorts)] == ["heap", "anonymous", "anonymous", "heap"]


def elf(*segments: tuple[int, int]) -> bytes:
    """An ELF header and program headers of (address, bytes in memory), with one of another kind."""
    header = bss.HEADER.pack(b"\x7fELF", 2, 3, 62, 1, 0, 64, 0, 0, 64, 56, len(segments) + 1)
    return header.ljust(64, b"\0") + b"".join(
        bss.SEGMENT.pack(kind, 0, 0, address, 0, 0, length, 0)
        for kind, address, length in [(6, 0, 1 << 40), *((1, address, length) for address, length in segments)]
    )


def test_zeros_of_a_file_are_told_from_what_is_joined_to_them() -> None:
    """A library of 4 pages, the last of them zeros; a chunk of malloc's is mapped right behind it."""
    name = "/lib/x.so"
    memory = PretendMemory()
    memory.write(START, elf((0x40_0000, PAGE), (0x40_0000 + PAGE, 3 * PAGE - 100)))
    code = Vma(START, START + PAGE, "r-xp", 5, name, PAGE, 0, 0, 0)
    data = Vma(START + PAGE, START + 3 * PAGE, "rw-p", 5, name, 2 * PAGE, 0, 0, 0)
    joined = vma(START + 3 * PAGE, 9)
    sorts = [*classified([code, data, joined])]
    assert [kind for _, kind, _ in sorts] == ["file", "file", "file"]
    assert bss.ends(memory, sorts) == {joined.start: START + 4 * PAGE}
    split, pieces = memory_map._apart(sorts, bss.ends(memory, sorts))
    assert pieces == [MappingPart(START + 3 * PAGE, START + 4 * PAGE, "file", name)]
    assert split[2] == (joined, "anonymous", "")

    # Arenas' tables are looked for in what is the file's only: the rest may be megabytes of objects, full of pointers.
    holders = memory_map._holders(sorts, bss.ends(memory, sorts))
    assert holders == [(START + PAGE, data.end), (joined.start, START + 4 * PAGE)]

    sorts = [*classified([code, data, joined])]
    memory.make(START, START + PAGE, 0)  # the header is not resident: the whole stays the file's
    assert bss.ends(memory, sorts) == {}
    assert memory_map._apart(sorts, {}) == (sorts, [])


@pytest.mark.parametrize("wrong", [b"\x7fELG", b"\x7fELF\x01"], ids=["magic", "32 bits"])
def test_what_is_no_elf_header_says_nothing(wrong: bytes) -> None:
    memory = PretendMemory()
    memory.write(START, elf((0, PAGE)))
    assert bss.data_end(memory, START) == START + PAGE
    memory.write(START, wrong)
    assert bss.data_end(memory, START) is None
    assert bss.data_end(memory, START + PAGE) is None


def test_chunks_of_both_forms_are_found_and_nothing_else() -> None:
    memory = PretendMemory()
    end = START + 64 * PAGE
    memory.make(START, end)
    memory.words(START + 2 * PAGE, 0, 8 * PAGE | 2)  # up to glibc 2.41
    memory.words(START + 4 * PAGE, 0, 2 * PAGE | 2)  # data in it that looks like one
    memory.words(START + 10 * PAGE, 0, (4 * PAGE - 16) | 2)  # from 2.42 on
    memory.words(START + 20 * PAGE, 1, 4 * PAGE | 2)
    memory.words(START + 21 * PAGE, 0, 4 * PAGE | 3)
    memory.words(START + 22 * PAGE, 0, 4 * PAGE + 32 | 2)
    memory.words(START + 23 * PAGE, 0, 1 << 40 | 2)
    memory.words(START + 24 * PAGE, 0, 2)
    memory.make(START + 30 * PAGE, START + 31 * PAGE, 0)  # absent: must not be read
    chunks, looked = find_chunks(memory, START, end, 1000)
    assert chunks == [(START + 2 * PAGE, START + 10 * PAGE), (START + 10 * PAGE, START + 14 * PAGE)]
    assert looked == 64 - 12 + 2 - 1
    assert find_chunks(memory, START, end, 3) == (chunks[:1], 3)


def test_a_chunk_that_advice_has_parted_is_one_chunk() -> None:
    """The page that it begins with and what was advised to be in huge pages are mappings of their own."""
    memory, size = PretendMemory(), 40 * PAGE
    memory.words(START, 0, size | 2)
    memory.make(START + PAGE, START + size)
    sorts = [(vma(START, 1), "anonymous", ""), (vma(START + PAGE, 39), "anonymous", "")]
    chunks, looked = memory_map._chunks(memory, sorts, Pieces([]))
    assert chunks == [MappingPart(START, START + size, "chunk", "")]
    assert looked == 1
    measured = memory_map._measure(memory, [each for each, _, _ in sorts], Pieces(chunks), PRESENT)
    found = {region.kind: region.rss for region in memory_map._regions(sorts, measured)}
    assert found == {"chunk": size}


def test_a_chunk_ends_where_the_memory_or_another_piece_does() -> None:
    """Words that are old, or were put there, claim nothing of what is not malloc's."""
    memory = PretendMemory()
    memory.words(START, 0, 40 * PAGE | 2)
    memory.make(START + PAGE, START + 40 * PAGE)
    apart = [(vma(START, 1), "anonymous", ""), (vma(START + 2 * PAGE, 38), "anonymous", "")]
    file = [(vma(START, 1), "anonymous", ""), (vma(START + PAGE, 39), "file", "/lib")]
    whole = [(vma(START, 1), "anonymous", ""), (vma(START + PAGE, 39), "anonymous", "")]
    arena = MappingPart(START + 20 * PAGE, START + 30 * PAGE, "arena", "")
    for sorts, others in ((apart, []), (file, []), (whole, [arena])):
        assert memory_map._chunks(memory, sorts, Pieces(others))[0] == []


def named(*names: str) -> list[tuple[Vma, str, str]]:
    return [(vma(START, 1), "file", name) for name in names]


@pytest.mark.parametrize(
    ("names", "searched"),
    [
        (["/usr/bin/python3.11"], False),
        (["/opt/bin/app", "/lib/libpython3.8.so.1.0"], False),
        (["/opt/bin/app", "/x/_json.cpython-310-x86_64-linux-gnu.so"], False),
        (["/usr/bin/python3.12"], True),
        (["/usr/bin/python3.9", "/lib/libpython3.14.so.1.0"], True),
        (["/home/me/python3.9/lib/python3.13/lib-dynload/_x.so"], True),
        (["/opt/bin/app"], True),  # nothing says which version it is
    ],
)
def test_states_are_searched_for_where_an_interpreter_has_a_table_of_its_own(names: list[str], searched: bool) -> None:
    used = {facts.state_size // PAGE for facts in VERSIONS.values() if facts.state_size}
    sizes = sorted({33, 63, 64, 128, 129, 512} | used)
    chunks = [
        MappingPart(START + i * MIB, START + i * MIB + pages * PAGE, "chunk", "") for i, pages in enumerate(sizes)
    ]
    found = memory_map._states(chunks, named("/lib/libc.so.6", *names))
    assert [(end - start) // PAGE for start, end in found] == (sorted({128} | used) if searched else [])


def test_stacks_of_our_own_threads_are_found_exactly() -> None:
    ready, done = threading.Barrier(2), threading.Event()
    place: list[int] = []

    def wait() -> None:
        place.append(threading.get_native_id())
        ready.wait()
        done.wait()

    size = threading.stack_size(40 * MIB)  # larger than any that glibc may have kept
    try:
        thread = threading.Thread(target=wait)
        thread.start()
    finally:
        threading.stack_size(size)
    ready.wait()
    try:
        with ResidentMemory(os.getpid()) as memory:
            found = stacks.stack_range(memory, place[0])
            assert found is not None
            assert found[1] - found[0] in (40 * MIB, 40 * MIB + PAGE)  # with its guard, or without
            assert stacks.stack_range(memory, os.getpid()) is None  # the main thread's is the kernel's
            assert stacks.stack_range(memory, 1 << 22) is None  # nobody
    finally:
        done.set()
        thread.join()


@pytest.mark.parametrize("wrong", [{0: 5}, {2: 5}, {40: 5}, {41: 5}], ids=["tcb", "self", "start", "size"])
def test_a_descriptor_that_proves_nothing_is_none(wrong: dict[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    memory = PretendMemory()
    end = START + 8 * PAGE
    descriptor = end - 0x900
    words = [descriptor, 0, descriptor, *[0] * 37, START, 8 * PAGE, 0]
    memory.words(descriptor, *words)
    memory.make(end - PAGE, end)
    memory.make(descriptor - 2 * PAGE, descriptor)
    monkeypatch.setattr(stacks, "robust_list", lambda tid: descriptor + 0x2E0)
    assert stacks.stack_range(memory, 1) == (START, end)
    for place, word in wrong.items():
        words[place] = word
    memory.words(descriptor, *words)
    assert stacks.stack_range(memory, 1) is None
    monkeypatch.setattr(stacks, "robust_list", lambda tid: 0x1000)
    assert stacks.stack_range(memory, 1) is None


@pytest.mark.parametrize(("bss", "bit"), [(0, PRESENT), (10, EXCLUSIVE)])
def test_pages_of_zeros_are_not_taken_for_memory(bss: int, bit: int) -> None:
    """They are present and in no RSS; but pages shared with a forked child, which look the same, are in it."""
    memory = PretendMemory()
    memory.make(START, START + 10 * PAGE)
    memory.make(START + 10 * PAGE, START + 20 * PAGE, PRESENT)
    assert memory_map._mask(memory, [vma(START, 30, 20 - bss)]) == bit


def test_a_process_that_is_gone_says_nothing() -> None:
    assert read(1 << 22) is None


@pytest.mark.parametrize(
    ("step", "error"),
    [("find_tables", RemoteFault("gone")), ("distinct", OSError(errno.EIO, "")), ("measure", IndexError("odd"))],
)
def test_what_cannot_be_read_leaves_a_gap_and_no_error(
    step: str, error: Exception, resting: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise error

    tid, vmas = memory_map._read_smaps(resting)
    monkeypatch.setattr(memory_map, "_read_smaps", lambda pid: (tid, vmas))
    monkeypatch.setattr(arenas, step, fail)
    seen = read(resting)
    assert seen is not None
    assert [gap for gap in seen.gaps if "could not be read" in gap] == list(seen.gaps) != []
    assert seen.pymalloc is None
    # As smaps alone has it: no arenas, and a file's zeros are still the file's.
    sums: dict[str, int] = {}
    for vma, kind, _ in classified(vmas):
        sums[kind] = sums.get(kind, 0) + vma.rss
    seen_sums = dict.fromkeys(sums, 0)
    for region in seen.regions:
        seen_sums[region.kind] += region.rss
    assert seen_sums == sums


@pytest.mark.parametrize("letter", ["\r", "\f", "\x1c", "\x85", "\u2028", "\x1b"], ids=ascii)
def test_no_name_of_a_file_makes_a_line_of_its_own(letter: str, tmp_path: Path) -> None:
    """The kernel escapes a newline in a path, and nothing else that some take for one."""
    path = tmp_path / f"odd{letter}Rss:{letter}1-2"
    path.write_bytes(b"1" * PAGE)
    with path.open("rb") as file, mmap.mmap(file.fileno(), PAGE, prot=mmap.PROT_READ):
        _, vmas = memory_map._read_smaps(os.getpid())
        named = [vma.name for vma in vmas if vma.name.startswith(str(tmp_path))]
        mappings = [each.path for each in read_mappings(os.getpid()) if each.path.startswith(str(tmp_path))]
    assert named == mappings == [str(path)]


def test_the_memory_of_a_process_sums_up(resting: int) -> None:
    seen = read(resting)
    assert seen is not None
    assert seen.gaps == ()
    sums = {region.kind: 0 for region in seen.regions}
    for region in seen.regions:
        sums[region.kind] += region.rss
    assert seen.pymalloc is not None
    assert sums["arena"] <= seen.pymalloc.arenas < sums["arena"] + MIB  # but for pages that were never touched
    parts = (seen.pymalloc.in_use, seen.pymalloc.free_blocks, seen.pymalloc.free_pools, seen.pymalloc.overhead)
    assert sum(parts) == seen.pymalloc.arenas
    assert min(parts) >= 0
