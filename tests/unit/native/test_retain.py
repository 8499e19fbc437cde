"""What keeps objects, on graphs that hypothesis makes up, against the definitions. The C is compiled alone."""

from __future__ import annotations

import contextlib
import ctypes
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fakes.graph import TOP
from tests.fakes.points import Accumulation
from tests.support import graphs
from tests.support.core_builds import retain_library, sanitized_throughout
from tests.support.graphs import NONE, ROOT, Graph, graph_of

UNREACHED = 255
MANY = 1

no_deadline = settings(deadline=None)


class Large(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint64), ("object", ctypes.c_uint32)]


class Csr(ctypes.Structure):
    _fields_ = [
        ("count", ctypes.c_uint32),
        ("first", ctypes.c_void_p),
        ("edges", ctypes.c_void_p),
        ("sizes", ctypes.c_void_p),
        ("large", ctypes.POINTER(Large)),
        ("large_count", ctypes.c_uint32),
    ]


@cache
def parts() -> ctypes.CDLL:
    loaded = ctypes.CDLL(str(retain_library(sanitized=sanitized_throughout())))
    loaded.parts_retain.restype = loaded.parts_retainers.restype = loaded.parts_looks.restype = ctypes.c_int64
    loaded.parts_points.restype = ctypes.c_int64
    return loaded


def words(numbers: Sequence[int]) -> array[int]:
    return array("I", numbers)


def pointer(numbers: array[int]) -> ctypes.c_void_p:
    return ctypes.c_void_p(numbers.buffer_info()[0])


@dataclass(frozen=True)
class Native:
    """A graph as the core has it."""

    csr: Csr
    kept: object
    """What it points into."""

    @classmethod
    def of(cls, graph: Graph) -> Native:
        sizes = words([min(size, NONE) for size in graph.sizes])
        large = [Large(size, number) for number, size in enumerate(graph.sizes) if size >= NONE]
        table = (Large * len(large))(*large)
        first, edges = words(graph.first), words([*graph.edges, 0])
        csr = Csr(len(graph), pointer(first), pointer(edges), pointer(sizes), table, len(large))
        return cls(csr, (first, edges, sizes, table))


@dataclass(frozen=True)
class Retained:
    kind: array[int]
    parent: array[int]
    place: array[int]
    order: array[int]
    dominator: array[int]
    retained: array[int]


def retain(graph: Graph, roots: Sequence[Sequence[int]], rest: int = -1) -> Retained:
    native, count = Native.of(graph), len(graph)
    listed = graph_of(roots, [0] * len(roots))  # a list of lists is a list of lists
    kind, retained = array("B", bytes(count + 1)), array("Q", bytes(8 * count + 8))
    parent, place, order, dominator = (words([0] * (count + 1)) for _ in range(4))
    first, flat = words(listed.first), words([*listed.edges, 0])
    reached = parts().parts_retain(
        ctypes.byref(native.csr),
        len(roots),
        *map(pointer, (first, flat)),
        rest,
        *map(pointer, (kind, parent, place, order, dominator, retained)),
    )
    assert reached >= 0
    return Retained(kind[:-1], parent[:-1], place[:-1], order[:reached], dominator[:-1], retained[:-1])


MOST = 14
sizes = st.integers(0, 1000) | st.integers(2**32 - 3, 2**33)


@st.composite
def made_graphs(draw: st.DrawFn) -> Graph:
    """Rows may lead to an object twice, and to itself."""
    count = draw(st.integers(1, MOST))
    numbers = st.integers(0, count - 1)
    rows = draw(st.lists(st.lists(numbers, max_size=4), min_size=count, max_size=count))
    return graph_of(rows, draw(st.lists(sizes, min_size=count, max_size=count)))


@st.composite
def rooted_graphs(draw: st.DrawFn) -> tuple[Graph, list[list[int]]]:
    graph = draw(made_graphs())
    return graph, draw(st.lists(st.lists(st.integers(0, len(graph) - 1), max_size=3), max_size=3))


