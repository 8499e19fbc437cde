"""A snapshot that answers: what keeps objects alive."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from heaptop.analysis.filters.filters import parse_filter
from heaptop.analysis.snapshot.retained import RetainedRow
from heaptop.analysis.snapshot.retaining import SMALL_SETS
from heaptop.analysis.snapshot.waste import WasteReport
from heaptop.api.figures import Dominator, KeptBy, dominator, kept_by
from heaptop.protocol.images import Image, Selection
from heaptop.watching.queries import ALL, dominators, find_waste, object_at, paths_to, retainer_sets, selected
from heaptop.watching.snapshot_watch import SnapshotWatch

_MOST_ROWS: Final = (1 << 32) - 1
_LAST_ADDRESS: Final = (1 << 63) - 1


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

        Raises NotInHeap, AmbiguousType, ImageLost, ValueError.
        """
        _check("most", most, _MOST_ROWS)
        self._begin()
        paths, full = paths_to(self._watch, name, most)
        return kept_by(full, paths, self._watch.types)

    def retainers(self, name: str, number: int = 3) -> tuple[RetainedRow, ...]:
        """The same objects by retainer set, sets of at most ``number`` retainers (Runciman and Röjemo 1996, §3).
        Those for whose sets the snapshot had no room are the last row, ``(small sets)``: rows sum to all objects.

        Raises NotInHeap, AmbiguousType, ImageLost, ValueError.
        """
        _check("number", number, _MOST_ROWS)
        self._begin()
        objects, _ = selected(self._watch, name)
        rows, other, _ = retainer_sets(self._watch, objects, number)
        return (*rows, RetainedRow(SMALL_SETS, other.count, other.bytes)) if other.count else rows

    def dominators(self, name: str = "", most: int = 20, below: int = 0) -> tuple[Dominator, ...]:
        """The ``most`` objects that retain most, largest first: of the whole heap, of a type, or only those that the
        object at the address ``below`` dominates. An object below another one of these is in its figure, too.

        Raises NotInHeap, AmbiguousType, ImageLost, ValueError.
        """
        _check("most", most, _MOST_ROWS)
        _check("below", below, _LAST_ADDRESS)
        self._begin()
        types = selected(self._watch, name)[0].types if name else ()
        if below:
            object_at(self._watch, below, 1)
        objects = Selection(types=types, below=(below,) if below else ())
        return tuple(dominator(found, self._watch.types) for found in dominators(self._watch, objects, most))

    def waste(self, where: str = "") -> WasteReport:
        """What memory could be saved, as ``heaptop waste``; ``where`` is a filter on type, module or kind of root.

        Raises ImageLost; UsageError where the filter is wrong, or passes nothing.
        """
        passing = parse_filter(where)
        self._begin()
        if not passing:
            self._watch.ask_memory()
        return find_waste(self._watch, passing)


def _check(name: str, value: int, largest: int) -> None:
    if not 0 <= value <= largest:
        raise ValueError(f"{name} must be between 0 and {largest:,}, not {value:,}")
