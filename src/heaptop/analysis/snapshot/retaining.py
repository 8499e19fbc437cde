"""What an open snapshot's answers come to on the screen: rows by type, kind and retainer set, the tree of paths, what
would go with what is chosen. Pure: this module never asks a snapshot, and never draws.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from typing import Final, Literal, TypeVar

from heaptop.analysis.filters.filters import MEASURES, Filter
from heaptop.analysis.filters.predicates import FilterFigures
from heaptop.analysis.heap.graph_history import NO_RETAINER, GraphCell, set_labels
from heaptop.analysis.heap.path_words import KIND_WORDS, one_place, placed, type_name
from heaptop.analysis.text.units import format_bytes, format_count, format_number
from heaptop.errors import UsageError
from heaptop.protocol.images import (
    KINDS,
    Groups,
    Losses,
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

T = TypeVar("T")

Measure = Literal["retained", "bytes", "count"]

SMALL_SETS: Final = "(small sets)"  # All that is beyond the sets of an answer: together they may be most of it


def garbage_words(cycles: int, *, collects: bool) -> str:
    """``3 cycles, gc on``: of what nothing keeps."""
    return f"{format_number(cycles, 'cycle')}, gc {'on' if collects else 'off'}"


# -- the filter ----------------------------------------------------------------------------------------------

NAMES: Final = ("type", "module", "kind", "retainer")  # What a filter may ask of single objects
AMOUNTS: Final = (*NAMES, "size", "count", "retained")  # What it may ask of rows
MOST_TYPES: Final = 5_000  # Ids that one question has room for


def narrowed(where: Filter, types: Sequence[TypeName], within: Selection) -> Selection | None:
    """What of a selection the filter's terms on types and kinds let through; None where that can be nothing.

    Raises:
        UsageError: more types pass than one question has room for, or others of each kind.
    """
    where = where.only("type", "module", "kind")
    asked = range(len(types)) if not within.types else [id for id in within.types if id < len(types)]
    if "kind" not in where.attributes:
        return _of_types(where, types, within, _passing_types(where, types, asked, "")) if where else within
    kinds: Sequence[int] = within.kinds or range(len(KINDS))
    if where.entangled(("kind",)):
        by_kind = {kind: _passing_types(where, types, asked, KINDS[kind]) for kind in kinds}
        kinds = [kind for kind in kinds if by_kind[kind]]
        found = {by_kind[kind] for kind in kinds}
        if len(found) > 1:
            raise UsageError(
                f"{where} selects different types for each kind.",
                why="A snapshot query has one set of types and one set of kinds.",
                fix="Write type and kind next to each other, not under one `or`.",
            )
        ids = found.pop() if found else ()
    else:
        some = next(iter(types), TypeName("builtins", "object"))
        of_kind = where.only("kind")
        kinds = [kind for kind in kinds if of_kind.matches(GraphCell(some, KINDS[kind], (), 1, 1))]
        ids = _passing_types(where.only("type", "module"), types, asked, "")
    return _of_types(where, types, replace(within, kinds=tuple(kinds)), ids) if kinds else None


def _passing_types(where: Filter, types: Sequence[TypeName], asked: Iterable[int], kind: str) -> tuple[int, ...]:
    return tuple(id for id in asked if where.matches(GraphCell(types[id], kind, (), 1, 1)))


def _of_types(where: Filter, types: Sequence[TypeName], within: Selection, ids: tuple[int, ...]) -> Selection | None:
    """Those of these types alone; None of none."""
    if {"type", "module"}.isdisjoint(where.attributes):
        return within
    if len(ids) == len(types) and not within.types:
        return within if ids else None
    if len(ids) > MOST_TYPES:
        raise UsageError(
            f"{len(ids):,} types match {where}; a query accepts {MOST_TYPES:,}.", fix="Use a narrower filter."
        )
    return replace(within, types=ids) if ids else None


def kept(answer: Groups, where: Filter, types: Sequence[TypeName], key: str) -> Groups:
    """The groups that the filter lets through, whose terms on figures are on rows by ``key``, type or kind. What some
    retainers keep was asked for."""
    where = where.without("retainer")
    if not where:
        return answer
    rows = _passing(
        [row for row in answer.rows if row.type < len(types)],
        where,
        lambda row: GraphCell(types[row.type], KINDS[row.kind], (), 1, 1),
        lambda row: row.kind if key == "kind" else type_name(types, row.type),
        lambda row: FilterFigures(row.bytes, row.count, row.retained),
    )
    return replace(answer, rows=tuple(rows))


def kept_sets(answer: Retainers, where: Filter, types: Sequence[TypeName]) -> Retainers:
    """The retainer sets that the filter lets through: of what is in none that was sent, it is not known whether its
    terms on retainers would. Its terms on types and kinds were part of the question."""
    where = where.beyond("type", "module", "kind")
    if not where:
        return answer
    some = TypeName("builtins", "object")
    rows = _passing(
        answer.rows,
        where,
        lambda row: GraphCell(
            types[row.type] if row.type < len(types) else some, "", set_labels(row, answer.units, answer.number), 1, 1
        ),
        lambda row: _set_key(row, answer),
        lambda row: FilterFigures(row.bytes, row.count),
    )
    if set(where.attributes) <= {"size", "count"} and where.matches(
        GraphCell(some, "", (), 1, 1), FilterFigures(answer.other_bytes, answer.other_count)
    ):
        return replace(answer, rows=tuple(rows))
    return replace(answer, rows=tuple(rows), other_count=0, other_bytes=0)


def _passing(
    items: Iterable[T],
    where: Filter,
    cell: Callable[[T], GraphCell],
    key: Callable[[T], Hashable],
    figures: Callable[[T], FilterFigures],
) -> list[T]:
    """Those that pass, where terms on figures are on all of a row as far as its names let it through."""
    found = [(item, where.of_cell(cell(item))) for item in items]
    if not where.bounded:
        return [item for item, verdict in found if verdict is True]
    sums: dict[Hashable, FilterFigures] = {}
    for item, verdict in found:
        if verdict is not False:
            one, more = sums.get(key(item), FilterFigures(0, 0)), figures(item)
            sums[key(item)] = FilterFigures(one.size + more.size, one.count + more.count, one.retained + more.retained)
    return [item for item, verdict in found if (verdict if isinstance(verdict, bool) else verdict(sums[key(item)]))]


def names_only(where: Filter) -> Filter:
    """The filter without what it asks of figures: what holds of the objects inside a row too."""
    return where.without(*MEASURES)


# -- rows ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RetainerRow:
    """Objects that have something in common."""

    key: str  # Holds for every snapshot of a session
    name: str
    count: int
    bytes: int  # Their own, hidden ones among them
    retained: int = 0  # What would go with them, one by one; of kinds and retainer sets it is not known
    kinds: tuple[tuple[str, int], ...] = ()  # Names of kinds and bytes of each, the largest first
    types: tuple[tuple[str, int], ...] = ()  # Likewise, full names of types
    kind: int = -1
    units: tuple[Unit, ...] = ()  # Of a retainer set
    stacks: tuple[int, ...] = ()
    """Of a row by site, those that most was allocated by first, as the sampler numbers them."""
    many: bool = False  # More retainers than were distinguished
    rest: bool = False  # What is beyond the rows that were asked for
    left_out: bool = False  # No objects, but a retainer that a person has excluded: its one unit
    short: str = ""  # The name without where frames are; of a retainer set


def type_rows(answer: Groups, types: Sequence[TypeName]) -> list[RetainerRow]:
    """A row a type. Objects that keep one another are of one kind, so that what types retain by kind adds up."""
    sums: dict[str, _Sum] = {}
    for group in answer.rows:
        name = type_name(types, group.type)
        sums.setdefault(name, _Sum()).add(group.count, group.bytes, group.retained, KINDS[group.kind])
    return [RetainerRow(name, name, each.count, each.bytes, each.retained, each.parts()) for name, each in sums.items()]


def kind_rows(answer: Groups, types: Sequence[TypeName]) -> list[RetainerRow]:
    """A row a kind of root, in the order in which they are followed."""
    sums: dict[int, _Sum] = {}
    for group in answer.rows:
        sums.setdefault(group.kind, _Sum()).add(group.count, group.bytes, 0, type_name(types, group.type))
    rows = []
    for kind, each in sorted(sums.items()):
        name = KINDS[kind]
        rows.append(RetainerRow(name, KIND_WORDS[name], each.count, each.bytes, types=each.parts(), kind=kind))
    return rows


def set_rows(answer: Retainers, types: Sequence[TypeName]) -> list[RetainerRow]:
    """A row a retainer set. Those with more members than N are one row, single retainers that read alike are one, and
    what was left out is another."""
    sums: dict[tuple[bool, str, tuple[int, ...]], _Sum] = {}
    units: dict[tuple[bool, str, tuple[int, ...]], set[int]] = {}
    for row in answer.rows:
        key = _set_key(row, answer)
        sums.setdefault(key, _Sum()).add(row.count, row.bytes, 0, type_name(types, row.type))
        units.setdefault(key, set()).update(row.units)
    rows = []
    for (many, name, several), each in sums.items():
        found = sorted(units[many, name, several])
        times = f" ×{len(found)}" if len(found) > 1 and not several else ""
        said = name if many else _units_text([answer.units[unit] for unit in found], alike=not several)
        rows.append(
            RetainerRow(
                f"{name}#{several}",
                said + times,
                each.count,
                each.bytes,
                types=each.parts(),
                units=tuple(answer.units[unit] for unit in found),
                many=many,
                short=name + times,
            )
        )
    if answer.other_count:
        rows.append(RetainerRow("rest", SMALL_SETS, answer.other_count, answer.other_bytes, rest=True))
    return rows


def left_out_rows(units: Iterable[Unit]) -> list[RetainerRow]:
    """A row a retainer that was excluded, so that it can be taken back."""
    return [
        RetainerRow(f"out {each.label}", f"excluded: {each.label}", 0, 0, units=(each,), left_out=True)
        for each in units
    ]


def _set_key(row: RetainerSet, answer: Retainers) -> tuple[bool, str, tuple[int, ...]]:
    """Of a row of :func:`set_rows`."""
    members = [answer.units[unit] for unit in row.units]
    name = many_words(answer.number) if row.many else set_words(members)
    return row.many, name, row.units if len(members) > 1 else ()


class _Sum:
    def __init__(self) -> None:
        self.count = self.bytes = self.retained = 0
        self._parts: dict[str, int] = {}

    def add(self, count: int, size: int, retained: int, part: str) -> None:
        self.count += count
        self.bytes += size
        self.retained += retained
        self._parts[part] = self._parts.get(part, 0) + size

    def parts(self) -> tuple[tuple[str, int], ...]:
        return tuple(sorted(self._parts.items(), key=lambda part: (-part[1], part[0])))


def sorted_rows(rows: Iterable[RetainerRow], column: str, *, descending: bool) -> list[RetainerRow]:
    """By name or a figure, ties by name. What is beyond the rows has its place by its figures, for it may be most of
    all, and is last of the names; what was left out is below everything."""
    by_name = sorted(rows, key=lambda row: row.name, reverse=descending and column == "name")
    if column != "name":
        figure = "bytes" if column == "share" else column
        by_name.sort(key=lambda row: int(getattr(row, figure)), reverse=descending)
    return sorted(by_name, key=lambda row: (row.left_out, row.rest and column == "name"))


def many_words(number: int) -> str:
    """nhc's MANY."""
    return f"MANY: more than {number} retainer{'s' * (number != 1)} each"


