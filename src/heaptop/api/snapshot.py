"""A snapshot that answers: what keeps objects alive."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from heaptop.analysis.filters.filters import EVERYTHING, parse_filter
from heaptop.analysis.heap.path_words import type_name
from heaptop.analysis.snapshot.retained import RetainedRow, rows_by_retainer
from heaptop.analysis.snapshot.retaining import SMALL_SETS
from heaptop.analysis.snapshot.waste import MOST_ROWS, WasteReport, selection, waste_report
from heaptop.analysis.snapshot.why import types_called
from heaptop.api.figures import KeptBy, kept_by
from heaptop.errors import NotInHeap
from heaptop.protocol.images import PATHS, RETAINERS, WASTE, Image, Paths, Question, Retainers, Selection, Waste
from heaptop.watching.snapshot_watch import SnapshotWatch

ALL: Final = 1 << 20
"""Rows: more than any snapshot has."""


class HeapSnapshot:
    """The heap at one moment, with all references. Made by :meth:`heaptop.api.Process.snapshot`; it answers until its
    ``with`` ends, for five minutes at most. Each answer raises ImageLost when it is gone."""

    def __init__(self, watch: SnapshotWatch, image: Image, begin: Callable[[], None]) -> None:
        """``begin`` is called before each answer."""
        self._watch = watch
        self._image = image
        self._begin = begin

    @property
    def count(self) -> int:
        """Objects."""
        return self._image.objects

    @property
    def bytes(self) -> int:
        """Of all objects."""
        return self._image.bytes

    @property
    def references(self) -> int:
        return self._image.edges

    @property
    def pause(self) -> float:
        """Seconds for which the process waited for it."""
        return self._image.pause_ns / 1e9

    @property
    def gaps(self) -> tuple[str, ...]:
        """What it does not know: sentences without their full stops."""
        return self._image.gaps

    def why(self, name: str, most: int = ALL) -> KeptBy:
        """By which paths the objects of a type are kept: ``app.Session``, or ``Session`` where that is one type.

        Raises NotInHeap, AmbiguousType, ImageLost.
        """
        selection, full = self._selected(name)
        paths = self._watch.ask(Question(PATHS, selection, limit=most), Paths)
        if not paths.count:
            raise NotInHeap(f"The heap has no objects of {full} now.")
        return kept_by(full, paths, self._watch.types)

    def retainers(self, name: str, number: int = 3) -> tuple[RetainedRow, ...]:
        """The same objects by retainer set, sets of at most ``number`` retainers (Runciman and Röjemo 1996, §3).
        Those for whose sets the snapshot had no room are the last row, ``(small sets)``: rows sum to all objects.

        Raises NotInHeap, AmbiguousType, ImageLost.
        """
        selection, _ = self._selected(name)
        answer = self._watch.ask(Question(RETAINERS, selection, limit=ALL, number=number), Retainers)
        rows = rows_by_retainer(answer, self._watch.types, EVERYTHING)
        other = RetainedRow(SMALL_SETS, answer.other_count, answer.other_bytes)
        return (*rows, other) if other.count else rows

    def waste(self, where: str = "") -> WasteReport:
        """What memory could be saved, as ``heaptop waste``; ``where`` is a filter on type, module or kind of root.

        Raises ImageLost; UsageError where the filter is wrong, or passes nothing.
        """
        passing = parse_filter(where)
        self._begin()
        if not passing:
            self._watch.ask_memory()
        found = self._watch.ask(Question(WASTE, selection(passing, self._watch.types), limit=MOST_ROWS), Waste)
        memory = None if passing else self._watch.wait_for_memory()
        return waste_report(found, self._watch.types, memory, passing)

    def _selected(self, name: str) -> tuple[Selection, str]:
        self._begin()
        ids = types_called(self._watch.types, name)
        return Selection(types=ids), type_name(self._watch.types, ids[0])
