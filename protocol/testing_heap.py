"""The heap of a fake agent, and what is true of it: every answer about an open snapshot, in the plainest way.

It says what the native core finds by faster means, for heaps of some thousand objects. This module never reads a
socket, a process or a clock. Nothing in heaptop proper imports it.
"""

from __future__ import annotations

import bisect
import hashlib
import itertools
import struct
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, TypeVar

from heaptop.protocol import images
from heaptop.protocol.images import (
    CELL,
    KINDS,
    NO_TYPE,
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
    PathGroup,
    Paths,
    Question,
    Retainers,
    RetainerSet,
    StackBlocks,
    Step,
    Unit,
)
from heaptop.protocol.messages import Message, TypeName

TOP: Final = 0
"""In place of an object: what all roots hang on."""


class Refused(Exception):
    """A question that has no answer; the sentence says why."""


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


# -- what is answered ---------------------------------------------------------------------------------------

LIVE_ADDRESSES: Final = 400
"""In one piece of an answer to LIVE: few, so that there are several."""
GAP: Final = 1 << 20
"""Bytes without an object that divide one extent from the next."""
_LIVE: Final = struct.Struct("<Q")


class PlantedImage:
    """An open snapshot of a planted heap: answers to all questions, each a function of its own."""

    def __init__(self, heap: PlantedHeap) -> None:
        self.graph: Final = Graph(heap)
        self.types: Final = list(dict.fromkeys(each.type for each in heap.objects))
        """By id."""
        self._ids: Final = {type: id for id, type in enumerate(self.types)}
        self._block: Final = self._blocks()
        self._known: set[int] = set()
        self._answers: Final[dict[int, Callable[[int, Question], Message]]] = {
            images.GROUPS: self._groups,
            images.PATHS: self._paths,
            images.OBJECTS: self._objects,
            images.OBJECT: self._object,
            images.MAP: self._map,
            images.LOSE: self._lose,
            images.RETAINERS: self._retainers,
            images.STACKS: self._stacks,
            images.LIVE: self._live,
            images.KNOWN: self._note_known,
        }

    def answer(self, id: int, question: Question) -> Message:
        """
        Raises:
            Refused: there is no answer.
        """
        if question.what not in self._answers:
            raise Refused("this agent does not know the question")
        return self._answers[question.what](id, question)

    def selected(self, question: Question) -> list[int]:
        """Addresses, ascending."""
        s, graph = question.selection, self.graph
        criteria: tuple[tuple[object, Callable[[int], bool]], ...] = (
            (s.types, lambda each: self._ids[graph.objects[each].type] in s.types),
            (s.kinds, lambda each: graph.kind[each] in s.kinds),
            (s.addresses, lambda each: each in s.addresses),
            (s.stacks, lambda each: graph.objects[each].stack in s.stacks),
            (s.below, lambda each: not set(s.below).isdisjoint(graph.dominators(each))),
            (s.path, lambda each: graph.path_key(each) in s.path),
            (s.retainers, self._is_retained_by(question)),
            (s.new, lambda each: each not in self._known),
            (question.high > question.low, lambda each: self._reaches(each, question.low, question.high)),
        )
        holding = [holds for wanted, holds in criteria if wanted]
        return [each for each in graph.objects if all(holds(each) for holds in holding)]

    def _is_retained_by(self, question: Question) -> Callable[[int], bool]:
        wanted = {self.graph.alike(each)[0] for each in question.selection.retainers}
        sets = self.graph.retainers(question.modules, question.excluded) if wanted else {}
        return lambda each: not wanted.isdisjoint(sets[each])

    def _reaches(self, address: int, low: int, high: int) -> bool:
        return address < high and address + self._block[address] > low

    # -- sums over what is selected

    def _bytes(self, nodes: Iterable[int]) -> int:
        return sum(map(self.graph.size, nodes))

    def _retained(self, nodes: Collection[int]) -> int:
        """Bytes that would go if they went one by one."""
        members = set(nodes)
        return sum(self.graph.retained[each] for each in nodes if members.isdisjoint(self.graph.dominators(each)))

    def _groups(self, id: int, question: Question) -> Groups:
        groups = _grouped(self.selected(question), lambda each: (self._ids[self._type(each)], self.graph.kind[each]))
        rows = [Group(*key, len(them), self._bytes(them), self._retained(them)) for key, them in groups.items()]
        rows.sort(key=lambda row: (-row.retained, row.type, row.kind))
        return Groups(id, tuple(rows[: question.limit]), complete=len(rows) <= question.limit)

    def _stacks(self, id: int, question: Question) -> Blocks:
        groups = _grouped(self.selected(question), lambda each: self.graph.objects[each].stack)
        rows = [StackBlocks(stack, len(them), self._bytes(them)) for stack, them in groups.items() if stack]
        rows.sort(key=lambda row: (-row.bytes, row.stack))
        return Blocks(id, tuple(rows[: question.limit]), complete=len(rows) <= question.limit)

    def _paths(self, id: int, question: Question) -> Paths:
        selected = self.selected(question)
        groups = _grouped(selected, self.graph.path_key)
        rows = [self._path_group(key, them, question.values) for key, them in groups.items()]
        rows.sort(key=lambda row: (-row.retained, row.key))
        return Paths(
            id,
            count=len(selected),
            bytes=self._bytes(selected),
            retained=self._retained(selected),
            groups=tuple(rows[: question.limit]),
            other_groups=max(0, len(rows) - question.limit),
        )

    def _path_group(self, key: int, nodes: list[int], values: bool) -> PathGroup:
        bytes, retained, kind = self._bytes(nodes), self._retained(nodes), self.graph.kind[nodes[0]]
        steps = self._steps(nodes[0], values)
        ways = zip(*(self.graph.steps(each) for each in nodes), strict=True)
        alike = [len({to for _, to, _ in way}) == 1 for way in ways]
        told = (step if is_one else replace(step, address=0) for step, is_one in zip(steps, alike, strict=True))
        return PathGroup(key, kind, len(nodes), bytes, retained, nodes[0], tuple(told))

    def _steps(self, node: int, values: bool) -> list[Step]:
        steps = self.graph.steps(node, values)
        return [Step(label, self._type_id(to), max(0, to), repeated) for label, to, repeated in steps]

    # -- objects

    def _type(self, address: int) -> TypeName:
        return self.graph.objects[address].type

    def _type_id(self, node: int) -> int:
        return self._ids[self._type(node)] if node > 0 else NO_TYPE

    def _row(self, address: int) -> ObjectRow:
        one = self.graph.objects[address]
        return ObjectRow(
            address=address,
            type=self._ids[one.type],
            size=one.size,
            retained=self.graph.retained[address],
            generation=one.generation,
            kind=self.graph.kind[address],
            length=one.length,
            stack=one.stack,
        )

    def _objects(self, id: int, question: Question) -> Objects:
        selected = sorted(self.selected(question), key=lambda each: (-self.graph.retained[each], each))
        return Objects(id, len(selected), tuple(map(self._row, _page(selected, question))))

    def _object(self, id: int, question: Question) -> Object:
        selected = self.selected(question)
        if len(selected) != 1:
            raise Refused("more than one object is meant" if selected else "there is no such object in the image")
        graph, address = self.graph, selected[0]
        one = graph.objects[address]
        referents = [(each, each.to) for each in one.references]
        referrers = [(each, node) for node, all in graph.references.items() for each in all if each.to == address]
        return Object(
            id,
            row=self._row(address),
            preview=(question.values and one.value) or one.preview,
            path=tuple(self._steps(address, question.values)),
            dominator=max(0, graph.dominator[address]),
            referrers=self._links(referrers, question),
            referrer_count=len(referrers),
            referents=self._links(referents, question),
            referent_count=len(referents),
            surplus=one.surplus,
        )

    def _links(self, references: list[tuple[Reference, int]], question: Question) -> tuple[Link, ...]:
        size, retained = self.graph.size, self.graph.retained
        return tuple(
            Link(self.graph.label(each, question.values), max(0, node), self._type_id(node), size(node), retained[node])
            for each, node in _page(references, question)
        )

    def _lose(self, id: int, question: Question) -> Losses:
        selected = self.selected(question)
        lost = self.graph.lost(selected)
        alone = [(each, self.graph.lost([each])) for each in selected[:64]]
        return Losses(
            id,
            objects=sum(node > 0 for node in lost),
            bytes=self._bytes(lost),
            alone=tuple((each, len(with_it), self._bytes(with_it)) for each, with_it in alone),
            complete=len(selected) <= 64,
        )

    # -- retainers

    def _retainers(self, id: int, question: Question) -> Retainers:
        most = max(1, min(16, question.number))
        sets = self.graph.retainers(question.modules, question.excluded)

        def key(node: int) -> tuple[bool, tuple[int, ...], int]:
            many = len(sets[node]) > most
            return many, () if many else tuple(sorted(sets[node], key=_number)), self._type_id(node)

        groups = _grouped(self.selected(question), key)
        order = sorted(groups, key=lambda each: (-self._bytes(groups[each]), each))
        shown, others = order[: question.limit], [node for each in order[question.limit :] for node in groups[each]]
        units = list(dict.fromkeys(unit for _, members, _ in shown for unit in members))
        rows = [
            RetainerSet(
                units=tuple(sorted(map(units.index, members))),
                many=many,
                type=type,
                count=len(groups[many, members, type]),
                bytes=self._bytes(groups[many, members, type]),
            )
            for many, members, type in shown
        ]
        return Retainers(id, most, tuple(map(self._unit, units)), tuple(rows), len(others), self._bytes(others))

    def _unit(self, node: int) -> Unit:
        label = " ".join(label for label, _, _ in self.graph.steps(node))
        return Unit(label, self.graph.kind[node], max(0, node), several=len(self.graph.alike(node)) > 1)

    # -- addresses

    def _blocks(self) -> dict[int, int]:
        """Bytes of each object's own block: what it has elsewhere is not here, and the next object stands behind it."""
        addresses = list(self.graph.objects)
        rooms = [after - address for address, after in itertools.pairwise(addresses)]
        sizes = map(self.graph.size, addresses)
        return {each: min(size, room) for each, size, room in zip(addresses, sizes, [*rooms, 1 << 63], strict=True)}

    def _map(self, id: int, question: Question) -> Cells:
        selected = self.selected(question)
        low, high, count = question.low, question.high, question.limit if question.high > question.low else 0
        bounds = [low + (high - low) * each // count for each in range(count)] + [high]
        parts: list[list[tuple[int, int]]] = [[] for _ in range(count)]
        for address in selected:
            end = address + self._block[address]
            cell = max(0, bisect.bisect_right(bounds, address) - 1)
            while cell < count and bounds[cell] < end:
                part = min(end, bounds[cell + 1]) - max(address, bounds[cell])
                if part > 0:
                    parts[cell].append((address, part))
                cell += 1
        cells = (self._cell(each, bounds[cell + 1] - bounds[cell]) for cell, each in enumerate(parts))
        return Cells(id, low, high, b"".join(cells), tuple(self._extents(selected)))

    def _cell(self, parts: list[tuple[int, int]], size: int) -> bytes:
        if not parts:
            return CELL.pack(0, NO_TYPE, 0, 255, 0)
        taken = sum(part for _, part in parts)
        type = _largest((self._type_id(address), part) for address, part in parts)
        kind = _largest((self.graph.kind[address], part) for address, part in parts)
        generations = (self.graph.objects[address].generation for address, _ in parts)
        lowest = min((each for each in generations if each >= 0), default=255)
        return CELL.pack(taken, type, 1000 * taken // size, lowest, kind)

    def _extents(self, selected: list[int]) -> list[Extent]:
        found: list[Extent] = []
        for address in selected:
            size = self._block[address]
            if not found or address > found[-1].high + GAP:
                found.append(Extent(address, address, 0))
            last = found[-1]
            found[-1] = Extent(last.low, max(last.high, address + size), last.bytes + size)
        return found

    # -- what was there before

    def _live(self, id: int, question: Question) -> Live:
        selected, end = self.selected(question), question.offset + LIVE_ADDRESSES
        data = b"".join(map(_LIVE.pack, [question.offset, *selected[question.offset : end]]))
        return Live(id, data, end if end < len(selected) else 0)

    def _note_known(self, id: int, question: Question) -> Known:
        if len(question.known) % _LIVE.size or not question.known:
            raise Refused("what it tells is damaged")
        (offset,), *addresses = _LIVE.iter_unpack(question.known)
        if offset == 0:
            self._known.clear()
        self._known.update(address for (address,) in addresses)
        return Known(id, len(self._known & self.graph.objects.keys()))


# -- in common ----------------------------------------------------------------------------------------------

Key = TypeVar("Key", bound=Hashable)
Item = TypeVar("Item")


def _grouped(nodes: Iterable[int], key: Callable[[int], Key]) -> dict[Key, list[int]]:
    groups: dict[Key, list[int]] = {}
    for node in nodes:
        groups.setdefault(key(node), []).append(node)
    return groups


def _number(node: int) -> tuple[bool, int]:
    """By which nodes are in order: objects by address, then frames."""
    return node < 0, abs(node)


def _page(items: list[Item], question: Question) -> list[Item]:
    return items[question.offset : question.offset + question.limit]


def _largest(parts: Iterable[tuple[int, int]]) -> int:
    """Of numbers that each come with bytes, the one that has most of them."""
    sums: dict[int, int] = {}
    for number, part in parts:
        sums[number] = sums.get(number, 0) + part
    return max(sums, key=lambda number: (sums[number], -number))
