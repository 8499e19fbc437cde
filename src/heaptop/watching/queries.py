"""What commands and programs ask a snapshot: what keeps the objects of a type alive, and what the heap could save."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from heaptop.analysis.filters.filters import EVERYTHING, Filter
from heaptop.analysis.filters.kept_samples import MOST_ASKED, matching, retainer_term
from heaptop.analysis.heap.path_words import type_name
from heaptop.analysis.snapshot.retained import Remainder, RetainedRow, rows_by_kind, rows_by_retainer
from heaptop.analysis.snapshot.waste import MOST_ROWS, WasteReport, selection, waste_report
from heaptop.analysis.snapshot.why import types_called
from heaptop.errors import NotInHeap, UsageError
from heaptop.protocol.images import (
    GROUPS,
    OBJECT,
    OBJECTS,
    PATHS,
    RETAINERS,
    WASTE,
    Groups,
    Object,
    Objects,
    Paths,
    Question,
    Retainers,
    Selection,
    Waste,
)
from heaptop.watching.snapshot_watch import SnapshotWatch

ALL: Final = 1 << 20  # Rows: more than any snapshot has


def selected(watch: SnapshotWatch, name: str) -> tuple[Selection, str]:
    """The objects of the type that is called so, and its full name. Errors: NotInHeap, AmbiguousType."""
    ids = types_called(watch.types, name)
    return Selection(types=ids), type_name(watch.types, ids[0])


def paths_to(watch: SnapshotWatch, name: str, most: int = ALL) -> tuple[Paths, str]:
    """The largest ``most`` paths to the objects of a type, and its full name. Errors: as :func:`selected`, and of
    :meth:`SnapshotWatch.ask`."""
    objects, full = selected(watch, name)
    paths = watch.ask(Question(PATHS, objects, limit=most), Paths)
    if not paths.count:
        raise NotInHeap(f"The heap has no objects of {full} now.")
    return paths, full


def retainer_sets(
    watch: SnapshotWatch, objects: Selection, number: int, where: Filter = EVERYTHING
) -> tuple[tuple[RetainedRow, ...], Remainder, bool]:
    """Objects by retainer set, sets of at most ``number`` retainers; those for whose sets the snapshot had no room; and
    whether it is complete. Errors: of :meth:`SnapshotWatch.ask`."""
    answer = watch.ask(Question(RETAINERS, objects, limit=ALL, number=number), Retainers)
    rows = rows_by_retainer(answer, watch.types, where)
    return rows, Remainder(answer.other_count, answer.other_bytes), answer.complete


def root_kinds(
    watch: SnapshotWatch, selection: Selection, number: int, where: Filter
) -> tuple[tuple[RetainedRow, ...], bool]:
    """Objects by the sort of root that leads to them, and whether they are complete. A term on retainers is of sets of
    at most ``number``. Errors: UsageError where no retainer matches, and of :meth:`SnapshotWatch.ask`."""
    all_known = True
    if (term := retainer_term(where)) is not None:
        told = watch.ask(Question(RETAINERS, Selection(), limit=ALL, number=number), Retainers)
        retainers = matching(term, told.units)
        if not retainers:
            raise UsageError(f"No retainer in the heap matches {where}.", fix="Use a wider filter, or none.")
        selection = replace(selection, retainers=retainers)
        # A retainer that is in no reported set may fit too.
        all_known = told.complete and not told.other_count and not any(row.many for row in told.rows)
        all_known = all_known and len(retainers) < MOST_ASKED
    groups = watch.ask(Question(GROUPS, selection, limit=ALL), Groups)
    return rows_by_kind(groups, watch.types, where), groups.complete and all_known


def object_at(
    watch: SnapshotWatch, address: int, most: int = ALL, *, values: bool = False
) -> tuple[Object, Object | None]:
    """The object that begins there, with at most so many links, and the one that dominates it, if one does. Errors:
    NotInHeap, and of :meth:`SnapshotWatch.ask`."""
    selection = Selection(addresses=(address,))
    if not watch.ask(Question(OBJECTS, selection, limit=1), Objects).total:
        raise NotInHeap(
            f"No object begins at {hex(address)} in process {watch.attached.target.pid}.",
            why="It may have been freed, or the address is not that of an object.",
            fix="Find one by type: `heaptop why PID TYPE --json` shows an example for each path.",
        )
    found = watch.ask(Question(OBJECT, selection, limit=most, values=values), Object)
    if not found.dominator:
        return found, None
    return found, watch.ask(Question(OBJECT, Selection(addresses=(found.dominator,)), limit=1), Object)


def dominators(watch: SnapshotWatch, selection: Selection, most: int) -> tuple[Object, ...]:
    """Of the selection the objects that retain most, largest first, each with its path and dominator. Errors: of
    :meth:`SnapshotWatch.ask`."""
    listed = watch.ask(Question(OBJECTS, selection, limit=most), Objects)
    return tuple(
        watch.ask(Question(OBJECT, Selection(addresses=(row.address,)), limit=1), Object) for row in listed.rows
    )


def find_waste(watch: SnapshotWatch, where: Filter) -> WasteReport:
    """What memory could be saved; with a filter, what :meth:`SnapshotWatch.ask_memory` has asked for is left out.
    Errors: UsageError of the filter, and of :meth:`SnapshotWatch.ask`."""
    found = watch.ask(Question(WASTE, selection(where, watch.types), limit=MOST_ROWS), Waste)
    memory = None if where else watch.wait_for_memory()
    return waste_report(found, watch.types, memory, where)