def set_words(units: Sequence[Unit]) -> str:
    return " + ".join(unit.label for unit in units) or NO_RETAINER


def unit_text(unit: Unit) -> str:
    """A retainer for a person, with where its frame is."""
    return placed(unit.label, unit.place)


def _units_text(units: Sequence[Unit], *, alike: bool) -> str:
    """Retainers of a row for a person: all members of a set, or those that read ``alike`` as one."""
    if not alike or len(units) < 2:
        return " + ".join(map(unit_text, units)) or NO_RETAINER
    return placed(units[0].label, reduce(one_place, (unit.place for unit in units)))


def short_name(full: str) -> str:
    """``Basket.Line`` of ``shop.models.Basket.Line``: what is not a module's part, by its spelling."""
    parts = full.split(".")
    first = next((place for place, part in enumerate(parts) if part[:1].isupper()), len(parts) - 1)
    return ".".join(parts[first:])


# -- the tree of paths ---------------------------------------------------------------------------------------


@dataclass(eq=False)
class Node:
    """A step of a path, and all that is kept along it."""

    key: str  # Labels and types from the root to here: it holds for every snapshot
    label: str
    type: str
    kind: int
    repeated: bool
    address: int  # Of the one object it leads to; 0 where there are several
    count: int = 0
    bytes: int = 0
    retained: int = 0
    """The sum of what its groups retain, each by itself: what objects of one group keep of another's is in it twice."""
    groups: list[PathGroup] = field(default_factory=list)  # All that are kept along it
    ends: list[PathGroup] = field(default_factory=list)  # Those whose objects it leads to
    below: dict[tuple[str, str, bool], Node] = field(default_factory=dict)
    text: str = ""  # The labels from the root to here, as a retainer is named
    place: Place | None = None  # Of the frame that its label begins with

    def amount(self, measure: Measure) -> int:
        return int(getattr(self, measure))

    def children(self, measure: Measure, *, descending: bool = True) -> list[Node]:
        """By size, ties by name."""
        sign = -1 if descending else 1
        return sorted(self.below.values(), key=lambda node: (sign * node.amount(measure), node.key))


