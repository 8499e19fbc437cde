"""RSS explained: the rows sum to it, whatever the figures are, and what is not known is said."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heaptop.analysis.heap.history import CensusRecord, History
from heaptop.analysis.rss.memory import NAMES, explain, explain_counted, grown_since_attach, live_bytes, memory_json
from heaptop.errors import ProtocolError
from heaptop.protocol.codec import decode, encode
from heaptop.protocol.messages import (
    OWN_ARENA,
    Malloc,
    MallocBlocks,
    MallocSite,
    MallocSites,
    Memory,
    MemoryRequest,
    Outside,
    Pymalloc,
    Region,
    Row,
)
from heaptop.protocol.registry import REPLIES
from heaptop.protocol.text import printable
from tests.fakes.source import OUTSIDE, FakeAgent
from tests.support.doors import TYPES, census

MIB = 1 << 20


def memory(**changes: object) -> Memory:
    (said,) = FakeAgent().answer(MemoryRequest(1))
    assert isinstance(said, Memory)
    return replace(said, outside=OUTSIDE, **changes)  # type: ignore[arg-type]  # a test names the fields it changes


def snapshot(**changes: object) -> CensusRecord:
    """20 MB of objects, 300 bytes of which sys.getsizeof leaves out."""
    history = History()
    history.feed(TYPES)
    history.feed(census(**{"mode": "clone", "rows": (Row(1, 2, 9, 19_999_700, 300),), **changes}))
    assert history.latest is not None
    return history.latest


def rows(said: Memory, live: int | None) -> dict[str, int]:
    found = explain(said, live)
    assert found is not None
    return {row.key: row.bytes for row in found.rows}


def notes(said: Memory, live: int | None = 1) -> str:
    found = explain(said, live)
    assert found is not None
    return "\n".join(found.notes)


def test_rows_sum_to_resident_memory_when_all_is_known() -> None:
    assert rows(memory(), 20_000_000) == {
        "live": 20_000_000,
        "other": 17_000_000 + 9_000_000 + 4_000_000 - 20_000_000,
        "pools": 4_000_000,
        "free_pools": 800_000,
        "overhead": 200_000,
        "malloc_free": 3_000_000,
        "stacks": 400_000,
        "files": 6_000_000,
        "shared": 65_536,
        "rest": 1_400_000 + 4_096,
    }
    assert notes(memory()) == ""


def test_what_native_samples_leave_out_is_noted() -> None:
    native = MallocSites(MIB, MIB, 9, dropped=3, missed=2, sites=(), left_out=5)
    said = notes(replace(memory(), outside=replace(OUTSIDE, native=native)))
    assert said.startswith("At least: 3 samples of native memory")
    assert "At most: 2 frees of native memory" in said
    assert "5 smaller sites" in said


@pytest.mark.parametrize("change", [{"size": 0}, {"interval": 0}])
def test_native_samples_that_cannot_be_are_refused(change: dict[str, int]) -> None:
    def said(blocks: MallocBlocks) -> bytes:
        sites = (MallocSite("libz", "f", (), "none", (blocks,)),)
        return encode(replace(memory(), outside=replace(OUTSIDE, native=MallocSites(MIB, MIB, 1, 0, 0, sites))))

    decode(said(MallocBlocks(1, 1, 1, 1)), REPLIES)
    with pytest.raises(ProtocolError):
        decode(said(replace(MallocBlocks(1, 1, 1, 1), **change)), REPLIES)


amounts = st.integers(0, 1 << 40)
regions = st.lists(
    st.builds(
        Region,
        st.sampled_from(
            ["file", "shared", "heap", "chunk", "stack", "arena", "anonymous", "kernel", "own", "new kind"]
        ),
        st.just(OWN_ARENA) | st.text(max_size=3).map(printable),
        amounts,
        amounts,
    ),
    max_size=12,
).map(tuple)
outsides = st.builds(
    Outside,
    regions,
    amounts,
    amounts,
    amounts,
    st.none() | st.builds(Pymalloc, amounts, amounts, amounts, amounts, amounts),
    amounts,
    st.just(()),
    st.none() | amounts,
)
mallocs = st.none() | st.builds(Malloc, amounts, amounts, amounts, amounts, amounts, st.booleans())


@given(outsides, mallocs, st.none() | amounts, amounts, amounts)
def test_rows_sum_to_rss_and_none_is_negative(
    outside: Outside, malloc: Malloc | None, live: int | None, small: int, large: int
) -> None:
    said = replace(memory(), outside=outside, malloc=malloc, own_small=small, own_large=large)
    assert decode(encode(said), REPLIES) == said
    found = explain(said, live)
    assert found is not None
    assert found.rss == sum(region.rss for region in outside.regions) == sum(row.bytes for row in found.rows)
    assert min(row.bytes for row in found.rows) >= 0
    assert [row.key for row in found.rows] == [key for key in NAMES if key in {row.key for row in found.rows}]


OWN = (Region("own", "native core: library", 300_000, 320_000), Region("own", OWN_ARENA, 5_000_000, 5_100_000))


def own_memory(*own: Region, **changes: object) -> Memory:
    said = memory(own_small=200_000, own_large=700_000)
    return replace(said, outside=replace(OUTSIDE, regions=(*OUTSIDE.regions, *own), rss_before=40 * MIB), **changes)  # type: ignore[arg-type]


def test_heaptops_own_memory_is_a_row() -> None:
    """Its mappings, and what its objects take of memory that the program uses too: that is nobody else's then."""
    plain, found = rows(memory(), 20_000_000), rows(own_memory(OWN[0]), 20_000_000)
    assert found["own"] == 300_000 + 200_000 + 700_000
    assert found["other"] == plain["other"] - 900_000
    assert {key: size for key, size in found.items() if key not in ("own", "other")} == {
        key: size for key, size in plain.items() if key != "other"
    }


