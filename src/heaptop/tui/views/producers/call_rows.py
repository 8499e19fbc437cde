"""The tree of callers and callees as lines of a table: what is expanded, in which order, what is folded into one line.

A line is several calls where each has one callee and the same figures, and where libraries call themselves. Below the
callers and callees of one function there is what its allocations are made of. Sums come from
:class:`~heaptop.analysis.callers.call_paths.Amounts`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

from heaptop.analysis.callers.call_paths import Amounts, Measure
from heaptop.analysis.callers.function_parts import FunctionPart

PAGE: Final = 200  # Children that are shown at once


class Kind(Enum):
    """What a line is."""

    OPEN = "expanded"
    CLOSED = "can be expanded"
    LEAF = "nothing below it"
    OWN = "allocated by the functions above themselves"
    MORE = "more children"
    TITLE = "split by the lines below"
    PART = "a size class or type of what a function and its callees allocate"


@dataclass(frozen=True, slots=True)
class CallRow:
    """One line."""

    key: str
    kind: Kind
    depth: int
    section: int
    nodes: tuple[int, ...]
    """Of the section's paths, from the outermost; of OWN and MORE those of the line above them all; of PART and TITLE a
    position in :func:`~heaptop.analysis.callers.function_parts.parts_of`."""
    more: int = 0  # How many children are not shown
    head: str = ""  # The key of the first call of those that are one line, also where each has a line of its own


@dataclass
class ExpandedCalls:
    """What the reader has expanded."""

    open: set[str] = field(default_factory=set)  # Calls that have what is below them shown
    unfolded: set[str] = field(default_factory=set)  # First calls of what would be one line, of which each has its own
    limits: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class CallTree:
    """What the lines are of."""

    sections: Sequence[Amounts]  # The callers of a function and its callees, or all paths
    measure: Measure
    is_library: Callable[[int], bool] = lambda function: False  # Whether a function is none of the user's own code

    @property
    def is_around(self) -> bool:
        """Whether it is the callers and callees of one function."""
        return len(self.sections) > 1

    def ordered(self, section: int, node: int) -> list[int]:
        """The children that have anything, the largest first."""
        amounts, measure = self.sections[section], self.measure
        found = [(amounts.total(child, measure), child) for child in amounts.paths.children[node]]
        functions = amounts.paths.functions
        return [child for total, child in sorted(found, key=lambda one: (-one[0], functions[one[1]])) if total]

    def folded(self, section: int, node: int, depth: int) -> list[int]:
        """This call, and those below it that are one line with it. The function that a tree is around is alone."""
        nodes = [node]
        if self.is_around and not depth:
            return nodes
        amounts, measure = self.sections[section], self.measure
        functions, total = amounts.paths.functions, amounts.total(node, self.measure)
        while len(below := self.ordered(section, nodes[-1])) == 1:
            same = amounts.total(below[0], measure) == total
            if not same and not all(self.is_library(functions[each]) for each in (nodes[-1], below[0])):
                break
            nodes.append(below[0])
        return nodes

    def _key(self, section: int, key: str, nodes: Sequence[int]) -> str:
        """Of the last of these calls, which follow the one of this key."""
        functions = self.sections[section].paths.functions
        return "/".join([key, *(str(functions[node]) for node in nodes)])

    def own(self, row: CallRow) -> int:
        """What the functions of a line allocate themselves."""
        return sum(self.sections[row.section].own(node, self.measure) for node in row.nodes)

    def toggle(self, row: CallRow, expanded: ExpandedCalls) -> bool:
        """Expand or collapse a line, or show a page more; False where there is nothing below it."""
        if row.kind is Kind.MORE:
            parent = row.key.rpartition("/")[0]
            expanded.limits[parent] = expanded.limits.get(parent, PAGE) + PAGE
        elif row.kind is Kind.OPEN:
            expanded.open.discard(row.key)
        elif row.kind is Kind.CLOSED:
            self.expand(row.section, row.key, row.nodes[-1], row.depth, expanded)
        else:
            return False
        return True

    def expand(self, section: int, key: str, node: int, depth: int, expanded: ExpandedCalls) -> None:
        """Expand what ends with this call, and continue below it while there is only one way to go."""
        while True:
            expanded.open.add(key)
            below = self.ordered(section, node)
            if len(below) != 1:
                return
            depth += 1
            nodes = self.folded(section, below[0], depth)
            key, node = self._key(section, key, nodes), nodes[-1]
            if not self.ordered(section, node):
                return

    def expand_first(self, expanded: ExpandedCalls) -> None:
        """A tree that is new is open as far as there is only one way to go."""
        if expanded.open or expanded.limits:
            return
        for section, amounts in enumerate(self.sections):
            if amounts.total(0, self.measure):
                self.expand(section, str(section), 0, -1, expanded)

    def unfold(self, row: CallRow, expanded: ExpandedCalls) -> bool:
        """Give each call of a line its own, or fold them again; False where it is one call."""
        if row.head in expanded.unfolded:
            expanded.unfolded.discard(row.head)
            return True
        if len(row.nodes) < 2:
            return False
        expanded.unfolded.add(row.head)
        expanded.open.update(self._key(row.section, row.head, row.nodes[1:end]) for end in range(1, len(row.nodes)))
        return True

    def rows(self, expanded: ExpandedCalls) -> list[CallRow]:
        """All lines that are to be seen, from the top."""
        rows: list[CallRow] = []
        for section in range(len(self.sections)):
            rows += self._section(section, expanded)
        return rows

    def _section(self, section: int, expanded: ExpandedCalls) -> list[CallRow]:
        amounts = self.sections[section]
        functions = amounts.paths.functions
        has_own = not self.is_around or section == 1  # beside a function's callers it is no line
        rows: list[CallRow] = []
        steps: list[CallRow | _Step] = [_Step(str(section), (0,), -1)]
        while steps:
            step = steps.pop()
            if isinstance(step, CallRow):
                rows.append(step)
                continue
            key, nodes, depth, head, alone = step
            if nodes[0]:
                if not alone:
                    nodes, head = tuple(self.folded(section, nodes[0], depth)), key
                    alone = len(nodes) if head in expanded.unfolded else 0
                if alone:
                    nodes = nodes[:1]
                key = self._key(section, key, nodes[1:])
            below = self.ordered(section, nodes[-1])
            if nodes[0]:
                kind = Kind.LEAF if not below else Kind.OPEN if key in expanded.open else Kind.CLOSED
                rows.append(CallRow(key, kind, depth, section, nodes, head=head))
                if kind is not Kind.OPEN:
                    continue
            limit = expanded.limits.get(key, PAGE)
            if len(below) > limit:
                steps.append(CallRow(f"{key}/more", Kind.MORE, depth + 1, section, nodes, len(below) - limit))
            left = max(alone - 1, 0)
            steps += [
                _Step(f"{key}/{functions[child]}", (child,), depth + 1, head if left else "", left)
                for child in below[:limit][::-1]
            ]
            own = CallRow(f"{key}/own", Kind.OWN, depth + 1, section, nodes)
            if nodes[0] and has_own and self.own(own):
                steps.append(own)
        return rows


class _Step(NamedTuple):
    """What is still to be written, with all below it."""

    key: str
    nodes: tuple[int, ...]
    depth: int
    head: str = ""
    alone: int = 0  # So many calls from here on have lines of their own, which would be one with `head`


def part_rows(parts: Sequence[FunctionPart]) -> list[CallRow]:
    """The lines of what a function's allocations are made of: of the first :data:`PAGE` types."""
    rows: list[CallRow] = []
    for number, part in enumerate(parts[:PAGE]):
        if not number or parts[number - 1].by != part.by:
            rows.append(CallRow(f"by {part.by}", Kind.TITLE, 0, -1, (number,)))
        rows.append(CallRow(f"by {part.by}/{part.name}", Kind.PART, 1, -1, (number,)))
    return rows
