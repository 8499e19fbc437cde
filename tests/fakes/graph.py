"""The heap of a fake agent, and what keeps what in it, in the plainest way: for heaps of some thousand objects.

This module never answers a question: :mod:`tests.fakes.heap` does. Nothing in heaptop proper imports it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from heaptop.protocol.images import KINDS
from heaptop.protocol.messages import TypeName

TOP: Final = 0
"""In place of an object: what all roots hang on."""


# -- what is planted ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Reference:
    label: str
    """As in a path; empty for a step that is not shown, as that from an instance to its dict."""
    to: int
    key: str = ""
    """Takes the label's place where values may be shown."""


@dataclass(frozen=True, slots=True)
class Planted:
    """One object."""

    address: int
    type: TypeName
    size: int
    references: tuple[Reference, ...] = ()
    generation: int = 2
    length: int = -1
    preview: str = ""
    value: str = ""
    """The preview where values may be shown."""
    stack: int = 0
    """That allocated it; 0: it was not sampled."""
    surplus: int = 0
    wastes: tuple[tuple[str, int, int], ...] = ()
    """What it could do without: sort, bytes, detail."""
    bound: int = -1
    changes: int = -1
    is_container: bool = False
    """Its type is made from one of ``CONTAINERS`` (:mod:`tests.fakes.heap`)."""


@dataclass(frozen=True, slots=True)
class Root:
    """Something that keeps an object. Of kind ``none`` there is none: those are found."""

    kind: str
    label: str
    to: int


@dataclass(frozen=True, slots=True)
class Frame:
    """A root that is no object, and refers to several. Its label is the beginning of those of its references."""

    label: str
    references: tuple[Reference, ...]


@dataclass(frozen=True, slots=True)
class PlantedHeap:
    objects: tuple[Planted, ...]
    roots: tuple[Root, ...]
    frames: tuple[Frame, ...] = ()
    unreached: tuple[tuple[int, int, int], ...] = ()
    """(stack, blocks, bytes) of sampled blocks that no object has."""


# -- what keeps what ----------------------------------------------------------------------------------------


