"""Direct and indirect allocation once more, made in another way than :mod:`heaptop.analysis.callers.call_paths` does:
the tree of calls with every figure and its interval, and the call graph made from it. What the tests compare with.

**Recursion.** A stack counts once for each function on it, and once for each edge, however often they are there: a
function is never said to allocate more than there is. Functions that call each other (strongly connected ones) are
one :class:`Entry` of the graph, as in gprof and mprof, for inside a cycle "above" and "below" say little; the figures
of each of its functions are kept beside, and so are the exact paths, in the tree.

::

    stacks (trie, by line)          CallTree (by function)         CallGraph
    main:3 ─ make:7  24 B           main 0/34                      main        direct 0   indirect 34
    main:5 ─ make:7  10 B             └ make 34/34                   └ make    direct 34  indirect 34

A function is code, not a line: its number is a position in ``SampledBlocks.codes``, or one of
:data:`NO_FRAME_FUNCTION` and :data:`FORGOTTEN_FUNCTION`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from operator import add
from typing import Final

from heaptop.analysis.callers.call_paths import FORGOTTEN_FUNCTION, NO_FRAME_FUNCTION
from heaptop.analysis.samples.cycles import strongly_connected
from heaptop.analysis.samples.estimate import Sums
from heaptop.analysis.samples.sampled_blocks import SampledBlocks
from heaptop.analysis.samples.sizes import CLASSES, class_of
from heaptop.analysis.samples.stacks import FORGOTTEN, StackTree
from heaptop.analysis.samples.tallies import Tally

_ROOT: Final = -3


_SUMS: Final = 6
_LIVE: Final = slice(_SUMS, 2 * _SUMS)
_CLASSES: Final = 2 * _SUMS
_LIVE_CLASSES: Final = _CLASSES + len(CLASSES)
_ALL: Final = _LIVE_CLASSES + len(CLASSES)
_BYTES: Final = 2
"""Where the bytes are in :attr:`Sums.parts`."""


class Figures:
    """Allocated since sampling began, and what of it lives; also by size class. Figures add up.

    One row of numbers, for there are thousands of these and they are added all the time::

        parts of allocated (6) | parts of live (6) | allocated bytes by size class (4) | living bytes by size class (4)
    """

    __slots__ = ("_numbers",)

    def __init__(self) -> None:
        self._numbers = _NONE

    def add(self, tally: Tally) -> None:
        """Count what a tally has."""
        live = tally.live.parts
        allocated = tally.allocated.parts
        classes = [0] * (_ALL - _CLASSES)
        kind = class_of(tally.bin)
        classes[kind], classes[len(CLASSES) + kind] = allocated[_BYTES], live[_BYTES]
        self._numbers = [*map(add, self._numbers, (*allocated, *live, *classes))]

    def merge(self, other: Figures) -> None:
        """Count what another has, which shares no sample with this one."""
        if self._numbers is _NONE:
            self._numbers = other._numbers
        elif other._numbers is not _NONE:
            self._numbers = [*map(add, self._numbers, other._numbers)]

    @property
    def allocated(self) -> Sums:
        """All of it, whether it lives or not."""
        return Sums.made_of(self._numbers[:_SUMS])

    @property
    def live(self) -> Sums:
        """What mprof calls kept."""
        return Sums.made_of(self._numbers[_LIVE])

    @property
    def weight(self) -> int:
        """Allocated bytes in the unit of :attr:`Sums.bytes`: to sort by."""
        return self._numbers[_BYTES]

    def share_of(self, whole: Figures) -> float:
        """The part of another's allocated bytes that this is; 0 where there are none."""
        return _part(self.weight, whole.weight)

    def class_shares(self) -> tuple[float, ...]:
        """Of the allocated bytes, the part of each size class."""
        return tuple(_part(one, self.weight) for one in self._numbers[_CLASSES:_LIVE_CLASSES])

    def live_class_shares(self) -> tuple[float, ...]:
        """Of the living bytes, the part of each size class."""
        return tuple(_part(one, self._numbers[_SUMS + _BYTES]) for one in self._numbers[_LIVE_CLASSES:])


