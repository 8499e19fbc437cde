"""Direct and indirect allocation: paths of calls, for a screen that is drawn again every second.

Figures come from whole stacks. The structure is kept, and figures are summed anew, those that are asked for.

**Why that matters.** KPROF (Serrano and Boehm, 2000, §3.2.2) estimates what a function allocates indirectly as gprof
does (Graham, Kessler and McKusick, 1982): of each callee's allocations it takes the part of the callee's time that was
spent when called from here, as if every call did the same whoever made it. Where calls differ this is wrong, more so
with each step of a longer path: its authors found 4.5 % said where 16 % was true (§5.2). mprof (Zorn and Hilfinger,
1988) counts caller/callee pairs along each whole stack, so that an edge is right, but what went through two edges one
after the other is lost. Here every sample has its stack, so direct and indirect figures, edges, and whole paths are
exact up to sampling: each is a sum over samples, with an interval (:class:`~heaptop.analysis.samples.estimate.Sums`).

**Recursion.** A stack counts once for each function on it, however often that is there: a function is never reported to
allocate more than there is. Functions that call each other are one node of :meth:`CallPaths.merged`.

Nodes are numbered depth first, so that what lies below a node is a range of numbers. What was sampled is put in the
order of nodes once for each display; then one row of running sums (a *column*) gives the figure of any node::

    node         0 ── 1 main ─┬─ 2 make ── 3 decode
                              └─ 4 get
    tallies                2: 24 B   3: 10 B   4: 6 B
    column               0        24        34       40        total of 2 = column[2] - column[0] = 34

A new stack that the structure does not have counts at its nearest caller that it has, until the structure is made anew.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import accumulate
from operator import attrgetter, itemgetter
from typing import Final, Literal

from heaptop.analysis.samples.cycles import strongly_connected
from heaptop.analysis.samples.estimate import Sums
from heaptop.analysis.samples.sizes import CLASSES, class_of
from heaptop.analysis.samples.stacks import FORGOTTEN, NO_FRAME, StackTree
from heaptop.analysis.samples.tallies import Tally

Measure = Literal["live", "allocated"]
NO_FRAME_FUNCTION: Final = -1  # Where no Python code ran
FORGOTTEN_FUNCTION: Final = -2  # Places no longer distinguished
_ROOT: Final = -3


class CallPaths:
    """Stacks merged by function: each node is one path of calls. Node 0 is the root and no function."""

    def __init__(self, parents: Sequence[int], functions: Sequence[int], place: Mapping[int, int], whole: bool) -> None:
        """``parents`` of the nodes in any order in which callers come first; ``place`` is the node of each stack.

        Args:
            whole: whether every stack is there; else a stack without a place is left out.
        """
        below: list[list[int]] = [[] for _ in parents]
        for node in range(1, len(parents)):
            below[parents[node]].append(node)
        number = [0] * len(parents)
        order: list[int] = []
        steps = [0]
        while steps:
            node = steps.pop()
            number[node] = len(order)
            order.append(node)
            steps += below[node]
        self.parents = [number[parents[node]] for node in order]  # The caller's node
        self.functions = [functions[node] for node in order]
        """Positions in ``Samples.codes``, or ``NO_FRAME_FUNCTION``, or ``FORGOTTEN_FUNCTION``."""
        self.children = [[number[child] for child in below[node]] for node in order]
        self.ends = list(range(1, len(order) + 1))  # What lies below a node ends before this number
        for node in range(len(order) - 1, 0, -1):
            parent = self.parents[node]
            self.ends[parent] = max(self.ends[parent], self.ends[node])
        self.whole = whole
        self.members: dict[int, tuple[int, ...]] = {}
        """Of merged paths: the functions of each cycle, by the one that represents them."""
        self._place = {stack: number[node] for stack, node in place.items()}

    @classmethod
    def of(cls, stacks: StackTree) -> CallPaths:
        """Of all stacks that are known."""
        parents, functions = [0, 0, 0], [_ROOT, NO_FRAME_FUNCTION, FORGOTTEN_FUNCTION]
        place = {NO_FRAME: 1, FORGOTTEN: 2}
        at = [0] * len(stacks)
        numbers: dict[tuple[int, int], int] = {}
        for stack in range(1, len(stacks)):
            key = (at[stacks.parents[stack]], stacks.codes[stack])
            node = numbers.get(key)
            if node is None:
                node = numbers[key] = len(parents)
                parents.append(key[0])
                functions.append(key[1])
            at[stack] = place[stack] = node
        return cls(parents, functions, place, whole=True)

    def merged(self) -> CallPaths:
        """The same paths with functions that call each other as one node: inside a cycle above and below say little.

        A path is in a cycle in one interval only, for who leaves it never comes back: figures stay exact.
        """
        callees: dict[int, dict[int, None]] = {function: {} for function in self.functions[1:]}
        for node in range(1, len(self.parents)):
            parent = self.parents[node]
            if parent:
                callees[self.functions[parent]][self.functions[node]] = None
        groups = strongly_connected({function: [*found] for function, found in callees.items()})
        stands_for = {_ROOT: _ROOT}
        for group in groups:
            stands_for.update(dict.fromkeys(group, min(group)))
        names = [stands_for[function] for function in self.functions]
        paths = self._derived(
            lambda node, above: (
                above if names[node] == names[self.parents[node]] and self.parents[node] else (above, names[node])
            ),
            whole=self.whole,
        )
        paths.members = {min(group): tuple(sorted(group)) for group in groups if len(group) > 1}
        return paths

    def below(self, functions: Collection[int]) -> CallPaths:
        """The paths from these functions to the allocations they cause; each begins where one of them is met first."""
        paths = self._derived(
            lambda node, above: (above, self.functions[node]) if above or self.functions[node] in functions else 0,
            whole=False,
        )
        paths.members = self.members
        return paths

    def above(self, functions: Collection[int]) -> CallPaths:
        """The same paths seen from these functions up: the children of a node are its callers."""
        parents, names = [0], [_ROOT]
        numbers: dict[tuple[int, int], int] = {}
        at = [0] * len(self.parents)
        for node in range(1, len(self.parents)):
            at[node] = at[self.parents[node]]
            if at[node] or self.functions[node] not in functions:
                continue
            step, end = node, 0
            while step:
                key = (end, self.functions[step])
                if key not in numbers:
                    numbers[key] = len(parents)
                    parents.append(key[0])
                    names.append(key[1])
                end, step = numbers[key], self.parents[step]
            at[node] = end
        paths = CallPaths(parents, names, {stack: at[node] for stack, node in self._place.items()}, whole=False)
        paths.members = self.members
        return paths

    def _derived(self, step: Callable[[int, int], int | tuple[int, int]], *, whole: bool) -> CallPaths:
        """Other paths from these: ``step`` returns a node's new node, given its parent's: one that is there
        already, or a parent and a function."""
        parents, names = [0], [_ROOT]
        numbers: dict[tuple[int, int], int] = {}
        at = [0] * len(self.parents)
        for node in range(1, len(self.parents)):
            found = step(node, at[self.parents[node]])
            if isinstance(found, int):
                at[node] = found
                continue
            if found not in numbers:
                numbers[found] = len(parents)
                parents.append(found[0])
                names.append(found[1])
            at[node] = numbers[found]
        return CallPaths(parents, names, {stack: at[node] for stack, node in self._place.items()}, whole)

    def place(self, stack: int, stacks: StackTree) -> int:
        """The node of a stack; 0 where it has none."""
        while stack not in self._place:
            if stack <= 0:
                return 0
            stack = stacks.parents[stack]
            if not stack:
                return 0
        return self._place[stack]

    def path(self, node: int) -> tuple[int, ...]:
        """The functions from the root's child down to this node."""
        functions = []
        while node:
            functions.append(self.functions[node])
            node = self.parents[node]
        return tuple(reversed(functions))

    @cached_property
    def places(self) -> dict[int, list[int]]:
        """All nodes of each function."""
        found: dict[int, list[int]] = {}
        for node in range(1, len(self.functions)):
            found.setdefault(self.functions[node], []).append(node)
        return found

    @cached_property
    def first_places(self) -> dict[int, list[int]]:
        """The nodes of each function that it is not above already: what is below them it allocates, each stack once."""
        found: dict[int, list[int]] = {}
        ends: dict[int, int] = {}
        for node in range(1, len(self.functions)):
            function = self.functions[node]
            if node >= ends.get(function, 0):
                ends[function] = self.ends[node]
                found.setdefault(function, []).append(node)
        return found