def check_search(graph: Graph, roots: Sequence[Sequence[int]], found: Retained) -> None:
    """Each object has the first kind that leads to it, and its chain of parents is as short as can be."""
    given_roots = [root for kind in roots for root in kind]
    at = {number: position for position, number in enumerate(found.order)}
    assert len(at) == len(found.order)
    unreached = set(range(len(graph)))
    for kind, starts in enumerate(roots):
        ways = {each: far for each, far in graphs.distances(graph, starts).items() if each in unreached}
        unreached -= ways.keys()
        for each, far in ways.items():
            assert found.kind[each] == kind
            if far == 0:
                assert found.parent[each] == ROOT
                assert given_roots[found.place[each]] == each
            else:
                parent = found.parent[each]
                assert graph.row(parent)[found.place[each]] == each
                assert ways[parent] == far - 1
                assert at[parent] < at[each]
    assert at.keys() == set(range(len(graph))) - unreached
    for each in unreached:
        assert (found.kind[each], found.parent[each]) == (UNREACHED, NONE)


def check_dominators(graph: Graph, roots: Sequence[int], found: Retained) -> None:
    nearest, bytes_lost = graphs.dominators(graph, roots), graphs.retained(graph, roots)
    assert list(found.dominator) == [nearest.get(each, NONE) for each in range(len(graph))]
    assert list(found.retained) == [bytes_lost.get(each, 0) for each in range(len(graph))]


@no_deadline
@given(rooted_graphs())
def test_the_search_goes_kind_by_kind_on_shortest_paths(made: tuple[Graph, list[list[int]]]) -> None:
    check_search(*made, retain(*made))


@no_deadline
@given(rooted_graphs())
def test_dominators_and_what_would_go(made: tuple[Graph, list[list[int]]]) -> None:
    graph, roots = made
    check_dominators(graph, [root for kind in roots for root in kind], retain(graph, roots))


@no_deadline
@given(rooted_graphs())
def test_the_rest_gets_as_few_roots_as_can_be(made: tuple[Graph, list[list[int]]]) -> None:
    graph, roots = made
    without = retain(graph, roots)
    left = {each for each in range(len(graph)) if without.kind[each] == UNREACHED}
    found = retain(graph, roots, rest=len(roots))
    added = [each for each in left if found.parent[each] == ROOT]
    assert len(added) == graphs.fewest_roots(graph, left)
    assert UNREACHED not in found.kind
    added.sort(key=lambda each: found.place[each])
    check_search(graph, [*roots, added], found)
    check_dominators(graph, [*(root for kind in roots for root in kind), *added], found)


@no_deadline
@given(rooted_graphs(), st.data())
def test_what_would_go_with_several(made: tuple[Graph, list[list[int]]], data: st.DataObject) -> None:
    graph, kinds = made
    roots = [root for kind in kinds for root in kind]
    taken = data.draw(st.lists(st.integers(0, len(graph) - 1), max_size=4))
    native, gone, lost = Native.of(graph), array("B", bytes(len(graph) + 1)), array("Q", [0, 0])
    starts, objects = words([*roots, 0]), words([*taken, 0])
    assert (
        parts().parts_lose(
            ctypes.byref(native.csr),
            pointer(starts),
            len(roots),
            pointer(objects),
            len(taken),
            pointer(gone),
            pointer(lost),
        )
        == 0
    )
    wanted = graphs.distances(graph, roots).keys() - graphs.distances(graph, roots, taken).keys()
    assert {each for each in range(len(graph)) if gone[each]} == wanted
    assert list(lost) == [len(wanted), sum(graph.sizes[each] for each in wanted)]


@no_deadline
@given(made_graphs())
def test_a_graph_turned_round_has_each_edge_the_other_way(graph: Graph) -> None:
    native = Native.of(graph)
    first, edges = words([0] * (len(graph) + 1)), words([0] * (len(graph.edges) + 1))
    assert parts().parts_reverse(ctypes.byref(native.csr), pointer(first), pointer(edges)) == 0
    turned = Graph(first, edges, graph.sizes)
    for to in range(len(graph)):
        assert list(turned.row(to)) == [each for each in range(len(graph)) for other in graph.row(each) if other == to]


# -- long ones ----------------------------------------------------------------------------------------------


def test_a_long_list_whose_items_somebody_else_holds_too() -> None:
    """Each item's way up to its dominator is as long as the list, for whoever goes step by step."""
    links = 400_000
    rows = [[links + i, i + 1] for i in range(links - 1)] + [[2 * links - 1]]
    rows += [[] for _ in range(links)] + [list(range(links, 2 * links))]
    graph = graph_of(rows, [1] * len(rows))
    found = retain(graph, [[0, 2 * links]])
    assert list(found.dominator[:links]) == [ROOT, *range(links - 1)]
    assert set(found.dominator[links : 2 * links]) == {ROOT}
    assert list(found.retained[:links]) == list(range(links, 0, -1))


