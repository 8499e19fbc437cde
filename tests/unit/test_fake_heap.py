"""The planted heap: a small graph against answers worked out by hand, and any graph against what the words mean."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heaptop.protocol import images
from heaptop.protocol.images import (
    CELL,
    KINDS,
    NO_TYPE,
    AccumulationPoint,
    Age,
    Ages,
    Blocks,
    Cells,
    Extent,
    Group,
    Groups,
    Known,
    Link,
    Live,
    Losses,
    Object,
    ObjectRow,
    Objects,
    Paths,
    Points,
    Question,
    Retainers,
    RetainerSet,
    Selection,
    StackBlocks,
    Step,
    Unit,
)
from heaptop.protocol.messages import UNTRACKED, TypeName
from tests.fakes.graph import TOP, Frame, Graph, Planted, PlantedHeap, Reference, Root
from tests.fakes.heap import LIVE_ADDRESSES, PlantedImage, Refused

MODULE, DICT, LIST, ITEM, RING = (TypeName("", name) for name in ("module", "dict", "list", "Item", "Ring"))
M, NAMES, KEPT, X, Y, G = 0x1000, 0x1100, 0x1200, 0x1300, 0x1310, 0x400000
FRAME = -1

#     module m ──► names ──.kept──► list ──[*]──► X        G ──► G
#                                     └────[*]──► Y ◄── frame f()
SIX = PlantedHeap(
    objects=(
        Planted(M, MODULE, 72, (Reference("", NAMES),)),
        Planted(NAMES, DICT, 100, (Reference(".kept", KEPT),), length=1),
        Planted(KEPT, LIST, 50, (Reference("[*]", X, "[0]"), Reference("[*]", Y, "[1]")), 1, 2, "2 items"),
        Planted(X, ITEM, 10, (), UNTRACKED, preview="a word", value="'ten'", stack=7),
        Planted(Y, ITEM, 20, (), 0, stack=7, surplus=1),
        Planted(G, RING, 7, (Reference(".itself", G),)),
    ),
    roots=(Root("module", "module m", M),),
    frames=(Frame("frame f()", (Reference("frame f() local y", Y),)),),
)
TYPES = [MODULE, DICT, LIST, ITEM, RING]
BY_MODULE, BY_NOTHING = KINDS.index("module"), KINDS.index("none")


@pytest.fixture
def six() -> PlantedImage:
    return PlantedImage(SIX)


def test_dominators_of_the_planted_heap_are_right(six: PlantedImage) -> None:
    graph = six.graph
    assert six.types == TYPES
    assert graph.roots == [M, FRAME, G]
    assert graph.parent == {M: TOP, NAMES: M, KEPT: NAMES, X: KEPT, Y: KEPT, FRAME: TOP, G: TOP}
    assert [graph.kind[each] for each in (M, Y, FRAME, G)] == [0, 0, 1, 5]
    assert graph.dominator == {TOP: TOP, M: TOP, NAMES: M, KEPT: NAMES, X: KEPT, Y: TOP, FRAME: TOP, G: TOP}
    assert graph.retained == {TOP: 259, M: 232, NAMES: 160, KEPT: 60, X: 10, Y: 20, FRAME: 0, G: 7}


def test_groups_have_counts_own_and_retained_sizes(six: PlantedImage) -> None:
    rows = tuple(
        Group(type, BY_MODULE, count, own, retained)
        for type, count, own, retained in ((0, 1, 72, 232), (1, 1, 100, 160), (2, 1, 50, 60), (3, 2, 30, 30))
    )
    assert six.answer(1, Question(images.GROUPS)) == Groups(1, (*rows, Group(4, BY_NOTHING, 1, 7, 7)))
    assert six.answer(2, Question(images.GROUPS, limit=2)) == Groups(2, rows[:2], complete=False)


def test_paths_lead_from_the_module_to_the_objects(six: PlantedImage) -> None:
    answer = six.answer(1, Question(images.PATHS, Selection(types=(2, 3))))
    assert isinstance(answer, Paths)
    assert (answer.count, answer.bytes, answer.retained, answer.other_groups) == (3, 80, 80, 0)
    a_list, items = answer.groups
    to_list = (Step("module m", 0, M), Step(".kept", 2, KEPT))
    assert (a_list.count, a_list.bytes, a_list.retained, a_list.example) == (1, 50, 60, KEPT)
    assert a_list.steps == to_list
    assert (items.count, items.bytes, items.retained, items.example) == (2, 30, 30, X)
    assert items.steps == (*to_list, Step("[*]", 3, 0))
    assert six.answer(2, Question(images.OBJECTS, Selection(path=(items.key,)), limit=1)) == Objects(
        2, 2, (ObjectRow(Y, 3, 20, 20, 0, BY_MODULE, -1, 7),)
    )


def test_one_object_has_its_path_and_references(six: PlantedImage) -> None:
    assert six.answer(1, Question(images.OBJECT, Selection(addresses=(Y,)), values=True)) == Object(
        1,
        row=ObjectRow(Y, 3, 20, 20, 0, BY_MODULE, -1, 7),
        preview="",
        path=(Step("module m", 0, M), Step(".kept", 2, KEPT), Step("[1]", 3, Y)),
        dominator=0,
        referrers=(Link("[1]", KEPT, 2, 50, 60), Link("frame f() local y", 0, NO_TYPE, 0, 0)),
        referrer_count=2,
        referents=(),
        referent_count=0,
        surplus=1,
    )
    told = six.answer(2, Question(images.OBJECT, Selection(addresses=(KEPT,)), offset=1, limit=1))
    assert isinstance(told, Object)
    assert (told.preview, told.dominator, told.referent_count) == ("2 items", NAMES, 2)
    assert told.referents == (Link("[*]", Y, 3, 20, 20),)
    assert (told.referrers, told.referrer_count) == ((), 1)


def test_values_are_shown_where_they_are_asked_for(six: PlantedImage) -> None:
    previews = []
    for values in (False, True):
        told = six.answer(1, Question(images.OBJECT, Selection(addresses=(X,)), values=values))
        assert isinstance(told, Object)
        previews.append((told.preview, told.path[-1].label))
    assert previews == [("a word", "[*]"), ("'ten'", "[0]")]


@pytest.mark.parametrize(("addresses", "why"), [((), "more than one"), ((5,), "no such object")])
def test_a_question_about_one_object_needs_exactly_one(six: PlantedImage, addresses: tuple[int, ...], why: str) -> None:
    with pytest.raises(Refused, match=why):
        six.answer(1, Question(images.OBJECT, Selection(addresses=addresses)))


def test_losses_are_counted_together_and_alone(six: PlantedImage) -> None:
    assert six.answer(1, Question(images.LOSE, Selection(addresses=(KEPT, Y)))) == Losses(
        1, objects=3, bytes=80, alone=((KEPT, 2, 60), (Y, 1, 20))
    )


def test_objects_are_grouped_by_the_set_of_their_retainers(six: PlantedImage) -> None:
    answer = six.answer(1, Question(images.RETAINERS))
    assert isinstance(answer, Retainers)
    assert answer.units == (
        Unit("module m", 0, M),
        Unit("module m .kept", 0, KEPT),
        Unit("frame f()", 1, 0),
        Unit("held by nothing", 5, G),
    )
    assert answer.rows == (
        RetainerSet((0,), False, 1, 1, 100),
        RetainerSet((0,), False, 0, 1, 72),
        RetainerSet((0,), False, 2, 1, 50),
        RetainerSet((1, 2), False, 3, 1, 20),
        RetainerSet((1,), False, 3, 1, 10),
        RetainerSet((3,), False, 4, 1, 7),
    )


def test_retainers_that_read_alike_are_one() -> None:
    hooks, one, other = 0x2000, (0x2100, 0x2110, 0x2120), (0x2200, 0x2210, 0x2220)
    chains = [
        planted
        for function, cell, item in (one, other)
        for planted in (
            Planted(function, TypeName("", "function"), 5, (Reference("closure of f: x", cell),)),
            Planted(cell, LIST, 5, (Reference("[*]", item),)),
            Planted(item, ITEM, 10, ()),
        )
    ]
    image = PlantedImage(
        PlantedHeap(
            objects=(
                Planted(M, MODULE, 72, (Reference("", NAMES),)),
                Planted(NAMES, DICT, 100, (Reference(".hooks", hooks),)),
                Planted(hooks, LIST, 50, (Reference("[*]", one[0]), Reference("[*]", other[0]))),
                *chains,
            ),
            roots=(Root("module", "module m", M),),
        )
    )
    items = Selection(types=(image.types.index(ITEM),))
    answer = image.answer(1, Question(images.RETAINERS, items))
    assert isinstance(answer, Retainers)
    assert answer.units == (Unit("module m .hooks [*] closure of f: x", 0, one[1], several=True),)
    assert [(row.units, row.count) for row in answer.rows] == [((0,), 2)]
    for address in (one[1], other[1]):
        asked = Question(images.GROUPS, Selection(items.types, retainers=(address,)))
        groups = image.answer(1, asked)
        assert isinstance(groups, Groups)
        assert [row.count for row in groups.rows] == [2]


def items_retained(six: PlantedImage, question: Question) -> list[tuple[list[str], bool, int]]:
    answer = six.answer(1, question)
    assert isinstance(answer, Retainers)
    return [([answer.units[each].label for each in row.units], row.many, row.bytes) for row in answer.rows]


def test_retainers_follow_what_the_question_excludes_and_limits(six: PlantedImage) -> None:
    items = Selection(types=(3,))
    both, one = (["module m", "frame f()"], False, 20), (["module m"], False, 10)
    assert items_retained(six, Question(images.RETAINERS, items, modules=True)) == [both, one]
    assert items_retained(six, Question(images.RETAINERS, items, excluded=(KEPT,))) == [both, one]
    assert items_retained(six, Question(images.RETAINERS, items, number=1))[0] == ([], True, 20)
    answer = six.answer(1, Question(images.RETAINERS, items, limit=1))
    assert isinstance(answer, Retainers)
    assert (len(answer.rows), answer.other_count, answer.other_bytes) == (1, 1, 10)


def test_a_selection_selects_by_all_that_it_names(six: PlantedImage) -> None:
    for selection, addresses in (
        (Selection(), [M, NAMES, KEPT, X, Y, G]),
        (Selection(types=(1, 4)), [NAMES, G]),
        (Selection(kinds=(BY_NOTHING,)), [G]),
        (Selection(stacks=(7,), addresses=(M, X)), [X]),
        (Selection(below=(NAMES,)), [KEPT, X]),
        (Selection(below=(NAMES, KEPT, G)), [KEPT, X]),
        (Selection(retainers=(KEPT,)), [X, Y]),
        (Selection(retainers=(M,)), [M, NAMES, KEPT]),
    ):
        assert six.selected(Question(images.OBJECTS, selection)) == addresses
    assert six.selected(Question(images.OBJECTS, low=0x1305, high=0x1311)) == [X, Y]
    assert six.answer(1, Question(images.STACKS)) == Blocks(1, (StackBlocks(7, 2, 30),))


def test_cells_of_a_map_say_whose_most_bytes_are(six: PlantedImage) -> None:
    low, end = Extent(M, 0x1324, 252), Extent(G, G + 7, 7)
    assert six.answer(1, Question(images.MAP)) == Cells(1, 0, 0, b"", (low, end))
    cells = six.answer(2, Question(images.MAP, limit=3, low=0x1220, high=0x1340))
    assert isinstance(cells, Cells)
    assert [CELL.unpack_from(cells.cells, at) for at in range(0, 3 * CELL.size, CELL.size)] == [
        (18, 2, 187, 1, BY_MODULE),  # 0x1220 to 0x1280: what is left of the list
        (0, NO_TYPE, 0, 255, 0),
        (30, 3, 312, 0, BY_MODULE),
    ]


def test_objects_that_an_earlier_snapshot_did_not_have_are_new() -> None:
    earlier = (*SIX.objects[:2], Planted(KEPT, LIST, 50, (Reference("[*]", X),)), SIX.objects[3])
    before = PlantedImage(PlantedHeap(earlier, SIX.roots))
    live = before.answer(1, Question(images.LIVE))
    assert isinstance(live, Live)
    assert live.next == 0
    now = PlantedImage(SIX)
    assert now.answer(2, Question(images.KNOWN, known=live.data)) == Known(2, 4)
    assert now.selected(Question(images.OBJECTS, Selection(seen=(0,)))) == [Y, G]
    with pytest.raises(Refused):
        now.answer(3, Question(images.KNOWN, known=live.data[:-1]))


def test_what_is_known_comes_in_pieces() -> None:
    many = tuple(Planted(0x10000 + 16 * each, ITEM, 16) for each in range(2 * LIVE_ADDRESSES + 1))
    image = PlantedImage(PlantedHeap(many, ()))
    pieces, at = [], -1
    while at:
        live = image.answer(1, Question(images.LIVE, offset=max(0, at)))
        assert isinstance(live, Live)
        pieces.append(live.data)
        at = live.next
    counts = [image.answer(2, Question(images.KNOWN, known=piece)) for piece in (*pieces, pieces[0])]
    assert counts == [Known(2, each) for each in (400, 800, 801, 400)]


def know(image: PlantedImage, marks: list[PlantedHeap]) -> None:
    """Send it the last of these marks; each has known the ones before it."""
    for mark, later in pairwise([*map(PlantedImage, marks), image]):
        live = mark.answer(1, Question(images.LIVE))
        assert isinstance(live, Live)
        later.answer(2, Question(images.KNOWN, known=live.data))


def test_marks_are_seen_in_a_row() -> None:
    """What was there at the first mark and not at the second is new since then; so is what is of another type now."""
    x, y, z = Planted(X, ITEM, 1), Planted(Y, ITEM, 2), Planted(G, ITEM, 4)
    first, second = PlantedHeap((x, y, z), ()), PlantedHeap((x, replace(y, type=RING)), ())
    image = PlantedImage(first)
    know(image, [first, second])
    assert {each: image.seen(each) for each in (X, Y, G)} == {X: 2, Y: 0, G: 0}
    assert image.answer(3, Question(images.AGES)) == Ages(3, (Age(0, 0, 2, 6), Age(0, 2, 1, 1)))
    assert image.selected(Question(images.OBJECTS, Selection(seen=(1, 2)))) == [X]
    know(image, [first])
    assert image.answer(3, Question(images.AGES)) == Ages(3, (Age(0, 1, 3, 7),))


def test_a_mark_begins_with_its_first_piece() -> None:
    with pytest.raises(Refused, match="first piece"):
        PlantedImage(SIX).answer(1, Question(images.KNOWN, known=(400).to_bytes(8, "little")))


# -- where it accumulates -----------------------------------------------------------------------------------


def points_of(image: PlantedImage, selection: Selection, number: int = 70) -> Points:
    answer = image.answer(1, Question(images.POINTS, selection, number=number))
    assert isinstance(answer, Points)
    return answer


def test_an_accumulation_point_is_where_the_objects_come_together(six: PlantedImage) -> None:
    assert points_of(six, Selection(addresses=(X, Y, G))) == Points(
        1,
        count=3,
        bytes=37,
        points=(
            AccumulationPoint(
                address=KEPT,
                type=2,
                kind=BY_MODULE,
                size=50,
                retained=60,
                length=2,
                seen=0,
                count=1,
                bytes=10,
                heads=1,
                head_type=3,
                head_count=1,
                head_bytes=10,
                example=X,
                path=(Step("module m", 0, M), Step(".kept", 2, KEPT)),
            ),
        ),
        loose_count=2,  # Y is held by two, G by itself
        loose_bytes=27,
    )


def tree(spec: dict[int, tuple[TypeName, int, list[int]]], *, frame: bool = False) -> PlantedImage:
    """Objects by address: type, size and what they refer to. The first one is a module, or what a frame has."""
    objects = tuple(
        Planted(address, type, size, tuple(Reference("[*]", to) for to in below))
        for address, (type, size, below) in spec.items()
    )
    root, *_ = spec
    if frame:
        local = Reference("frame f() local x", root)
        return PlantedImage(PlantedHeap(objects, (), (Frame("frame f()", (local, Reference("frame f() local y", 2))),)))
    return PlantedImage(PlantedHeap(objects, (Root("module", "module m", root),)))


def held(image: PlantedImage, *selected: int, number: int = 70) -> list[tuple[int, int]]:
    """Of each point the address, and the bytes below it."""
    return [(each.address, each.bytes) for each in points_of(image, Selection(addresses=selected), number).points]


def test_it_goes_down_while_one_child_has_most() -> None:
    image = tree(
        {
            1: (MODULE, 1, [2, 3]),
            2: (DICT, 1, [4, 5]),
            3: (LIST, 1, [6]),
            4: (ITEM, 35, []),
            5: (ITEM, 35, []),
            6: (ITEM, 30, []),
        }
    )
    assert held(image, 4, 5, 6) == [(2, 70), (3, 30)], "and what has a part of it is not left out"
    assert held(image, 3, 4, 5, 6, number=65) == [(2, 70)], "but it is where it is selected: it is a head"
    assert held(image, 4, 5, 6, number=71) == [(2, 70), (3, 30)]
    assert held(image, 2, 4, 5, 6, number=75) == [(1, 101)], "it is not divided by what is selected"


def test_it_divides_where_a_few_have_most_together() -> None:
    image = tree(
        {
            1: (MODULE, 1, [2, 3, 4]),
            2: (DICT, 1, [5]),
            3: (LIST, 1, [6]),
            4: (ITEM, 20, []),
            5: (ITEM, 40, []),
            6: (ITEM, 40, []),
        }
    )
    assert held(image, 4, 5, 6) == [(2, 40), (3, 40)]
    assert held(image, 4, 5, 6, number=81) == [(1, 100)]
    assert points_of(image, Selection(addresses=(4, 5, 6))).loose_bytes == 20


def test_a_chain_is_one_thing() -> None:
    links = {each: (ITEM, 10, [each + 1]) for each in range(3, 12)}
    image = tree({1: (MODULE, 1, [2]), 2: (DICT, 1, [3]), **links, 12: (ITEM, 10, [])})
    assert held(image, *range(3, 13)) == [(2, 100)]
    assert held(image, *range(5, 13)) == [(4, 80)], "its old part is gone down"
    nested = {each: (ITEM, 1, [each + 1]) for each in range(2, 8)}
    image = tree({1: (MODULE, 1, [2]), **nested, 8: (RING, 100, [])})
    assert held(image, *range(2, 9)) == [(7, 100)], "it does not shrink on the way"


def test_a_long_chain_is_one_thing_whoever_is_selected() -> None:
    def members(count: int) -> list[tuple[int, int]]:
        """Of a list that is linked, each with something new."""
        links = {each: (ITEM, 1, [each + 1, 100 + each]) for each in range(2, count + 2)}
        new: dict[int, tuple[TypeName, int, list[int]]] = {100 + each: (RING, 10, []) for each in links}
        image = tree({1: (MODULE, 1, [2]), **links, count + 2: (ITEM, 1, []), **new})
        return held(image, *new)

    assert members(18) == [(2, 180)]
    assert members(17) != [(2, 170)]


def test_what_several_hold_is_begun_from_where_it_has_much() -> None:
    image = tree(
        {
            1: (MODULE, 1, [2, 3, 4]),
            2: (DICT, 5, [5]),
            3: (LIST, 5, [6]),
            4: (ITEM, 80, []),
            5: (ITEM, 11, []),
            6: (ITEM, 9, []),
        }
    )
    objects = [*image.graph.objects.values()]
    roots = tuple(Root("module", "module m", each) for each in (1, 2, 3))
    image = PlantedImage(PlantedHeap(tuple(objects), roots))
    assert held(image, 2, 3, 4, 5, 6, number=100) == [(1, 80), (2, 11)]
    assert held(image, 4, 5, 6, number=100) == [(1, 80), (2, 11), (3, 9)]


@pytest.mark.parametrize("number", [0, 3, 50, 101])
def test_most_is_more_than_half(six: PlantedImage, number: int) -> None:
    with pytest.raises(Refused, match="51 to 100"):
        points_of(six, Selection(), number)


def test_a_frame_may_be_a_point() -> None:
    image = tree({1: (ITEM, 10, []), 2: (ITEM, 20, [])}, frame=True)
    (point,) = points_of(image, Selection()).points
    assert (point.address, point.type, point.size, point.retained, point.length) == (0, NO_TYPE, 0, 0, -1)
    assert (point.kind, point.count, point.heads, point.path) == (1, 2, 2, (Step("frame f()", NO_TYPE, 0),))


def chain(types: list[TypeName]) -> Graph:
    """A module and one object behind the other."""
    objects = [Planted(16 * at, type, 1, (Reference(".next", 16 * at + 16),)) for at, type in enumerate(types, 1)]
    last = Planted(16 * len(types) + 16, LIST, 1)
    return Graph(PlantedHeap((*objects, last), (Root("module", "module m", 16),)))


def test_a_row_of_one_type_is_one_step() -> None:
    graph = chain([MODULE, *[ITEM] * 5])
    assert graph.steps(16 * 7) == [
        ("module m", 16, False),
        (".next", 32, False),
        (".next", 48, False),
        (".next", 16 * 6, True),
        (".next", 16 * 7, False),
    ]
    assert graph.path_key(16 * 4) == graph.path_key(16 * 6) != graph.path_key(16 * 3)


def test_the_middle_of_a_long_path_is_left_out() -> None:
    steps = chain([ITEM, LIST] * 60).steps(16 * 121)
    assert [to for _, to, _ in steps] == [16 * each for each in (*range(1, 33), *range(90, 122))]


# -- any graph ----------------------------------------------------------------------------------------------

LABELS = st.sampled_from(["[*]", "", ".name", "closure of f: x"])


@st.composite
def heaps(draw: st.DrawFn) -> PlantedHeap:
    addresses = [16 * each for each in range(1, draw(st.integers(1, 9)) + 1)]
    references = st.lists(st.builds(Reference, LABELS, st.sampled_from(addresses)), max_size=4).map(tuple)
    types = st.sampled_from(TYPES)
    objects = tuple(Planted(each, draw(types), draw(st.integers(1, 99)), draw(references)) for each in addresses)
    roots = st.builds(Root, st.sampled_from(["module", "runtime", "c"]), st.just("a root"), st.sampled_from(addresses))
    frames = st.lists(st.builds(Frame, st.just("frame f()"), references), max_size=2).map(tuple)
    return PlantedHeap(objects, tuple(draw(st.lists(roots, max_size=3))), draw(frames))


@given(heaps())
def test_what_one_retains_is_what_nobody_reaches_without_it(heap: PlantedHeap) -> None:
    graph = Graph(heap)
    for address in graph.objects:
        without = graph.reachable(graph.roots, {address})
        lost = [each.size for each in heap.objects if each.address not in without]
        assert graph.retained[address] == sum(lost)


@given(heaps())
def test_garbage_has_no_more_roots_than_it_needs(heap: PlantedHeap) -> None:
    graph = Graph(heap)
    assert set(graph.order) == {*graph.objects, *graph.frames}
    found = [each for each in graph.roots if KINDS[graph.kind[each]] == "none"]
    for root in found:
        assert root not in graph.reachable([each for each in graph.roots if each != root])


@given(heaps(), st.booleans(), st.data())
def test_retainers_are_those_with_a_way_through_no_other_one(
    heap: PlantedHeap, modules: bool, data: st.DataObject
) -> None:
    graph = Graph(heap)
    excluded = data.draw(st.sets(st.sampled_from(sorted(graph.objects)), max_size=2))
    left_out = {graph.alike(each)[0] for each in excluded}
    candidates = {each for each in graph.candidates if graph.unit(each, modules) not in left_out}
    through = set(graph.order) - candidates
    expected: dict[int, set[int]] = {node: set() for node in graph.order}

    def tell(unit: int, node: int) -> None:
        expected[node].add(unit)
        if node in through:
            for behind in graph.reachable([node], candidates):
                expected[behind].add(unit)
                for each in graph.references[behind]:
                    expected[each.to].add(unit)

    for root in graph.roots:
        tell(graph.unit(root, modules), root)
    for candidate in candidates:
        for each in graph.references[candidate]:
            tell(graph.unit(candidate, modules), each.to)
    assert graph.retainers(modules, excluded) == expected


@given(heaps(), st.data())
def test_points_have_what_they_say_below_them_and_nothing_twice(heap: PlantedHeap, data: st.DataObject) -> None:
    image, graph = PlantedImage(heap), Graph(heap)
    selected = data.draw(st.sets(st.sampled_from(sorted(graph.objects)), min_size=1))
    answer = points_of(image, Selection(addresses=tuple(selected)), data.draw(st.integers(51, 100)))
    seen: set[int] = set()
    for point in answer.points:
        if point.address:
            below = graph.lost([point.address]) & selected - {point.address}
            assert (point.count, point.bytes) == (len(below), sum(map(graph.size, below)))
            assert below.isdisjoint(seen)
            seen |= below
        assert 0 < point.head_count <= point.heads <= len(graph.objects)
        assert point.head_bytes <= point.bytes
    assert (answer.count, answer.bytes) == (len(selected), sum(map(graph.size, selected)))
    assert answer.loose_count == len(selected) - sum(point.count for point in answer.points) >= 0
    assert answer.loose_bytes == answer.bytes - sum(point.bytes for point in answer.points)


@given(heaps())
def test_groups_and_paths_divide_the_heap(heap: PlantedHeap) -> None:
    image = PlantedImage(heap)
    groups, paths = (image.answer(1, Question(what)) for what in (images.GROUPS, images.PATHS))
    assert isinstance(groups, Groups)
    assert isinstance(paths, Paths)
    assert sum(row.bytes for row in groups.rows) == sum(row.bytes for row in paths.groups) == paths.bytes
    assert sum(row.count for row in groups.rows) == sum(row.count for row in paths.groups) == paths.count
    for group in paths.groups:
        kept = image.selected(Question(images.OBJECTS, Selection(path=(group.key,))))
        assert (len(kept), kept[0]) == (group.count, group.example)


@given(heaps(), st.data())
def test_a_step_frees_what_is_retained_along_it_where_nothing_else_keeps_that(
    heap: PlantedHeap, data: st.DataObject
) -> None:
    """And no more than that, if it is the one object asked about. What else it keeps is in its figure alone, so that it
    may be more; of what something else keeps too there is nothing in it, so that it may be less."""
    image, graph = PlantedImage(heap), Graph(heap)
    asked = data.draw(st.sets(st.sampled_from(sorted(graph.objects)), min_size=1))
    answer = image.answer(1, Question(images.PATHS, Selection(addresses=tuple(asked))))
    assert isinstance(answer, Paths)
    for group in answer.groups:
        objects = set(image.selected(Question(images.OBJECTS, Selection(addresses=tuple(asked), path=(group.key,)))))
        for step in group.steps:
            if not step.address:
                continue
            frees = graph.retained[step.address]
            if objects <= graph.lost([step.address]):
                assert frees >= group.retained
            if objects == {step.address}:
                assert frees == group.retained