def _allocated(tally: Tally) -> int:
    return tally.live.bytes + tally.freed.bytes + tally.lost.bytes


_MEASURES: Final[dict[str, Callable[[Tally], int]]] = {
    "live": attrgetter("live.bytes"),
    "allocated": _allocated,
    "freed": attrgetter("freed.bytes"),
}
_PARTS: Final = ("samples", "seen", "bytes", "count", "variance", "third")


class Amounts:
    """What is allocated and lives on each path at one moment: columns are made when they are asked for.

    Not to be asked for anything new after the samples were fed: see :mod:`heaptop.analysis.samples.frozen`.
    """

    def __init__(self, paths: CallPaths, tallies: Sequence[Tally], stacks: StackTree, missed: int = 0) -> None:
        """``missed``: of what lives, as :meth:`Sums.estimate` has it."""
        self.paths = paths
        self.missed = missed
        placed = [(paths.place(tally.stack, stacks), tally) for tally in tallies]
        if not paths.whole:
            placed = [one for one in placed if one[0]]
        placed.sort(key=itemgetter(0))
        self._tallies = [tally for _, tally in placed]
        counts = [0] * len(paths.parents)
        for node, _ in placed:
            counts[node] += 1
        self._first = [0, *accumulate(counts)]  # By node: its first tally, where they are in the order of nodes
        self._end = [self._first[end] for end in paths.ends]  # By node: where the tallies below it end
        self._columns: dict[str | int | frozenset[int], list[int]] = {}

    def tallies(self, node: int = 0) -> Sequence[Tally]:
        """Of what is on this path and below it; by default on all of them."""
        return self._tallies[self._first[node] : self._end[node]]

    def total(self, node: int, measure: Measure | frozenset[int]) -> int:
        """With all that is below it, in the unit of ``Sums.bytes``; of a set of types what lives of them."""
        column = self._columns.get(measure) or self._column(measure)
        return column[self._end[node]] - column[self._first[node]]

    def own(self, node: int, measure: Measure | frozenset[int]) -> int:
        """By the node itself, likewise."""
        column = self._column(measure)
        return column[self._first[node + 1]] - column[self._first[node]]

    def totals(self, places: Mapping[int, Sequence[int]], measure: Measure) -> dict[int, int]:
        """The totals of groups of nodes, none of which is below another of its group."""
        column, first, end = self._column(measure), self._first, self._end
        return {
            name: sum([column[end[node]] - column[first[node]] for node in nodes]) for name, nodes in places.items()
        }

    def total_of(self, nodes: Iterable[int], what: str | int | frozenset[int]) -> int:
        """Of nodes of which none is below another: ``allocated``, ``freed``, a part as ``live.count``, what was
        allocated of a size class, or what lives of some types."""
        column = self._columns.get(what) or self._column(what)
        first, end = self._first, self._end
        return sum([column[end[node]] - column[first[node]] for node in nodes])

    def live(self, nodes: Sequence[int]) -> Sums:
        """What lives of such nodes, with all that its interval is made from."""
        return Sums.made_of([self.total_of(nodes, f"live.{part}") for part in _PARTS])

    def own_live(self, nodes: Sequence[int]) -> Sums:
        """What lives of what nodes have themselves, likewise."""
        columns = [self._column(f"live.{part}") for part in _PARTS]
        ends = [(self._first[node], self._first[node + 1]) for node in nodes]
        return Sums.made_of([sum([column[end] - column[first] for first, end in ends]) for column in columns])

    def classes(self, nodes: Sequence[int]) -> tuple[float, ...]:
        """Of the allocated bytes of such nodes, the part of each size class."""
        found = [self.total_of(nodes, kind) for kind in range(len(CLASSES))]
        whole = sum(found)
        return tuple(one / whole if whole else 0.0 for one in found)

    @cached_property
    def _kinds(self) -> list[int]:
        """The size class of each tally."""
        return [class_of(tally.bin) for tally in self._tallies]

    def _column(self, what: str | int | frozenset[int]) -> list[int]:
        """Sums of one figure over the tallies before each, in the order of nodes."""
        column = self._columns.get(what)
        if column is None:
            if isinstance(what, int):
                figures = zip(map(_allocated, self._tallies), self._kinds, strict=True)
                values: Iterable[int] = [figure if kind == what else 0 for figure, kind in figures]
            elif isinstance(what, frozenset):
                values = [tally.live.bytes if tally.type in what else 0 for tally in self._tallies]
            else:
                values = map(_MEASURES.get(what) or attrgetter(what), self._tallies)
            column = self._columns[what] = [0, *accumulate(values)]
        return column
