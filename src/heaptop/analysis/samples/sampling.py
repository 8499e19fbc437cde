"""All that is known of sampled allocations: takes the agent's messages and keeps what each view is computed from.

It hands every message to the modules that compute figures, in the right order, with the place of each sampled block.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Final

from heaptop.analysis.heap.history import Amount
from heaptop.analysis.samples.block_lifetimes import Lives
from heaptop.analysis.samples.clock import Timeline
from heaptop.analysis.samples.estimate import Weight, weight
from heaptop.analysis.samples.gc_profile import GcProfile
from heaptop.analysis.samples.generations import Cohorts, LifetimeBands, Span
from heaptop.analysis.samples.live_blocks import Likeness, LiveBlockColumns
from heaptop.analysis.samples.moments import Moments
from heaptop.analysis.samples.producers import Sites
from heaptop.analysis.samples.sampled_blocks import Death, SampledBlocks
from heaptop.analysis.samples.sampling_status import SamplingStatus
from heaptop.analysis.samples.sizes import CLASS_RANGES, bin_of, class_of
from heaptop.analysis.samples.survival import bin_of as age_bin
from heaptop.analysis.text.code_places import CodePlaces
from heaptop.protocol.messages import Census, Codes, GcEvents, Message, Row, Sampler, Samples, Stacks, Tick, Types
from heaptop.protocol.recorded import LiveBlocks

NEVER_SAMPLED: Final = "memory that C code takes from malloc or PyMem_RawMalloc (such as zlib contexts)"
"""To be stated beside figures made of samples: the sampler follows the domains MEM and OBJ, and NumPy's buffers."""
GROUPS: Final = ("type", "site", "size")
"""The attributes by which lifetimes are kept; a group is a pair of one of them and its value."""

_SIZE_GROUPS: Final = tuple(("size", name) for name in CLASS_RANGES)

UNIT: Final = weight(1, 1).bytes  # One byte, as weights are written
_SLICE: Final = 3000  # Samples that are gone through in one step; of those made void so many with each message
_KNOWN_LIMIT: Final = 1 << 17

_TOTALS_ONLY: Final = 2  # Rows, and phases, that are kept where only their totals are read

_KEEPING: Final = (Types, Codes, Stacks, Tick, GcEvents, Census)  # After these the same lives as before
_PENDING: Final = 4  # Samples that have arrived and are not applied are never more

_Alike = tuple[Likeness, Weight, int | None, Span | None]
"""What sampled blocks were like, what each represents, and their bin of ages and span."""