class Graph:
    """A heap with the way to each object, and with what would go if one went.

    A node is an object's address, or a negative number for a frame.
    """

    def __init__(self, heap: PlantedHeap) -> None:
        self.objects: Final = {each.address: each for each in sorted(heap.objects, key=lambda each: each.address)}
        self.frames: Final = {-place: each for place, each in enumerate(heap.frames, 1)}
        self.references: Final = {node: each.references for node, each in (self.objects | self.frames).items()}
        self.roots: Final[list[int]] = []
        """All of them, also those that others lead to."""
        self.kind: Final[dict[int, int]] = {}
        """By node: position in KINDS of the first sort of root that leads there."""
        self.parent: Final[dict[int, int]] = {}
        self.step: Final[dict[int, Reference]] = {}
        """By node: the reference by which its parent leads there."""
        self._search(heap)
        self.order: Final = list(self.parent)
        """Nodes as they were reached, each behind its parent."""
        self._path_keys: dict[int, int] = {}
        self._known_steps: dict[tuple[int, bool], list[tuple[str, int, bool]]] = {}
        self.dominator: Final = self._dominators()
        self.retained: Final = self._sums()

    # -- breadth-first, one kind of root after the other

    def _search(self, heap: PlantedHeap) -> None:
        for number, kind in enumerate(KINDS[:-1]):
            roots = [Reference(root.label, root.to) for root in heap.roots if root.kind == kind]
            if kind == "frame":
                roots += [Reference(frame.label, node) for node, frame in self.frames.items()]
            self._reach(number, roots)
        self._reach(len(KINDS) - 1, [Reference("held by nothing", node) for node in self._garbage()])

    def _reach(self, kind: int, roots: list[Reference]) -> None:
        self.roots.extend(root.to for root in roots)
        waiting = [(TOP, root) for root in roots]
        for parent, reference in waiting:
            node = reference.to
            if node not in self.parent:
                self.parent[node], self.step[node], self.kind[node] = parent, reference, kind
                waiting += [(node, each) for each in self.references[node]]

    def _garbage(self) -> list[int]:
        """Of what nothing has led to, as few as lead to all of it: those that are finished last, depth-first."""
        seen, finished = set(self.parent), list[int]()
        for begin in self.objects:
            if begin in seen:
                continue
            seen.add(begin)
            stack = [(begin, iter(self.references[begin]))]
            while stack:
                node, rest = stack[-1]
                step = next((each for each in rest if each.to not in seen), None)
                if step is None:
                    finished.append(stack.pop()[0])
                else:
                    seen.add(step.to)
                    stack.append((step.to, iter(self.references[step.to])))
        roots, reached = [], set(self.parent)
        for node in reversed(finished):
            if node not in reached:
                roots.append(node)
                reached |= self.reachable([node], reached)
        return roots

    def reachable(self, nodes: Iterable[int], without: Collection[int] = ()) -> set[int]:
        """What nodes lead to, themselves among it, by no way through ``without``."""
        found: set[int] = set()
        waiting = [node for node in nodes if node not in without]
        while waiting:
            node = waiting.pop()
            if node not in found:
                found.add(node)
                waiting += [each.to for each in self.references[node] if each.to not in without]
        return found

    # -- what would go

    def _dominators(self) -> dict[int, int]:
        """Of each node the nearest one through which every path from a root leads to it (Cooper, Harvey and Kennedy, A
        simple, fast dominance algorithm, 2001, figure 3; in the order of the search, whose paths dominators are on)."""
        place = {node: number for number, node in enumerate(self.order, 1)} | {TOP: 0}
        before: dict[int, list[int]] = {node: [] for node in self.order}
        for node in self.order:
            for reference in self.references[node]:
                before[reference.to].append(node)
        for node in self.roots:
            before[node].append(TOP)
        above = {TOP: TOP}

        def common(one: int, other: int) -> int:
            while one != other:
                if place[one] > place[other]:
                    one = above[one]
                else:
                    other = above[other]
            return one

        changed = True
        while changed:
            changed = False
            for node in self.order:
                known = [each for each in before[node] if each in above]
                found = known[0]
                for each in known[1:]:
                    found = common(found, each)
                changed = changed or above.get(node) != found
                above[node] = found
        return above

    def _sums(self) -> dict[int, int]:
        sums = {node: self.size(node) for node in self.order} | {TOP: 0}
        for node in reversed(self.order):
            sums[self.dominator[node]] += sums[node]
        return sums

    def size(self, node: int) -> int:
        return self.objects[node].size if node in self.objects else 0

    def dominators(self, node: int) -> Iterator[int]:
        """Those of a node from the nearest on, itself left out."""
        while (node := self.dominator[node]) != TOP:
            yield node

    def lost(self, nodes: Collection[int]) -> set[int]:
        """What would go if all of these went."""
        return set(self.order) - self.reachable(self.roots, nodes)

    # -- paths

    def way(self, node: int) -> list[int]:
        """The nodes from the root to this one."""
        way = [node]
        while (node := self.parent[node]) != TOP:
            way.append(node)
        return way[::-1]

    def type(self, node: int) -> TypeName | None:
        return self.objects[node].type if node in self.objects else None

    def steps(self, node: int, values: bool = False) -> list[tuple[str, int, bool]]:
        """Label, node it leads to and whether it stands for several: of each step that is shown.

        The third object of one type in a row and all that follow it are one step. A frame that the next step names is
        left out, and so is the middle of what is longer than 64."""
        if (node, values) not in self._known_steps:
            self._known_steps[node, values] = self._shown_steps(node, values)
        return self._known_steps[node, values]

    def _shown_steps(self, node: int, values: bool) -> list[tuple[str, int, bool]]:
        way = self.way(node)
        steps: list[tuple[str, int, bool]] = []
        run = 0
        for each in way:
            label = self.label(self.step[each], values)
            if not self.step[each].label and each != node:
                continue
            is_alike = bool(steps) and each > 0 and self.type(steps[-1][1]) == self.type(each)
            run = run + 1 if is_alike and self.step[each].label else 0
            if run > 2:
                steps[-1] = (steps[-1][0], each, True)
            else:
                steps.append((label, each, run == 2))
        if len(steps) > 1 and steps[0][1] < 0 and steps[1][0].startswith(steps[0][0]):
            del steps[0]
        return steps if len(steps) <= 64 else steps[:32] + steps[-32:]

    def label(self, step: Reference, values: bool = False) -> str:
        """Of a reference, where it is shown in any case."""
        return (values and step.key) or step.label or ".__dict__"

    def path_key(self, node: int) -> int:
        """A number that objects share which are kept along paths that read alike."""
        if node not in self._path_keys:
            self._path_keys[node] = self._key_of_path(node)
        return self._path_keys[node]

    def _key_of_path(self, node: int) -> int:
        steps = [("" if repeated else label, self.type(to), repeated) for label, to, repeated in self.steps(node)]
        return int.from_bytes(hashlib.blake2b(repr(steps).encode(), digest_size=8).digest(), "big") >> 1

    # -- retainers

    def retainers(self, modules: bool, excluded: Collection[int]) -> dict[int, set[int]]:
        """By node: the candidates from which a path leads to it through no other candidate, and the roots likewise
        (Runciman and Röjemo, New dimensions in heap profiling, 1996, §3)."""
        left_out = {self.alike(node)[0] for node in excluded}
        candidates = {node for node in self.candidates if self.unit(node, modules) not in left_out}
        sets: dict[int, set[int]] = {node: set() for node in self.order}
        waiting = [(root, {self.unit(root, modules)}) for root in self.roots]
        while waiting:
            node, told = waiting.pop()
            new = told - sets[node]
            if not new:
                continue
            passed = new
            if node in candidates:
                passed = set() if sets[node] else {self.unit(node, modules)}
            sets[node] |= new
            waiting += [(each.to, passed) for each in self.references[node]]
        return sets

    def unit(self, node: int, modules: bool) -> int:
        """By what a candidate or a root goes: the first of those that read alike, or the module that leads to it."""
        top = self.way(node)[0]
        if modules and KINDS[self.kind[top]] == "module":
            return top
        return self.alike(node)[0]

    def alike(self, node: int) -> list[int]:
        """The candidates that go with one; another object is alone."""
        return self._alike[self.path_key(node)] if node in self.candidates else [node]

    @cached_property
    def candidates(self) -> frozenset[int]:
        return frozenset(node for node in self.order if self.is_candidate(node))

    @cached_property
    def _alike(self) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for node in self.order:
            if node in self.candidates:
                found.setdefault(self.path_key(node), []).append(node)
        return found

    def is_candidate(self, node: int) -> bool:
        """Whether a person would name it where it refers to something: what a module or a class has, a variable of a
        frame or a function, a cache, what is a thread's own or a context's."""
        label = self.step[node].label
        if self.parent[node] == TOP or not label or not self.references[node]:
            return False
        if label.startswith(("closure of ", "default argument ", "lru_cache of ", "context variable ")):
            return True
        if " local " in label or label.endswith(" of a thread"):
            return True
        holder = self.type(self._shown(self.parent[node]))
        named = holder is not None and holder.full in ("module", "type")
        return (label.startswith(".") and named) or self._is_suspended(node)

    def _is_suspended(self, node: int) -> bool:
        type = self.type(node)
        return type is not None and type.full in ("generator", "coroutine", "async_generator")

    def _shown(self, node: int) -> int:
        while not self.step[node].label:
            node = self.parent[node]
        return node
