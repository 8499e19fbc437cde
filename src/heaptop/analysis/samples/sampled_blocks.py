"""Sampled blocks: live ones one by one, freed ones as sums. Estimates, sites and charts are made from:

- :meth:`SampledBlocks.tallies`: for every (stack, type, size bin) what was allocated since sampling began, and how much
  of it lives, was freed, or was lost from sight: what every table of producers, chains, functions and bins is summed
  from;
- :meth:`SampledBlocks.live_blocks`: the living sampled blocks; :meth:`SampledBlocks.observe`: each death as it is
  reported;
- :meth:`SampledBlocks.changes`: what of this has changed, from which :mod:`heaptop.analysis.samples.moments` makes
  bands over time.

**Bounds.** A living sample takes 13 to 20 bytes (:mod:`heaptop.analysis.samples.live_blocks`), and what alike ones have
in common some 0.3 KiB once. Tallies are bounded by :mod:`heaptop.analysis.samples.tallies`. Stacks are at most
:data:`STACK_LIMIT` nodes (about 0.2 KiB each); what comes beyond is :data:`FORGOTTEN`."""

from __future__ import annotations

import weakref
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final, Protocol

from heaptop.analysis.samples.clock import LifetimeBound
from heaptop.analysis.samples.estimate import Sums, Weight, weight, whole
from heaptop.analysis.samples.live_blocks import Likeness, LiveBlockColumns, LiveBlockTable, Sample
from heaptop.analysis.samples.missed import MissedSamples
from heaptop.analysis.samples.sample_records import (
    CLOCK_LIMIT,
    KnownNumbers,
    Records,
    pack_likenesses,
    pack_living,
    pack_sums,
    read_likenesses,
    read_living,
    read_samples,
    read_sums,
    read_traced,
)
from heaptop.analysis.samples.sizes import bin_of, class_bin
from heaptop.analysis.samples.stacks import FORGOTTEN, STACK_LIMIT, ReportedStacks
from heaptop.analysis.samples.tallies import NOTHING, TALLY_LIMIT, UNKNOWN_TYPE, Tally, TallyTable
from heaptop.errors import ProtocolError
from heaptop.protocol.bounds import CODES, check_types
from heaptop.protocol.messages import (
    MAX_INTERVAL,
    TRACEMALLOC,
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
from heaptop.protocol.recorded import KeptNumbers, KeptStacks, Likenesses, LiveBlocks, Tallied

_NOT_BEFORE: Final = (
    *(Samples, Sampler, Traced, Tallied, Likenesses, LiveBlocks),
    *(Codes, Stacks, KeptStacks, KeptNumbers),
)
"""Samples are applied before these: they are about blocks too, or numbers of stacks may mean others after them."""


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


_Tied = tuple[Tally, Weight]  # What blocks that are alike are counted in, and what each of them represents


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
        self._unapplied: tuple[Records, Records, Records] | None = None
        """Births, types of living blocks and deaths that have arrived and are not applied yet: see :meth:`work_in`."""
        self.types: list[TypeName] = []
        self._said = ReportedStacks(stack_limit, most_codes)
        self.codes: list[CodeName] = self._said.codes  # Code by number, each once, over all sessions of the sampler
        self.stacks = self._said.tree
        self._stood_for = 0  # bytes, at most: sums of them stay below 2⁶³
        self._intervals: tuple[int, ...] = ()
        self._missed = MissedSamples()
        self.born = 0  # Samples so far
        self._tallies = TallyTable(tally_limit)

    def share_names(self, samples: SampledBlocks) -> None:
        """Use the names of another one, which only grow, and its state of the sampler. Figures are not shared."""
        self.types, self.codes, self.stacks, self._said = samples.types, samples.codes, samples.stacks, samples._said
        self.state, self.dropped = samples.state, samples.dropped
        self.time_ns, self.clock, self.origin = samples.time_ns, samples.clock, samples.origin
        self._missed, self.born, self._intervals = samples._missed.copy(), samples.born, samples._intervals

    def freeze(self) -> SampledBlocks:
        """A copy that later messages do not change, at the cost of a step for each tally. It takes none itself."""
        self.work_in()
        frozen = SampledBlocks()
        frozen.share_names(self)
        frozen._tallies, frozen._blocks, frozen.lifetime = self._tallies.copy(), self._blocks.copy(), self.lifetime
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
        return self._tallies.by_place.values()

    @property
    def live_bytes(self) -> int:
        """Bytes of all that was allocated since sampling began and lives, estimated."""
        self.work_in()
        return whole(self._tallies.live_bytes)

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
        return self._tallies.folded + self._said.forgotten

    def changes(self) -> list[tuple[Tally, int, int]]:
        """What has changed of the living since this was last asked, which one reader may do: each tally with the bytes
        and blocks, in their unit, that live more than before."""
        self.work_in()
        return self._tallies.changes()

    def forget_changes(self) -> None:
        """Nobody asks for :meth:`changes`: none of these is kept any longer."""
        self.work_in()
        self._tallies.changed.clear()

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
                self._blocks = LiveBlockTable[_Tied](read_likenesses(message, self._blocks, self._kept_numbers))
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
            self._tallies.bound(len(self._blocks))
        for number, kind in typed:
            if alike := self._blocks.number_of(number):
                self._retype(number, alike, kind)
        if typed:
            self._tallies.bound(len(self._blocks))
        if deaths:  # a block dies as what it was
            self._add_deaths(deaths)
            self._tallies.bound(len(self._blocks))

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
                self._tallies.replace([])
            self._void()
        self.state = message
        self._intervals = message.intervals

    def _feed_samples(self, message: Samples) -> None:
        intervals = self._intervals
        known = KnownNumbers(len(self._said), len(self.types), len(intervals))
        births, typed, deaths = read_samples(message, self._blocks, known)
        self._represent(sum([max(one[3], intervals[one[6]]) for one in births]))
        self.time_ns = message.time_ns
        if self.state is not None:
            self._missed.allocated(self.state.interval, max(message.clock - self.clock, 0))
        self.clock = message.clock
        self.dropped += message.dropped
        self.born += len(births)
        self._unapplied = births, typed, deaths

    def _represent(self, size: int) -> None:
        """Samples represent so many bytes more, at most. Sums of them stay below 2⁶³."""
        if self._stood_for + size >= CLOCK_LIMIT:
            raise ProtocolError("The sampled blocks represent more bytes than a machine can allocate.")
        self._stood_for += size

    def _add_births(self, births: Records) -> None:
        intervals, said = self._intervals, self._said
        blocks, tallies = self._blocks, self._tallies
        tied_to, changed, live_bytes = blocks.tied, tallies.changed, tallies.live_bytes
        for number, stack, clock, size, kind, domain, interval, _ in births:
            alike = blocks.add(number, (said[stack], kind - 1, size, intervals[interval]), clock, domain)
            tally, one = tied_to[alike] or self._tie(alike)
            tally.live.add(one)
            live_bytes += one.bytes
            changed[tally] = None
        tallies.live_bytes = live_bytes
        self._missed.born([intervals[one[6]] for one in births])

    def _add_deaths(self, deaths: Records) -> None:
        blocks, tallies = self._blocks, self._tallies
        tied_to, changed, live_bytes = blocks.tied, tallies.changed, tallies.live_bytes
        dead: list[Death] = []
        likenesses = blocks.likenesses
        for number, kind, clock in deaths:
            if kind:
                self._retype(number, blocks.number_of(number), kind - 1)
            alike = blocks.number_of(number)
            tally, one = tied_to[alike] or self._tie(alike)
            likeness = likenesses[alike]
            tally.live.remove(one)
            if tally.freed is NOTHING:
                tally.freed = Sums()
            tally.freed.add(one)
            live_bytes -= one.bytes
            changed[tally] = None
            birth = blocks.remove(number)
            dead.append((likeness, one, birth, clock if clock > birth else birth))
        tallies.live_bytes = live_bytes
        self._missed.died([likeness.interval for likeness, *_ in dead])
        for observer in self._observers:
            if (there := observer()) is not None:
                there.on_deaths(dead)

    def _feed_traced(self, message: Traced) -> None:
        rows = read_traced(message, KnownNumbers(len(self._said), len(self.types)))
        found = [(self._said[row[0]], *row[1:]) for row in rows]
        if message.left_out:
            found.append((FORGOTTEN, UNKNOWN_TYPE, 0, message.left_out, message.left_out_bytes))
        self.time_ns = message.time_ns
        self._tallies.replace(found)

    # -- as one piece ------------------------------------------------------------------------------------------

    def kept(self) -> Iterator[Message]:
        """All that is known of samples, as messages for another that knows nothing yet but the same types and how the
        sampler stands: from then on both are equal. The last traces of tracemalloc are not among them."""
        self.work_in()
        yield from self._said.kept()
        ended = [tally for tally in self.tallies() if tally.freed.samples or tally.lost.samples]
        yield from pack_sums(ended, self.dropped)
        yield from pack_likenesses(self._blocks.likenesses)
        yield from pack_living(self._blocks, self.time_ns, self.clock)

    @property
    def _kept_numbers(self) -> KnownNumbers:
        """What messages of :meth:`kept` may name: our stacks, and not the sampler's."""
        return KnownNumbers(len(self.stacks), len(self.types))

    def _feed_tallied(self, message: Tallied) -> None:
        freed, lost = (read_sums(packed, self._kept_numbers) for packed in (message.freed, message.lost))
        self._represent(sum(each.volume for each in (*freed, *lost)))
        self.dropped += message.dropped
        for each in freed:
            tally = self._tallies.of(*each.place)
            tally.freed = tally.freed + each.sums
        for each in lost:
            tally = self._tallies.of(*each.place)
            tally.lost = tally.lost + each.sums

    def _feed_live_blocks(self, message: LiveBlocks) -> None:
        numbers, births, alike = read_living(message, self._blocks)
        known = self._blocks.likenesses
        self._represent(sum(max(known[number][2:]) * times for number, times in alike.items()))
        self.time_ns, self.clock = message.time_ns, message.clock
        for interval in self._intervals:  # how much at which is not kept
            self._missed.allocated(interval, message.clock)
        self._blocks.extend(numbers, births, message.domains, alike)
        for number, times in alike.items():
            stack, kind, size, interval = known[number]
            tally = self._tallies.of(stack, kind, self._bin_of(size))
            one = weight(size, interval)
            self._missed.born([interval] * times)
            tally.live.add_alike(one, times)
            self._tallies.live_bytes += times * one.bytes
            self._tallies.changed[tally] = None

    # -- the living ------------------------------------------------------------------------------------------

    def _tie(self, alike: int) -> _Tied:
        """What blocks of this likeness are counted in: found once, for as long as one of them lives."""
        stack, kind, size, interval = self._blocks.likenesses[alike]
        tied = self._tallies.of(stack, kind, self._bin_of(size)), weight(size, interval)
        self._blocks.tied[alike] = tied
        return tied

    def _retype(self, number: int, before: int, kind: int) -> None:
        """What lives, and is of the likeness ``before``, is of another type than was thought, or its type has become
        known."""
        stack, was, size, interval = self._blocks.likenesses[before]
        if kind == was:
            return
        tally, one = self._blocks.tied[before] or self._tie(before)
        tally.live.remove(one)
        self._tallies.changed[tally] = None
        self._tallies.drop_if_empty(tally)
        alike = self._blocks.retype(number, (stack, kind, size, interval))
        tally, one = self._blocks.tied[alike] or self._tie(alike)
        tally.live.add(one)
        self._tallies.changed[tally] = None

    def _void(self) -> None:
        """None of the living is followed any more; the sampler may begin its numbers anew."""
        columns = self.live_block_columns()
        for observer in self._observers:
            if (there := observer()) is not None:
                there.on_void(columns, self.clock)
        self._tallies.lose_living()
        self._missed.follow_no_more()
        self._blocks = LiveBlockTable[_Tied]()
        self._said.may_begin_anew()