_NONE: Final = [0] * _ALL
"""The numbers of every :class:`Figures` that nothing was counted in; a list of numbers is never changed in place."""


def _part(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


class CallTree:
    """Stacks merged by function: each node is one path of calls. The data of an icicle.

    Node 0 is the root and no function; a node's number is above its parent's.
    """

    def __init__(self) -> None:
        self.parents: list[int] = [0]
        self.functions: list[int] = [_ROOT]
        self.own: list[Figures] = [Figures()]
        """What was allocated by each node itself."""
        self.total: list[Figures] = []
        """With all allocations below it."""
        self.children: list[list[int]] = []
        """By bytes allocated, the largest first."""
        self._numbers: dict[tuple[int, int], int] = {}
        self._tallies: list[tuple[int, Tally]] = []

    @classmethod
    def of(cls, samples: SampledBlocks, where: Callable[[Tally], bool] | None = None) -> CallTree:
        """Of all that was sampled, or what ``where`` lets through: O(stacks and tallies)."""
        tree = cls()
        tallies = [tally for tally in samples.tallies() if where is None or where(tally)]
        nodes = tree._take_stacks(samples.stacks, {tally.stack for tally in tallies})
        for tally in tallies:
            tree._count(nodes[tally.stack], tally)
        tree._sum_up()
        return tree

    def path(self, node: int) -> tuple[int, ...]:
        """The functions from the root's child down to this node."""
        functions = []
        while node:
            functions.append(self.functions[node])
            node = self.parents[node]
        return tuple(reversed(functions))

    def share(self, node: int) -> float:
        """The part of its parent's allocated bytes that a node has: the percentage on that edge (KPROF, fig. 4)."""
        return self.total[node].share_of(self.total[self.parents[node]])

    def below(self, functions: Collection[int]) -> CallTree:
        """The paths from these functions to the allocations they cause, all calls of one function taken together.

        A path begins where one of them is met first, so what the new root holds is what they allocate indirectly.
        """
        tree = CallTree()
        place = [0] * len(self.parents)
        for node in range(1, len(self.parents)):
            above = place[self.parents[node]]
            if above or self.functions[node] in functions:
                place[node] = tree._node(above, self.functions[node])
        for node, tally in self._tallies:
            if place[node]:
                tree._count(place[node], tally)
        tree._sum_up()
        return tree

    def above(self, functions: Collection[int]) -> CallTree:
        """The same paths seen from these functions up: the children of a node are its callers.

        A path begins at the first of them below the root, and each stack ends, as ``own``, at its outermost function.
        """
        tree = CallTree()
        first = [0] * len(self.parents)
        for node in range(1, len(self.parents)):
            first[node] = first[self.parents[node]] or (node if self.functions[node] in functions else 0)
        ends: dict[int, int] = {}
        for node, tally in self._tallies:
            start = first[node]
            if start:
                if start not in ends:
                    ends[start] = tree._add_path(reversed(self.path(start)))
                tree._count(ends[start], tally)
        tree._sum_up()
        return tree

    def types(self, functions: Collection[int]) -> list[TypeFigures]:
        """What these functions allocate, by type, as far as types are known; most allocated indirectly first.

        Reads the samples as they are now, which may be more than when the tree was made.
        """
        inside = bytearray(len(self.parents))
        for node in range(1, len(self.parents)):
            inside[node] = inside[self.parents[node]] or self.functions[node] in functions
        found: dict[int, TypeFigures] = {}
        for node, tally in self._tallies:
            if inside[node]:
                one = found.setdefault(tally.type, TypeFigures(tally.type, Figures(), Figures()))
                one.indirect.add(tally)
                if self.functions[node] in functions:
                    one.direct.add(tally)
        return sorted(found.values(), key=lambda one: (-one.indirect.weight, one.type))

    def _take_stacks(self, stacks: StackTree, wanted: set[int]) -> dict[int, int]:
        """Enter these stacks; the node of each."""
        needed: set[int] = set()
        for stack in wanted:
            node = stack
            while node > 0 and node not in needed:
                needed.add(node)
                node = stacks.parents[node]
        nodes = {0: 0}
        for stack in sorted(needed):
            nodes[stack] = self._node(nodes[stacks.parents[stack]], stacks.codes[stack])
        nodes[0] = self._node(0, NO_FRAME_FUNCTION) if 0 in wanted else 0
        if FORGOTTEN in wanted:
            nodes[FORGOTTEN] = self._node(0, FORGOTTEN_FUNCTION)
        return nodes

    def _node(self, parent: int, function: int) -> int:
        key = (parent, function)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.parents)
            self.parents.append(parent)
            self.functions.append(function)
            self.own.append(Figures())
        return number

    def _add_path(self, functions: Iterable[int]) -> int:
        node = 0
        for function in functions:
            node = self._node(node, function)
        return node

    def _count(self, node: int, tally: Tally) -> None:
        self._tallies.append((node, tally))
        self.own[node].add(tally)

    def _sum_up(self) -> None:
        """Totals from the leaves to the root: a child's number is above its parent's."""
        self.total = [Figures() for _ in self.parents]
        self.children = [[] for _ in self.parents]
        for node in range(len(self.parents) - 1, -1, -1):
            self.total[node].merge(self.own[node])
            if node:
                self.total[self.parents[node]].merge(self.total[node])
                self.children[self.parents[node]].append(node)
        for children in self.children:
            children.sort(key=lambda node: (-self.total[node].weight, self.functions[node]))