def test_objects_in_an_arena_of_heaptops_own_are_in_it() -> None:
    """malloc's figures know of its heap: what is in use there is not in use in the program's."""
    plain, found = rows(memory(), 20_000_000), rows(own_memory(*OWN), 20_000_000)
    assert found["own"] == 5_300_000 + 200_000
    assert found["other"] == plain["other"] - 200_000 - 700_000
    assert found["malloc_free"] == plain["malloc_free"] + 700_000


def test_without_arenas_its_small_objects_are_mallocs_too() -> None:
    said = own_memory(*OWN, blocks=0)
    outside = said.outside
    assert outside is not None
    assert rows(replace(said, outside=replace(outside, pymalloc=None)), 1)["own"] == 5_300_000


def test_what_rss_was_before_the_attach_is_said() -> None:
    found = explain(own_memory(*OWN), 1)
    assert found is not None
    assert "RSS was 40.0 MiB before the attach" in found.rows[-1].meaning
    assert grown_since_attach(own_memory(*OWN)) == found.rss - 40 * MIB
    assert grown_since_attach(memory()) is None


def test_without_a_native_core_free_memory_of_malloc_is_not_guessed() -> None:
    said = memory(malloc=None, malloc_gap="There is no native core.")
    found = rows(said, 20_000_000)
    assert "malloc_free" not in found
    assert found["other"] == 17_000_000 + 12_000_000 + 4_000_000 - 20_000_000
    assert "There is no native core." in notes(said)


def test_the_heaps_of_another_malloc_are_not_the_rest() -> None:
    said = memory(malloc=None, malloc_gap="It is jemalloc's.", malloc_library="/usr/lib/libjemalloc.so.2")
    found = rows(said, 20_000_000)
    assert found["rest"] == 4_096
    assert found["other"] == 17_000_000 + 12_000_000 + 4_000_000 + 1_400_000 - 20_000_000