class Sampling:
    """One session's samples, and what is made of them as they come."""

    def __init__(
        self, user_paths: Sequence[str] = (), samples: SampledBlocks | None = None, *, keeps_past: bool = True
    ) -> None:
        """``user_paths``: directories and files that are the user's own code wherever they lie (``--user-code``).
        ``samples``: empty ones, with limits of their own. Without ``keeps_past`` there are the figures of now and the
        totals of collections: nothing over time, and no lifetimes."""
        self._user_paths = tuple(user_paths)
        self._keeps_past = keeps_past
        self.samples = samples if samples is not None else SampledBlocks()
        self.timeline = Timeline()
        self._lives = Lives()
        self._lifetime_bands = LifetimeBands()
        self._cohorts = Cohorts()
        self.gc = GcProfile() if keeps_past else GcProfile(row_limit=_TOTALS_ONLY, phase_limit=_TOTALS_ONLY)
        self.sites = Sites(self.samples, CodePlaces((), (), self._user_paths))
        self._moments = Moments(self.samples)
        self.sampling_status = SamplingStatus()  # Whether allocations are sampled, and since when
        self.told_from = 0
        """The timeline's clock from which on all births and deaths are known: later than the first birth where a
        recording is shown from the middle on. How long others live is not known: their early dead are missing."""
        self._void: _Void | None = None
        self._pending: list[Callable[[Sampling], None]] = []
        """Messages that are not processed yet, in order: see :meth:`work_in`. Not of bound methods: who ends a
        session has its megabytes back at once where nothing here is in a reference cycle."""
        self._dead: Sequence[Death] = ()  # Of the last messages, where they are known already and not applied yet
        self._known_places: dict[tuple[int, int], tuple[Hashable, Hashable]] = {}
        self._placed = False
        self.samples_per_second: float | None = None
        """Between the last two ticks; None before there were two, or where all is traced."""
        self._before: tuple[int, int] | None = None  # Samples so far, and when, at the last tick
        self._is_frozen = False
        if keeps_past:
            self.samples.observe(self)

    def freeze(self) -> Sampling:
        """A copy that later messages do not change, for a display that is held. It takes none itself.

        What only grows (names of types, code, stacks and sites) is shared; sums are copied, a step for each."""
        frozen = Sampling(self._user_paths)
        frozen._is_frozen = True
        frozen._lives, frozen._lifetime_bands = self.lives.freeze(), self.lifetime_bands.freeze()
        frozen._cohorts, frozen._moments = self.cohorts.freeze(), self.moments.freeze()
        frozen.samples, frozen.timeline, frozen.gc = self.samples.freeze(), self.timeline.freeze(), self.gc.freeze()
        frozen.sites, frozen._known_places = self.sites, self._known_places
        frozen.sampling_status, frozen.told_from = self.sampling_status, self.told_from
        frozen.samples_per_second = self.samples_per_second
        return frozen

    @property
    def moments(self) -> Moments:
        """The living over time."""
        self.work_in()
        return self._moments

    @property
    def lives(self) -> Lives:
        """How long blocks lived, by group."""
        self._settle()
        return self._lives

    @property
    def lifetime_bands(self) -> LifetimeBands:
        """The living over time by how long they will have lived, by group."""
        self._settle()
        return self._lifetime_bands

    @property
    def cohorts(self) -> Cohorts:
        """The living over time by their age."""
        self._settle()
        return self._cohorts

    @property
    def state(self) -> Sampler | None:
        """The sampler's last status; None when it was never asked."""
        return self.samples.state

    @property
    def on(self) -> bool:
        return self.state is not None and self.state.on

    @property
    def follows(self) -> bool:
        """Whether blocks are followed from their birth to their death: tracemalloc does not."""
        return self.on and not self.samples.is_traced

    def feed(self, message: Message) -> None:
        """Take one message; kinds that are not about allocations or collections are ignored.

        Raises:
            ProtocolError: it does not fit the messages before.
        """
        if self._is_frozen:
            raise TypeError("what is frozen takes no messages")
        self._work_off()
        if not isinstance(message, _KEEPING) or len(self._pending) >= _PENDING:
            self.work_in()
        if isinstance(message, Sampler):
            self._feed_sampler(message)
            return
        self.samples.feed(message)
        self.gc.feed(message)
        if not self._keeps_past:
            self.samples.forget_changes()
            return
        match message:
            case Samples():
                self._lives_received(message)
            case LiveBlocks():
                self._lives_received(message)
                self.told_from = self.timeline.clock(message.clock)
            case Tick():
                self._tick(message)
            case Census() if self.on:
                self._pending.append(partial(Sampling._count_older, rows=message.rows, time_ns=message.time_ns))

    def work_in(self) -> None:
        """Apply births, deaths, types and moments that have arrived. They are kept until their effect is read, or the
        next samples come. A screen calls this after it has shown a tick or a census, so that it does not wait for
        it."""
        pending, self._pending = self._pending, []
        for work in pending:
            work(self)
        self._add_all()

    def _lives_received(self, message: Samples | LiveBlocks) -> None:
        self.timeline.add(message.clock, message.time_ns)
        self._pending.append(Sampling._add_all)

    def _tick(self, message: Tick) -> None:
        self._count_rate(message.time_ns)
        if self.on and not self.samples.is_traced:  # there are no traces between two censuses
            self._pending.append(partial(Sampling._take_moment, clock=self.timeline.latest, time_ns=message.time_ns))

    def _count_rate(self, time_ns: int) -> None:
        before, self._before = self._before, (self.samples.born, time_ns)
        self.samples_per_second = None
        if before is not None and self.follows and time_ns > before[1]:
            self.samples_per_second = (self.samples.born - before[0]) * 1e9 / (time_ns - before[1])

    def _count_older(self, rows: Sequence[Row], time_ns: int) -> None:
        size = sum([row.bytes + row.hidden for row in rows])  # hidden bytes are in blocks
        self._moments.count_older(Amount(sum([row.count for row in rows]), size))
        if self.samples.is_traced:
            self._moments.take(time_ns, self.sites)

    def _take_moment(self, clock: int, time_ns: int) -> None:
        self._lifetime_bands.census(clock, time_ns)
        self._moments.take(time_ns, self.sites)

    def _feed_sampler(self, message: Sampler) -> None:
        if not self._placed and message.on:
            self._placed = True
            self.sites = Sites(self.samples, CodePlaces(message.path, message.prefixes, self._user_paths))
        before = self.sampling_status
        self.samples.feed(message)
        self.gc.feed(message)
        self.sampling_status = before.after(message)
        if message.on and not before.on:  # where samples become void while it is on, the clock continues
            self.timeline.begin_anew(message.time_ns)
            self.samples.origin = self.timeline.clock(0)
        if self.sampling_status.voids > before.voids:
            self._moments.follow_no_more(still_on=before.on)

    # -- where a sample belongs ------------------------------------------------------------------------------

    def groups(self, stack: int, kind: int, size: int) -> tuple[Hashable, ...]:
        """A sample's groups, one an attribute of :data:`GROUPS`."""
        return *self._places_of(stack, kind), _SIZE_GROUPS[class_of(bin_of(size))]

    def _places_of(self, stack: int, kind: int) -> tuple[Hashable, Hashable]:
        """Those of :meth:`groups` that any size has, remembered."""
        known = self._known_places.get((stack, kind))
        if known is None:
            if len(self._known_places) >= _KNOWN_LIMIT:
                self._known_places.clear()
            known = ("type", self.samples.type_name(kind).full), ("site", self.sites.name(stack, "site"))
            self._known_places[stack, kind] = known
        return known

    # -- deaths, as Samples has them ------------------------------------------------------------------------

    def on_deaths(self, deaths: Sequence[Death]) -> None:
        self._dead = [*self._dead, *deaths]

    def _add_all(self) -> None:
        """Apply all samples so far. Hundreds of deaths come at a time: what several have in common is added once."""
        self.samples.work_in()
        deaths, self._dead = self._dead, ()
        if not deaths:
            return
        origin, told_from, span_of = self.timeline.clock(0), self.told_from, self._lifetime_bands.died
        cohorts = self._cohorts
        cohorts.reach(origin + max([clock for _, _, _, clock in deaths]))
        step = cohorts.step
        alike: dict[_Alike, int] = {}
        volumes: dict[tuple[int, int], int] = {}
        for likeness, one, born, clock in deaths:
            birth, death = born + origin, clock + origin
            age = age_bin(death - birth) if birth >= told_from else None
            key = likeness, one, age, span_of(birth, death)
            alike[key] = alike.get(key, 0) + 1
            when = birth // step, death // step
            volumes[when] = volumes.get(when, 0) + one.bytes // UNIT
        self._add_deaths(alike)
        for (begin, end), volume in volumes.items():
            cohorts.add_death(begin * step, end * step, volume)

    def _add_deaths(self, alike: dict[_Alike, int]) -> None:
        """So many of each. Most are of few sizes, whatever they are: the whole and the groups by size take them
        together."""
        sizes: dict[tuple[int, Weight, int | None, Span | None], int] = {}
        for (likeness, one, index, span), number in alike.items():
            key = class_of(bin_of(likeness.size)), one, index, span
            sizes[key] = sizes.get(key, 0) + number
        for (size_class, one, index, span), number in sizes.items():
            self._add_dead((None, _SIZE_GROUPS[size_class]), index, span, one, number)
        for (likeness, one, index, span), number in alike.items():
            self._add_dead(self._places_of(likeness.stack, likeness.type), index, span, one, number)

    def _add_dead(
        self, groups: tuple[Hashable, ...], index: int | None, span: Span | None, one: Weight, number: int
    ) -> None:
        if index is not None:
            self._lives.add_dead(groups, index, one, number)
        if span is not None:
            self._lifetime_bands.add_to(groups, span, one, number)

    def on_void(self, columns: LiveBlockColumns, clock: int) -> None:
        self._settle()
        self._void = _Void(columns, self.timeline.clock(0), clock)

    def _settle(self) -> None:
        """Whoever asks for figures gets those of all that was said, and was made void."""
        self.work_in()
        while self._void is not None:
            self._work_off()

    def _work_off(self) -> None:
        """Some of what was made void: so much as takes a few milliseconds."""
        void = self._void
        if void is None:
            return
        last, step = void.origin + void.clock, self._cohorts.step

        def place(birth: int) -> tuple[int | None, Span | None, int]:
            birth += void.origin
            age = age_bin(last - birth) if birth >= self.told_from else None
            return age, self._lifetime_bands.lost(birth, last), birth // step

        found = void.columns.places(place, void.done, void.done + _SLICE)
        void.done += _SLICE
        if void.done >= void.columns.rows:
            self._void = None
        for (stack, kind, size, interval, (index, span, generation)), number in found.items():
            one, groups = weight(size, interval), self.groups(stack, kind, size)
            if index is not None:
                self._lives.add_lost(groups, index, one, number)
            if span is not None:
                self._lifetime_bands.add(groups, span, one, number)
            self._cohorts.add_death(generation * step, last, number * one.bytes // UNIT)


class _Void:
    """Samples that were followed no longer, and how many of them were gone through."""

    __slots__ = ("clock", "columns", "done", "origin")

    def __init__(self, columns: LiveBlockColumns, origin: int, clock: int) -> None:
        self.columns = columns
        self.origin = origin
        self.clock = clock
        self.done = 0
