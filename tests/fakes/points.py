"""Where a selection accumulates in a planted heap: Eclipse MAT's accumulation points, in the plainest way.

It says what the native core finds by faster means. This module never answers a question by itself.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from typing import Final, Protocol

from tests.fakes.graph import TOP

ROOT_SHARE: Final = 200
"""One part in so many of the whole weight is the least that one goes down to."""
CHILD_SHARE: Final = 10
"""Likewise of its parent's, for a child that is not selected; of the whole, for a root that is."""
LINKS_SELECTED: Final = 3
LINKS: Final = 16
"""Objects of one type on one way that are a chain: selected, or at all."""


class Dominated(Protocol):
    """A graph as far as it counts here."""

    @property
    def order(self) -> Sequence[int]:
        """Nodes, each behind its dominator."""
        ...

    @property
    def dominator(self) -> Mapping[int, int]:
        """TOP where there is none."""
        ...

    def size(self, node: int, /) -> int: ...

    def type(self, node: int, /) -> object: ...


class Accumulation:
    """A selection in the dominator tree. What is below a node is what it dominates, itself left out."""

    def __init__(self, graph: Dominated, selected: Collection[int], percent: int) -> None:
        self._graph = graph
        self._selected = set(selected)
        self._percent = percent
        self._children: dict[int, list[int]] = {node: [] for node in (TOP, *graph.order)}
        self.below: Final = dict.fromkeys((TOP, *graph.order), 0)
        """Bytes selected."""
        self.count: Final = dict.fromkeys((TOP, *graph.order), 0)
        """Objects selected."""
        for node in graph.order:
            self._children[graph.dominator[node]].append(node)
        for node in reversed(graph.order):  # children come before their dominator
            above = graph.dominator[node]
            self.below[above] += self.weight(node)
            self.count[above] += self.count[node] + (node in self._selected)

    def weight(self, node: int) -> int:
        """Bytes selected of it and below it."""
        return self.below[node] + (self._graph.size(node) if node in self._selected else 0)

    def heads(self, node: int) -> list[int]:
        """The children that are selected, or that some are below of."""
        return [each for each in self._children[node] if each in self._selected or self.count[each]]

    def points(self) -> list[int]:
        """Nodes that have something below them, none of them below another one; the heaviest first."""
        found: list[int] = []
        todo = [each for each in self._children[TOP] if self._is_begun(each)]
        while todo:
            way = self._way(todo.pop())
            for node, most in itertools.pairwise(way):
                todo += [each for each in self._due(node) if each != most]
            last = way[-1]
            if self._is_divided(last):
                todo += self._due(last)
            else:
                found.append(last)
        return sorted(found, key=lambda node: (-self.below[node], node))

    def _is_begun(self, root: int) -> bool:
        share = CHILD_SHARE if root in self._selected else ROOT_SHARE
        return self.below[root] > 0 and self.below[root] * share >= self.below[TOP]

    def _way(self, node: int) -> list[int]:
        """Down to those that have most of what their parent has, up to a chain."""
        way = [node]
        while (child := self._single(way[-1])) is not None:
            way.append(child)
        first = self._first_link(way)
        if first is None:
            return way
        while first + 1 < len(way) and self.below[way[first]] == self.below[way[first - 1]]:
            first += 1  # it is gone down as long as nothing is left behind
        return way[:first]

    def _single(self, node: int) -> int | None:
        """The one child that has most of what is below."""
        return next((each for each in self._children[node] if self._is_most(self.below[each], node)), None)

    def _due(self, node: int) -> list[int]:
        """Children that are not selected and have a part of it, none of them only a little."""
        return [
            each
            for each in self._children[node]
            if each not in self._selected
            and self.below[each] > 0
            and self.below[each] * CHILD_SHARE >= self.below[node]
            and self.below[each] * ROOT_SHARE >= self.below[TOP]
        ]

    def _is_divided(self, node: int) -> bool:
        """Whether several have most of it together, and none alone: where one has, it is left out as a chain."""
        return self._single(node) is None and self._is_most(sum(self.below[each] for each in self._due(node)), node)

    def _is_most(self, bytes: int, node: int) -> bool:
        return bytes > 0 and bytes * 100 >= self.below[node] * self._percent

    def _first_link(self, way: list[int]) -> int | None:
        """Where a chain begins on a way: several of one type, the last of which has not most of what the first has."""
        of_type: dict[object, list[int]] = {}
        for at, node in enumerate(way[1:], 1):
            of_type.setdefault(self._graph.type(node), []).append(at)
        for links in of_type.values():
            selected = sum(way[at] in self._selected for at in links)
            is_many = selected >= LINKS_SELECTED or len(links) >= LINKS
            if is_many and not self._is_most(self.below[way[links[-1]]], way[links[0]]):
                return links[0]
        return None
