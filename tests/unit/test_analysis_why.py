"""Which type a person meant, what is said of paths, and rows by retainer set and by kind of root."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heaptop.analysis.filters.filters import EVERYTHING, parse_filter
from heaptop.analysis.heap.path_words import one_place, path_text, path_words, placed
from heaptop.analysis.snapshot.retained import check_filter, rows_by_kind, rows_by_retainer, wanted
from heaptop.analysis.snapshot.why import address_of, elided, path_json, shown_paths, types_called, why_json
from heaptop.errors import AmbiguousType, NotInHeap, UsageError
from heaptop.protocol.images import (
    KINDS,
    NO_TYPE,
    Group,
    Groups,
    Image,
    KindTotal,
    PathGroup,
    Paths,
    Place,
    Retainers,
    RetainerSet,
    Selection,
    Step,
    Unit,
)
from heaptop.protocol.messages import TypeName

TYPES = [
    TypeName("builtins", "dict"),
    TypeName("shop.models", "Session"),
    TypeName("shop.views", "Page.Session"),
    TypeName("shop.models", "Cart"),
    TypeName("shop.models", "Cart"),
    TypeName("shop.views", "make.<locals>.Handler"),
    TypeName("mydict", "dict"),
]
DICT, SESSION, PAGE, CART = range(4)
MODULE, FRAME, GARBAGE = KINDS.index("module"), KINDS.index("frame"), KINDS.index("none")


KINDS_FOUND = (KindTotal(MODULE, 90, 900), KindTotal(GARBAGE, 10, 100))
IMAGE = Image(1, 1, 5, 2_000_000, 30_000_000, 10**9, 9, 4096, 100, 250, 1_000, KINDS_FOUND, 3, False, ("a gap",))


# -- what was meant -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "ids"),
    [
        ("shop.models.Session", (SESSION,)),
        ("Page.Session", (PAGE,)),
        ("models.Cart", (3, 4)),  # two classes that share all of their name
        ("Handler", (5,)),
        ("dict", (DICT,)),  # all of a name comes before the end of another one
        ("builtins.dict", (DICT,)),
        ("mydict.dict", (6,)),
    ],
)
def test_a_type_is_told_by_its_name_or_the_end_of_it(name: str, ids: tuple[int, ...]) -> None:
    assert types_called(TYPES, name) == ids


def test_several_types_are_listed() -> None:
    with pytest.raises(AmbiguousType) as caught:
        types_called(TYPES, "Session")
    assert "2 types" in caught.value.message
    assert [line.strip() for line in caught.value.message.splitlines()[2:]] == [
        "shop.models.Session",
        "shop.views.Page.Session",
    ]


def test_a_long_list_is_cut() -> None:
    types = [TypeName(f"m{number:02}", "Row") for number in range(25)]
    with pytest.raises(AmbiguousType) as caught:
        types_called(types, "Row")
    assert caught.value.message.endswith("    m19.Row\n    (5 more)")


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("Sesion", ["shop.models.Session", "shop.views.Page.Session"]),
        ("session", ["shop.models.Session", "shop.views.Page.Session"]),
        ("shop.model.Cart", ["shop.models.Cart"]),
        ("shop.models", ["shop.models.Cart", "shop.models.Session"]),
        ("Hand", ["shop.views.make.<locals>.Handler"]),
        ("ession", ["shop.models.Session", "shop.views.Page.Session"]),
        ("Zyxw", []),
    ],
)
def test_near_misses_are_proposed(name: str, near: list[str]) -> None:
    with pytest.raises(NotInHeap) as caught:
        types_called(TYPES, name)
    first, *lines = [line.strip() for line in caught.value.message.splitlines() if line]
    assert first == f"The heap has no objects of type {name}."
    assert lines == (["Similar names:", *near] if near else [])


@given(st.lists(st.sampled_from(["a", "b", "c.D", "D", "c"]), min_size=1, max_size=6), st.sampled_from(["a", "D", "x"]))
def test_one_type_is_found_or_an_error_says_why(names: list[str], wanted: str) -> None:
    types = [TypeName("m", name) for name in names]
    full = {type.full for type in types if type.full.endswith("." + wanted)}
    if len(full) == 1:
        assert {types[id].full for id in types_called(types, wanted)} == full
    else:
        with pytest.raises(AmbiguousType if full else NotInHeap):
            types_called(types, wanted)


def test_an_address_is_hexadecimal_and_in_range() -> None:
    assert address_of("0x7f30C2a41d90") == 0x7F30C2A41D90
    assert address_of("shop.models.Session") is None
    for wrong in ("0x", "0xzz", "0x0", "0x1_0000_0000_0000_0000"):
        with pytest.raises(UsageError):
            address_of(wrong)


# -- paths ----------------------------------------------------------------------------------------------------

PATH = (
    Step("module shop.cache", 9, 0x10),
    Step("._sessions", DICT, 0x20),
    Step("[*]", SESSION, 0),
    Step(".next", SESSION, 0, repeated=True),
)


def test_a_path_in_words_and_in_json() -> None:
    assert path_words(PATH) == ["module shop.cache", "._sessions", "[*]", ".next ×n"]
    assert path_json(PATH, TYPES) == [
        "module shop.cache",
        "._sessions",
        "dict[*]",
        ".next ×n",
        "shop.models.Session",
    ]
    assert path_json((Step("frame f() value in use", SESSION, 1),), TYPES) == [
        "frame f() value in use",
        "shop.models.Session",
    ]
    assert path_json((Step("frame f()", NO_TYPE, 0), Step("[0]", DICT, 1)), TYPES) == ["frame f()", "[0]", "dict"]
    assert path_json((), TYPES) == []


LEAKY = Place("/srv/app/leaky.py", 25, "worker")


@pytest.mark.parametrize(
    ("label", "place", "said"),
    [
        ("module app .cache", None, "module app .cache"),
        ("frame work() local seen", LEAKY, "frame work() local seen · leaky.py:25 · thread worker"),
        ("frame work()", LEAKY, "frame work() · leaky.py:25 · thread worker"),
        ("frame f.<locals>.g() value in use", Place("<stdin>", 0, ""), "frame f.<locals>.g() value in use · <stdin>"),
        ("generator g() local x", Place("/a/b.py", 3, ""), "generator g() local x · b.py:3"),
        ("frame f()", Place("", 0, "worker"), "frame f()"),
    ],
)
def test_a_frame_is_said_with_where_it_is(label: str, place: Place | None, said: str) -> None:
    assert placed(label, place) == said


def test_a_path_is_named_without_where_its_frame_is() -> None:
    """A frame is elsewhere in the next snapshot: that it is the same path must be seen."""
    steps = (Step("frame work() local seen", DICT, 1, place=LEAKY), Step("[*]", SESSION, 0))
    assert path_words(steps) == ["frame work() local seen", "[*]"]
    assert path_text(steps) == ["frame work() local seen · leaky.py:25 · thread worker", "[*]"]


@pytest.mark.parametrize(
    ("other", "both"),
    [
        (LEAKY, LEAKY),
        (Place(LEAKY.file, 25, "other"), Place(LEAKY.file, 0, "")),
        (Place("/srv/app/more.py", 25, "worker"), None),
        (None, None),
    ],
)
def test_of_two_frames_that_read_alike_only_what_holds_of_both_is_said(other: Place | None, both: Place | None) -> None:
    assert one_place(LEAKY, other) == one_place(other, LEAKY) == both


WORDS = st.lists(st.text("ab.[]*", min_size=1, max_size=12), min_size=1, max_size=12)


@given(WORDS, st.integers(1, 60))
def test_what_is_elided_fits_and_keeps_its_ends(words: list[str], width: int) -> None:
    text = elided(words, width)
    whole = " ".join(words)
    assert len(text) <= width
    assert (text == whole) == (len(whole) <= width)
    if width >= 3:
        assert text[0] == whole[0]
        assert text[-1] == whole[-1]
    assert elided(words, None) == whole


def test_words_of_the_middle_give_way_first() -> None:
    words = ["module app", "._a", "[*]", "._b", "[*]", ".user"]
    assert elided(words, 30) == "module app ._a [*] … [*] .user"
    assert elided(words, 22) == "module app ._a … .user"
    assert elided(words, 19) == "module app … .user"
    assert elided(words, 11) == "modul….user"


# -- documents ------------------------------------------------------------------------------------------------

GROUPS = (
    PathGroup(1, MODULE, 70, 700, 7_000, 0x100, PATH[:3]),
    PathGroup(2, FRAME, 20, 200, 250, 0x200, (Step("frame worker() local rows", DICT, 5), Step("[*]", SESSION, 0))),
)
PATHS = Paths(7, 100, 1_000, 7_500, GROUPS, other_groups=2)


def test_what_the_paths_shown_leave_out() -> None:
    shown, rest = shown_paths(PATHS, 1)
    assert shown == GROUPS[:1]
    assert (rest.groups, rest.count, rest.bytes) == (3, 30, 300)
    shown, rest = shown_paths(PATHS, None)
    assert shown == GROUPS
    assert (rest.groups, rest.count, rest.bytes) == (2, 10, 100)


def test_the_document_of_why() -> None:
    document = why_json(PATHS, IMAGE, TYPES, "shop.models.Session", pid=7, python="3.12.1", most=1)
    assert document == {
        "schema": "heaptop.why",
        "version": 1,
        "pid": 7,
        "python": "3.12.1",
        "type": "shop.models.Session",
        "count": 100,
        "bytes": 1_000,
        "retained": 7_500,
        "complete": True,
        "paths": [
            {
                "count": 70,
                "bytes": 700,
                "retained": 7_000,
                "kind": "module",
                "path": ["module shop.cache", "._sessions", "dict[*]", "shop.models.Session"],
                "example": "0x100",
            }
        ],
        "other": {"groups": 3, "count": 30, "bytes": 300},
        "retainers": None,
        "pause_ms": 2.0,
        "build_ms": 30.0,
        "snapshot": {"objects": 100, "references": 250, "bytes": 1_000, "memory": 4096},
        "garbage": {"count": 10, "bytes": 100, "cycles": 3, "gc_enabled": False},
        "gaps": ["a gap"],
    }


# -- rows -----------------------------------------------------------------------------------------------------

UNITS = (
    Unit("module app .cache", MODULE, 0x10),
    Unit("frame f() local rows", FRAME, 0),
    Unit("frame f() local rows", FRAME, 0),  # of another thread
)
SETS = Retainers(
    7,
    2,
    UNITS,
    (
        RetainerSet((), True, DICT, 5, 900),
        RetainerSet((0,), False, SESSION, 10, 500),
        RetainerSet((0,), False, DICT, 1, 64),
        RetainerSet((1,), False, DICT, 2, 50),
        RetainerSet((2,), False, DICT, 3, 60),
        RetainerSet((0, 1), False, DICT, 1, 40),
        RetainerSet((), False, DICT, 1, 30),
    ),
)


def test_rows_by_retainer_are_ordered_by_size() -> None:
    rows = rows_by_retainer(SETS, TYPES, EVERYTHING)
    assert [(row.name, row.count, row.bytes, row.retainers) for row in rows] == [
        ("(more than 2)", 5, 900, None),
        ("module app .cache", 11, 564, ("module app .cache",)),
        ("frame f() local rows", 5, 110, ("frame f() local rows",)),
        ("frame f() local rows + module app .cache", 1, 40, ("frame f() local rows", "module app .cache")),
        ("(no retainer)", 1, 30, ("(no retainer)",)),
    ]


@pytest.mark.parametrize(
    ("where", "names"),
    [
        ("type:Session", ["module app .cache"]),
        ("retainer:f() !retainer:cache", ["frame f() local rows"]),
        ("retainer:=(more", []),
    ],
)
def test_rows_by_retainer_are_filtered(where: str, names: list[str]) -> None:
    assert [row.name for row in rows_by_retainer(SETS, TYPES, parse_filter(where))] == names


KINDLY = Groups(
    7,
    (
        Group(DICT, MODULE, 5, 900, 0),
        Group(SESSION, MODULE, 5, 90, 0),
        Group(DICT, GARBAGE, 1, 64, 0),
        Group(SESSION, FRAME, 2, 5_000, 0),
    ),
)


@pytest.mark.parametrize(
    ("where", "rows"),
    [
        ("", [("frame", 2, 5_000), ("module", 10, 990), ("none", 1, 64)]),
        ("type:=dict", [("module", 5, 900), ("none", 1, 64)]),
        ("kind:module,none", [("module", 10, 990), ("none", 1, 64)]),
        ("size<1000", [("module", 5, 900), ("none", 1, 64)]),
    ],
)
def test_rows_by_kind_sum_what_a_filter_passes(where: str, rows: list[tuple[str, int, int]]) -> None:
    found = rows_by_kind(KINDLY, TYPES, parse_filter(where))
    assert [(row.name, row.count, row.bytes) for row in found] == rows


def test_which_types_are_asked_for() -> None:
    assert wanted(EVERYTHING, TYPES) == Selection()
    assert wanted(parse_filter("kind:c size>10"), TYPES) == Selection(kinds=(KINDS.index("c"),))
    assert wanted(parse_filter("type:Session module:shop.models"), TYPES) == Selection(types=(SESSION,))
    with pytest.raises(UsageError, match="No type in the heap matches type:Nix"):
        wanted(parse_filter("type:Nix"), TYPES)
    with pytest.raises(UsageError, match="6,000 types"):
        wanted(parse_filter("module:m"), [TypeName("n", "T"), *(TypeName("m", f"T{each}") for each in range(6_000))])


@pytest.mark.parametrize(
    ("by", "where", "unknown"),
    [
        ("kind", "generation:2", "generation"),
        ("retainer", "size>1MB", "size"),
        ("retainer", "site:views.py", "site"),
        ("kind", "lifetime>3s", "lifetime"),
    ],
)
def test_what_rows_do_not_know_is_refused(by: str, where: str, unknown: str) -> None:
    with pytest.raises(UsageError, match=f"Counts by {by} have no {unknown}"):
        check_filter(by, parse_filter(where))
