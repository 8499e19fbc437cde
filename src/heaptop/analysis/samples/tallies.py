"""Sums of sampled blocks by stack, type and size bin, and which of them have changed.

Tallies without a living block are at most :data:`TALLY_LIMIT` (about 0.5 KiB each) after each message: at the limit the
smaller half of them first loses its exact sizes, then its place and type (stack :data:`FORGOTTEN`), so that sums stay
true and detail is lost where least is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from heaptop.analysis.samples.estimate import Sums
from heaptop.analysis.samples.sizes import coarse, whole_class
from heaptop.analysis.samples.stacks import FORGOTTEN

UNKNOWN_TYPE: Final = -1  # The type of a block that no census has met, and whose death did not have it
TALLY_LIMIT: Final = 1 << 17
NOTHING: Final = Sums()  # Shared by tallies that have none: not to be added to


class Tally:
    """Sampled blocks of one stack, type and size bin (:mod:`heaptop.analysis.samples.sizes`). Not to be changed by
    readers."""

    __slots__ = ("bin", "freed", "group", "live", "lost", "stack", "told", "type")

    def __init__(self, stack: int, type: int, bin: int) -> None:
        self.stack = stack
        self.type = type
        self.bin = bin
        self.live = Sums()
        self.freed: Sums = NOTHING
        self.lost: Sums = NOTHING  # Alive when samples became void: their deaths are not known
        self.told = (0, 0)  # Bytes and blocks alive as TallyTable.changes() last returned
        self.group: Any = None  # What the one reader of changes adds it to, for itself to remember

    @property
    def allocated(self) -> Sums:
        """All of them since sampling began."""
        return self.live + self.freed + self.lost

    def copy(self) -> Tally:
        """The same sums, whatever is added later."""
        copy = Tally(self.stack, self.type, self.bin)
        copy.live = self.live.copy()
        if self.freed.samples:
            copy.freed = self.freed.copy()
        if self.lost.samples:
            copy.lost = self.lost.copy()
        return copy


class TallyTable:
    """A tally for each stack, type and size bin that was sampled. Who adds to one puts it into :attr:`changed`, and
    what lives more into :attr:`live_bytes`."""

    def __init__(self, limit: int = TALLY_LIMIT) -> None:
        self.limit = limit
        self.by_place: dict[tuple[int, int, int], Tally] = {}
        self.changed: dict[Tally, None] = {}  # In order
        self.live_bytes = 0  # Of all together, in their unit
        self.folded = 0  # How many were added to FORGOTTEN

    def __len__(self) -> int:
        return len(self.by_place)

    def copy(self) -> TallyTable:
        """As they are now, with nothing changed since."""
        new = TallyTable(self.limit)
        new.by_place = {place: tally.copy() for place, tally in self.by_place.items()}
        new.live_bytes = self.live_bytes
        return new

    def of(self, stack: int, kind: int, number: int) -> Tally:
        """The one of this bin; a new one where there is none."""
        place = (stack, kind, number)
        tally = self.by_place.get(place)
        if tally is None:
            tally = self.by_place[place] = Tally(*place)
        return tally

    def changes(self) -> list[tuple[Tally, int, int]]:
        """What has changed since this was last asked: each with the bytes and blocks that live more than before."""
        found = []
        for tally in self.changed:
            live, (size, count) = tally.live, tally.told
            now_size, now_count = live.bytes, live.count
            if now_size != size or now_count != count:
                found.append((tally, now_size - size, now_count - count))
                tally.told = now_size, now_count
        self.changed.clear()
        return found

    def replace(self, rows: Iterable[Sequence[int]]) -> None:
        """From now on these live, and none else: (stack, type, size class, objects, bytes)."""
        for tally in self.by_place.values():
            tally.live = Sums()
            self.changed[tally] = None
            self._gone(tally)
        self.by_place = {}
        self.live_bytes = 0
        for stack, kind, size_class, count, size in rows:
            tally = self.of(stack, kind, whole_class(size_class))
            exact = Sums.exact(count, size)
            tally.live.merge(exact)
            self.live_bytes += exact.bytes
            self.changed[tally] = None

    def lose_living(self) -> None:
        """None of the living is followed any more."""
        for tally in self.by_place.values():
            if tally.live.samples:
                tally.lost = tally.lost + tally.live
                tally.live = Sums()
                self.changed[tally] = None
        self.live_bytes = 0

    def drop_if_empty(self, tally: Tally) -> None:
        if not (tally.live.samples or tally.freed.samples or tally.lost.samples):
            del self.by_place[tally.stack, tally.type, tally.bin]
            self._gone(tally)

    def bound(self, living: int) -> None:
        """Make room where there are too many beside so many living blocks: see the head of this module."""
        if len(self) <= living + self.limit:
            return
        self._fold_smaller_half(lambda tally: (tally.stack, tally.type, coarse(tally.bin)))
        before = 0
        while before != len(self) > living + self.limit * 3 // 4:
            before = len(self)
            self._fold_smaller_half(lambda tally: (FORGOTTEN, UNKNOWN_TYPE, coarse(tally.bin)))

    def _fold_smaller_half(self, place: Callable[[Tally], tuple[int, int, int]]) -> None:
        dead = [tally for tally in self.by_place.values() if not tally.live.samples]
        dead.sort(key=lambda tally: tally.freed.bytes + tally.lost.bytes)
        for tally in dead[: (len(dead) + 1) // 2]:
            del self.by_place[tally.stack, tally.type, tally.bin]
            into = self.of(*place(tally))
            into.freed, into.lost = into.freed + tally.freed, into.lost + tally.lost
            self.folded += into.stack != tally.stack
            self._gone(tally)

    def _gone(self, tally: Tally) -> None:
        """It is no tally any more, and nothing of it lives: a change only where :meth:`changes` has returned it."""
        if tally.told == (0, 0):
            self.changed.pop(tally, None)