@dataclass(frozen=True, slots=True)
class TypeFigures:
    """One type among what a function allocates."""

    type: int
    """A position in ``SampledBlocks.types``, or ``UNKNOWN_TYPE``."""
    direct: Figures
    indirect: Figures


@dataclass(frozen=True, slots=True)
class Edge:
    """Calls from one function, or entry of the graph, to another, and what was allocated in them."""

    caller: int
    callee: int
    figures: Figures
    """Each stack once, however often the call is on it."""
    caller_share: float
    """The part of the caller's indirect bytes: the percentage on the edge (KPROF, fig. 4)."""
    callee_share: float
    """The part of the callee's indirect bytes that was allocated on behalf of this caller (mprof's frac-ances)."""


@dataclass(frozen=True, slots=True)
class Function:
    """One function."""

    function: int
    direct: Figures
    """Allocated by its own lines, and by C code called from them."""
    indirect: Figures
    """That, and what the functions called from it allocated."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One node of the graph without cycles: a function, or several that call each other."""

    functions: tuple[int, ...]
    """The one with most indirect bytes first."""
    direct: Figures
    indirect: Figures
    callers: tuple[Edge, ...]
    """From other entries, by their positions in :attr:`CallGraph.entries`; the largest first."""
    callees: tuple[Edge, ...]

    @property
    def is_cycle(self) -> bool:
        """Whether several functions were merged."""
        return len(self.functions) > 1


