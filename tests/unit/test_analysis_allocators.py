"""malloc's free memory by its name: the rows still sum to RSS, and advice needs figures that show that it helps."""

from __future__ import annotations

import pytest

from heaptop.analysis.rss.memory import MemoryByUse, explain, memory_json
from heaptop.protocol.codec import decode, encode
from heaptop.protocol.messages import Malloc, Memory, OtherMalloc, Outside, Region
from heaptop.protocol.registry import REPLIES
from tests.unit.test_analysis_memory import snapshot

MIB = 1 << 20
LIBRARY = "/usr/lib/libjemalloc.so.2"


def outside(*regions: tuple[str, str, int]) -> Outside:
    found = tuple(Region(kind, name, size * MIB, size * MIB) for kind, name, size in regions)
    return Outside(found, 0, 0, 0, None, 0, ())


def other(name: str = "jemalloc", figures: tuple[int, int, int, int] | None = (60, 5, 25, 2)) -> Memory:
    """100 MiB of anonymous memory, of which an allocator accounts for 92."""
    said = OtherMalloc(*(size * MIB for size in figures)) if figures is not None else None
    seen = outside(("anonymous", "", 100), ("file", "/usr/bin/python3", 6))
    return Memory(0, 0, 0, malloc_library=LIBRARY, malloc_name=name, other_malloc=said, outside=seen)


def glibc(in_use: int, pieces: int, *heaps: tuple[str, int]) -> Memory:
    size = sum(each for _, each in heaps)
    malloc = Malloc(size * MIB, in_use * MIB, (size - in_use) * MIB, 0, 0, False, pieces)
    return Memory(0, 0, 0, malloc=malloc, outside=outside(*(("heap", name, each) for name, each in heaps)))


def explained(memory: Memory, live: int | None = 10 * MIB) -> MemoryByUse:
    found = explain(memory, live)
    assert found is not None
    assert sum(row.bytes for row in found.rows) == found.rss
    return found


def sizes(memory: Memory) -> dict[str, int]:
    return {row.key: row.bytes // MIB for row in explained(memory).rows}


def test_what_is_in_use_and_free_is_told_by_the_allocators_figures() -> None:
    found = sizes(other())
    assert (found["live"], found["other"], found["malloc_free"]) == (10, 52, 30)
    assert found["rest"] == 8, "what it does not account for is someone else's"


def test_the_row_of_free_memory_has_the_allocators_name_and_parts() -> None:
    row = next(row for row in explained(other()).rows if row.key == "malloc_free")
    assert row.name == "free in jemalloc"
    assert row.meaning == "kept by jemalloc: 5.00 MiB in caches and partly used pages, 25.0 MiB in unused pages"


def test_a_name_that_no_allocator_has_is_not_shown() -> None:
    row = next(row for row in explained(other("\x1b[31m")).rows if row.key == "malloc_free")
    assert row.name == "free in malloc"


def test_figures_larger_than_resident_memory_do_not_displace_other_rows() -> None:
    found = explained(other(figures=(4000, 50, 70, 9)))
    assert {row.key: row.bytes for row in found.rows}["malloc_free"] == 0
    assert any("has given out more than is resident" in note for note in found.notes)


def test_tables_that_were_never_touched_do_not_displace_what_is_free() -> None:
    found = explained(other(figures=(60, 5, 25, 50)))
    assert {row.key: row.bytes // MIB for row in found.rows}["malloc_free"] == 30
    assert found.notes == explained(other()).notes


def test_an_allocator_without_figures_has_no_free_row() -> None:
    found = sizes(other("mimalloc", None))
    assert "malloc_free" not in found
    assert found["other"] == 90


def test_the_document_has_the_figures_by_name() -> None:
    found = memory_json(other(), snapshot(), pid=1, python="3.13.0")
    assert found["malloc"] is None
    assert found["other_malloc"] == {
        "name": "jemalloc", "library": LIBRARY, "in_use": 60 * MIB, "free_blocks": 5 * MIB, "free_pages": 25 * MIB,
        "metadata": 2 * MIB,
    }  # fmt: skip
    assert len(found["advice"]) == 1


def test_the_figures_pass_the_wire_and_an_older_agent_has_none() -> None:
    said = other()
    assert decode(encode(said), REPLIES) == said
    older = Memory(0, 0, 0, malloc=Malloc(1, 1, 0, 0, 0, False))
    assert decode(encode(older), REPLIES) == older


@pytest.mark.parametrize(
    ("memory", "words"),
    [
        pytest.param(other(), ["background_thread:true"], id="jemalloc keeps pages"),
        pytest.param(other("tcmalloc"), ["ReleaseFreeMemory"], id="tcmalloc keeps pages"),
        pytest.param(other(figures=(60, 30, 1, 2)), [], id="its free blocks are beside others"),
        pytest.param(other(figures=(60, 5, 7, 2)), [], id="few pages"),
        pytest.param(other("mimalloc", None), [], id="no figures"),
        pytest.param(glibc(20, 200, ("main", 100)), ["malloc_trim(0) returns at least 78.4 MiB"], id="few pieces"),
        pytest.param(glibc(20, 12_000, ("main", 100)), [], id="many pieces"),
        pytest.param(glibc(20, 0, ("main", 100)), [], id="pieces unknown"),
        pytest.param(glibc(95, 9, ("main", 100)), [], id="little is free"),
        pytest.param(glibc(30, 200, ("main", 30), ("threads", 70)), ["40.0 MiB are free in the heaps of threads"],
                     id="threads' arenas keep it"),
    ],
)  # fmt: skip
def test_advice_needs_figures_that_show_that_it_helps(memory: Memory, words: list[str]) -> None:
    advice = explained(memory).advice
    assert len(advice) == len(words)
    assert all(word in sentence for word, sentence in zip(words, advice, strict=True))
