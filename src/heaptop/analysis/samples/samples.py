"""Sampled blocks: live ones one by one, freed ones as sums. Estimates, sites and charts are made from:

- :meth:`SampledBlocks.tallies`: for every (stack, type, size bin) what was allocated since sampling began, and how much
  of it lives, was freed, or was lost from sight: what every table of producers, chains, functions and bins is summed
  from;
- :meth:`SampledBlocks.live_blocks`: the living sampled blocks; :meth:`SampledBlocks.observe`: each death as it is
  reported;
- :meth:`SampledBlocks.changes`: what of this has changed, from which :mod:`heaptop.analysis.samples.moments` makes
  bands over time.

**Bounds.** A living sample takes 13 to 20 bytes (:mod:`heaptop.analysis.samples.live_blocks`), and what alike ones have
in common some 0.3 KiB once. Tallies without a living block are at most :data:`TALLY_LIMIT` (about 0.5 KiB each) after
each message: at the limit the smaller half of them first loses its exact sizes, then its place and type (stack
:data:`FORGOTTEN`), so that sums stay true and detail is lost where least is. Stacks are at most :data:`STACK_LIMIT`
nodes (about 0.2 KiB each); what comes beyond is :data:`FORGOTTEN` too."""

from __future__ import annotations

import math
import struct
import weakref
from array import array
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple, Protocol

from heaptop.analysis.samples.clock import LifetimeBound
from heaptop.analysis.samples.estimate import Sums, Weight, of_parts, parts_of, weight, whole
from heaptop.analysis.samples.live_blocks import (
    FREE,
    ID_LIMIT,
    NONE,
    Likeness,
    LiveBlockColumns,
    LiveBlockTable,
    Sample,
)
from heaptop.analysis.samples.missed import MissedSamples
from heaptop.analysis.samples.sizes import CLASSES, bin_of, class_bin, coarse, whole_class
from heaptop.analysis.samples.stacks import FORGOTTEN, STACK_LIMIT, ReportedStacks
from heaptop.errors import ProtocolError
from heaptop.protocol.bounds import CODES, check_types
from heaptop.protocol.messages import (
    BIRTH,
    DEATH,
    DOMAINS,
    MAX_INTERVAL,
    TRACED,
    TRACEMALLOC,
    TYPED,
    CodeName,
    Codes,
    Message,
    Sampler,
    Samples,
    Stacks,
    Traced,
    TypeName,
    Types,
)
from heaptop.protocol.recorded import PIECE, TALLY, KeptNumbers, KeptStacks, Likenesses, LiveBlocks, Tallied

UNKNOWN_TYPE: Final = -1  # The type of a block that no census has met, and whose death did not have it

TALLY_LIMIT: Final = 1 << 17
MAX_SIZE: Final = 1 << 47  # Bytes of a block: what a machine can address
CLOCK_LIMIT: Final = 1 << 61
"""A sampler's clock stays below: what a machine can allocate in a year, some thousand times."""
_MAX_TRACED: Final = 1 << 47
_LIKENESS: Final = "iiQQ"  # Codes of arrays for the columns of likenesses
_NOT_BEFORE: Final = (
    *(Samples, Sampler, Traced, Tallied, Likenesses, LiveBlocks),
    *(Codes, Stacks, KeptStacks, KeptNumbers),
)
"""Samples are applied before these: they are about blocks too, or numbers of stacks may mean others after them."""
_Records = Sequence[tuple[int, ...]]
_ANY_DOMAIN: Final = bytes(range(len(DOMAINS)))
_HIGHEST: Final = bytes(range(CLOCK_LIMIT >> 56))  # What the highest byte of a clock may be


class PlaceholderType(TypeName):
    """What represents a type's name, and is of no module."""

    __slots__ = ()

    @property
    def full(self) -> str:
        return self.qualname


UNKNOWN_TYPE_NAME: Final = PlaceholderType("(unknown type)", "(unknown type)")


Death = tuple[Likeness, Weight, int, int]
"""A sampled block that was freed: what it was like, by the type that is known now; what it represents; and the clocks
of its birth and its death, which is never the earlier one."""


