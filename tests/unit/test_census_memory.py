"""RSS explained: the rows sum to it, whatever the figures are, and what is not known is said."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heaptop.census.memory import NAMES, explain, memory_json
from heaptop.protocol.codec import decode, encode
from heaptop.protocol.messages import REPLIES, Malloc, Memory, MemoryRequest, Outside, Pymalloc, Region
from heaptop.protocol.testing import OUTSIDE, FakeAgent

MIB = 1 << 20


def memory(**changes: object) -> Memory:
    (said,) = FakeAgent().answer(MemoryRequest(1))
    assert isinstance(said, Memory)
    return replace(said, outside=OUTSIDE, **changes)  # type: ignore[arg-type]  # a test names the fields it changes


def rows(said: Memory, live: int | None) -> dict[str, int]:
    found = explain(said, live)
    assert found is not None
    return {row.key: row.bytes for row in found.rows}


def notes(said: Memory, live: int | None = 1) -> str:
    found = explain(said, live)
    assert found is not None
    return "\n".join(found.notes)


def test_everything_known() -> None:
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


amounts = st.integers(0, 1 << 40)
regions = st.lists(
    st.builds(
        Region,
        st.sampled_from(["file", "shared", "heap", "chunk", "stack", "arena", "anonymous", "kernel", "new kind"]),
        st.text(max_size=3),
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
)
mallocs = st.none() | st.builds(Malloc, amounts, amounts, amounts, amounts, amounts, st.booleans())


@given(outsides, mallocs, st.none() | amounts)
def test_rows_sum_to_rss_and_none_is_negative(outside: Outside, malloc: Malloc | None, live: int | None) -> None:
    said = replace(memory(), outside=outside, malloc=malloc)
    assert decode(encode(said), REPLIES) == said
    found = explain(said, live)
    assert found is not None
    assert found.rss == sum(region.rss for region in outside.regions) == sum(row.bytes for row in found.rows)
    assert min(row.bytes for row in found.rows) >= 0
    assert [row.key for row in found.rows] == [key for key in NAMES if key in {row.key for row in found.rows}]


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


def test_the_document() -> None:
    document = memory_json(memory(), 20_000_000, pid=7, python="3.11.7", mode="clone")
    assert document["rss"] == sum(row["bytes"] for row in document["rows"]) == 45_869_632
    assert [row["key"] for row in document["rows"]] == list(NAMES)
    assert {row["key"] for row in document["rows"] if not row["approximate"]} == {"stacks", "files", "shared"}
    assert document["files"] == [{"name": "/usr/bin/python3.11", "bytes": 6_000_000, "size": 7_000_000}]
    assert [each["name"] for each in document["stacks"]] == ["thread 4243 worker", "main thread"]
    assert document["malloc"]["free"] == 3_582_912
    assert document["arenas"]["free_blocks"] == 4_000_000
    assert document["took_ms"] == pytest.approx(38.06)


def test_a_kernel_that_says_nothing() -> None:
    said = replace(memory(), outside=None)
    assert explain(said, 1) is None
    document = memory_json(said, 1, pid=7, python="3.11.7", mode="clone")
    assert (document["rss"], document["rows"]) == (None, [])
    assert "does not say" in document["notes"][0]