def test_figures_of_32_bits_are_used_as_long_as_they_can_be_right() -> None:
    small = replace(memory().malloc, wraps=True)  # type: ignore[type-var]
    assert rows(memory(malloc=small), 1)["malloc_free"] == 3_000_000
    large = replace(OUTSIDE, regions=(Region("heap", "main", 5 << 30, 5 << 30),))
    said = replace(memory(malloc=small), outside=large)
    assert "malloc_free" not in rows(said, 1)
    assert "32 bits" in notes(said)


GIB = 1 << 30
NARROW_HEAPS, NARROW_BLOCKS = "have 32 bits", "The size of malloc's large blocks is left out"


@pytest.mark.parametrize(
    ("regions", "heaps", "mapped"),
    [
        ((), True, True),
        ((("heap", "main", 5 * GIB),), False, True),
        ((("heap", "main", 3 * GIB), ("heap", "threads", GIB)), False, True),
        ((("chunk", "", 5 * GIB),), True, False),
        # A block of which nothing was ever touched is not found, nor one that was aligned.
        ((("chunk", "", 2 * GIB), ("anonymous", "", 2 * GIB)), True, False),
        ((("anonymous", "my pool", 9 * GIB), ("file", "/x", 9 * GIB)), True, True),
        ((("heap", "main", 5 * GIB), ("chunk", "", 4 * GIB)), False, False),
    ],
)
def test_figures_of_32_bits_that_may_have_begun_again_are_no_facts(
    regions: tuple[tuple[str, str, int], ...], heaps: bool, mapped: bool
) -> None:
    outside = replace(OUTSIDE, regions=tuple(Region(kind, name, 1 << 20, size) for kind, name, size in regions))
    narrow = Malloc(12_582_912, 9_000_000, 3_582_912, 9_000_000, 3, True)
    said = replace(memory(malloc=narrow), outside=outside)
    malloc = memory_json(said, snapshot(), pid=7, python="3.9.2")["malloc"]
    assert (malloc["wraps"], malloc["mapped_chunks"]) == (True, 3)
    assert [malloc[key] for key in ("heaps", "in_use", "free")] == (
        [12_582_912, 9_000_000, 3_582_912] if heaps else [None, None, None]
    )
    assert malloc["mapped"] == (9_000_000 if mapped else None)
    assert (NARROW_HEAPS in notes(said)) == (not heaps)
    assert (NARROW_BLOCKS in notes(said)) == (not mapped)
    wide = replace(said, malloc=replace(narrow, wraps=False))
    assert None not in memory_json(wide, snapshot(), pid=7, python="3.9.2")["malloc"].values()
    assert "32 bits" not in notes(wide)


def test_figures_of_32_bits_without_the_kernels_to_judge_them_by_are_no_facts() -> None:
    said = replace(memory(malloc=Malloc(12_582_912, 9_000_000, 3_582_912, 9_000_000, 3, True)), outside=None)
    malloc = memory_json(said, snapshot(), pid=7, python="3.9.2")["malloc"]
    assert malloc == {
        "heaps": None, "in_use": None, "free": None, "mapped": None, "mapped_chunks": 3, "wraps": True,
        "free_chunks": 0,
    }  # fmt: skip


def test_a_malloc_that_said_nothing_is_not_taken_for_an_old_one() -> None:
    assert "32 bits" not in notes(memory(malloc=None))


def test_without_a_census_what_is_given_out_is_one_row() -> None:
    found = rows(memory(), None)
    assert "live" not in found
    assert found["other"] == 30_000_000


def test_objects_that_were_never_touched_do_not_displace_others() -> None:
    """5 MB of malloc's large blocks are not resident: objects of 31 MB, where 30 MB are in use, must be theirs."""
    assert rows(memory(), 31_000_000)["live"] == 26_000_000
    assert "never touched" in notes(memory(), 31_000_000)
    assert rows(memory(), 10**12)["live"] == 30_000_000
    assert "never touched" not in notes(memory(), 30_000_000)


