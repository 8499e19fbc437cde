"""Rows, trees and words of what an open snapshot has answered."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heaptop.analysis.filters.filters import parse_filter
from heaptop.analysis.snapshot.retaining import (
    MOST_TYPES,
    FreedIfDropped,
    Node,
    PathTree,
    RetainerRow,
    first_opened,
    garbage_words,
    kept,
    kind_rows,
    left_out_rows,
    list_rows,
    names_only,
    narrowed,
    opened_below,
    own_part,
    set_rows,
    short_name,
    sorted_rows,
    texts_down,
    tree_rows,
    type_rows,
)
from heaptop.errors import UsageError
from heaptop.protocol.images import (
    KINDS,
    NO_TYPE,
    PATHS,
    Group,
    Groups,
    Losses,
    PathGroup,
    Paths,
    Place,
    Question,
    Retainers,
    RetainerSet,
    Selection,
    Step,
    Unit,
)
from heaptop.protocol.messages import TypeName
from tests.fakes.heap import PlantedImage
from tests.fakes.shop import shop

MODULE, FRAMES, C, NONE = (KINDS.index(kind) for kind in ("module", "frame", "c", "none"))
TYPES = [TypeName("builtins", "dict"), TypeName("app", "Session"), TypeName("app", "User"), TypeName("lib", "Session")]
DICT, SESSION, USER, OTHER = range(4)


def groups(*rows: tuple[int, int, int, int, int]) -> Groups:
    return Groups(1, tuple(Group(*row) for row in rows))


HEAP = groups(
    (SESSION, MODULE, 10, 1_000, 5_000),
    (DICT, MODULE, 3, 300, 9_000),
    (DICT, FRAMES, 2, 400, 700),
    (USER, NONE, 4, 200, 200),
)


# -- rows by type and kind -----------------------------------------------------------------------------------


def test_a_row_a_type_sums_up_its_kinds() -> None:
    rows = {row.name: row for row in type_rows(HEAP, TYPES)}
    assert rows["dict"] == RetainerRow("dict", "dict", 5, 700, 9_700, (("frame", 400), ("module", 300)))
    assert rows["app.Session"].kinds == (("module", 1_000),)
    assert list(rows) == ["app.Session", "dict", "app.User"]


def test_what_retains_objects_of_one_type_adds_up_over_kinds() -> None:
    """In any heap: an object that keeps another one has its kind."""
    image = PlantedImage(shop())
    answer = image.answer(1, Question(1, limit=10_000))
    assert isinstance(answer, Groups)
    for row in type_rows(answer, image.types):
        id = next(id for id, name in enumerate(image.types) if name.full == row.name)
        whole = image.answer(2, Question(PATHS, Selection(types=(id,))))
        assert isinstance(whole, Paths)
        assert (row.count, row.bytes, row.retained) == (whole.count, whole.bytes, whole.retained)


def test_a_row_a_kind_in_the_order_of_roots() -> None:
    rows = kind_rows(HEAP, TYPES)
    assert [(row.key, row.kind, row.count, row.bytes) for row in rows] == [
        ("module", MODULE, 13, 1_300),
        ("frame", FRAMES, 2, 400),
        ("none", NONE, 4, 200),
    ]
    assert rows[0].types == (("app.Session", 1_000), ("dict", 300))
    assert "garbage" in rows[-1].name


@pytest.mark.parametrize(
    ("cycles", "collects", "words"),
    [(0, True, "0 cycles, gc on"), (1, False, "1 cycle, gc off"), (2, False, "2 cycles")],
)
def test_words_for_garbage_say_cycles_and_whether_gc_is_on(cycles: int, collects: bool, words: str) -> None:
    assert garbage_words(cycles, collects=collects).startswith(words)


def test_rows_are_sorted_ties_by_name_and_the_rest_is_the_last_name() -> None:
    rows = [
        RetainerRow("b", "b", 1, 5),
        RetainerRow("a", "a", 3, 5),
        RetainerRow("r", "(rest)", 9, 9, rest=True),
        RetainerRow("c", "c", 2, 7),
    ]
    assert [row.name for row in sorted_rows(rows, "bytes", descending=True)] == ["(rest)", "c", "a", "b"]
    assert [row.name for row in sorted_rows(rows, "share", descending=False)] == ["a", "b", "c", "(rest)"]
    assert [row.name for row in sorted_rows(rows, "name", descending=True)] == ["c", "b", "a", "(rest)"]
    assert [row.name for row in sorted_rows(rows, "count", descending=True)] == ["(rest)", "a", "c", "b"]


@pytest.mark.parametrize(
    ("full", "short"),
    [
        ("shop.models.Session", "Session"),
        ("shop.models.Basket.Line", "Basket.Line"),
        ("dict", "dict"),
        ("functools._lru_list_elem", "_lru_list_elem"),
    ],
)
def test_a_short_name_is_the_class_without_its_module(full: str, short: str) -> None:
    assert short_name(full) == short


# -- the filter ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "within", "types", "kinds"),
    [
        ("", (), (), ()),
        ("Session", (), (SESSION, OTHER), ()),
        ("type:=app.Session", (), (SESSION,), ()),
        ("!module:builtins", (), (SESSION, USER, OTHER), ()),
        ("module:app Session", (), (SESSION,), ()),
        ("module:app", (SESSION, DICT), (SESSION,), ()),
        ("kind:frame,c", (), (), (FRAMES, C)),
        ("!kind:module Session", (), (SESSION, OTHER), tuple(range(1, len(KINDS)))),
    ],
)
def test_what_a_filter_leaves_of_a_selection(text: str, within: tuple[int, ...], types: object, kinds: object) -> None:
    found = narrowed(parse_filter(text), TYPES, Selection(types=within, seen=(0,)))
    assert found is not None
    assert (found.types, found.kinds, found.seen) == (types, kinds, (0,))


@pytest.mark.parametrize("text", ["Parcel", "kind:nowhere", "module:app module:lib"])
def test_a_filter_that_leaves_nothing(text: str) -> None:
    assert narrowed(parse_filter(text), TYPES, Selection()) is None


def test_a_filter_that_leaves_more_types_than_a_question_has_room_for() -> None:
    types = [TypeName("app", f"Made{number}") for number in range(MOST_TYPES + 1)]
    found = narrowed(parse_filter("!Made0"), types[:-1], Selection())
    assert found is not None
    assert len(found.types) == MOST_TYPES - 1
    with pytest.raises(UsageError, match="5,001 types match module:app"):
        narrowed(parse_filter("module:app"), [*types, TypeName("lib", "Other")], Selection())
    assert narrowed(parse_filter("module:app"), types, Selection()) == Selection(), "all of them pass"


def test_a_filter_beside_what_was_selected_already() -> None:
    assert narrowed(parse_filter("User"), TYPES, Selection(types=(DICT,))) is None
    found = narrowed(parse_filter("kind:c,frame"), TYPES, Selection(kinds=(C,)))
    assert found is not None
    assert found.kinds == (C,)


@pytest.mark.parametrize("text", ["Session", "kind:frame", "!kind:module User", "module:nowhere"])
def test_groups_and_selections_are_filtered_alike(text: str) -> None:
    where = parse_filter(text)
    found = narrowed(where, TYPES, Selection())
    left = kept(HEAP, where, TYPES, "type").rows
    assert left == tuple(
        row
        for row in HEAP.rows
        if found is not None
        and (not found.types or row.type in found.types)
        and (not found.kinds or row.kind in found.kinds)
    )


def rows_of(text: str, key: str) -> list[str]:
    left = kept(HEAP, parse_filter(text), TYPES, key)
    return sorted(row.name for row in (kind_rows if key == "kind" else type_rows)(left, TYPES))


@pytest.mark.parametrize("key", ["type", "kind"])
def test_bounds_are_on_rows(key: str) -> None:
    """Whatever the names leave of them."""
    for text in ("", "kind:module", "!Session"):
        rows = (kind_rows if key == "kind" else type_rows)(kept(HEAP, parse_filter(text), TYPES, key), TYPES)
        for row in rows:
            assert row.name in rows_of(f"{text} size>={row.bytes} size<={row.bytes} count={row.count}", key)
            assert row.name not in rows_of(f"{text} size>{row.bytes}", key)
            assert row.name not in rows_of(f"{text} !count={row.count}", key)
    for row in type_rows(HEAP, TYPES):
        assert row.name in rows_of(f"retained={row.retained}", "type")
        assert row.name not in rows_of(f"retained<{row.retained}", "type")


def test_a_bound_under_or_leaves_the_groups_of_a_row_that_pass_without_it() -> None:
    rows = type_rows(HEAP, TYPES)
    largest = max(rows, key=lambda row: row.bytes)
    text = f"kind:none or size>={largest.bytes}"
    assert largest.name in rows_of(text, "type")
    left = kept(HEAP, parse_filter(text), TYPES, "type").rows
    assert {KINDS[row.kind] for row in left if TYPES[row.type].full != largest.name} <= {"none"}


@pytest.mark.parametrize(
    ("text", "types", "kinds"),
    [
        ("kind:module or type:Session type:dict", (), ("module",)),
        ("type:=app.Session or module:nowhere", ("app.Session",), ()),
        ("!(kind:module or kind:c)", (), ("frame", "runtime", "interpreter", "none")),
        ("(type:=app.Session kind:c) or (type:=app.Session kind:none)", ("app.Session",), ("c", "none")),
    ],
)
def test_what_comes_to_types_times_kinds_is_asked_for(text: str, types: tuple[str], kinds: tuple[str]) -> None:
    found = narrowed(parse_filter(text), TYPES, Selection())
    assert found is not None
    assert tuple(TYPES[id].full for id in found.types) == types
    assert tuple(KINDS[kind] for kind in found.kinds) == kinds


def test_what_does_not_is_refused() -> None:
    with pytest.raises(UsageError, match="different types for each kind") as caught:
        narrowed(parse_filter("kind:module or type:Session"), TYPES, Selection())
    assert "one set of types and one set of kinds" in caught.value.why


@pytest.mark.parametrize("text", ["!type:a,=b.C kind:c size>3 retained<9", "count>1", "gen:2"])
def test_a_filter_without_its_bounds(text: str) -> None:
    where = names_only(parse_filter(text))
    assert not where.bounded
    assert parse_filter(str(where)) == where


# -- retainer sets -------------------------------------------------------------------------------------------


UNITS = (
    Unit("module app.cache ._sessions", MODULE, 16),
    Unit("module app.views .recent", MODULE, 32),
    Unit("held by C", C, 48),
    Unit("held by C", C, 64),
)


def test_retainer_sets_of_one_name_are_one_row() -> None:
    sets = (
        RetainerSet((0,), False, SESSION, 5, 500),
        RetainerSet((0, 1), False, SESSION, 2, 200),
        RetainerSet((0,), False, DICT, 5, 900),
        RetainerSet((), True, DICT, 3, 100),
        RetainerSet((), True, USER, 1, 50),
        RetainerSet((), False, USER, 1, 8),
        RetainerSet((2,), False, DICT, 1, 70),
        RetainerSet((3,), False, DICT, 1, 30),
    )
    rows = set_rows(Retainers(1, 3, UNITS, sets, other_count=7, other_bytes=77), TYPES)
    assert [(row.name, row.count, row.bytes) for row in rows] == [
        ("module app.cache ._sessions", 10, 1_400),
        ("module app.cache ._sessions + module app.views .recent", 2, 200),
        ("MANY: more than 3 retainers each", 4, 150),
        ("(no retainer)", 1, 8),
        ("held by C ×2", 2, 100),
        ("(small sets)", 7, 77),
    ]
    assert rows[0].types == (("dict", 900), ("app.Session", 500))
    assert rows[0].units == UNITS[:1]
    assert rows[1].units == UNITS[:2]
    assert rows[4].units == UNITS[2:]
    assert [row.many for row in rows] == [False, False, True, False, False, False]
    assert len({row.key for row in rows}) == len(rows)


def test_sets_of_too_many_retainers_are_one_row() -> None:
    (row,) = set_rows(Retainers(1, 1, (), (RetainerSet((), True, DICT, 1, 1),)), TYPES)
    assert row.name == "MANY: more than 1 retainer each"


def test_what_was_left_out_stands_last() -> None:
    rows = sorted_rows([*left_out_rows(UNITS[:1]), RetainerRow("x", "x", 1, 1)], "name", descending=False)
    assert [row.name for row in rows] == ["x", "excluded: module app.cache ._sessions"]


# -- the tree ------------------------------------------------------------------------------------------------


def path(text: str, *, count: int = 1, size: int = 10, retained: int = 100, types: Sequence[int] = ()) -> PathGroup:
    """Steps with a blank between; each leads to the address that its place is, the last to a Session."""
    labels = text.split()
    kinds = [*types, *[DICT] * (len(labels) - 1 - len(types)), SESSION][-len(labels) :]
    steps = tuple(Step(label, kind, place + 1) for place, (label, kind) in enumerate(zip(labels, kinds, strict=True)))
    return PathGroup(hash(text) & 0xFFFF, MODULE, count, size, retained, 77, steps)


def paths(*found: PathGroup, retained: int | None = None, other: tuple[int, int, int] = (0, 0, 0)) -> Paths:
    number, count, size = other
    sums = [sum(getattr(group, name) for group in found) for name in ("count", "bytes", "retained")]
    whole = sums[2] if retained is None else retained
    return Paths(1, sums[0] + count, sums[1] + size, whole, found, other_groups=number)


def child(node: Node, label: str) -> Node:
    (found,) = (each for each in node.below.values() if each.label == label)
    return found


def test_paths_are_merged_where_they_read_alike() -> None:
    tree = PathTree(
        paths(
            path("app .cache [*]", count=8, size=80, retained=800),
            path("app .cache .last", count=1, size=10, retained=20),
            path("app .names [*]", count=2, size=30, retained=300),
        ),
        TYPES,
    )
    (app,) = tree.top.children("retained")
    assert (app.label, app.count, app.bytes, app.retained, app.address) == ("app", 11, 120, 1_120, 1)
    cache, names = app.children("retained")
    assert (cache.label, cache.count, cache.retained, cache.text) == (".cache", 9, 820, "app .cache")
    assert [node.label for node in app.children("retained", descending=False)] == [".names", ".cache"]
    assert child(cache, "[*]").address == 0, "eight objects"
    assert child(cache, ".last").address == 3
    assert tree.share(names, "retained") == pytest.approx(300 / 1_120)
    assert tree.share(names, "count") == pytest.approx(2 / 11)


def test_what_leads_to_several_objects_has_no_address() -> None:
    one, other = path("app .a .x"), path("app .a .y")
    moved = PathGroup(5, MODULE, 1, 1, 1, 7, (other.steps[0], Step(".a", DICT, 999), other.steps[2]))
    tree = PathTree(paths(one, moved), TYPES)
    (app,) = tree.top.below.values()
    assert (app.address, child(app, ".a").address) == (1, 0)


def test_steps_to_other_types_are_others() -> None:
    tree = PathTree(paths(path("app .a x", types=[DICT, DICT]), path("app .a x", types=[DICT, USER])), TYPES)
    (app,) = tree.top.below.values()
    assert sorted(node.type for node in app.below.values()) == ["app.User", "dict"]


def test_a_frame_is_where_all_that_are_merged_into_it_are() -> None:
    here, there = Place("/app/leaky.py", 25, "worker"), Place("/app/leaky.py", 25, "other")
    steps = [
        (Step("frame f() local x", DICT, 3, place=place), Step(f".{n}", SESSION, 4))
        for n, place in enumerate((here, here, there))
    ]
    groups = [PathGroup(n, FRAMES, 1, 1, 1, 7, each) for n, each in enumerate(steps)]
    (one,) = PathTree(paths(*groups[:2]), TYPES).top.below.values()
    (both,) = PathTree(paths(*groups), TYPES).top.below.values()
    assert (one.key, one.place, both.place) == (both.key, here, Place("/app/leaky.py", 0, ""))


def test_a_retainer_that_is_a_frame_says_where_it_is() -> None:
    """And its row is known again when it is elsewhere."""
    frame = Unit("frame f() local x", FRAMES, 0, place=Place("/app/leaky.py", 25, "worker"))
    other = Unit("frame f() local x", FRAMES, 0, place=Place("/app/leaky.py", 25, "other"))

    def row(*units: Unit) -> tuple[str, str]:
        sets = tuple(RetainerSet((place,), False, DICT, 1, 1) for place in range(len(units)))
        (found,) = set_rows(Retainers(1, 3, units, sets), TYPES)
        return found.key, found.name

    assert row(frame) == ("frame f() local x#()", "frame f() local x · leaky.py:25 · thread worker")
    assert row(frame, other) == ("frame f() local x#()", "frame f() local x · leaky.py ×2")


def test_a_frame_has_no_type() -> None:
    group = PathGroup(1, FRAMES, 1, 1, 1, 7, (Step("frame f()", NO_TYPE, 0), Step(".x", SESSION, 3)))
    tree = PathTree(paths(group), TYPES)
    assert [node.type for node in tree.top.below.values()] == ["frame"]


def test_sums_are_exact_where_nothing_is_in_two_figures() -> None:
    groups = path("app .a", retained=100), path("app .b", retained=50)
    exact, nested, cut = (
        PathTree(paths(*groups), TYPES),
        PathTree(paths(*groups, retained=100), TYPES),
        PathTree(paths(*groups, retained=150, other=(1, 1, 1)), TYPES),
    )
    for tree, whole in ((exact, True), (nested, False), (cut, False)):
        (app,) = tree.top.below.values()
        assert tree.is_exact(app) is whole
        assert all(tree.is_exact(node) for node in app.below.values()), "one group each"
        assert tree.most(app) == min(150, tree.answer.retained)
    assert nested.share(child(nested.top, "app"), "retained") == 1.0
    assert cut.other == (1, 1)


def test_lines_of_the_tree() -> None:
    tree = PathTree(
        paths(
            path("app .cache [*]", count=8, size=80, retained=800),
            path("app .cache", count=1, size=10, retained=900),
            path("app .one .way", retained=1),
            other=(3, 30, 300),
        ),
        TYPES,
    )
    (app,) = tree.top.below.values()
    assert [(row.what, row.depth) for row in tree_rows(tree, set(), "retained")] == [("closed", 0), ("rest", 0)]
    opened = {node.key for node in (app, *app.below.values())}
    rows = tree_rows(tree, opened, "retained")
    assert [(row.what, row.depth, row.node.label) for row in rows] == [
        ("open", 0, "app"),
        ("leaf", 1, ".cache"),  # to a Session, as the dict of that name is another object
        ("open", 1, ".cache"),
        ("leaf", 2, "[*]"),
        ("open", 1, ".one"),
        ("leaf", 2, ".way"),
        ("rest", 0, ""),
    ]
    assert len({row.key for row in rows}) == len(rows)
    upwards = tree_rows(tree, opened, "retained", descending=False)
    assert [row.node.label for row in upwards if row.depth == 1] == [".one", ".cache", ".cache"]


def test_steps_of_several_objects_with_the_same_figures_are_one_line_until_unfolded() -> None:
    tree = PathTree(paths(path("app .all [*] .log [*] .a"), path("app .all [*] .log [*] .b"), path("app .none")), TYPES)
    (app,) = tree.top.below.values()
    opened, step = set[str](), app
    while step.below:
        opened.add(step.key)
        step = next(iter(step.below.values()))
    for label in (".all", "[*]", ".log", "[*]"):
        step = child(step if label != ".all" else app, label)
        step.address = 1 if label == ".all" else 0

    def lines(*unfolded: str) -> list[tuple[int, str]]:
        rows = tree_rows(tree, opened, "bytes", unfolded=unfolded)
        assert len({row.key for row in rows}) == len(rows)
        return [(row.depth, " ".join(each.label for each in (*row.folded, row.node))) for row in rows]

    assert lines() == [(0, "app"), (1, ".all"), (2, "[*] .log [*]"), (3, ".a"), (3, ".b"), (1, ".none")]
    (head,) = {row.head for row in tree_rows(tree, opened, "bytes") if row.folded}
    unfolded = [(2, "[*]"), (3, ".log"), (4, "[*]"), (5, ".a"), (5, ".b")]
    assert lines(head) == [(0, "app"), (1, ".all"), *unfolded, (1, ".none")]
    assert {row.head for row in tree_rows(tree, opened, "bytes", unfolded=[head]) if 2 <= row.depth <= 4} == {head}


def test_objects_along_a_step_that_leads_on() -> None:
    groups = path("app .head", count=1, size=5, retained=60), path("app .head .next", types=[DICT, SESSION])
    tree = PathTree(paths(*groups), TYPES)
    app = child(tree.top, "app")
    rows = tree_rows(tree, {*opened_below(app, "retained"), child(app, ".head").key}, "retained")
    assert [(row.what, row.node.label, row.node.count) for row in rows] == [
        ("open", "app", 2),
        ("open", ".head", 2),
        ("own", ".head", 1),
        ("leaf", ".next", 1),
    ]
    assert (rows[2].node.bytes, rows[2].node.retained, rows[2].node.below) == (5, 60, {})


def test_a_new_tree_shows_where_most_is() -> None:
    tree = PathTree(
        paths(
            path("app .big .a", retained=60),
            path("app .big .b", retained=50),
            path("app .big .c", retained=50),
            path("lib .x", retained=20),
        ),
        TYPES,
    )
    opened = first_opened(tree, "retained")
    assert [row.node.label for row in tree_rows(tree, opened, "retained")] == ["app", ".big", ".a", ".b", ".c", "lib"]
    assert first_opened(PathTree(paths(), TYPES), "retained") == set()


def test_expanding_goes_on_where_there_is_one_way() -> None:
    tree = PathTree(paths(path("app .a .b .c"), path("app .a .b .d"), path("lib .x")), TYPES)
    app = child(tree.top, "app")
    assert [key.count("\n") for key in opened_below(app, "retained")] == [1, 2, 3]


def test_a_list_of_paths() -> None:
    found = path("app .a", retained=10), path("app .a .b", retained=30, types=[DICT, SESSION]), path("lib", retained=20)
    tree = PathTree(paths(*found, other=(2, 2, 2)), TYPES)
    rows = list_rows(tree, "retained")
    assert [(row.node.text, row.node.retained) for row in rows[:-1]] == [("app .a .b", 30), ("lib", 20), ("app .a", 10)]
    assert rows[-1].what == "rest"
    assert [row.node.text for row in list_rows(tree, "retained", descending=False)][:1] == ["app .a"]


def test_names_of_steps_as_retainers() -> None:
    steps = (Step("module app", DICT, 1), Step("", DICT, 2), Step(".cache", DICT, 3))
    assert texts_down(steps) == ["module app", "module app", "module app .cache"]


LABELS = st.sampled_from(["module a", ".b", "[*]", ".c"])
GROUPS = st.builds(
    lambda labels, kinds, count, size, more: PathGroup(
        hash((labels, kinds)),
        0,
        count,
        size,
        size + more,
        7,
        tuple(Step(label, kind, 5) for label, kind in zip(labels, kinds, strict=False)),
    ),
    st.lists(LABELS, min_size=1, max_size=5).map(tuple),
    st.lists(st.integers(0, 3), min_size=5, max_size=5).map(tuple),
    st.integers(1, 9),
    st.integers(1, 99),
    st.integers(0, 99),
)


@given(st.lists(GROUPS, max_size=12))
def test_every_path_is_in_the_tree_once(found: list[PathGroup]) -> None:
    tree = PathTree(paths(*found), TYPES)
    opened = {"", *(row.key for row in _all_rows(tree))}
    rows = tree_rows(tree, opened, "bytes")
    ends = [group for row in rows if row.what in ("leaf", "own") for group in row.node.ends]
    assert sorted(map(id, ends)) == sorted(map(id, found))
    for row in rows:
        node = row.node
        if row.what == "open":
            parts = [*node.below.values(), own_part(node)]
            for name in ("count", "bytes", "retained"):
                assert node.amount(name) == sum(part.amount(name) for part in parts)
    assert len({row.key for row in rows}) == len(rows)
    assert sum(row.node.count for row in list_rows(tree, "count")) == tree.answer.count


def _all_rows(tree: PathTree) -> list[Node]:
    nodes = [*tree.top.below.values()]
    for node in nodes:
        nodes += node.below.values()
    return nodes


# -- what would go -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("whole", "alone", "shared", "words"),
    [
        ((5, 2_048), {16: (5, 2_048)}, 0, "dropping it frees 2.00 KiB, 5 objects"),
        (
            (9, 3_072),
            {16: (2, 512), 32: (3, 512)},
            2_048,
            "dropping both frees 3.00 KiB, 9 objects; 2.00 KiB of it shared",
        ),
        (
            (9, 3_072),
            {16: (9, 3_072), 32: (3, 512)},
            -512,
            "dropping both frees 3.00 KiB, 9 objects; one keeps another",
        ),
        (
            (6, 600),
            {16: (2, 200), 32: (2, 200), 48: (2, 200)},
            0,
            "dropping all 3 frees 600 B, 6 objects; 0 B of it shared",
        ),
    ],
)
def test_what_dropping_frees_is_put_in_words(
    whole: tuple[int, int], alone: dict[int, tuple[int, int]], shared: int, words: str
) -> None:
    drop = FreedIfDropped.of(Losses(1, *whole, tuple((address, *sums) for address, sums in alone.items())))
    assert (drop.alone, drop.shared, drop.words) == (alone, shared, words)


def test_of_a_partial_answer_nothing_is_said_to_be_shared() -> None:
    assert (
        FreedIfDropped.of(Losses(1, 9, 900, ((16, 1, 1), (32, 1, 1)), complete=False)).words
        == "dropping both frees 900 B, 9 objects"
    )
