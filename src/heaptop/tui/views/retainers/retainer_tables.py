"""The table of a level of view 3: its rows are asked of the snapshot, and sorted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

from heaptop.analysis.snapshot.retaining import Measure, first_opened, list_rows, sorted_rows, tree_rows
from heaptop.tui.state.sheet import Sheet
from heaptop.tui.views.retainers.retainer_finder import Finder
from heaptop.tui.views.retainers.retainer_levels import MOST_LINKS, RetainersLevel
from heaptop.tui.views.retainers.retainer_sheets import (
    ObjectLine,
    RetainerFacts,
    line_sheet,
    object_lines,
    object_sheet,
    row_sheet,
    tree_sheet,
    unit_sheet,
)


def retainer_sheet(finder: Finder, level: RetainersLevel, facts: RetainerFacts, at: int, room: int) -> Sheet[Any]:
    """What is known of a level, while the view draws.

    Args:
        facts: all but why there are no rows.
        at: the row under the cursor; ``room``: so many are on the screen.
    """
    if level.what == "objects":
        objects = finder.pages(level, at, room)
        return object_sheet(objects, replace(facts, nothing=finder.nothing))
    if level.what == "object":
        lines = _object_lines(finder, level)
        return line_sheet(lines, replace(facts, nothing=finder.nothing))
    if level.what == "units":
        drop = finder.drop([unit.address for unit in level.units if not unit.several])
        return unit_sheet(level.units, drop, replace(facts, nothing=finder.nothing))
    if level.is_tree:
        return _tree_sheet(finder, level, facts)
    rows = sorted_rows(finder.rows(level), facts.sort, descending=facts.descending)
    return row_sheet(rows, level.table, replace(facts, nothing=finder.nothing))


def _object_lines(finder: Finder, level: RetainersLevel) -> Sequence[ObjectLine]:
    found = finder.around(level)
    if found is None:
        return ()
    dominator = finder.object(found.dominator)
    return object_lines(found, finder.find_steps([step.address for step in found.path]), dominator, MOST_LINKS)


def _tree_sheet(finder: Finder, level: RetainersLevel, facts: RetainerFacts) -> Sheet[Any]:
    tree, expanded, measure = finder.tree(level), level.expanded, cast("Measure", facts.sort)
    if tree is None:
        rows = []
    elif level.as_list:
        rows = list_rows(tree, measure, descending=facts.descending)
    else:
        if not expanded.begun:
            expanded.open, expanded.begun = first_opened(tree, measure), True
        rows = tree_rows(tree, expanded.open, measure, descending=facts.descending, unfolded=expanded.unfolded)
    steps = finder.find_steps([row.node.address for row in rows])
    facts = replace(facts, nothing=finder.nothing)
    return tree_sheet(rows, tree, steps, measure, facts, by_retained=level.is_some, as_list=level.as_list)
