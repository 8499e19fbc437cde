"""What is made of a snapshot's answer on waste: rows, advice, totals that count each byte once, and the document."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heaptop.analysis.filters.filters import EVERYTHING, parse_filter
from heaptop.analysis.snapshot.waste import (
    ADVICE,
    ARENAS,
    ESTIMATED,
    MOST_ROWS,
    NAMES,
    advice,
    row_words,
    selection,
    total_words,
    wanted,
    waste_json,
    waste_report,
)
from heaptop.errors import UsageError
from heaptop.protocol.images import (
    INTERNED_COUNTED,
    INTERNED_FREED,
    INTERNED_UNKNOWN,
    NO_TYPE,
    WASTE,
    WASTES,
    Image,
    Question,
    Selection,
    Step,
    Waste,
    WasteRow,
    WasteTotal,
)
from heaptop.protocol.messages import Memory, Outside, Pymalloc, TypeName
from tests.fakes.graph import Planted, PlantedHeap, Root
from tests.fakes.heap import PlantedImage
from tests.fakes.images import unpack

SORTS = {*WASTES, ARENAS}

TYPES = [
    TypeName("builtins", "str"),
    TypeName("builtins", "list"),
    TypeName("shop.models", "Session"),
    TypeName("builtins", "module"),
    TypeName("functools", "_lru_cache_wrapper"),
    TypeName("builtins", "dict"),
]
PATH = (Step("module shop.cache", 3, 16), Step("._sessions", 1, 32), Step("[*]", 0, 48))
IMAGE = Image(1, 1, 0, 3_000_000, 0, 0, 1, 0, 100, 200, 1 << 20, (), 0, True)


def row(sort: str, size: int, own: int | None = None, **other: Any) -> WasteRow:
    figures: dict[str, Any] = {"type": 0, "count": 3, "detail": 0, "holder": NO_TYPE, "example": 48, "path": PATH}
    return WasteRow(WASTES.index(sort), bytes=size, own=size if own is None else own, **{**figures, **other})


def answer(*rows: WasteRow, interned: int = INTERNED_FREED, other_rows: int = 0) -> Waste:
    totals = []
    for sort in range(len(WASTES)):
        mine = [each for each in rows if each.sort == sort]
        sums = (sum(getattr(each, name) for each in mine) for name in ("count", "bytes", "own"))
        totals.append(WasteTotal(sort, *sums, 0))
    return Waste(1, tuple(totals), rows, other_rows, interned)


def memory(free_blocks: int, free_pools: int) -> Memory:
    pymalloc = Pymalloc(1 << 20, 1 << 18, free_blocks, free_pools, 0)
    return Memory(1, 1, 0, outside=Outside((), 0, 0, 0, pymalloc, 1, ()))


# -- rows -----------------------------------------------------------------------------------------------------


def test_every_sort_has_a_name_and_advice_of_one_sentence() -> None:
    assert set(NAMES) == SORTS
    for sort in SORTS:
        for type in ("list", "dict", "set"):
            text = advice(sort, type, "", 3)
            assert text.endswith(".")
            assert "{" not in text
            assert len(text) <= 110, "a line and a half of a small screen"
    assert set(ADVICE) == {*SORTS, "spare list", "spare dict", "spare set", "sparse cache"}


def test_rows_are_the_largest_first_and_say_who_holds_them() -> None:
    found = waste_report(
        answer(
            row("duplicate", 100),
            row("slots", 300, type=2, detail=4),
            row("spare", 200, type=1, holder=2),
            row("sparse", 50, type=5, holder=4),
            row("interned", 20, example=0, path=()),
        ),
        TYPES,
    )
    assert [(each.sort, each.bytes, each.holder) for each in found.rows] == [
        ("slots", 300, "module shop.models"),
        ("spare", 200, "shop.models.Session"),
        ("duplicate", 100, "module shop.cache"),
        ("sparse", 50, "functools._lru_cache_wrapper"),
        ("interned", 20, ""),
    ]
    slots, _, duplicate, sparse, _ = found.rows
    assert "its 4 names" in slots.advice
    assert duplicate.path == ("module shop.cache", "._sessions", "list[*]", "str")
    assert "cache_clear()" in sparse.advice
    assert "dict(d)" in advice("sparse", "dict", "module shop", 1)
    assert len({each.key for each in found.rows}) == len(found.rows)


def test_estimates_say_so_and_exact_figures_do_not() -> None:
    exact, about = waste_report(answer(row("duplicate", 2048, 1024), row("slots", 1024)), TYPES).rows
    assert row_words(exact) == "2.00 KiB in 3 objects, of which 1.00 KiB also in other rows"
    assert row_words(about) == "≈1.00 KiB in 3 objects"
    assert {"duplicate", "equal", "empty"} == SORTS - ESTIMATED


def test_the_total_is_an_estimate_as_soon_as_one_row_is() -> None:
    exact = waste_report(answer(row("duplicate", 2048)), TYPES)
    assert total_words(exact, IMAGE) == "2.00 KiB of 1.00 MiB, each byte once"
    both = waste_report(answer(row("duplicate", 2048), row("ints", 3072, 1024)), TYPES)
    assert total_words(both, IMAGE) == "≈3.00 KiB of 1.00 MiB, each byte once (≈5.00 KiB over all rows)"


def test_free_memory_in_arenas_is_no_part_of_what_the_objects_could_save() -> None:
    report = waste_report(answer(row("duplicate", 2048)), TYPES, memory(4096, 8192))
    assert total_words(report, IMAGE) == "2.00 KiB of 1.00 MiB, each byte once; free in arenas ≈12.0 KiB"


def test_free_room_in_arenas_is_a_row_where_nothing_is_filtered() -> None:
    found = waste_report(answer(row("duplicate", 100)), TYPES, memory(4096, 8192))
    (arenas,) = [each for each in found.rows if each.sort == ARENAS]
    assert (arenas.bytes, arenas.own, arenas.count, arenas.estimated) == (12_288, 12_288, 0, True)
    assert found.total == 12_388
    filtered = waste_report(answer(row("duplicate", 100)), TYPES, memory(4096, 8192), parse_filter("type:str"))
    assert filtered.total == 100
    assert not any("Arenas" in note for note in filtered.notes)
    assert [each.sort for each in waste_report(answer(), TYPES, memory(0, 0)).rows] == []
    assert any("Arenas" in note for note in waste_report(answer(), TYPES).notes)


@pytest.mark.parametrize(
    ("interned", "says"),
    [(INTERNED_FREED, "none is unused"), (INTERNED_COUNTED, "immortal"), (INTERNED_UNKNOWN, "are unknown")],
)
def test_what_can_be_told_of_interned_strings_is_said(interned: int, says: str) -> None:
    assert says in " ".join(waste_report(answer(interned=interned), TYPES).notes)
    filtered = waste_report(answer(interned=interned), TYPES, where=parse_filter("type:str"))
    assert "nterned" not in " ".join(filtered.notes)


def test_overlap_is_noted_where_there_is_any() -> None:
    assert "each byte once" in " ".join(waste_report(answer(row("equal", 9, 8)), TYPES).notes)
    assert "each byte once" not in " ".join(waste_report(answer(row("equal", 9)), TYPES).notes)


def test_what_makes_no_sense_is_shown_and_breaks_nothing() -> None:
    """A target may say anything."""
    odd = waste_report(answer(row("spare", 10, 99, type=77), row("slots", 5, type=NO_TYPE, path=())), TYPES)
    assert [each.own for each in odd.rows] == [10, 5]
    assert (odd.total, odd.overlap) == (15, 0)
    assert all(each.advice for each in odd.rows)


# -- filters --------------------------------------------------------------------------------------------------


def test_no_more_rows_are_kept_than_are_asked_for() -> None:
    """An agent that sends more costs neither memory nor a slow table; they are counted."""
    found = waste_report(answer(*(row("spare", 8, example=n) for n in range(MOST_ROWS + 5)), other_rows=2), TYPES)
    assert (len(found.rows), found.other_rows) == (MOST_ROWS, 7)
    assert found.total == 8 * (MOST_ROWS + 5)


def test_a_filter_is_a_selection_of_types() -> None:
    assert selection(parse_filter("module:shop"), TYPES) == Selection(types=(2,))
    assert selection(EVERYTHING, TYPES) == Selection()
    assert wanted(parse_filter("type:nobody"), TYPES) is None
    with pytest.raises(UsageError, match="No type in the heap matches type:nobody"):
        selection(parse_filter("type:nobody"), TYPES)
    with pytest.raises(UsageError, match="Rows of waste have no size"):
        selection(parse_filter("size>1kB"), TYPES)


# -- each byte once -------------------------------------------------------------------------------------------

claims = st.lists(
    st.tuples(st.sampled_from([each for each in WASTES if each != "interned"]), st.integers(1, 96), st.integers(0, 9)),
    max_size=4,
    unique_by=lambda claim: claim[0],
)


@given(st.lists(claims, min_size=1, max_size=30), st.integers(0, 6))
def test_no_byte_is_counted_twice(planted: list[list[tuple[str, int, int]]], limit: int) -> None:
    """Whatever several sorts claim of one object: the total is the sum of the largest claims, and not above the sum of
    the rows, nor above what the objects take."""
    objects = tuple(
        Planted(0x1000 + 0x100 * n, TypeName("app", f"T{n % 3}"), 96, wastes=tuple(wastes))
        for n, wastes in enumerate(planted)
    )
    roots = tuple(Root("module", f"module m{each.address % 5}", each.address) for each in objects)
    image = PlantedImage(PlantedHeap(objects, roots))
    found = image.answer(1, unpack(Question(WASTE, limit=1000).pack(1))[1])
    assert isinstance(found, Waste)
    report = waste_report(found, image.types)
    assert report.total == sum(max((size for _, size, _ in each), default=0) for each in planted)
    assert report.total <= sum(each.bytes for each in report.rows) == report.total + report.overlap
    assert report.total <= sum(each.size for each in objects)
    assert sum(each.own for each in report.rows) == report.total
    assert all(0 <= each.own <= each.bytes for each in report.rows)
    few = waste_report(replace(found, rows=found.rows[:limit], other_rows=len(found.rows[limit:])), image.types)
    assert few.total == report.total, "also of rows that are not told"


# -- the document ---------------------------------------------------------------------------------------------


def test_the_document_has_each_figure_as_a_number() -> None:
    report = waste_report(
        answer(row("duplicate", 300, 200), row("slots", 100, type=2, detail=4), other_rows=2), TYPES, memory(50, 0)
    )
    document = waste_json(report, IMAGE, pid=7, python="3.12.1", where=EVERYTHING, most=1)
    assert (document["total"], document["sum"], document["estimated"]) == (350, 450, True)
    assert (document["shown"], document["of"], document["other_rows"]) == (1, 3, 2)
    assert [(each["sort"], each["bytes"], each["own"]) for each in document["sorts"]] == [
        ("duplicate", 300, 200),
        ("slots", 100, 100),
        ("arenas", 50, 50),
    ]
    (first,) = document["rows"]
    assert first == {
        "sort": "duplicate",
        "bytes": 300,
        "own": 200,
        "estimated": False,
        "count": 3,
        "type": "str",
        "holder": "module shop.cache",
        "detail": 0,
        "advice": ADVICE["duplicate"],
        "path": ["module shop.cache", "._sessions", "list[*]", "str"],
        "example": "0x30",
    }
    assert document["snapshot"]["objects"] == 100
    assert document["pause_ms"] == 3.0
