"""What is true of a fake agent's heap: every answer about an open snapshot, in the plainest way.

It says what the native core finds by faster means. This module never reads a socket, a process or a clock. Nothing in
heaptop proper imports it.
"""

from __future__ import annotations

import bisect
import itertools
import struct
import zlib
from collections.abc import Callable, Collection, Hashable, Iterable
from dataclasses import replace
from typing import Final, TypeVar

from heaptop.analysis.leaks.marks import retainer_words
from heaptop.protocol import images
from heaptop.protocol.images import (
    CELL,
    INTERNED_FREED,
    NO_TYPE,
    WASTES,
    AccumulationPoint,
    Age,
    Ages,
    Blocks,
    Cells,
    Dumped,
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
    Points,
    Question,
    Retainers,
    RetainerSet,
    StackBlocks,
    Step,
    Unit,
    Waste,
    WasteRow,
    WasteTotal,
)
from heaptop.protocol.messages import Message, TypeName
from tests.fakes.graph import TOP, Graph, PlantedHeap, Reference
from tests.fakes.points import Accumulation


class Refused(Exception):
    """A question that has no answer; the sentence says why."""


# -- what is answered ---------------------------------------------------------------------------------------

LIVE_ADDRESSES: Final = 400
"""In one piece of an answer to LIVE: few, so that there are several."""
GAP: Final = 1 << 20
"""Bytes without an object that divide one extent from the next."""
CONTAINERS: Final = frozenset(
    (
        *("dict", "list", "set", "bytearray", "array.array", "collections.deque", "collections.OrderedDict"),
        *("collections.defaultdict", "collections.Counter", "_io.BytesIO", "_io.StringIO"),
        "functools._lru_cache_wrapper",
    )
)
"""Types of what things collect in; of classes made from these, see Planted."""
_OFFSET: Final = struct.Struct("<Q")
_LIVE: Final = struct.Struct("<QBB")
"""An address, a byte that tells its type, and how many marks it has seen."""