class PathTree:
    """The paths of one answer, merged where they read alike."""

    def __init__(self, answer: Paths, types: Sequence[TypeName]) -> None:
        self.answer: Final = answer
        self.top: Final = Node("", "", "", 0, False, 0)
        for group in answer.groups:
            self._add(group, types)
        self.is_sum: Final = not answer.other_groups and self.top.retained == answer.retained
        """No object keeps one of another group, so that what groups retain adds up."""

    def _add(self, group: PathGroup, types: Sequence[TypeName]) -> None:
        node = self.top
        self._put(node, group)
        for place, step in enumerate(group.steps):
            name = type_name(types, step.type)
            is_last = place == len(group.steps) - 1
            address = 0 if is_last and group.count > 1 else step.address
            part = step.label, name, step.repeated
            inner = node.below.get(part)
            if inner is None:
                key = f"{node.key}\n{step.label}\t{name}\t{step.repeated:d}"
                text = f"{node.text} {step.label}".strip()
                inner = Node(key, step.label, name, group.kind, step.repeated, address, text=text, place=step.place)
                node.below[part] = inner
            elif inner.address != address:
                inner.address = 0
            inner.place = one_place(inner.place, step.place)
            node = inner
            self._put(node, group)
        node.ends.append(group)

    @staticmethod
    def _put(node: Node, group: PathGroup) -> None:
        node.groups.append(group)
        node.count += group.count
        node.bytes += group.bytes
        node.retained += group.retained

    def is_exact(self, node: Node) -> bool:
        """Whether what it retains is known, and not only that it is no more than :meth:`most`."""
        return self.is_sum or len(node.groups) == 1

    def most(self, node: Node) -> int:
        """What its objects retain, or what they retain at most."""
        return min(node.retained, self.answer.retained)

    def share(self, node: Node, measure: Measure) -> float:
        """Of the whole selection, whether its path was sent or not; 0 to 1."""
        amount = self.most(node) if measure == "retained" else node.amount(measure)
        return amount / (getattr(self.answer, measure) or 1)

    @property
    def other(self) -> tuple[int, int]:
        """Objects and bytes of the paths that were not sent."""
        return self.answer.count - self.top.count, self.answer.bytes - self.top.bytes


