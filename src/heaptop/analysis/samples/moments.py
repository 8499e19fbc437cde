"""The living sampled blocks over time, as records that charts and tables are cut from like those of censuses.

:mod:`heaptop.analysis.samples.sampled_blocks` estimates, and :mod:`heaptop.analysis.samples.producers` names the
places. What a census counted beyond the sampled blocks is a cell of its own here, for it was allocated before.

That difference is as unsure as the samples are, and what is older only dies. So the figure stays as it is while it is
within the 95 % interval, and else moves to half way between the end of it that is nearer and the difference (to the end
alone it would stay too large while objects die, to the difference it would follow the one count in forty that is off):
down as soon as it is outside, and up only where it is outside by another whole interval, as where a recording begins
with samples that are later than its census.
The interval is the widest that so many bytes can have (all blocks small) and goes over the last few ticks: a census and
a tick are not of the same moment, and what was kept for a moment only is in one of them. Tracemalloc's figures are
exact.

A cell joins the stacks of one site: a program has a few thousand sites, and many times as many stacks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from math import ceil, floor
from typing import ClassVar, Final

from heaptop.analysis.heap.history import CELL_LIMIT, MAX_TOTAL, Amount, halve_older
from heaptop.analysis.samples.estimate import poisson_interval, whole
from heaptop.analysis.samples.producers import NO_SITE, Sites
from heaptop.analysis.samples.sampled_blocks import PlaceholderType, SampledBlocks
from heaptop.analysis.samples.sizes import class_of
from heaptop.analysis.samples.tallies import Tally
from heaptop.protocol.messages import NO_INTERPRETER, UNTRACKED, TypeName

LIMIT: Final = 2000  # Moments kept
_TICKS: Final = 3  # Ticks before a census whose samples it may be of


@dataclass(slots=True, unsafe_hash=True)
class SiteCell:
    """Living blocks of one type and size class that one site has allocated, at one moment, estimated. Not to be
    changed: it is not frozen, for thousands are made a second, and making a frozen one takes three times as long.

    It has what a :class:`~heaptop.analysis.heap.history.Cell` has, so that series and tables are made from both alike.
    """

    type: TypeName
    site: str  # `shop/views.py:88 create_session`, or what represents one, in brackets
    module: str
    size_class: int  # A position in analysis.samples.sizes.CLASSES; -1 for what is older than the sampling
    count: int
    bytes: int
    generation: ClassVar[int] = UNTRACKED
    interpreter: ClassVar[int] = NO_INTERPRETER
    hidden: ClassVar[int] = 0
    guessed: ClassVar[int] = 0

    @property
    def counted(self) -> bool:
        return self.size_class >= 0

    @property
    def place(self) -> Hashable:
        return self.type, self.site, self.module, self.size_class


def named_cell(type: TypeName, site: str = "", module: str = "") -> SiteCell:
    """What represents blocks of this type and place where a filter asks for their names."""
    return SiteCell(type, site, module, 0, 0, 0)


def older_cell(name: str, size: int) -> SiteCell:
    """What lives and is not followed. How many blocks it is, is not known: objects were counted."""
    return SiteCell(PlaceholderType(name, name), name, name, -1, 0, size)


@dataclass(frozen=True, slots=True, eq=False)
class SiteRecord:
    """All of them at one time. Equal only to itself, as a record of a census is."""

    time_ns: int
    clock: int  # The sampler's: bytes allocated since sampling began
    cells: tuple[SiteCell, ...]  # None empty; an unchanged cell is the same object as in the record before
    error: int = 0  # Of the bytes of older_cell(): how far they may be off, up or down


class _Group:
    """What the stacks of one site hold of a type and size class."""

    __slots__ = ("bytes", "count", "key", "sites")

    def __init__(self, key: _Key, sites: Sites) -> None:
        self.key = key
        self.sites: Sites | None = sites
        """Who named its site; None once nothing of it lives, when another may take its place."""
        self.count = 0
        self.bytes = 0  # Both in the unit of `Sums.bytes`: whole numbers, so that they come back to 0


_Key = tuple[TypeName, str, str, int]


class Moments:
    """Snapshots of the living sampled blocks, at most :data:`LIMIT`: the past gets coarser and never disappears."""

    def __init__(self, samples: SampledBlocks) -> None:
        self._samples = samples
        self._groups: dict[_Key, _Group] = {}
        self._cells: dict[_Group, SiteCell] = {}  # of the last moment
        self._older: SiteCell | None = None
        self._error = 0  # Of its bytes
        self._doubtful = True  # Whether its bytes were no difference to a census
        self._counted = False  # Whether there was a census
        self._sampled: deque[int] = deque(maxlen=_TICKS)  # Bytes that lived of all that is sampled, at the last moments
        self._records: list[SiteRecord] = []
        self._cell_count = 0

    def freeze(self) -> Moments:
        """The records until now, whatever is taken later. It takes none itself."""
        frozen = Moments(self._samples)
        frozen._records = self._records.copy()
        return frozen

    @property
    def records(self) -> Sequence[SiteRecord]:
        """Oldest first; the list grows under the reader: copy it into a tuple to hold on to it."""
        return self._records

    def take(self, time_ns: int, sites: Sites) -> None:
        """How it is now."""
        for group in self._moved(sites):
            self._settle(group)
        found = (*self._cells.values(), *([self._older] if self._older is not None else []))
        self._sampled.append(self._samples.live_bytes)
        self._records.append(SiteRecord(time_ns, self._samples.clock, found, self._error))
        self._cell_count += len(found)
        while len(self._records) > LIMIT or (self._cell_count > CELL_LIMIT and len(self._records) > 2):
            halve_older(self._records)
            self._cell_count = sum(len(record.cells) for record in self._records)

    def count_older(self, census: Amount) -> None:
        """A census has counted this much in all, hidden bytes too: what is not followed is older, until the next
        census. The head of this module explains what is made of the difference."""
        sampled = [self._samples.live_bytes]
        size = low = high = census.bytes - sampled[0]
        if not self._samples.is_traced:
            sampled += self._sampled
            low = census.bytes - self._widest(max(sampled))[1]
            high = census.bytes - self._widest(min(sampled))[0]
        if self._older is not None and not self._doubtful:
            held = self._older.bytes
            rises = held < low - (high - low)
            size = (size + (low if rises else high)) // 2 if rises or held > high else held
        self._doubtful = False
        if not self._counted and len(self._records) <= _TICKS:
            # What is older was there before as well: the first few moments do not know of it yet.
            self._records.clear()
            self._cell_count = 0
        self._counted = True
        self._error = max(size - low, high - size)
        self._set_older(size)

    def _widest(self, size: int) -> tuple[int, int]:
        """The 95 % interval of so many bytes, had small blocks all of them."""
        state = self._samples.state
        state = self._samples.state
        interval = self._samples.live_weight or (max(state.intervals, default=1) if state is not None else 1)
        if interval == 1:
            return size, size
        low, high = poisson_interval(max(size / interval, 1.0))
        return min(floor(low * interval), size), max(ceil(high * interval), size)

    def follow_no_more(self, *, still_on: bool) -> None:
        """Of what was sampled so far none is followed any more.

        Args:
            still_on: whether sampling continues at once, so that what lived at the last record is what is not
            followed
                now. Else that is not known before the next census, and in no record until then.
        """
        lived = sum(cell.bytes for cell in self._cells.values())
        self._set_older(self._older.bytes + lived if self._older is not None and still_on else 0)
        self._doubtful = True
        self._sampled.clear()

    def _set_older(self, size: int) -> None:
        # what no machine has is left out: sums are kept in 64 bits
        older = older_cell(NO_SITE, size) if 0 < size <= MAX_TOTAL // 2 else None
        if older != self._older:
            self._older = older

    def _moved(self, sites: Sites) -> dict[_Group, None]:
        """The groups that have changed, in order."""
        moved: dict[_Group, None] = {}
        for tally, size, blocks in self._samples.changes():
            group: _Group | None = tally.group
            if group is None or group.sites is not sites:
                group = tally.group = self._group(tally, sites)
            group.count += blocks
            group.bytes += size
            moved[group] = None
        return moved

    def _group(self, tally: Tally, sites: Sites) -> _Group:
        name, stack = self._samples.type_name(tally.type), tally.stack
        key = (name, sites.name(stack, "site"), sites.name(stack, "module"), class_of(tally.bin))
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = _Group(key, sites)
        return group

    def _settle(self, group: _Group) -> None:
        """Make the cell of a group that has changed."""
        if not group.count:
            self._groups.pop(group.key, None)
            self._cells.pop(group, None)
            group.sites = None
            return
        count, size = whole(group.count), whole(group.bytes)
        cell = self._cells.get(group)
        if cell is None or cell.bytes != size or cell.count != count:
            self._cells[group] = SiteCell(*group.key, count, size)
