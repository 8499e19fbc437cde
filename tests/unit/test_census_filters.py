"""Filters: read as written, true to set algebra, and wrong ones explained at the word."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heaptop.census.filters import EVERYTHING, parse_filter
from heaptop.census.history import Amount, Cell
from heaptop.errors import UsageError
from heaptop.protocol.messages import TypeName
from tests.unit.census_cases import Heap, heaps, snapshots

SESSION = Cell(TypeName("shop.models", "Session"), 2, 10, 2_000_000)

signs = st.sampled_from(["", "!"])
attributes = st.sampled_from(["type", "Module", "gen", "generation"])
patterns = st.text("abS.*?=", min_size=1, max_size=4).filter(lambda text: text != "=")
terms = st.one_of(
    st.builds("{}{}:{}".format, signs, attributes, st.lists(patterns, min_size=1).map(",".join)),
    st.builds(
        "{}{}{}{}".format,
        signs,
        st.sampled_from(["size", "count"]),
        st.sampled_from("<>"),
        st.sampled_from(["0", "1kB", "1.5M", "2KiB"]),
    ),
    st.sampled_from(["session", "!dict", "S*,=dict"]),
)
texts = st.lists(terms, max_size=4).map(" ".join)


@pytest.mark.parametrize(
    ("text", "passes"),
    [
        ("", True),
        ("Session", True),
        ("session", True),
        ("models.sess", True),
        ("type:Basket,SESS", True),
        ("type:Basket", False),
        ("!Session", False),
        ("sess*", True),
        ("shop.*", True),
        ("ess*", False),
        ("type:=shop.models.Session", True),
        ("type:=Session", True),
        ("type:=session", False),
        ("module:shop", True),
        ("module:=shop", False),
        ("module:sh?p.*", True),
        ("generation:2", True),
        ("gen:0,2", True),
        ("gen:permanent", False),
        ("size>1MB", True),
        ("size>2MB", False),
        ("size<2000001", True),
        ("count>9", True),
        ("!count>9", False),
        ("Session size>1MB !module:sqlalchemy", True),
        ("Session size>3MB", False),
    ],
)
def test_what_passes(text: str, passes: bool) -> None:
    assert parse_filter(text).matches(SESSION) is passes


@pytest.mark.parametrize(
    ("text", "says", "pointer"),
    [
        ("Session age:old", "does not collect", "        ^^^^^^^"),
        ("lifetime<10s", "only be bounded from below", "^^^^^^^^^^^^"),
        ("a lifetime>5m", "minutes or megabytes", "  ^^^^^^^^^^^"),
        ("lifetime>1MB lifetime>2MB", "one bound on lifetimes", "             ^^^^^^^^^^^^"),
        ("kind:", "empty", "^^^^^"),
        ("a colour:red b", "'colour' is not an attribute", "  ^^^^^^^^^^"),
        ("weight>3", "'weight' is not a measure", "^^^^^^^^"),
        ("size>lots", "'lots' is not a size", "^^^^^^^^^"),
        ("type:", "empty", "^^^^^"),
        ("type:a,,b", "empty", "^^^^^^^^^"),
        ("x !", "missing", "  ^"),
        ("!!x", "missing", "^^^"),
    ],
)
def test_a_wrong_filter_is_explained_at_the_word(text: str, says: str, pointer: str) -> None:
    with pytest.raises(UsageError, match=says) as caught:
        parse_filter(text)
    assert caught.value.message.endswith(f"\n\n    {text}\n    {pointer}")
    assert caught.value.fix


@given(texts)
def test_its_text_reads_back_as_itself(text: str) -> None:
    once = parse_filter(text)
    assert parse_filter(str(once)) == once
    assert once.text == str(once)


@given(st.text(max_size=30))
def test_any_text_is_a_filter_or_a_usage_error(text: str) -> None:
    try:
        once = parse_filter(text)
    except UsageError:
        return
    assert parse_filter(once.text) == once


@given(heaps, texts, texts)
def test_terms_are_and_ed(heap: Heap, one: str, other: str) -> None:
    (snapshot,) = snapshots([heap])
    both = set(parse_filter(f"{one} {other}").select(snapshot))
    assert both == set(parse_filter(one).select(snapshot)) & set(parse_filter(other).select(snapshot))


@given(heaps, terms)
def test_a_term_and_its_negation_part_the_heap(heap: Heap, term: str) -> None:
    (snapshot,) = snapshots([heap])
    positive = term.removeprefix("!")
    chosen = list(parse_filter(positive).select(snapshot))
    others = list(parse_filter("!" + positive).select(snapshot))
    assert sorted(map(id, chosen + others)) == sorted(map(id, snapshot.cells))


def test_a_measure_is_of_the_whole_type() -> None:
    """A type over two generations is as large as both together."""
    (snapshot,) = snapshots([{(0, 0): (1, 600), (0, 2): (1, 600), (1, 2): (1, 900)}])
    assert [cell.bytes for cell in parse_filter("size>1kB").select(snapshot)] == [600, 600]
    assert parse_filter("size>1kB").matches(snapshot.cells[0], Amount(2, 1200))


def test_no_filter_is_everything() -> None:
    assert parse_filter("  ") is EVERYTHING
    assert not EVERYTHING
    assert parse_filter("a")
