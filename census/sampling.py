"""All that is known of sampled allocations: takes the agent's messages and keeps what each view is computed from.

This module never computes a figure by itself; it hands every message to those who do, in the right order, and tells
them where a sampled block belongs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from typing import Final

from heaptop.census.clock import Timeline
from heaptop.census.code_places import CodePlaces
from heaptop.census.estimate import weight
from heaptop.census.gc_profile import GcProfile
from heaptop.census.generations import Alive, Cohort, Cohorts, LifetimeBands
from heaptop.census.history import Amount
from heaptop.census.lifetimes import Lives, Living
from heaptop.census.moments import Moments
from heaptop.census.producers import BEFORE_SAMPLING, NOT_FOLLOWED, Sites
from heaptop.census.samples import Sample, Samples
from heaptop.census.sizes import CLASS_RANGES, bin_of, class_of
from heaptop.census.standing import Standing
from heaptop.protocol.messages import Census, Message, Sampler, Tick
from heaptop.protocol.messages import Samples as SamplesMessage

GROUPS: Final = ("type", "site", "size")
"""The attributes by which lifetimes are kept; a group is a pair of one of them and its value."""

_UNIT: Final = weight(1, 1).bytes
"""One byte, as weights are written."""


class Sampling:
    """One session's samples, and what is made of them as they come."""

    def __init__(self, user_paths: Sequence[str] = ()) -> None:
        """``user_paths``: directories and files that are the user's own code wherever they lie (``--user-code``)."""
        self._user_paths = tuple(user_paths)
        self.samples = Samples()
        self.timeline = Timeline()
        self.lives = Lives()
        self.lifetime_bands = LifetimeBands()
        self.cohorts = Cohorts()
        self.gc = GcProfile()
        self.sites = Sites(self.samples, CodePlaces((), (), self._user_paths))
        self.moments = Moments(self.samples)
        self.standing = Standing()
        """Whether allocations are sampled, and since when."""
        self._placed = False
        self._ticks = 0
        self.samples.observe(self)

    @property
    def state(self) -> Sampler | None:
        """What the sampler last said of itself; None when it was never asked."""
        return self.samples.state

    @property
    def on(self) -> bool:
        return self.state is not None and self.state.on

    @property
    def follows(self) -> bool:
        """Whether blocks are followed from their birth to their death: tracemalloc does not."""
        return self.on and not self.samples.is_traced

    @property
    def older_name(self) -> str:
        """What lives and is not followed is called so."""
        return self.moments.older_name

    def feed(self, message: Message) -> None:
        """Take one message; kinds that say nothing of allocations or collections are ignored.

        Raises:
            ProtocolError: it does not fit what was said before.
        """
        if isinstance(message, Sampler):
            self._feed_sampler(message)
            return
        self.samples.feed(message)
        self.gc.feed(message)
        if isinstance(message, SamplesMessage):
            self.timeline.add(message.clock, message.time_ns)
        elif isinstance(message, Tick):
            self._tick(message)
        elif isinstance(message, Census) and self.on:
            rows = message.rows
            self.moments.count_older(Amount(sum(row.count for row in rows), sum(row.bytes for row in rows)))
            if self.samples.is_traced:
                self.moments.take(message.time_ns, self.sites)

    def _tick(self, message: Tick) -> None:
        self._ticks += 1
        if self.on and not self.samples.is_traced:  # nothing is said of traces between two censuses
            self.lifetime_bands.census(self.timeline.latest, message.time_ns)
            self.moments.take(message.time_ns, self.sites)

    def _feed_sampler(self, message: Sampler) -> None:
        if not self._placed and message.on:
            self._placed = True
            self.sites = Sites(self.samples, CodePlaces(message.path, message.prefixes, self._user_paths))
        before = self.standing
        self.samples.feed(message)
        self.gc.feed(message)
        self.standing = before.after(message)
        if message.on and not before.on:  # where samples become void while it is on, the clock goes on
            self.timeline.begin_anew(message.time_ns)
            self.samples.origin = self.timeline.clock(0)
        if self.standing.voids > before.voids:
            self.moments.follow_no_more(NOT_FOLLOWED, still_on=before.on)
        elif message.on and not before.on and self._ticks > 1:  # the first may come before the sampler answers
            self.moments.older_name = BEFORE_SAMPLING

    # -- where a sample belongs ------------------------------------------------------------------------------

    def groups(self, sample: Sample) -> tuple[Hashable, ...]:
        """Its groups, one an attribute of :data:`GROUPS`."""
        return (
            ("type", self.samples.type_name(sample.type).full),
            ("site", self.sites.name(sample.stack, "site")),
            ("size", CLASS_RANGES[class_of(bin_of(sample.size))]),
        )

    def living(self, group: Hashable = None) -> list[Living]:
        """The living samples of a group, None for all, by their ages."""
        clock = self.samples.clock
        return [
            Living(max(clock - sample.birth, 0), weight(sample.size, sample.interval))
            for sample in self.samples.living()
            if group is None or group in self.groups(sample)
        ]

    def alive(self, group: Hashable = None) -> list[Alive]:
        """The same by their births, on the timeline's clock."""
        return [
            Alive(self.timeline.clock(sample.birth), weight(sample.size, sample.interval))
            for sample in self.samples.living()
            if group is None or group in self.groups(sample)
        ]

    def by_age(self) -> list[list[int]]:
        """``[census][age]``: living volume at each of :attr:`cohorts`' steps, as :meth:`Cohorts.by_age` has it."""
        latest = self.timeline.latest
        self.cohorts.reach(latest)
        step, volumes = self.cohorts.step, Counter[int]()
        columns = self.samples.living_columns()
        places = columns.places(lambda birth: self.timeline.clock(birth) // step, 0, len(columns.stack))
        for (_, _, size, interval, generation), number in places.items():
            volumes[generation] += number * weight(size, interval).bytes
        cohorts = [Cohort(generation * step, volume // _UNIT) for generation, volume in volumes.items()]
        return self.cohorts.by_age(latest, cohorts)

    # -- deaths, as Samples tells them -----------------------------------------------------------------------

    def on_death(self, sample: Sample, clock: int) -> None:
        one, groups = weight(sample.size, sample.interval), self.groups(sample)
        birth = self.timeline.clock(sample.birth)
        self.lives.add_death(groups, clock - sample.birth, one)
        self.lifetime_bands.add_death(groups, birth, self.timeline.clock(clock), one)
        self.cohorts.add_death(birth, self.timeline.clock(clock), one.bytes // _UNIT)

    def on_void(self, samples: Iterable[Sample], clock: int) -> None:
        for sample in samples:
            one, groups = weight(sample.size, sample.interval), self.groups(sample)
            birth = self.timeline.clock(sample.birth)
            self.lives.add_lost(groups, clock - sample.birth, one)
            self.lifetime_bands.add_lost(groups, birth, self.timeline.clock(clock), one)
            self.cohorts.add_death(birth, self.timeline.clock(clock), one.bytes // _UNIT)