@dataclass(frozen=True, slots=True)
class TreeRow:
    """A line of the tree. Its ``what``: ``open`` or ``closed`` where something is below it, ``leaf``, ``own`` for the
    objects of the line above it beside what these lead to, ``rest`` for the paths that were not sent."""

    key: str
    what: Literal["open", "closed", "leaf", "own", "rest"]
    depth: int
    node: Node  # The last of its steps
    folded: tuple[Node, ...] = ()  # The steps before that one, which are one line with it
    head: str = ""  # The key of the first step of those that are one line, also where each has a line of its own


def tree_rows(
    tree: PathTree, opened: set[str], measure: Measure, *, descending: bool = True, unfolded: Collection[str] = ()
) -> list[TreeRow]:
    """The visible lines, from the top; what the answer left out is last.

    Args:
        unfolded: the first steps of what would be one line, of which each has its own.
    """
    order = partial(Node.children, measure=measure, descending=descending)
    rows = [row for node in order(tree.top) for row in _lines(node, 0, opened, order, unfolded)]
    if tree.answer.other_groups:
        rows.append(TreeRow("rest", "rest", 0, tree.top))
    return rows


def _lines(
    node: Node,
    depth: int,
    opened: set[str],
    order: Callable[[Node], list[Node]],
    unfolded: Collection[str],
    head: str = "",
) -> Iterator[TreeRow]:
    """The line of a step, and those below it.

    Args:
        head: the first step of what would be one line with it, where each has its own; empty where none has.
    """
    folded: list[Node] = []
    if not head and node.key in unfolded:
        head = node.key
    first = head or node.key
    while not head and is_passed(node):
        folded.append(node)
        node = next(iter(node.below.values()))
    what: Literal["open", "closed", "leaf"] = "leaf" if not node.below else "open" if node.key in opened else "closed"
    yield TreeRow(node.key, what, depth, node, tuple(folded), first)
    if what == "open":
        if node.ends:
            yield TreeRow(f"{node.key}\nown", "own", depth + 1, own_part(node))
        for each in order(node):
            yield from _lines(each, depth + 1, opened, order, unfolded, head if is_passed(node) else "")


