"""The graph of a real heap against what the core says of each object, and what is found in it against slower ways."""

from __future__ import annotations

import gc
import zlib
from array import array
from collections.abc import Iterator
from typing import Any

import pytest

from tests.interpreters import SAMPLE, SUPPORTED, Interpreter
from tests.support import graphs
from tests.support.graphs import NONE, ROOT, Graph
from tests.support.native import told

OBJECTS = 1_000
"""Besides one of everything, and what the standard library and packages bring: up to 475,000 in all."""
SETS = 3
MANY = 1
KINDS = range(4)
MODULES, FRAME, HELD, REST = KINDS
EIGHT_BYTES, ONE_BYTE = ("retained",), ("kind",)


def exported(interpreter: Interpreter, *arguments: str) -> dict[str, Any]:
    environment = {} if interpreter.packages is None else {"PYTHONPATH": str(interpreter.packages)}
    found: dict[str, Any] = told(interpreter, "graph_exports.py", OBJECTS, *arguments, environment=environment)
    assert found["faults"] == []
    return found


@pytest.mark.sample(2)
@pytest.mark.pythons(*SAMPLE, stress=SUPPORTED)
def test_rows_sizes_and_types_are_those_of_each_object_alone(interpreter: Interpreter) -> None:
    """And what is left out is in no row, and each number leads back to its object."""
    assert exported(interpreter)["objects"] > 30_000


@pytest.fixture
def without_collections() -> Iterator[None]:
    """There is nothing to collect in a million tuples, and looking for it takes most of the time."""
    gc.disable()
    yield
    gc.enable()


def unpacked(found: dict[str, Any]) -> dict[str, array[int]]:
    made = {}
    for name, data in found["arrays"].items():
        made[name] = array("Q" if name in EIGHT_BYTES else "B" if name in ONE_BYTE else "I", zlib.decompress(data))
    return made


def check_reverse(graph: Graph, arrays: dict[str, array[int]]) -> None:
    turned = Graph(arrays["in_first"], arrays["in_edges"], graph.sizes)
    pairs = sorted((to, number) for number in range(len(graph)) for to in graph.row(number))
    assert [(to, number) for to in range(len(graph)) for number in turned.row(to)] == pairs


def check_search(graph: Graph, arrays: dict[str, array[int]]) -> None:
    kind, parent, place = arrays["kind"], arrays["parent"], arrays["place"]
    assert list(parent).count(NONE) == 0
    everything = set(range(len(graph)))
    unreached = set(everything)
    for each in KINDS:
        roots = [number for number in everything if parent[number] == ROOT and kind[number] == each]
        ways = graphs.distances(graph, roots, everything - unreached)
        assert all(kind[number] == each for number in ways)
        assert all(far == 0 or ways[parent[number]] == far - 1 for number, far in ways.items())
        unreached -= ways.keys()
    assert not unreached
    assert all(parent[each] == ROOT or graph.row(parent[each])[place[each]] == each for each in range(len(graph)))
    position = [0] * len(graph)
    for at, number in enumerate(arrays["order"]):
        position[number] = at
    assert all(parent[each] == ROOT or position[parent[each]] < position[each] for each in range(len(graph)))


def check_planted(arrays: dict[str, array[int]], planted: dict[str, int]) -> None:
    kind, parent, dominator = arrays["kind"], arrays["parent"], arrays["dominator"]
    for name, wanted in (("held", HELD), ("cycle", REST)):
        root, inside = planted[name], planted[f"inside {name}"]
        assert (kind[root], kind[inside]) == (wanted, wanted)
        assert (parent[root], parent[inside]) == (ROOT, root)
        assert (dominator[root], dominator[inside]) == (ROOT, root)
    holder, shared = planted["holder"], planted["shared"]
    assert (kind[holder], kind[shared], parent[shared]) == (MODULES, MODULES, holder)
    assert (dominator[holder] != ROOT, dominator[shared]) == (True, ROOT)


def check_dominators(graph: Graph, arrays: dict[str, array[int]]) -> None:
    """Also that what would go with the largest ones goes when they go."""
    roots = list(arrays["roots"])
    nearest = graphs.dominators_of_many(graph, roots)
    assert list(arrays["dominator"]) == [nearest[each] for each in range(len(graph))]
    retained = arrays["retained"]
    sums = dict(enumerate(graph.sizes))
    sums[ROOT] = 0
    depth = {ROOT: 0}
    for each in range(len(graph)):
        way = [each]
        while way[-1] not in depth:
            way.append(nearest[way[-1]])
        for number in reversed(way[:-1]):
            depth[number] = depth[nearest[number]] + 1
    for each in sorted(range(len(graph)), key=lambda number: -depth[number]):
        sums[nearest[each]] += sums[each]
    assert [sums[each] for each in range(len(graph))] == list(retained)
    assert sums[ROOT] == sum(graph.sizes)
    largest = sorted(range(len(graph)), key=lambda number: -retained[number])
    for each in largest[:3] + largest[100:102]:
        left = sum(graph.sizes[number] for number in graphs.distances(graph, roots, {each}))
        assert left == sum(graph.sizes) - retained[each]


def check_retainers(graph: Graph, arrays: dict[str, array[int]], told_of: dict[str, Any]) -> None:
    exact = graphs.retainer_sets(graph, arrays["units"], told_of["roots"], SETS)
    sets = [None if members is None else frozenset(members) for members in told_of["sets"]]
    wanted = [frozenset(each) if len(each) <= SETS else None for each in exact]
    assert [sets[each] for each in arrays["sets"]] == wanted
    assert told_of["totals"][MANY][0] == wanted.count(None) > 0
    assert sum(size for _, size in told_of["totals"]) == sum(graph.sizes)


@pytest.mark.usefixtures("without_collections")
@pytest.mark.pythons("3.8", "3.13")
def test_what_is_found_in_it(interpreter: Interpreter, pytestconfig: pytest.Config) -> None:
    """In what a bare interpreter has; in all that the first test has under --stress."""
    whole = pytestconfig.getoption("--stress")
    found = exported(interpreter, "arrays", *([] if whole else ["small"]))
    arrays = unpacked(found)
    graph = Graph(arrays["first"], arrays["edges"], arrays["sizes"])
    assert len(graph) > (100_000 if whole else 30_000)
    check_reverse(graph, arrays)
    check_search(graph, arrays)
    check_planted(arrays, found["planted"])
    check_dominators(graph, arrays)
    check_retainers(graph, arrays, found["figures"]["retainers"])


@pytest.mark.pythons(*SAMPLE, stress=SUPPORTED)
def test_in_clones_of_a_process_that_is_at_work(interpreter: Interpreter, cycles: int) -> None:
    """What a cache retains is the same in all of them, and in the process itself, to the byte."""
    answers = told(interpreter, "graph_clones.py", cycles)
    assert answers["found"] == [answers["wanted"]] * (cycles + 1)
    assert answers["known"] == [True] * cycles
