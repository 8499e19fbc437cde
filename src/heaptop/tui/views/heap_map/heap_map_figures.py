"""Marks on the part of the heap map that is shown, what they represent, and what the filter hides: computed once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace

from heaptop.analysis.filters.filters import EVERYTHING, Filter
from heaptop.analysis.filters.kept_samples import matching, retainer_term
from heaptop.analysis.snapshot.heap_map import MapLetters, MapWindow
from heaptop.analysis.snapshot.retaining import narrowed
from heaptop.analysis.text.units import filtered_words
from heaptop.protocol.findings import Suspect
from heaptop.protocol.images import Selection, Unit
from heaptop.protocol.messages import TypeName
from heaptop.tui.charts.heap_map_picture import MarkEntry
from heaptop.tui.charts.palette import REST_SLOT
from heaptop.tui.state.hunting import CheckResult
from heaptop.tui.state.snapshot_client import SnapshotClient
from heaptop.tui.views.heap_map.heap_map_marks import ALL, LEAK, SINCE, TYPE, MapMarker
from heaptop.tui.views.heap_map.heap_map_questions import MapAnswers


class MapFigures:
    """Of one colouring and filter, from the answers of the snapshot."""

    def __init__(self, answers: MapAnswers, slots: MapLetters, found: Callable[[], CheckResult | None]) -> None:
        """``found`` returns the last check of the leak hunt."""
        self._answers = answers
        self._slots = slots
        self._found = found
        self.colouring, self.where = TYPE, EVERYTHING
        self._narrowed: tuple[object, Selection | None] | None = None
        """Of these types and retainers, what the filter lets through."""
        self._marked: tuple[Hashable, list[int]] | None = None
        self._figures: tuple[Hashable, float | None, list[MarkEntry]] | None = None
        self._hidden: tuple[Hashable, str] | None = None

    def selection(self, client: SnapshotClient) -> Selection | None:
        """What is highlighted: everything without a filter; None for nothing at all."""
        answers, where, known = self._answers, self.where, self._narrowed
        key = answers.types, answers.retainers, where
        if known is None or known[0] != key:
            units = answers.retainers.units if answers.retainers is not None else ()
            known = self._narrowed = key, _narrowed(answers.types, units, where)
        if self.colouring not in SINCE or client.mark is None or known[1] is None:
            return known[1]
        return replace(known[1], seen=answers.seen) if answers.seen else None

    @property
    def suspects(self) -> list[tuple[int, Suspect]]:
        """Those that collect in an object of this snapshot, with their ranks."""
        found = self._found()
        if self.colouring != LEAK or found is None or found.image != self._answers.image:
            return []
        return [row for row in enumerate(found.findings.suspects, 1) if row[1].point]

    def marker(self, client: SnapshotClient) -> MapMarker:
        slots, name = self._slots.slots, self._answers.type_name
        selection = self.selection(client)
        return MapMarker(
            self.colouring,
            self._answers.cells,
            selection,
            lambda id: slots.get(name(id), REST_SLOT),
            frozenset(suspect.point for _, suspect in self.suspects),
        )

    def key(self, client: SnapshotClient) -> Hashable:
        """Of all that a picture is made from, but the window."""
        holders = tuple(suspect.point for _, suspect in self.suspects)
        return self._answers.changes, self.colouring, self.where, client.mark is not None, self._answers.seen, holders

    def marks(self, client: SnapshotClient, window: MapWindow) -> list[int]:
        """Of each place that is shown: the same while only the cursor moves."""
        key = self.key(client), window.shown
        if self._marked is None or self._marked[0] != key:
            self._marked = key, self.marker(client).marks(window)
        return self._marked[1]

    def sums(self, client: SnapshotClient, window: MapWindow) -> tuple[float | None, list[MarkEntry]]:
        """Which part of what is shown is taken, None until all of it was answered; and what its marks represent."""
        key = self.key(client), window.shown
        if self._figures is None or self._figures[0] != key:
            marker, groups, name = self.marker(client), self._answers.groups, self._answers.type_name
            shown = sum(high - low for _, low, high in window.layout.pieces(window.top, window.end))
            entries = marker.entries(window, groups[1] if groups is not None else None, name)
            missing = marker.cells.missing(ALL, window.layout, window.top, window.end)
            if self.colouring == TYPE and not missing:
                drawn = {*self.marks(client, window)}
                entries = [entry._replace(drawn=entry.slot in drawn) for entry in entries]
            self._figures = key, None if missing else marker.taken(window, ALL) / max(shown, 1), entries
        return self._figures[1:]

    def filtered(self, client: SnapshotClient, window: MapWindow) -> str:
        """How much of what is shown the filter hides."""
        key = self.key(client), window.shown
        if self._hidden is None or self._hidden[0] != key:
            self._hidden = key, self._find_filtered(self.marker(client), self.selection(client), window)
        return self._hidden[1]

    @staticmethod
    def _find_filtered(marker: MapMarker, selection: Selection | None, window: MapWindow) -> str:
        """Of what is shown; empty until all of it was answered."""
        if any(marker.cells.missing(each, *window.shown) for each in (ALL, selection) if each is not None):
            return ""
        passing = marker.taken(window, selection) if selection is not None else 0
        return filtered_words(size=marker.taken(window, ALL) - passing)


def _narrowed(types: Sequence[TypeName], units: Sequence[Unit], where: Filter) -> Selection | None:
    """The objects that pass a filter; None for no object at all."""
    term = retainer_term(where, "Cells")
    retainers = matching(term, units) if term is not None else ()
    if term is not None and not retainers:
        return None
    return narrowed(where.without("retainer"), types, Selection(retainers=retainers))
