"""What commands and programs ask a snapshot: what keeps the objects of a type alive, and what the heap could save."""

from __future__ import annotations

from typing import Final

from heaptop.analysis.filters.filters import EVERYTHING, Filter
from heaptop.analysis.heap.path_words import type_name
from heaptop.analysis.snapshot.retained import Remainder, RetainedRow, rows_by_retainer
from heaptop.analysis.snapshot.waste import MOST_ROWS, WasteReport, selection, waste_report
from heaptop.analysis.snapshot.why import types_called
from heaptop.errors import NotInHeap
from heaptop.protocol.images import PATHS, RETAINERS, WASTE, Paths, Question, Retainers, Selection, Waste
from heaptop.watching.snapshot_watch import SnapshotWatch

ALL: Final = 1 << 20
"""Rows: more than any snapshot has."""


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


def find_waste(watch: SnapshotWatch, where: Filter) -> WasteReport:
    """What memory could be saved; with a filter, what :meth:`SnapshotWatch.ask_memory` has asked for is left out.
    Errors: UsageError of the filter, and of :meth:`SnapshotWatch.ask`."""
    found = watch.ask(Question(WASTE, selection(where, watch.types), limit=MOST_ROWS), Waste)
    memory = None if where else watch.wait_for_memory()
    return waste_report(found, watch.types, memory, where)