class Observer(Protocol):
    """Receives deaths: they are reported once and not kept."""

    def on_deaths(self, deaths: Sequence[Death]) -> None:
        """The blocks of one message were freed."""

    def on_void(self, columns: LiveBlockColumns, clock: int) -> None:
        """These lived at this clock, and their deaths will not be reported. The clock may restart."""


class Tally:
    """Sampled blocks of one stack, type and size bin (:mod:`heaptop.analysis.samples.sizes`). Not to be changed by
    readers."""

    __slots__ = ("bin", "freed", "group", "live", "lost", "stack", "told", "type")

    def __init__(self, stack: int, type: int, bin: int) -> None:
        self.stack = stack
        self.type = type
        self.bin = bin
        self.live = Sums()
        self.freed: Sums = _NOTHING
        self.lost: Sums = _NOTHING  # Alive when samples became void: their deaths are not known
        self.told = (0, 0)  # Bytes and blocks alive as SampledBlocks.changes() last returned
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

    def bury(self, other: Tally) -> None:
        """Take the dead and the lost of another tally."""
        self.freed = self.freed + other.freed
        self.lost = self.lost + other.lost


_NOTHING: Final = Sums()

_Tied = tuple[Tally, Weight]  # What blocks that are alike are counted in, and what each of them represents


class SampleChange(NamedTuple):
    """What lives of one stack, type and size bin more than before, in the unit of ``Sums.bytes``; less, below 0."""

    stack: int
    type: int
    bin: int
    bytes: int
    blocks: int