class CallGraph:
    """Who calls whom and what is allocated on the way, each stack counted once. Made at once, and not changed."""

    def __init__(self, tree: CallTree) -> None:
        self.tree = tree
        self.total: Figures = tree.total[0]
        """All there is: shares are parts of this."""
        self.functions: dict[int, Function] = {}
        """By number, the one with most indirect bytes first."""
        self.entries: tuple[Entry, ...] = ()
        """The graph without cycles, the entry with most indirect bytes first."""
        self._edges: dict[tuple[int, int], Figures] = {}
        self._entry: dict[int, int] = {}
        self._count()
        self._merge_cycles()

    def callers(self, function: int) -> list[Edge]:
        """Of one function, members of its own cycle too; the largest first."""
        return self._sorted([pair for pair in self._edges if pair[1] == function])

    def callees(self, function: int) -> list[Edge]:
        """Of one function, members of its own cycle too; the largest first."""
        return self._sorted([pair for pair in self._edges if pair[0] == function])

    def edges(self) -> list[Edge]:
        """All calls between functions. Of ``CallGraph(tree.below([f]))``: the graph of paths from f to allocations."""
        return self._sorted(self._edges)

    def entry(self, function: int) -> Entry:
        """The entry that a function belongs to."""
        return self.entries[self._entry[function]]

    def _sorted(self, pairs: Iterable[tuple[int, int]]) -> list[Edge]:
        edges = [
            _edge(pair, self._edges[pair], *(self.functions[function].indirect for function in pair)) for pair in pairs
        ]
        return sorted(edges, key=_by_size)

    def _count(self) -> None:
        """Each function and each edge once a stack: what is below its first place on the way down from the root."""
        tree = self.tree
        direct: dict[int, Figures] = {}
        indirect: dict[int, Figures] = {}
        on_path: dict[int, int] = {}
        pairs_on_path: dict[tuple[int, int], int] = {}
        steps = [(child, True) for child in tree.children[0]]
        while steps:
            node, entering = steps.pop()
            function = tree.functions[node]
            pair = (tree.functions[tree.parents[node]], function)
            if not entering:
                on_path[function] -= 1
                pairs_on_path[pair] -= 1
                continue
            if not on_path.get(function):
                indirect.setdefault(function, Figures()).merge(tree.total[node])
            if not pairs_on_path.get(pair) and tree.parents[node]:
                self._edges.setdefault(pair, Figures()).merge(tree.total[node])
            direct.setdefault(function, Figures()).merge(tree.own[node])
            on_path[function] = on_path.get(function, 0) + 1
            pairs_on_path[pair] = pairs_on_path.get(pair, 0) + 1
            steps.append((node, False))
            steps += [(child, True) for child in tree.children[node]]
        order = sorted(indirect, key=lambda function: (-indirect[function].weight, function))
        self.functions = {function: Function(function, direct[function], indirect[function]) for function in order}

    def _merge_cycles(self) -> None:
        """Entries and their edges: each path is in a cycle in one stretch only, for who leaves it never comes back."""
        tree = self.tree
        callees: dict[int, list[int]] = {function: [] for function in self.functions}
        for caller, callee in self._edges:
            callees[caller].append(callee)
        groups = strongly_connected(callees)
        member = {function: number for number, group in enumerate(groups) for function in group}
        indirect = [Figures() for _ in groups]
        edges: dict[tuple[int, int], Figures] = {}
        for node in range(1, len(tree.parents)):
            parent = tree.parents[node]
            group, above = member[tree.functions[node]], member.get(tree.functions[parent], -1)
            if group != above:
                indirect[group].merge(tree.total[node])
                if parent:
                    edges.setdefault((above, group), Figures()).merge(tree.total[node])
        order = sorted(range(len(groups)), key=lambda group: (-indirect[group].weight, min(groups[group])))
        self._build(groups, order, indirect, edges)

    def _build(
        self,
        groups: list[list[int]],
        order: list[int],
        indirect: list[Figures],
        edges: dict[tuple[int, int], Figures],
    ) -> None:
        position = {group: place for place, group in enumerate(order)}
        above: list[list[Edge]] = [[] for _ in groups]
        below: list[list[Edge]] = [[] for _ in groups]
        for (caller, callee), figures in edges.items():
            edge = _edge((position[caller], position[callee]), figures, indirect[caller], indirect[callee])
            below[caller].append(edge)
            above[callee].append(edge)
        ranks = {function: rank for rank, function in enumerate(self.functions)}
        entries = []
        for group in order:
            direct = Figures()
            for function in groups[group]:
                direct.merge(self.functions[function].direct)
                self._entry[function] = position[group]
            members = tuple(sorted(groups[group], key=ranks.__getitem__))
            callers, callees = sorted(above[group], key=_by_size), sorted(below[group], key=_by_size)
            entries.append(Entry(members, direct, indirect[group], tuple(callers), tuple(callees)))
        self.entries = tuple(entries)


def _edge(pair: tuple[int, int], figures: Figures, caller: Figures, callee: Figures) -> Edge:
    return Edge(*pair, figures, figures.share_of(caller), figures.share_of(callee))


def _by_size(edge: Edge) -> tuple[int, int, int]:
    return -edge.figures.weight, edge.caller, edge.callee