def test_a_list_linked_both_ways_with_an_index() -> None:
    links = 200_000
    rows = [[i for i in (i - 1, i + 1) if 0 <= i < links] for i in range(links)]
    rows.append([*range(links)])
    for roots, nearest in (([links], {links}), ([0], None), ([links - 1], None)):
        found = retain(graph_of(rows, [1] * len(rows)), [roots])
        if nearest is not None:
            assert set(found.dominator[:links]) == nearest
            assert found.retained[links] == links + 1
        elif roots == [0]:
            assert list(found.dominator[:links]) == [ROOT, *range(links - 1)]
        else:
            assert list(found.dominator[:links]) == [*range(1, links), ROOT]


def test_a_ring_that_nothing_leads_to() -> None:
    links = 300_000
    graph = graph_of([[(i + 1) % links] for i in range(links)], [1] * links)
    found = retain(graph, [], rest=7)
    (root,) = (each for each in range(links) if found.parent[each] == ROOT)
    assert found.retained[root] == links
    assert set(found.kind) == {7}


# -- retainer sets ------------------------------------------------------------------------------------------


class Root(ctypes.Structure):
    _fields_ = [("object", ctypes.c_uint32), ("unit", ctypes.c_uint32)]


@dataclass(frozen=True)
class Sets:
    """By object: its units, or None for many."""

    of: list[set[int] | None]
    totals: dict[frozenset[int] | None, tuple[int, int]]


def retainers(graph: Graph, units: Sequence[int], roots: Sequence[tuple[int, int]], limit: int) -> Sets:
    native, room = Native.of(graph), len(graph) * (limit + 2) + 1000
    marked, table = words([*units, 0]), (Root * len(roots))(*(Root(*root) for root in roots))
    of, members, totals = words([0] * (len(graph) + 1)), words([0] * limit * room), array("Q", bytes(16 * room))
    found = parts().parts_retainers(
        ctypes.byref(native.csr),
        pointer(marked),
        table,
        ctypes.c_uint64(len(roots)),
        limit,
        *map(pointer, (of, members, totals)),
        ctypes.c_uint64(room),
    )
    assert found >= 2
    sets = [set(members[limit * i : limit * (i + 1)]) - {NONE} for i in range(found)]
    named = [None if i == MANY else frozenset(each) for i, each in enumerate(sets)]
    assert len(set(named)) == len(named), "a set has one number"
    return Sets(
        [None if each == MANY else sets[each] for each in of[:-1]],
        {name: (totals[2 * i], totals[2 * i + 1]) for i, name in enumerate(named) if totals[2 * i]},
    )


@st.composite
def with_units(draw: st.DrawFn) -> tuple[Graph, list[int], list[tuple[int, int]]]:
    """Several objects may go by one unit, and roots by that of an object."""
    graph = draw(made_graphs())
    each = st.just(NONE) | st.integers(0, MOST)
    units = draw(st.lists(each, min_size=len(graph), max_size=len(graph)))
    roots = draw(st.lists(st.tuples(st.integers(0, len(graph) - 1), st.integers(0, 2 * MOST)), max_size=6))
    return graph, units, roots


@no_deadline
@given(with_units(), st.integers(1, 16))
def test_retainer_sets_are_those_of_the_definition(
    made: tuple[Graph, list[int], list[tuple[int, int]]], limit: int
) -> None:
    graph, _, _ = made
    exact = [frozenset(each) if len(each) <= limit else None for each in graphs.retainer_sets(*made)]
    found = retainers(*made, limit)
    assert [each if each is None else frozenset(each) for each in found.of] == exact
    for name, (objects, size) in found.totals.items():
        assert objects == exact.count(name)
        assert size == sum(graph.sizes[i] for i, each in enumerate(exact) if each == name)
    assert sum(objects for objects, _ in found.totals.values()) == len(graph)