class SampledBlocks:
    """Takes the agent's messages in order and keeps what they say of sampled blocks."""

    def __init__(
        self,
        tally_limit: int = TALLY_LIMIT,
        stack_limit: int = STACK_LIMIT,
        most_codes: int = CODES,
        *,
        exact_sizes: bool = True,
    ) -> None:
        """Without ``exact_sizes``, tallies distinguish the four classes of sizes alone: there are far fewer."""
        self._tally_limit = tally_limit
        self._bin_of = bin_of if exact_sizes else class_bin
        self._observers: list[weakref.ref[Observer]] = []
        self.state: Sampler | None = None  # The sampler's last status
        self.time_ns = 0  # Of the last message of samples
        self.clock = 0  # The sampler's clock then
        self.origin = 0
        """Where the sampler's clock is 0 on the clock that continues from one time it is switched on to the next."""
        self.lifetime: LifetimeBound | None = None
        """Where it is set these are no more than the living that have lived for longer."""
        self.dropped = 0  # Samples that were lost, for not all could be followed: figures are too low by these
        self._blocks = LiveBlockTable[_Tied]()
        self._unapplied: tuple[_Records, _Records, _Records] | None = None
        """Births, types of living blocks and deaths that have arrived and are not applied yet: see :meth:`work_in`."""
        self.types: list[TypeName] = []
        self._said = ReportedStacks(stack_limit, most_codes)
        self.codes: list[CodeName] = self._said.codes  # Code by number, each once, over all sessions of the sampler
        self.stacks = self._said.tree
        self._stood_for = 0  # bytes, at most: sums of them stay below 2⁶³
        self._intervals: tuple[int, ...] = ()
        self._missed = MissedSamples()
        self.born = 0  # Samples so far
        self._tallies: dict[tuple[int, int, int], Tally] = {}
        self._folded = 0
        self._changed: dict[Tally, None] = {}  # in order
        self._live_bytes = 0  # of all tallies together, in their unit

    def share_names(self, samples: SampledBlocks) -> None:
        """Use the names of another one, which only grow, and its state of the sampler. Figures are not shared."""
        self.types, self.codes, self.stacks, self._said = samples.types, samples.codes, samples.stacks, samples._said
        self.state, self.dropped = samples.state, samples.dropped
        self.time_ns, self.clock, self.origin = samples.time_ns, samples.clock, samples.origin
        self._missed, self.born, self._intervals = samples._missed.copy(), samples.born, samples._intervals

    def freeze(self) -> SampledBlocks:
        """A copy that later messages do not change, at the cost of a step for each tally. It takes none itself."""
        self.work_in()
        frozen = SampledBlocks(self._tally_limit)
        frozen.share_names(self)
        frozen._tallies = {key: tally.copy() for key, tally in self._tallies.items()}
        frozen._blocks = self.blocks.copy()
        frozen._live_bytes, frozen.lifetime = self._live_bytes, self.lifetime
        return frozen

    # -- what is asked ---------------------------------------------------------------------------------------

    def observe(self, observer: Observer) -> None:
        """From now on, report deaths to it, as long as somebody else keeps it."""
        self._observers.append(weakref.ref(observer))

    @property
    def blocks(self) -> LiveBlockTable[_Tied]:
        """The living. Not to be read while messages are fed."""
        self.work_in()
        return self._blocks

    @property
    def live_block_count(self) -> int:
        """How many sampled blocks live."""
        return len(self.blocks)

    @property
    def intervals(self) -> tuple[int, ...]:
        """The finest and the coarsest of this session of the sampler, or the only one."""
        return tuple(sorted({min(self._intervals), max(self._intervals)})) if self._intervals else ()

    @property
    def missed(self) -> int:
        """For :meth:`~heaptop.analysis.samples.estimate.Sums.estimate` of what was allocated, or freed."""
        return self._missed.of_all()

    @property
    def live_missed(self) -> int:
        """Likewise of what lives."""
        self.work_in()
        return self._missed.of_live()

    @property
    def live_weight(self) -> int:
        """Bytes that a live sample represents; 0 where none lives."""
        self.work_in()
        return self._missed.live_weight()

    def live_blocks(self) -> Iterator[Sample]:
        """The living samples by id; an age is ``clock`` less ``birth``. Not to be read while messages are fed."""
        return iter(self.blocks)

    def live_block_columns(self) -> LiveBlockColumns:
        """A copy of what is known of the living, for whoever works on it while messages are fed."""
        return self.blocks.columns()

    def tallies(self) -> Iterable[Tally]:
        """One for every stack, type and size bin that was ever sampled. Not to be read while messages are fed."""
        self.work_in()
        return self._tallies.values()

    @property
    def live_bytes(self) -> int:
        """Bytes of all that was allocated since sampling began and lives, estimated."""
        self.work_in()
        return whole(self._live_bytes)

    def stack_of(self, said: int) -> int:
        """Our number of a stack by the sampler's: 0 of none, :data:`FORGOTTEN` of one that is not known yet."""
        return self._said[said] if 0 <= said < len(self._said) else FORGOTTEN

    def reported_stacks(self, stacks: Collection[int]) -> tuple[int, ...]:
        """What the sampler calls these now, for questions about its blocks: O(stacks)."""
        return self._said.reported_as(stacks)

    @property
    def is_traced(self) -> bool:
        """Whether tallies come, or came when it was on, from tracemalloc: all objects that live and that it knows,
        at the last census; what was allocated or freed is not known, and tallies have no such sums then."""
        return self.state is not None and self.state.means == TRACEMALLOC

    @property
    def only_live(self) -> bool:
        """Whether nothing is known of what was allocated and freed, but of what lives."""
        return self.is_traced or self.lifetime is not None

    @property
    def tally_count(self) -> int:
        """How many :meth:`tallies` there are."""
        self.work_in()
        return len(self._tallies)

    @property
    def folded(self) -> int:
        """How many stacks, and sums of freed blocks, were added to :data:`FORGOTTEN`, because there were too many."""
        self.work_in()
        return self._folded + self._said.forgotten

    def changes(self) -> list[SampleChange]:
        """What has changed of the living since this was last asked, which one reader may do."""
        return [SampleChange(tally.stack, tally.type, tally.bin, *more) for tally, *more in self.moved()]

    def moved(self) -> list[tuple[Tally, int, int]]:
        """The same as tallies, each with the bytes and blocks that live more than before."""
        self.work_in()
        found = []
        for tally in self._changed:
            live, (size, count) = tally.live, tally.told
            now_size, now_count = live.bytes, live.count
            if now_size != size or now_count != count:
                found.append((tally, now_size - size, now_count - count))
                tally.told = now_size, now_count
        self._changed.clear()
        return found

    def forget_changes(self) -> None:
        """Nobody asks for :meth:`changes`: none of these is kept any longer."""
        self.work_in()
        self._changed.clear()

    def type_name(self, number: int) -> TypeName:
        """Of a position in ``types``, or of :data:`UNKNOWN_TYPE`."""
        return self.types[number] if number >= 0 else UNKNOWN_TYPE_NAME

    # -- messages --------------------------------------------------------------------------------------------

    def feed(self, message: Message) -> None:
        """Take one message; kinds that are not about samples are ignored.

        Raises:
            ProtocolError: numbers leave a gap or point at what was never sent, records are cut, a block is born that
                lives or dies that does not. Nothing was taken.
        """
        if isinstance(message, _NOT_BEFORE):
            self.work_in()
        match message:
            case Samples():
                self._feed_samples(message)
            case Types():
                self._feed_types(message)
            case Codes():
                self._said.feed_codes(message)
            case Stacks():
                self._said.feed_stacks(message)
            case Sampler():
                self._feed_sampler(message)
            case Traced() if self.is_traced:
                self._feed_traced(message)
            case KeptStacks():
                self._said.feed_kept_stacks(message)
            case KeptNumbers():
                self._said.feed_numbers(message)
            case Tallied():
                self._feed_tallied(message)
            case Likenesses():
                self._feed_likenesses(message)
            case LiveBlocks():
                self._feed_live_blocks(message)

    def work_in(self) -> None:
        """Apply births, deaths and types that have arrived: a tick has hundreds of them, and a census as many types.
        They are kept until their effect is read, or more arrives. A screen calls this after it has shown the tick or
        the census, so that it does not wait for it."""
        if self._unapplied is None:
            return
        (births, typed, deaths), self._unapplied = self._unapplied, None
        self._add_births(births)
        if not deaths:
            self._bound()
        for number, kind in typed:
            if alike := self._blocks.number_of(number):
                self._retype(number, alike, kind)
        if typed:
            self._bound()
        if deaths:  # a block dies as what it was
            self._add_deaths(deaths)
            self._bound()

    def _feed_types(self, message: Types) -> None:
        if message.first != len(self.types):
            raise ProtocolError(
                f"The agent named types from number {message.first}; number {len(self.types)} comes next."
            )
        check_types(len(self.types) + len(message.names))
        self.types += message.names

    def _feed_sampler(self, message: Sampler) -> None:
        if not all(0 < interval <= MAX_INTERVAL for interval in message.intervals) or len(message.intervals) > 256:
            raise ProtocolError("The sampler has an interval that is no number of bytes, or too many of them.")
        before = self.state
        # What lived when sampling was switched off stays as it was then, until it restarts.
        void = before is not None and message.on and (message.epoch != before.epoch or not before.on)
        if (
            self.live_block_count
            and message.on
            and not void
            and message.intervals[: len(self._intervals)] != self._intervals
        ):
            raise ProtocolError("The sampler changed the intervals that living samples were taken at.")
        if void:
            if self.is_traced:
                self._replace([])
            self._void()
        self.state = message
        self._intervals = message.intervals

    def _feed_samples(self, message: Samples) -> None:
        births = _records(BIRTH.iter_unpack, message.births, "births")
        deaths = _records(DEATH.iter_unpack, message.deaths, "deaths")
        typed = _records(TYPED.iter_unpack, message.typed, "types")
        self._check(births, deaths, typed)
        intervals = self._intervals
        stood_for = self._stood_for + sum([max(one[3], intervals[one[6]]) for one in births])
        if max([message.clock, *[one[2] for one in births], *[one[2] for one in deaths]]) >= CLOCK_LIMIT:
            raise ProtocolError("The sampler's clock has more bytes than a machine can allocate.")
        if stood_for >= CLOCK_LIMIT:
            raise ProtocolError("The sampled blocks represent more bytes than a machine can allocate.")
        self._stood_for = stood_for
        self.time_ns = message.time_ns
        if self.state is not None:
            self._missed.allocated(self.state.interval, max(message.clock - self.clock, 0))
        self.clock = message.clock
        self.dropped += message.dropped
        self.born += len(births)
        self._unapplied = births, typed, deaths

    def _add_births(self, births: _Records) -> None:
        intervals, said = self._intervals, self._said
        blocks, changed = self._blocks, self._changed
        tied_to, live_bytes = blocks.tied, self._live_bytes
        for number, stack, clock, size, kind, domain, interval, _ in births:
            alike = blocks.add(number, (said[stack], kind - 1, size, intervals[interval]), clock, domain)
            tally, one = tied_to[alike] or self._tie(alike)
            tally.live.add(one)
            live_bytes += one.bytes
            changed[tally] = None
        self._live_bytes = live_bytes
        self._missed.born([intervals[one[6]] for one in births])

    def _add_deaths(self, deaths: _Records) -> None:
        blocks, changed = self._blocks, self._changed
        tied_to, live_bytes = blocks.tied, self._live_bytes
        dead: list[Death] = []
        likenesses = blocks.likenesses
        for number, kind, clock in deaths:
            if kind:
                self._retype(number, blocks.number_of(number), kind - 1)
            alike = blocks.number_of(number)
            tally, one = tied_to[alike] or self._tie(alike)
            likeness = likenesses[alike]
            tally.live.remove(one)
            if tally.freed is _NOTHING:
                tally.freed = Sums()
            tally.freed.add(one)
            live_bytes -= one.bytes
            changed[tally] = None
            birth = blocks.remove(number)
            dead.append((likeness, one, birth, clock if clock > birth else birth))
        self._live_bytes = live_bytes
        self._missed.died([likeness.interval for likeness, *_ in dead])
        for observer in self._observers:
            if (there := observer()) is not None:
                there.on_deaths(dead)

    def _check(
        self, births: list[tuple[int, ...]], deaths: list[tuple[int, ...]], typed: list[tuple[int, ...]]
    ) -> None:
        born = {record[0] for record in births}
        if len(born) < len(births) or self._blocks.lives_any(born):
            raise ProtocolError("A sampled block was born that is live already.")
        if not self._are_sound(births):
            self._refuse(births)
        died = {record[0] for record in deaths}
        if len(died) < len(deaths):
            raise ProtocolError("A sampled block died twice.")
        for number, kind, _ in deaths:
            if not (number in born or number in self._blocks):
                raise ProtocolError(f"The sampled block {number} died, which was not alive.")
            if kind > len(self.types):
                raise ProtocolError(f"A sampled block was of type {kind - 1}, which was never named.")
        if any(kind >= len(self.types) for _, kind in typed):
            raise ProtocolError("A sampled block was found to be of a type that was never named.")

    def _are_sound(self, births: list[tuple[int, ...]]) -> bool:
        """Checks them column by column, which takes a fraction of the time that one by one takes."""
        if not births:
            return True
        numbers, stacks, _, sizes, kinds, domains, intervals, _ = zip(*births, strict=True)
        return bool(
            max(numbers) < ID_LIMIT
            and max(stacks) < len(self._said)
            and max(kinds) <= len(self.types)
            and min(sizes) > 0
            and max(sizes) <= MAX_SIZE
            and max(domains) < len(DOMAINS)
            and max(intervals) < len(self._intervals)
        )

    def _refuse(self, births: list[tuple[int, ...]]) -> None:
        """Raise what is wrong with the first of them that is not sound."""
        for number, stack, _, size, kind, domain, interval, _ in births:
            if number >= ID_LIMIT:
                raise ProtocolError(f"A sampled block has the number {number}; {ID_LIMIT - 1} is the largest.")
            if stack >= len(self._said) or kind > len(self.types):
                raise ProtocolError(f"A block has the stack {stack} and the type {kind - 1}: one was never sent.")
            if not 0 < size <= MAX_SIZE or domain >= len(DOMAINS) or interval >= len(self._intervals):
                raise ProtocolError(f"A sampled block of {size} bytes has an impossible size, domain or interval.")

    def _feed_traced(self, message: Traced) -> None:
        rows = _records(TRACED.iter_unpack, message.rows, "traces")
        for stack, kind, size_class, count, size in rows:
            if stack >= len(self._said) or kind >= len(self.types) or size_class >= len(CLASSES):
                raise ProtocolError(f"Objects have the stack {stack} and the type {kind}: one was never sent.")
            if not 0 < count <= _MAX_TRACED or size > _MAX_TRACED:
                raise ProtocolError(f"{count} objects of {size} bytes were traced, which cannot be.")
        found = [(self._said[row[0]], *row[1:]) for row in rows]
        if message.left_out:
            found.append((FORGOTTEN, UNKNOWN_TYPE, 0, message.left_out, message.left_out_bytes))
        self.time_ns = message.time_ns
        self._replace(found)

    def _replace(self, rows: Iterable[Sequence[int]]) -> None:
        """From now on these live, and none else: (stack, type, size class, objects, bytes)."""
        for tally in self._tallies.values():
            tally.live = Sums()
            self._changed[tally] = None
            self._gone(tally)
        self._tallies = {}
        self._live_bytes = 0
        for stack, kind, size_class, count, size in rows:
            tally = self._tally(stack, kind, whole_class(size_class))
            exact = Sums.exact(count, size)
            tally.live.merge(exact)
            self._live_bytes += exact.bytes
            self._changed[tally] = None

    # -- as one piece ------------------------------------------------------------------------------------------

    def kept(self) -> Iterator[Message]:
        """All that is known of samples, as messages for another that knows nothing yet but the same types and how the
        sampler stands: from then on both are equal. The last traces of tracemalloc are not among them."""
        self.work_in()
        yield from self._said.kept()
        ended = [tally for tally in self._tallies.values() if tally.freed.samples or tally.lost.samples]
        dropped = self.dropped
        for first in range(0, max(len(ended), 1), PIECE // 8):
            part = ended[first : first + PIECE // 8]
            freed = b"".join([_packed(tally, tally.freed) for tally in part if tally.freed.samples])
            lost = b"".join([_packed(tally, tally.lost) for tally in part if tally.lost.samples])
            yield Tallied(freed, lost, dropped)
            dropped = 0
        likenesses = self._blocks.likenesses
        for first in range(1, len(likenesses), PIECE):
            columns = zip(*likenesses[first : first + PIECE], strict=True)
            packed = [array(code, column).tobytes() for code, column in zip(_LIKENESS, columns, strict=True)]
            yield Likenesses(first, *packed)
        for first, (numbers, births, domains) in self._blocks.pieces(PIECE):
            yield LiveBlocks(self.time_ns, self.clock, first, numbers, _by_place(births), domains)
        if not self.live_block_count:
            yield LiveBlocks(self.time_ns, self.clock, 0, b"", b"", b"")

    def _feed_tallied(self, message: Tallied) -> None:
        freed, lost = (_records(TALLY.iter_unpack, packed, "sums") for packed in (message.freed, message.lost))
        for record in (*freed, *lost):
            stack, kind, _, _, _, _, seen, volume, count, variance, third = record
            if not (FORGOTTEN <= stack < len(self.stacks) and UNKNOWN_TYPE <= kind < len(self.types)):
                raise ProtocolError(f"Sums of the stack {stack} and the type {kind} were kept: one was never sent.")
            if max(seen, volume, count) >= CLOCK_LIMIT or not (0 <= variance < math.inf and abs(third) < math.inf):
                raise ProtocolError("Sums were kept that cannot be.")
        stood_for = self._stood_for + sum(record[7] for record in (*freed, *lost))
        if stood_for >= CLOCK_LIMIT:
            raise ProtocolError("The sampled blocks represent more bytes than a machine can allocate.")
        self._stood_for = stood_for
        self.dropped += message.dropped
        for record in freed:
            tally = self._tally(*record[:3])
            tally.freed = tally.freed + _unpacked(record)
        for record in lost:
            tally = self._tally(*record[:3])
            tally.lost = tally.lost + _unpacked(record)

    def _feed_likenesses(self, message: Likenesses) -> None:
        known = self._blocks.likenesses
        if message.first != len(known) or self._blocks.rows:
            raise ProtocolError(f"Likenesses were kept from number {message.first} on; {len(known)} comes next.")
        packed = message.stacks, message.types, message.sizes, message.intervals
        columns = [_column(code, column) for code, column in zip(_LIKENESS, packed, strict=True)]
        if len({len(column) for column in columns}) > 1:
            raise ProtocolError("Columns of likenesses are incomplete.")
        everyone = [*known, *map(Likeness, *columns)]
        for likeness in everyone[len(known) :]:
            self._check_likeness(likeness)
        had = [likeness for likeness in everyone if likeness != NONE]
        if len(set(had)) < len(had):
            raise ProtocolError("A likeness was kept twice.")
        self._blocks = LiveBlockTable[_Tied](everyone)

    def _check_likeness(self, likeness: Likeness) -> None:
        stack, kind, size, interval = likeness
        if likeness == NONE:
            return
        if not (FORGOTTEN <= stack < len(self.stacks) and UNKNOWN_TYPE <= kind < len(self.types)):
            raise ProtocolError(f"A live block has the stack {stack} and the type {kind}: one was never sent.")
        if not (0 < size <= MAX_SIZE and 0 < interval <= MAX_INTERVAL):
            raise ProtocolError(f"A live block of {size} bytes has an impossible size or interval.")

    def _feed_live_blocks(self, message: LiveBlocks) -> None:
        numbers, births = _column("i", message.likenesses), _column("Q", _by_number(message.births))
        alike = Counter(numbers)
        del alike[FREE]
        self._check_live_blocks(message, numbers, births, alike)
        known = self._blocks.likenesses
        stood_for = sum(max(known[number][2:]) * times for number, times in alike.items())
        if self._stood_for + stood_for >= CLOCK_LIMIT or message.clock >= CLOCK_LIMIT:
            raise ProtocolError("The live blocks represent more bytes than a machine can allocate.")
        self._stood_for += stood_for
        self.time_ns, self.clock = message.time_ns, message.clock
        for interval in self._intervals:  # how much at which is not kept
            self._missed.allocated(interval, message.clock)
        self._blocks.extend(numbers, births, message.domains, alike)
        for number, times in alike.items():
            stack, kind, size, interval = known[number]
            tally = self._tally(stack, kind, self._bin_of(size))
            one = weight(size, interval)
            self._missed.born([interval] * times)
            tally.live.add_alike(one, times)
            self._live_bytes += times * one.bytes
            self._changed[tally] = None

    def _check_live_blocks(
        self, message: LiveBlocks, numbers: array[int], births: array[int], alike: Collection[int]
    ) -> None:
        if not len(numbers) == len(births) == len(message.domains):
            raise ProtocolError("Columns of live blocks are incomplete.")
        if message.first != self._blocks.rows or self._blocks.rows + len(numbers) > ID_LIMIT:
            raise ProtocolError(f"Living blocks were kept from number {message.first} on, which others have.")
        known = self._blocks.likenesses
        if any(not 0 < number < len(known) or known[number] == NONE for number in alike):
            raise ProtocolError("A live block is like others that were never sent.")
        highest = message.births[len(births) * 7 :]
        if message.domains.translate(None, _ANY_DOMAIN) or highest.translate(None, _HIGHEST):
            raise ProtocolError("A live block has an impossible domain or birth.")

    # -- the living ------------------------------------------------------------------------------------------

    def _tie(self, alike: int) -> _Tied:
        """What blocks of this likeness are counted in: found once, for as long as one of them lives."""
        stack, kind, size, interval = self._blocks.likenesses[alike]
        tied = self._tally(stack, kind, self._bin_of(size)), weight(size, interval)
        self._blocks.tied[alike] = tied
        return tied

    def _tally(self, stack: int, kind: int, number: int) -> Tally:
        key = (stack, kind, number)
        tally = self._tallies.get(key)
        if tally is None:
            tally = self._tallies[key] = Tally(*key)
        return tally

    def _retype(self, number: int, before: int, kind: int) -> None:
        """What lives, and is of the likeness ``before``, is of another type than was thought, or its type has become
        known."""
        stack, was, size, interval = self._blocks.likenesses[before]
        if kind == was:
            return
        tally, one = self._blocks.tied[before] or self._tie(before)
        tally.live.remove(one)
        self._changed[tally] = None
        if not (tally.live.samples or tally.freed.samples or tally.lost.samples):
            del self._tallies[stack, was, tally.bin]
            self._gone(tally)
        alike = self._blocks.retype(number, (stack, kind, size, interval))
        tally, one = self._blocks.tied[alike] or self._tie(alike)
        tally.live.add(one)
        self._changed[tally] = None

    def _void(self) -> None:
        """None of the living is followed any more; the sampler may begin its numbers anew."""
        columns = self.live_block_columns()
        for observer in self._observers:
            if (there := observer()) is not None:
                there.on_void(columns, self.clock)
        for tally in self._tallies.values():
            if tally.live.samples:
                tally.lost = tally.lost + tally.live
                tally.live = Sums()
                self._changed[tally] = None
        self._live_bytes = 0
        self._missed.follow_no_more()
        self._blocks = LiveBlockTable[_Tied]()
        self._said.may_begin_anew()

    # -- the dead --------------------------------------------------------------------------------------------

    def _bound(self) -> None:
        if len(self._tallies) > len(self._blocks) + self._tally_limit:
            self._fold()

    def _fold(self) -> None:
        """Make room: see the head of this module."""
        self._fold_smaller_half(lambda tally: (tally.stack, tally.type, coarse(tally.bin)))
        before = 0
        while before != len(self._tallies) > len(self._blocks) + self._tally_limit * 3 // 4:
            before = len(self._tallies)
            self._fold_smaller_half(lambda tally: (FORGOTTEN, UNKNOWN_TYPE, coarse(tally.bin)))

    def _fold_smaller_half(self, place: Callable[[Tally], tuple[int, int, int]]) -> None:
        dead = [tally for tally in self._tallies.values() if not tally.live.samples]
        dead.sort(key=lambda tally: tally.freed.bytes + tally.lost.bytes)
        for tally in dead[: (len(dead) + 1) // 2]:
            del self._tallies[tally.stack, tally.type, tally.bin]
            into = self._tally(*place(tally))
            into.bury(tally)
            self._folded += into.stack != tally.stack
            self._gone(tally)

    def _gone(self, tally: Tally) -> None:
        """It is no tally any more, and nothing of it lives: a change only where :meth:`changes` has returned it."""
        if tally.told == (0, 0):
            self._changed.pop(tally, None)


def _records(unpack: Callable[[bytes], Iterable[tuple[int, ...]]], packed: bytes, what: str) -> list[tuple[int, ...]]:
    try:
        return list(unpack(packed))
    except struct.error as error:
        raise ProtocolError(f"The records of {what} of sampled blocks are incomplete.") from error


def _column(code: str, packed: bytes) -> array[int]:
    column = array(code)
    try:
        column.frombytes(packed)
    except ValueError as error:
        raise ProtocolError("A column of live blocks is incomplete.") from error
    return column


def _by_place(numbers: bytes) -> bytes:
    """Numbers of eight bytes each as the first bytes of all, then the second ones, and so on."""
    return b"".join([numbers[place::8] for place in range(8)])


def _by_number(places: bytes) -> bytes:
    """What :func:`_by_place` was given."""
    numbers, length = bytearray(len(places)), len(places) // 8
    for place in range(8):
        numbers[place::8] = places[place * length : (place + 1) * length]
    return bytes(numbers)


def _packed(tally: Tally, sums: Sums) -> bytes:
    samples, seen, volume, count, variance, third = sums.parts
    (volume, rest), (count, count_rest) = parts_of(volume), parts_of(count)
    place = tally.stack, tally.type, tally.bin
    return TALLY.pack(*place, rest, count_rest, samples, seen, volume, count, variance, third)


def _unpacked(record: tuple[Any, ...]) -> Sums:
    rest, count_rest, samples, seen, volume, count, variance, third = record[3:]
    parts = samples, seen, of_parts(volume, rest), of_parts(count, count_rest), round(variance), round(third)
    return Sums.made_of(parts)
