"""Graphs as compressed rows, and what is true of them by definition: slow, and as simple as can be.

This module knows nothing of the native core; :mod:`tests.unit.native.test_retain` compares the two.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass

NONE = 2**32 - 1
ROOT = 2**32 - 2


@dataclass(frozen=True, slots=True)
class Graph:
    """Objects are numbers from 0 on."""

    first: Sequence[int]
    edges: Sequence[int]
    sizes: Sequence[int]
    """Bytes."""

    def __len__(self) -> int:
        return len(self.sizes)

    def row(self, number: int) -> Sequence[int]:
        return self.edges[self.first[number] : self.first[number + 1]]


def graph_of(rows: Sequence[Sequence[int]], sizes: Sequence[int]) -> Graph:
    first = [0]
    for row in rows:
        first.append(first[-1] + len(row))
    return Graph(first, [to for row in rows for to in row], sizes)


def distances(graph: Graph, roots: Iterable[int], without: Container[int] = ()) -> dict[int, int]:
    """References on a shortest path from any of the roots, by object; some objects may be taken away."""
    found = {root: 0 for root in roots if root not in without}
    todo = deque(found)
    while todo:
        number = todo.popleft()
        for to in graph.row(number):
            if to not in found and to not in without:
                found[to] = found[number] + 1
                todo.append(to)
    return found


def dominators(graph: Graph, roots: Sequence[int]) -> dict[int, int]:
    """The nearest one each reached object cannot do without, or ROOT, by taking each away in turn."""
    everything = distances(graph, roots)
    lost = {each: everything.keys() - distances(graph, roots, {each}).keys() - {each} for each in everything}
    above: dict[int, list[int]] = {each: [other for other in everything if each in lost[other]] for each in everything}
    return {each: max(above[each], key=lambda other: len(above[other]), default=ROOT) for each in everything}


def retained(graph: Graph, roots: Sequence[int]) -> dict[int, int]:
    """Bytes that would go with each reached object if it went."""
    everything = distances(graph, roots)
    total = sum(graph.sizes[each] for each in everything)
    return {each: total - sum(graph.sizes[left] for left in distances(graph, roots, {each})) for each in everything}


def retainer_sets(
    graph: Graph, units: Sequence[int], roots: Iterable[tuple[int, int]], most: int | None = None
) -> list[set[int]]:
    """By the simple method: Runciman and Röjemo, New dimensions in heap profiling, figure 11. ``units`` has NONE for
    what is no candidate; a root goes with the unit that holds it. Of more than ``most`` there is one more."""
    sets: list[set[int]] = [set() for _ in units]
    todo = list(roots)
    while todo:
        number, unit = todo.pop()
        if unit in sets[number] or (most is not None and len(sets[number]) > most):
            continue
        sets[number].add(unit)
        passed = unit if units[number] == NONE else units[number]
        todo += [(to, passed) for to in graph.row(number)]
    return sets


def finish_order(graph: Graph, roots: Iterable[int]) -> list[int]:
    """Reached objects, each as a depth-first search is done with it."""
    finished, seen = [], set()
    for root in roots:
        if root in seen:
            continue
        seen.add(root)
        ways = [(root, iter(graph.row(root)))]
        while ways:
            number, row = ways[-1]
            for to in row:
                if to not in seen:
                    seen.add(to)
                    ways.append((to, iter(graph.row(to))))
                    break
            else:
                finished.append(number)
                ways.pop()
    return finished


def holders_of(graph: Graph, roots: Iterable[int], objects: Iterable[int]) -> dict[int, list[int]]:
    """Who refers to each object, ROOT among them."""
    holders: dict[int, list[int]] = {number: [] for number in objects}
    for root in roots:
        holders[root].append(ROOT)
    for number in objects:
        for to in {*graph.row(number)}:
            holders[to].append(number)
    return holders


def dominators_of_many(graph: Graph, roots: Sequence[int]) -> dict[int, int]:
    """As :func:`dominators`, until nothing changes: Cooper, Harvey and Kennedy, A simple, fast dominance algorithm."""
    finished = finish_order(graph, roots)
    at = {number: position for position, number in enumerate([*finished, ROOT])}
    holders = holders_of(graph, roots, finished)
    nearest = {ROOT: ROOT}

    def common(one: int, other: int) -> int:
        while one != other:
            if at[one] < at[other]:
                one = nearest[one]
            else:
                other = nearest[other]
        return one

    changed = True
    while changed:
        changed = False
        for number in reversed(finished):
            known = [holder for holder in holders[number] if holder in nearest]
            found = known[0]
            for holder in known:
                found = found if found == ROOT else common(found, holder)
            changed = changed or nearest.get(number) != found
            nearest[number] = found
    del nearest[ROOT]
    return nearest


def fewest_roots(graph: Graph, objects: Container[int]) -> int:
    """How many objects it takes at least to lead to all of some that nothing outside leads to."""
    inside = [each for each in range(len(graph)) if each in objects]
    leads = {each: distances(graph, [each]).keys() for each in inside}
    sources = [each for each in inside if all(other in leads[each] for other in inside if each in leads[other])]
    return len({min(other for other in sources if other in leads[each] and each in leads[other]) for each in sources})