def test_more_sets_than_there_was_room_for() -> None:
    """Each of many candidates shares an item with the next."""
    count = 20_000
    rows = [[count + i, count + (i + 1) % count] for i in range(count)] + [[] for _ in range(count)]
    graph = graph_of(rows, [1] * len(rows))
    units = [*range(count), *([NONE] * count)]
    found = retainers(graph, units, [(i, i) for i in range(count)], 2)
    assert found.of[:count] == [{i} for i in range(count)]
    assert found.of[count:] == [{i, (i - 1) % count} for i in range(count)]
    assert retainers(graph, units, [(i, i) for i in range(count)], 1).of[count:] == [None] * count


# -- where a selection accumulates ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Selected:
    """Objects of a graph, and the types of all of them."""

    graph: Graph
    roots: Sequence[int]
    selected: Sequence[int]
    types: Sequence[int]

    def points(self, percent: int = 70) -> tuple[list[int], array[int], array[int]] | None:
        """The points, and by object what is below it: bytes and objects; None where it was given up."""
        native, count = Native.of(self.graph), len(self.graph)
        bits = array("Q", bytes(8 * (count // 64 + 1)))
        for each in self.selected:
            bits[each // 64] |= 1 << each % 64
        below, counts, found = array("Q", bytes(8 * count + 8)), words([0] * (count + 1)), words([0] * count)
        starts, types = words([*self.roots, 0]), words(self.types)
        points = parts().parts_points(
            ctypes.byref(native.csr),
            pointer(starts),
            len(self.roots),
            *map(pointer, (bits, types)),
            max([0, *(each for each in self.types if each != NONE)]) + 1,
            percent,
            *map(pointer, (found, below, counts)),
        )
        if points < 0:
            return None
        return sorted(found[:points], key=lambda each: (-below[each], each)), below, counts


class Dominated:
    """The same for the definition, which counts objects from 1 on."""

    def __init__(self, made: Selected) -> None:
        self._made = made
        self.order = [each + 1 for each in graphs.distances(made.graph, made.roots)]
        nearest = graphs.dominators_of_many(made.graph, made.roots)
        self.dominator = {each + 1: TOP if above == ROOT else above + 1 for each, above in nearest.items()}

    def size(self, node: int) -> int:
        return self._made.graph.sizes[node - 1]

    def type(self, node: int) -> object:
        return self._made.types[node - 1]


@st.composite
def selections(draw: st.DrawFn) -> Selected:
    """Of trees with long ways down, more or less, and a few references across."""
    count = draw(st.integers(1, 70))
    chained = draw(st.sampled_from([0, 50, 90, 97]))
    chance = draw(st.randoms(use_true_random=False))
    rows: list[list[int]] = [[] for _ in range(count)]
    for each in range(1, count):
        rows[each - 1 if chance.randrange(100) < chained else chance.randrange(each)].append(each)
    for _ in range(draw(st.integers(0, 3))):
        rows[chance.randrange(count)].append(chance.randrange(count))
    few = draw(st.sampled_from([[1], [1, 1000], [10, 11, 12, 2**33]]))
    graph = graph_of(rows, [chance.choice(few) for _ in range(count)])
    roots = [0, *(chance.randrange(count) for _ in range(draw(st.integers(0, 2))))]
    part = draw(st.sampled_from([0, 10, 50, 90, 100]))
    kinds = draw(st.sampled_from([[0], [0, 1], [0, 1, 2, NONE]]))
    types = [chance.choice(kinds) for _ in range(count)]
    return Selected(graph, roots, [each for each in range(count) if chance.randrange(100) < part], types)


@settings(deadline=None, max_examples=500)
@given(selections(), st.sampled_from([51, 70, 100]))
def test_points_are_those_of_the_definition(made: Selected, percent: int) -> None:
    found, tree = made.points(percent), Dominated(made)
    reached = {each for each in made.selected if each + 1 in tree.dominator}
    wanted = Accumulation(tree, [each + 1 for each in reached], percent)
    assert found is not None
    points, below, counts = found
    assert {each: below[each - 1] for each in tree.order} == {each: wanted.below[each] for each in tree.order}
    assert {each: counts[each - 1] for each in tree.order} == {each: wanted.count[each] for each in tree.order}
    assert (below[-1], counts[-1]) == (sum(made.graph.sizes[each] for each in reached), len(reached))
    assert [each + 1 for each in points] == wanted.points()
    assert sum(below[each] for each in points) <= below[-1], "none is below another one"


def check_points(made: Selected) -> list[int]:
    tree = Dominated(made)
    wanted = Accumulation(tree, [each + 1 for each in made.selected], 70).points()
    found = made.points()
    assert found is not None
    assert [each + 1 for each in found[0]] == wanted
    return found[0]


def test_points_at_the_bounds() -> None:
    """Links of a chain, and what a root has at least."""
    for links in range(10, 30):
        rows = [[i + 1, 100 + i] for i in range(links)] + [[] for _ in range(links, 100 + links)]
        made = Selected(graph_of(rows, [1] * len(rows)), [0], range(100, len(rows)), [0] * len(rows))
        assert (check_points(made) == [0]) == (links > 18), links
    for large in range(180, 220):
        graph = graph_of([[2], [3], [], []], [1, 1, large - 1, 1])
        assert len(check_points(Selected(graph, [0, 1], [2, 3], [0, 0, 1, 1]))) == 1 + (large <= 200)


def test_points_of_what_is_deep() -> None:
    """Neither a million links nor as many types on one way take a stack as deep, or a second look at each of them."""
    links = 1_000_000
    graph = graph_of([[i + 1] for i in range(links)] + [[]], [1] * (links + 1))
    with watched() as checks:
        chain = Selected(graph, [0], range(1, links), [0] * (links + 1)).points()
        assert checks()[0] >= 5 * links // STEP, "sums, the tree, the way down, its types, the chain"
        apart = Selected(graph, [0], [links], range(links + 1)).points()
        assert checks()[0] <= 2 * 10 * links // STEP
    assert chain is not None
    assert apart is not None
    assert chain[0] == [0]
    assert apart[0] == [links - 1]


def test_points_are_given_up_soon() -> None:
    graph = items_of_a_list(20 * STEP)
    made = Selected(graph, [0], range(1, len(graph)), [0] * len(graph))
    with watched() as checks:
        assert made.points() is not None
        needed = checks()[0]
    for most in (1, needed // 2, needed - 1):
        with watched(most) as checks:
            assert made.points() is None
            assert checks()[0] <= most + 3


# -- how far it is ------------------------------------------------------------------------------------------

STEP = 1 << 14
"""Objects between two looks: PROGRESS_STEP."""


@contextlib.contextmanager
def watched(most: int = 2**64 - 1) -> Iterator[Callable[[], tuple[int, int]]]:
    """Long steps are looked at, ``most`` times before they are given up. Gives how often they were, and how much more
    was done than there is."""
    worst = ctypes.c_uint64()
    parts().parts_watch(ctypes.c_uint64(most))
    try:
        yield lambda: (parts().parts_looks(ctypes.byref(worst)), worst.value)
    finally:
        parts().parts_watch(ctypes.c_uint64(0))


def items_of_a_list(count: int) -> Graph:
    return graph_of([[*range(1, count + 1)], *([] for _ in range(count))], [1] * (count + 1))


def test_long_steps_are_looked_at() -> None:
    count = 20 * STEP
    graph = graph_of([[i + 1] for i in range(count - 1)] + [[]], [1] * count)
    with watched() as checks:
        retain(graph, [[0]])
        assert checks()[0] >= 5 * count // STEP  # a search, numbers, semidominators, dominators, sums
        assert checks()[1] == 0
    with watched() as checks:
        found = retain(graph, [], rest=0)
        assert checks()[0] >= 7 * count // STEP
        assert found.retained[0] == count
    for long in (graph, items_of_a_list(count)):
        with watched() as checks:
            retainers(long, [NONE] * len(long), [(0, 0)], 3)
            assert checks()[0] >= len(long.edges) // STEP


def test_what_is_given_up_ends_soon() -> None:
    """One look later: also when it is in the middle of what a single object refers to."""
    graph = items_of_a_list(20 * STEP)
    native, count = Native.of(graph), len(graph)
    starts, gone, lost = words([0]), array("B", bytes(count + 1)), array("Q", [0, 0])
    given = (pointer(starts), 1, pointer(starts), 0, pointer(gone), pointer(lost))
    for most in (1, 3, 25):
        with watched(most) as checks:
            retainers(graph, [NONE] * count, [(0, 0)], 3)
            assert checks()[0] <= most + 1
        with watched(most) as checks:
            assert parts().parts_lose(ctypes.byref(native.csr), *given) == 0
            assert checks()[0] <= most + 1
