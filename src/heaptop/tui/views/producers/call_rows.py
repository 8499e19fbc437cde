"""The tree of callers and callees as lines of a table: what is expanded, in which order, with which parts.

Below the callers and callees of one function stands what its allocations are made of. This module never draws and never
sums: it asks :class:`~heaptop.analysis.callers.call_paths.Amounts`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from heaptop.analysis.callers.call_paths import Amounts, Measure
from heaptop.analysis.callers.function_parts import FunctionPart

PAGE: Final = 200
"""Children that are shown at once."""


class Kind(Enum):
    """What a line is."""

    OPEN = "expanded"
    CLOSED = "can be expanded"
    LEAF = "nothing below it"
    OWN = "allocated by the function above itself"
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
    node: int
    """Of the section's paths; of OWN and MORE that of the line above them all; of PART and TITLE a position in
    :func:`~heaptop.analysis.callers.function_parts.parts_of`."""
    more: int = 0
    """How many children are not shown."""


@dataclass
class ExpandedCalls:
    """What the reader has expanded."""

    open: set[str] = field(default_factory=set)
    limits: dict[str, int] = field(default_factory=dict)

    def toggle(self, row: CallRow, sections: Sequence[Amounts], measure: Measure) -> bool:
        """Expand or collapse a line, or show a page more; False where there is nothing below it."""
        if row.kind is Kind.MORE:
            parent = row.key.rpartition("/")[0]
            self.limits[parent] = self.limits.get(parent, PAGE) + PAGE
        elif row.kind is Kind.OPEN:
            self.open.discard(row.key)
        elif row.kind is Kind.CLOSED:
            self.unfold(row.key, row.node, sections[row.section], measure)
        else:
            return False
        return True

    def unfold(self, key: str, node: int, amounts: Amounts, measure: Measure) -> None:
        """Expand a line, and continue below it while there is only one way to go."""
        while True:
            self.open.add(key)
            below = ordered(amounts, node, measure)
            if len(below) != 1:
                return
            node = below[0]
            key = f"{key}/{amounts.paths.functions[node]}"
            if not ordered(amounts, node, measure):
                return


def ordered(amounts: Amounts, node: int, measure: Measure) -> list[int]:
    """The children that have anything, the largest first."""
    found = [(amounts.total(child, measure), child) for child in amounts.paths.children[node]]
    functions = amounts.paths.functions
    return [child for total, child in sorted(found, key=lambda one: (-one[0], functions[one[1]])) if total]


def part_rows(parts: Sequence[FunctionPart]) -> list[CallRow]:
    """The lines of what a function's allocations are made of: of the first :data:`PAGE` types."""
    rows: list[CallRow] = []
    for number, part in enumerate(parts[:PAGE]):
        if not number or parts[number - 1].by != part.by:
            rows.append(CallRow(f"by {part.by}", Kind.TITLE, 0, -1, number))
        rows.append(CallRow(f"by {part.by}/{part.name}", Kind.PART, 1, -1, number))
    return rows


def call_rows(
    sections: Sequence[Amounts], unfolded: ExpandedCalls, measure: Measure, own: Sequence[bool]
) -> list[CallRow]:
    """All lines that are to be seen, from the top.

    Args:
        own: of each section, whether what a function allocates by itself is a line beside what it calls.
    """
    rows: list[CallRow] = []
    for section, amounts in enumerate(sections):
        steps: list[CallRow | tuple[str, int, int]] = [(str(section), 0, -1)]
        while steps:
            step = steps.pop()
            if isinstance(step, CallRow):
                rows.append(step)
                continue
            key, node, depth = step
            below = ordered(amounts, node, measure)
            if node:
                kind = Kind.LEAF if not below else Kind.OPEN if key in unfolded.open else Kind.CLOSED
                rows.append(CallRow(key, kind, depth, section, node))
                if kind is not Kind.OPEN:
                    continue
            limit = unfolded.limits.get(key, PAGE)
            if len(below) > limit:
                steps.append(CallRow(f"{key}/more", Kind.MORE, depth + 1, section, node, len(below) - limit))
            steps += [(f"{key}/{amounts.paths.functions[child]}", child, depth + 1) for child in below[:limit][::-1]]
            if node and own[section] and amounts.own(node, measure):
                steps.append(CallRow(f"{key}/own", Kind.OWN, depth + 1, section, node))
    return rows