def is_passed(node: Node) -> bool:
    """Whether a step of several objects is but on the way to one other step: their figures are the same."""
    return len(node.below) == 1 and not node.ends and not node.address


def own_part(node: Node) -> Node:
    """What a node leads to by itself, as a node that nothing is below."""
    count = sum(group.count for group in node.ends)
    size = sum(group.bytes for group in node.ends)
    retained = sum(group.retained for group in node.ends)
    return replace(node, count=count, bytes=size, retained=retained, groups=node.ends, below={})


def list_rows(tree: PathTree, measure: Measure, *, descending: bool = True) -> list[TreeRow]:
    """A line a path."""
    ends = sorted((own_part(node) for node in _walk(tree.top) if node.ends), key=lambda node: node.key)
    ends.sort(key=lambda node: node.amount(measure), reverse=descending)
    rows = [TreeRow(node.key, "leaf", 0, node) for node in ends]
    if tree.answer.other_groups:
        rows.append(TreeRow("rest", "rest", 0, tree.top))
    return rows


def _walk(node: Node) -> Iterator[Node]:
    waiting = [node]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += node.below.values()


def first_opened(tree: PathTree, measure: Measure) -> set[str]:
    """The nodes of a tree that is new which show where most of it is: as long as one child has half of it."""
    opened: set[str] = set()
    node = tree.top
    while node.below:
        largest = node.children(measure)[0]
        if 2 * largest.amount(measure) < node.amount(measure):
            break
        opened.add(largest.key)
        node = largest
    return opened


def opened_below(node: Node, measure: Measure) -> Iterator[str]:
    """What is expanded along with a node: all that is below it while there is only one way to go."""
    yield node.key
    while len(node.below) == 1 and not node.ends:
        node = node.children(measure)[0]
        yield node.key


# -- paths of one object -------------------------------------------------------------------------------------


def texts_down(steps: Sequence[Step]) -> list[str]:
    """Of each step, all labels from the root to it: what names it as a retainer."""
    return [" ".join(step.label for step in steps[: place + 1] if step.label) for place in range(len(steps))]


# -- what would go -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FreedIfDropped:
    """What would go with the objects chosen."""

    objects: int
    bytes: int
    alone: dict[int, tuple[int, int]]  # Objects and bytes that would go with one of them alone, by its address
    shared: int
    """Bytes that go with all of them and with none alone; below 0: so many are counted for two of them, because one
    keeps another."""
    complete: bool

    @classmethod
    def of(cls, answer: Losses) -> FreedIfDropped:
        alone = {address: (objects, size) for address, objects, size in answer.alone}
        shared = answer.bytes - sum(size for _, size in alone.values()) if answer.complete else 0
        return cls(answer.objects, answer.bytes, alone, shared, answer.complete)

    @property
    def words(self) -> str:
        """``dropping both frees 12.3 MiB, 90,123 objects; 1.20 MiB of it shared``"""
        number = len(self.alone)
        what = {1: "it", 2: "both"}.get(number, f"all {number}")
        text = f"dropping {what} frees {format_bytes(self.bytes)}, {format_count(self.objects)} objects"
        if number < 2 or not self.complete:
            return text
        return f"{text}; {'one keeps another' if self.shared < 0 else f'{format_bytes(self.shared)} of it shared'}"