class PlantedImage:
    """An open snapshot of a planted heap: answers to all questions, each a function of its own."""

    def __init__(self, heap: PlantedHeap) -> None:
        self.graph: Final = Graph(heap)
        self.types: Final = list(dict.fromkeys(each.type for each in heap.objects))
        """By id."""
        self._blocks_of_none: Final = heap.unreached
        ids = {type: id for id, type in enumerate(self.types)}
        self._type_ids: Final = {one: ids[each.type] for one, each in self.graph.objects.items()}
        self._block: Final = self._blocks()
        self._has_mark = False
        self._seen = dict.fromkeys(self.graph.objects, 0)
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
            images.AGES: self._ages,
            images.POINTS: self._points,
            images.WASTE: self._waste,
            images.UNREACHED: self._unreached,
            images.DUMP: self._piece,
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
        below = {*s.below}
        def collects(each: int) -> bool:
            planted = graph.objects[each]
            return planted.is_container or planted.type.full in CONTAINERS

        criteria: tuple[tuple[object, Callable[[int], bool]], ...] = (
            (s.types, lambda each: self._type_ids[each] in s.types),
            (s.kinds, lambda each: graph.kind[each] in s.kinds),
            (s.addresses, lambda each: each in s.addresses),
            (s.stacks, lambda each: graph.objects[each].stack in s.stacks),
            (s.below, lambda each: not below.isdisjoint(graph.dominators(each))),
            (s.path, lambda each: graph.path_key(each) in s.path),
            (s.retainers, self._is_retained_by(question)),
            (s.seen, lambda each: self.seen(each) in s.seen),
            (question.containers, collects),
            (question.high > question.low, lambda each: self._reaches(each, question.low, question.high)),
        )
        found = [*graph.objects]
        for wanted, holds in criteria:
            if wanted:
                found = [*filter(holds, found)]
        return found

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
        groups = _grouped(self.selected(question), lambda each: (self._type_ids[each], self.graph.kind[each]))
        rows = [Group(*key, len(them), self._bytes(them), self._retained(them)) for key, them in groups.items()]
        rows.sort(key=lambda row: (-row.retained, row.type, row.kind))
        return Groups(id, tuple(rows[: question.limit]), complete=len(rows) <= question.limit)

    def _stacks(self, id: int, question: Question) -> Blocks:
        groups = _grouped(self.selected(question), lambda each: self.graph.objects[each].stack)
        rows = [StackBlocks(stack, len(them), self._bytes(them)) for stack, them in groups.items() if stack]
        rows.sort(key=lambda row: (-row.bytes, row.stack))
        return Blocks(id, tuple(rows[: question.limit]), complete=len(rows) <= question.limit)

    def _unreached(self, id: int, question: Question) -> Blocks:
        rows = sorted((StackBlocks(*each) for each in self._blocks_of_none), key=lambda row: (-row.bytes, row.stack))
        return Blocks(id, tuple(rows[: question.limit]), complete=len(rows) <= question.limit)

    def _piece(self, id: int, question: Question) -> Dumped:
        """One for each section, of bytes that no core understands: for tests of who writes them."""
        return Dumped(id, b"piece %d" % question.number, question.number + 1, 0, len(self.graph.objects))

    def _paths(self, id: int, question: Question) -> Paths:
        selected = self.selected(question)
        if question.beginnings:
            groups = _grouped(selected, lambda each: hash((self._beginning(each), self._type_id(each))) >> 1)
            rows = [self._beginning_group(key, them, question.values) for key, them in groups.items()]
            rows.sort(key=lambda row: (-row.bytes, row.key))
        else:
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

    def _beginning_group(self, key: int, nodes: list[int], values: bool) -> PathGroup:
        one = self._path_group(key, nodes[:1], values)
        steps = tuple(replace(step, address=0) for step in one.steps)
        return replace(one, count=len(nodes), bytes=self._bytes(nodes), retained=0, steps=steps)

    def _beginning(self, node: int) -> str:
        return retainer_words(self._steps(node, values=False))

    def _steps(self, node: int, values: bool) -> list[Step]:
        steps = self.graph.steps(node, values)
        return [Step(label, self._type_id(to), max(0, to), repeated) for label, to, repeated in steps]

    # -- objects

    def _type(self, address: int) -> TypeName:
        return self.graph.objects[address].type

    def _type_id(self, node: int) -> int:
        return self._type_ids[node] if node > 0 else NO_TYPE

    def _row(self, address: int) -> ObjectRow:
        one = self.graph.objects[address]
        return ObjectRow(
            address=address,
            type=self._type_ids[address],
            size=one.size,
            retained=self.graph.retained[address],
            generation=one.generation,
            kind=self.graph.kind[address],
            length=one.length,
            stack=one.stack,
            bound=one.bound,
            changes=one.changes,
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

    def seen(self, address: int) -> int:
        """At how many marks in a row it was there, from the latest back."""
        return self._seen[address]

    def _type_byte(self, address: int) -> int:
        return zlib.crc32(self._type(address).full.encode()) & 255

    def _live(self, id: int, question: Question) -> Live:
        every, end = sorted(self.graph.objects), question.offset + LIVE_ADDRESSES
        records = (_LIVE.pack(each, self._type_byte(each), self.seen(each)) for each in every[question.offset : end])
        return Live(id, _OFFSET.pack(question.offset) + b"".join(records), end if end < len(every) else 0)

    def _note_known(self, id: int, question: Question) -> Known:
        offset, records = question.known[: _OFFSET.size], question.known[_OFFSET.size :]
        if len(offset) < _OFFSET.size or len(records) % _LIVE.size:
            raise Refused("the mark is damaged")
        if offset == _OFFSET.pack(0):
            self._has_mark, self._seen = True, dict.fromkeys(self.graph.objects, 0)
        elif not self._has_mark:
            raise Refused("the first piece of the mark is missing")
        for address, type, before in _LIVE.iter_unpack(records):
            if address in self._seen and self._type_byte(address) == type:
                self._seen[address] = min(before + 1, 254)
        return Known(id, sum(seen > 0 for seen in self._seen.values()))

    def _ages(self, id: int, question: Question) -> Ages:
        groups = _grouped(self.selected(question), lambda each: (self._type_ids[each], self.seen(each)))
        rows = [Age(*key, len(them), self._bytes(them)) for key, them in groups.items()]
        rows.sort(key=lambda row: (-row.bytes, row.type, row.seen))
        return Ages(id, tuple(rows[: question.limit]), complete=len(rows) <= question.limit)

    # -- where it accumulates

    def _points(self, id: int, question: Question) -> Points:
        if not 51 <= question.number <= 100:
            raise Refused("most of it is a share of 51 to 100 per cent")
        selected = self.selected(question)
        found = Accumulation(self.graph, selected, question.number)
        points = [self._point(each, found) for each in found.points()]
        shown = tuple(points[: question.limit])
        return Points(
            id,
            count=len(selected),
            bytes=self._bytes(selected),
            points=shown,
            loose_count=len(selected) - sum(point.count for point in shown),
            loose_bytes=self._bytes(selected) - sum(point.bytes for point in shown),
            complete=len(points) == len(shown),
        )

    def _point(self, node: int, found: Accumulation) -> AccumulationPoint:
        heads = found.heads(node)
        head_type = _largest((self._type_id(each), found.weight(each)) for each in heads)
        alike = [each for each in heads if self._type_id(each) == head_type]
        one = self.graph.objects.get(node)
        return AccumulationPoint(
            address=max(0, node),
            type=self._type_id(node),
            kind=self.graph.kind[node],
            size=self.graph.size(node),
            retained=self.graph.retained[node] if one else 0,
            length=one.length if one else -1,
            seen=self.seen(node) if one else 0,
            count=found.count[node],
            bytes=found.below[node],
            heads=len(heads),
            head_type=head_type,
            head_count=len(alike),
            head_bytes=sum(map(found.weight, alike)),
            example=alike[0],
            path=tuple(self._steps(node, values=False)),
        )

    # -- what it could do without

    def _waste(self, id: int, question: Question) -> Waste:
        rows: dict[tuple[int, int, int, int], WasteRow] = {}
        for node in self.selected(question):
            largest = 0
            for sort, size, detail in sorted(self.graph.objects[node].wastes, key=lambda each: WASTES.index(each[0])):
                place = WASTES.index(sort)
                held, holder = (0, NO_TYPE) if sort == "slots" else self._holder(node)
                key = place, self._type_id(node), held, holder
                path = tuple(self._steps(node, values=False))
                row = rows.get(key) or WasteRow(*key[:2], 0, 0, 0, 0, holder, node, path)
                rows[key] = replace(
                    row,
                    count=row.count + 1,
                    bytes=row.bytes + size,
                    own=row.own + max(0, size - largest),
                    detail=detail if sort == "slots" else row.detail + detail,
                )
                largest = max(largest, size)
        told = sorted(rows.values(), key=lambda row: (-row.bytes, row.sort, row.type))
        return Waste(
            id,
            totals=tuple(self._waste_total(place, told) for place in range(len(WASTES))),
            rows=tuple(told[: question.limit]),
            other_rows=max(0, len(told) - question.limit),
            interned=INTERNED_FREED,
        )

    @staticmethod
    def _waste_total(place: int, rows: list[WasteRow]) -> WasteTotal:
        mine = [row for row in rows if row.sort == place]
        count = sum(row.count for row in mine)
        kept = (count + 2) // 3 if WASTES[place] in ("duplicate", "equal") else 0
        return WasteTotal(place, count, sum(row.bytes for row in mine), sum(row.own for row in mine), kept)

    def _holder(self, node: int) -> tuple[int, int]:
        """What the nearest one is, if it is one: a module or a frame; and its type, if that is what counts."""
        while (node := self.graph.parent[node]) != TOP:
            type = self.graph.type(node)
            if type is None or type.full == "module":
                return node, NO_TYPE
            if type.module != "builtins":
                return 0, self._type_id(node)
        return 0, NO_TYPE


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
