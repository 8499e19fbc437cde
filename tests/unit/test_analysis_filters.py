"""Filters: read as written, true to set algebra, and wrong ones explained at the character."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from operator import eq, ge, gt, le, lt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heaptop.analysis.filters.filters import EVERYTHING, Filter, parse_filter
from heaptop.analysis.filters.predicates import (
    And,
    BoundTerm,
    FilterFigures,
    NameTerm,
    Node,
    Not,
    Or,
    Pattern,
    all_of,
    any_of,
    negated,
)
from heaptop.analysis.heap.history import Cell
from heaptop.analysis.samples.moments import SiteCell
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
        st.sampled_from(["0", "1k", "1.5M", "2Ki"]),
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
def test_a_filter_passes_what_its_terms_say(text: str, passes: bool) -> None:
    assert parse_filter(text).matches(SESSION) is passes


@pytest.mark.parametrize(
    ("text", "says", "pointer"),
    [
        ("Session age:old", "Unknown field 'age'", "        ^^^"),
        ("age>3s", "use lifetime>10s", "^^^"),
        ("lifetime<10s", "only have lower bounds", "        ^"),
        ("a lifetime>5m", "minutes or megabytes", "           ^^"),
        ("lifetime> ", "A lifetime is missing", "          ^"),
        ("lifetime>1MB lifetime>2MB", "one lifetime bound", "             ^^^^^^^^^^^^"),
        (
            "lifetime>1MB and (a or lifetime>2MB)",
            "not combine with 'or' or 'not'",
            "                       ^^^^^^^^^^^^",
        ),
        ("a !lifetime>1MB", "not combine with 'or' or 'not'", "   ^^^^^^^^^^^^"),
        ("kind:", "empty", "     ^"),
        ("a colour:red b", "Unknown field 'colour'", "  ^^^^^^"),
        ("weight>3", "Unknown field 'weight'", "^^^^^^"),
        ("size>lots", "'lots' is not a size", "     ^^^^"),
        ("size>10s", "'10s' is a time, but size is in bytes", "     ^^^"),
        ("size > 5min x", "'5min' is a time", "       ^^^^"),
        ("count>=10kB", "'10kB' is in bytes, but count is in objects", "       ^^^^"),
        ("count>x", "'x' is not a number", "      ^"),
        ("retained=", "A number of bytes is missing", "         ^"),
        ("size:1MB", "'size' is a number", "^^^^^"),
        ("a gen>=2", "'generation' is a name", "     ^^"),
        ("type=dict", "'type' is a name", "    ^"),
        ("type:", "empty", "     ^"),
        ("type:a,,b", "empty", "       ^"),
        ("a,", "empty", "  ^"),
        ('type:""', "empty", "     ^^"),
        ('x type:"a b', "Unclosed quote", "       ^"),
        ('type:"a"b', "space or comma after the quote", "        ^"),
        ("x !", "missing at the end", "   ^"),
        ("a or ", "missing at the end", "     ^"),
        ("a or or b", "missing before 'or'", "     ^^"),
        ("and b", "missing before 'and'", "^^^"),
        ("(a or !) b", "missing before this ')'", "       ^"),
        ("(a or (b c)", "Unclosed '('", "^"),
        ("a b) c", "Unmatched ')'", "   ^"),
        ("x /a(b/", "missing ), unterminated subpattern", "    ^"),
        ("/[a-/", "unterminated character set", " ^"),
        ("module:/a b/", "Unclosed regular expression", "       ^^"),
        ("!" * 100 + "a", "levels deep", " " * 61 + "^"),
    ],
)
def test_a_wrong_filter_is_explained_at_the_character(text: str, says: str, pointer: str) -> None:
    with pytest.raises(UsageError, match=re.escape(says)) as caught:
        parse_filter(text)
    error = caught.value
    assert error.message.endswith(f"\n\n    {text}\n    {pointer}")
    assert error.fix
    assert error.place is not None
    assert " " * error.place[0] + "^" * (error.place[1] - error.place[0]) == pointer
    assert error.message.partition("\n")[0].endswith(".")


# -- trees ---------------------------------------------------------------------------------------------------

PLAIN = st.text('abS.( )*?,=/"\\!', min_size=1, max_size=5)
"""What names and quoted patterns may be made of."""
BARE = st.text("abS.*?", min_size=1, max_size=4)


@st.composite
def name_terms(draw: st.DrawFn) -> NameTerm:
    how = draw(st.sampled_from(["in", "exact", "bare", "regex"]))
    made = {
        "in": st.builds(Pattern, PLAIN),
        "exact": st.builds(Pattern, PLAIN, st.just("exact")),
        "bare": st.builds(Pattern.bare, BARE),
        "regex": st.sampled_from(["a", "^S", r"b\.", "a|b", "[ab]+$", "(a)"]).map(Pattern.regex),
    }[how]
    return NameTerm(draw(st.sampled_from(["type", "module"])), tuple(draw(st.lists(made, min_size=1, max_size=2))))


BOUNDS = st.builds(
    lambda measure, sign, number: BoundTerm(measure, sign, number, str(number)),
    st.sampled_from(["size", "count"]),
    st.sampled_from([">", ">=", "<", "<=", "="]),
    st.integers(0, 3),
)


def combined(inner: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    several = st.lists(inner, min_size=2, max_size=3)
    return st.one_of(several.map(all_of), several.map(any_of), inner.map(negated))  # type: ignore[arg-type]


TREES: st.SearchStrategy[Node] = st.recursive(st.one_of(name_terms(), BOUNDS), combined, max_leaves=8)
CELLS = st.builds(
    lambda module, name, count, size: Cell(TypeName(module, name), 2, count, size),
    PLAIN,
    PLAIN,
    st.integers(0, 3),
    st.integers(0, 3),
)


def holds(node: Node, cell: Cell) -> bool:
    """What it says, said plainly."""
    if isinstance(node, Not):
        return not holds(node.part, cell)
    if isinstance(node, And):
        return all(holds(part, cell) for part in node.parts)
    if isinstance(node, Or):
        return any(holds(part, cell) for part in node.parts)
    if isinstance(node, BoundTerm):
        value = cell.bytes if node.measure == "size" else cell.count
        compare = {">": gt, ">=": ge, "<": lt, "<=": le, "=": eq}[node.sign]
        return bool(compare(value, node.bound))
    assert isinstance(node, NameTerm)
    names = (cell.type.full, cell.type.qualname) if node.attribute == "type" else (cell.type.module,)
    return any(fits(pattern, names) for pattern in node.patterns)


def fits(pattern: Pattern, names: tuple[str, ...]) -> bool:
    if pattern.how == "in":
        return pattern.text.lower() in names[0].lower()
    if pattern.how == "exact":
        return pattern.text in names
    if pattern.how == "glob":
        return any(fnmatchcase(name.lower(), pattern.text.lower()) for name in names)
    return any(re.search(pattern.text, name, re.IGNORECASE) for name in names)


@given(TREES)
def test_every_tree_is_written_so_that_it_reads_back(node: Node) -> None:
    where = Filter(node)
    again = parse_filter(str(where))
    assert again == where
    assert again.text == where.text


@given(TREES, CELLS)
def test_a_tree_lets_through_what_it_says(node: Node, cell: Cell) -> None:
    assert parse_filter(str(Filter(node))).matches(cell) is holds(node, cell)


@given(TREES, CELLS)
def test_the_parts_of_a_tree_come_to_all_of_it(node: Node, cell: Cell) -> None:
    where = Filter(node)
    for attributes in (("type",), ("type", "module"), ("size", "count")):
        split = where.only(*attributes), where.beyond(*attributes)
        assert all(part.matches(cell) for part in split) is where.matches(cell)
        assert set(split[0].attributes) <= set(attributes)
        rest = where.without(*attributes)
        assert set(rest.attributes).isdisjoint(attributes)
        assert rest.matches(cell) or not where.matches(cell)


@given(TREES, TREES, CELLS)
def test_filters_obey_de_morgan(one: Node, other: Node, cell: Cell) -> None:
    a, b = Filter(one), Filter(other)
    for text, same in (
        (f"!(({a}) or ({b}))", f"!({a}) !({b})"),
        (f"not (({a}) and ({b}))", f"(not ({a})) or (not ({b}))"),
        (f"!!({a})", f"{a}"),
    ):
        assert parse_filter(text).matches(cell) is parse_filter(same).matches(cell)
    assert (a & b).matches(cell) is (a.matches(cell) and b.matches(cell))


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("a or b c", "a or (b c)"),
        ("a b or c d", "(a b) or (c d)"),
        ("a and b or c", "(a b) or c"),
        ("!a b", "(!a) b"),
        ("not a or b", "(not a) or b"),
        ("a AND NOT b OR c", "(a !b) or c"),
        ("a (b (c d))", "a b c d"),
        ("! a", "!a"),
        ("size > 1MB", "size>1MB"),
        ("(a)or(b)", "a or b"),
        ("main()", "type:main()"),
        ("(main())", "type:main()"),
        ("Not", "type:Not"),
        ("type:or", '"or"'),
        (r"/a\sb/", r"type:/a\sb/"),
    ],
)
def test_and_binds_tighter_than_or(text: str, same: str) -> None:
    assert parse_filter(text) == parse_filter(same)


def test_the_normal_form_has_no_more_parentheses_than_it_needs() -> None:
    text = "((a and (b)) or not (c or (d e)))"
    assert str(parse_filter(text)) == "type:a type:b or !(type:c or type:d type:e)"


@pytest.mark.parametrize(
    ("text", "passes"),
    [
        ("/^shop/", True),
        ("/^session$/", True),
        ("/ess.on,?$/,nothing", True),
        ("/sess{3,}/", False),
        ("module:/^models/", False),
        ("module:/models$/ !/token/", True),
        ('"Session"', True),
        ('"Sess*"', False),
        ('type:="shop.models.Session"', True),
        ("Basket or gen:2", True),
        ("Basket or gen:0", False),
        ("!(Basket or size>1MB)", False),
        ("!(Basket or size>3MB)", True),
        ("Basket or (gen:2 count=10)", True),
        ("count>=10 count<=10 !count>10 !count<10", True),
        ("count>=0.01k", True),
        ("size=2MB", True),
        ("size=2MiB", False),
    ],
)
def test_what_passes_a_tree(text: str, passes: bool) -> None:
    assert parse_filter(text).matches(SESSION) is passes


def test_a_site_may_begin_with_a_slash() -> None:
    cell = SiteCell(TypeName("m", "T"), "/usr/lib/x.py:3 make", "x", 0, 1, 1)
    for text in ("site:/usr/lib", "site:/lib/x.*make$/", 'site:="/usr/lib/x.py:3 make"', "site:/usr/*"):
        assert parse_filter(text).matches(cell), text
    assert not parse_filter("site:/usr/bin").matches(cell)


def test_what_names_leave_open_is_asked_of_figures() -> None:
    where = parse_filter("Session (gen:0 or size>1kB)")
    assert where.of_cell(Cell(TypeName("m", "Other"), 0, 1, 1)) is False
    assert where.of_cell(Cell(TypeName("m", "Session"), 0, 1, 1)) is True
    rest = where.of_cell(Cell(TypeName("m", "Session"), 1, 1, 1))
    assert not isinstance(rest, bool)
    assert rest(FilterFigures(size=1001, count=1))
    assert not rest(FilterFigures(size=1000, count=1))


@pytest.mark.parametrize(
    ("text", "alternatives"),
    [
        ("retainer:a", "retainer:a"),
        ("type:x retainer:a,b", "retainer:a,b"),
        ("type:x (retainer:a or retainer:/b/)", "retainer:a,/b/"),
        ("!(type:x or !retainer:a)", "retainer:a"),
        ("retainer:a retainer:b", None),
        ("!retainer:a", None),
        ("retainer:a or type:b", None),
        ("type:a", None),
    ],
)
def test_what_is_asked_of_one_attribute(text: str, alternatives: str | None) -> None:
    found = parse_filter(text).alternatives("retainer")
    assert (str(found) if found is not None else None) == alternatives


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
    assert parse_filter("size>1kB").matches(snapshot.cells[0], FilterFigures(1200, 2))


def test_no_filter_is_everything() -> None:
    assert parse_filter("  ") is EVERYTHING
    assert not EVERYTHING
    assert parse_filter("a")