@pytest.mark.parametrize(
    ("changes", "outside", "sentence"),
    [
        ({"blocks": 0, "allocator": "malloc"}, {"pymalloc": None}, "comes from malloc"),
        ({}, {"pymalloc": None}, "were not found"),
        ({}, {"pymalloc": None, "gaps": ("The memory could not be read.",)}, "could not be read"),
        ({"allocator": "pymalloc_debug"}, {}, "debug allocator"),
        ({}, {"swap": 3 * MIB}, "3.00 MiB more are swapped out"),
        ({}, {"hugetlb": 4 * MIB}, "4.00 MiB more are pages of hugetlbfs"),
    ],
)
def test_what_the_figures_lack_is_said(changes: dict[str, object], outside: dict[str, object], sentence: str) -> None:
    said = memory(**changes)
    said = replace(said, outside=replace(OUTSIDE, **outside))  # type: ignore[arg-type]
    assert sentence in notes(said)
    assert sentence not in notes(memory())


def test_the_document_says_which_rows_are_estimated() -> None:
    document = memory_json(memory(), snapshot(), pid=7, python="3.11.7")
    assert (document["live"], document["hidden_bytes"]) == (20_000_000, 300)
    assert [document[key] for key in ("mode", "mode_reason", "complete", "cut", "sizeof_guessed")] == [
        "clone", "", True, "", 0,
    ]  # fmt: skip
    assert document["rss"] == sum(row["bytes"] for row in document["rows"]) == 45_869_632
    assert [row["key"] for row in document["rows"]] == [key for key in NAMES if key != "own"]
    assert {row["key"] for row in document["rows"] if not row["approximate"]} == {"stacks", "files", "shared"}
    assert document["files"] == [{"name": "/usr/bin/python3.11", "bytes": 6_000_000, "size": 7_000_000}]
    assert [each["name"] for each in document["stacks"]] == ["thread 4243 worker", "main thread"]
    assert document["malloc"]["free"] == 3_582_912
    assert document["arenas"]["free_blocks"] == 4_000_000
    assert document["took_ms"] == pytest.approx(38.06)


def test_what_the_census_lacks_is_in_the_document() -> None:
    counted = snapshot(mode="stop", mode_reason="no clone could be made", complete=False, cut="time", sizeof_guessed=12)
    document = memory_json(memory(), counted, pid=7, python="3.11.7")
    assert [document[key] for key in ("mode", "mode_reason", "complete", "cut", "sizeof_guessed")] == [
        "stop", "no clone could be made", False, "time", 12,
    ]  # fmt: skip
    assert document["notes"] == []


def test_mappings_of_objects_are_not_in_the_row_of_live_objects() -> None:
    """No allocator has given them: they are in the rows of mapped files, of shared memory or of other mappings."""
    taken = snapshot()
    mapped = live_bytes(taken) // 2
    of_mappings = replace(taken, census=replace(taken.census, mapped=mapped))
    assert live_bytes(of_mappings) == live_bytes(taken) - mapped
    plain, less = explain_counted(memory(), taken), explain_counted(memory(), of_mappings)
    assert plain is not None
    assert less is not None
    assert sum(row.bytes for row in less.rows) == less.rss == plain.rss
    assert "(mmap, Arrow) are counted in the rows of mappings" in " ".join(less.notes)
    assert "mmap" not in " ".join(plain.notes)


def test_what_python_mode_does_not_see_is_not_zero() -> None:
    document = memory_json(memory(), snapshot(mode="python", rows=(Row(1, 2, 9, 5_000),)), pid=7, python="3.11.7")
    assert (document["live"], document["hidden_bytes"]) == (5_000, None)
    (note,) = document["notes"]
    assert "sys.getsizeof leaves out" in note
    assert "other allocations" in note


def test_a_kernel_that_says_nothing() -> None:
    said = replace(memory(), outside=None)
    assert explain(said, 1) is None
    document = memory_json(said, snapshot(), pid=7, python="3.11.7")
    assert (document["rss"], document["rows"]) == (None, [])
    assert "does not show" in document["notes"][0]
