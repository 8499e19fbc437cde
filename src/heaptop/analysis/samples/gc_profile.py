"""The collector at work: a row for each collection, and the program's own phases over the same axis of time.

It needs no message beyond those that the agent sends anyway.

As KPROF shows it (Serpette and Serrano's allocation profiler for Scheme, §3.1.3, Fig. 5): at each collection the heap,
what is alive after it, and what was allocated since the collection before; labelled forms are spans above the chart.
Here time is time and not a number of collections, since CPython's take place by number of objects and say little of it.

==========  =========================  =============================================================================
figure      unit                       from
==========  =========================  =============================================================================
heap        resident bytes, blocks     the tick nearest in time: the heap is not looked at in a collection
live        blocks                     after a full collection only (``GcEvent.live_blocks``)
allocated   bytes                      the difference of the sampler's clock; None where it was off or began anew at
                                       either end, or a collection between them was lost
==========  =========================  =============================================================================

Rows are thinned out like a history's records, phases are forgotten oldest first; totals are of all there was.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from heaptop.analysis.heap.history import thin
from heaptop.analysis.samples.clock import Timeline
from heaptop.protocol.messages import GcEvent, GcEvents, Message, Phase, Phases, Sampler, Tick

ROW_LIMIT: Final = 4000
PHASE_LIMIT: Final = 1000


@dataclass(frozen=True, slots=True)
class Collection:
    """One collection."""

    time_ns: int  # When it began
    generation: int
    duration_ns: int
    collected: int
    uncollectable: int
    live_blocks: int | None  # Allocated blocks right after; of full collections only
    allocated: int | None  # Bytes allocated since the collection before, of whatever generation
    rss: int | None  # Resident bytes at the nearest tick; None before any, or where the target cannot say
    heap_blocks: int | None  # Allocated blocks at the nearest tick
    number: int  # Collections seen up to this one, itself included: rows between may have been thinned out
    total_ns: int  # Time in all of them


@dataclass(frozen=True, slots=True)
class GenerationTotals:
    """All collections of one generation since the attach."""

    generation: int
    collections: int
    duration_ns: int
    longest_ns: int
    collected: int
    uncollectable: int


@dataclass(frozen=True, slots=True)
class GcTotals:
    """All collections since the attach."""

    generations: tuple[GenerationTotals, ...]  # Those that were ever collected, youngest first
    collections: int
    duration_ns: int
    allocated: int  # Bytes allocated between collections, as far as that is known …
    allocated_gaps: int  # … which is for all but this many of the collections
    lost: int  # Collections, and not in any figure: the agent's bounded list was full
    elapsed_ns: int  # From the first tick or collection to the end of the last

    @property
    def per_second(self) -> float | None:
        """Collections a second; None before any time has passed."""
        return self.collections * 1e9 / self.elapsed_ns if self.elapsed_ns else None

    @property
    def time_share(self) -> float | None:
        """The fraction of time spent collecting."""
        return self.duration_ns / self.elapsed_ns if self.elapsed_ns else None

    @property
    def allocated_each(self) -> float | None:
        """Bytes allocated from one collection to the next, on average."""
        known = self.collections - self.allocated_gaps
        return self.allocated / known if known else None


@dataclass(frozen=True, slots=True)
class PhaseSpan:
    """A labelled phase, and what the collector did meanwhile."""

    name: str
    begin_ns: int
    end_ns: int
    open: bool  # It lasts: `end_ns` is the latest moment known
    lane: int  # From 0: spans that overlap, nested or in other threads, are in different lanes
    collections: int  # That began within it
    gc_ns: int  # Their time
    allocated: int | None  # Bytes allocated within it, in all threads, by the timeline; None without one


@dataclass(frozen=True, slots=True)
class GcSeries:
    """One curve of the chart."""

    name: Literal["heap", "live", "allocated"]
    unit: Literal["bytes", "blocks"]
    times_ns: tuple[int, ...]
    values: tuple[int, ...]


class GcProfile:
    """Takes the agent's messages in order: GC events, ticks, phases, and the sampler's status."""

    def __init__(self, row_limit: int = ROW_LIMIT, phase_limit: int = PHASE_LIMIT) -> None:
        self._row_limit = row_limit
        self._phase_limit = phase_limit
        self._rows: list[Collection] = []
        self._open_rows = 0  # the last rows, whose next tick is still to come
        self._ticks: list[Tick] = []
        self._tick: Tick | None = None
        self._phases: dict[tuple[str, int], Phase] = {}
        self._by_generation: dict[int, GenerationTotals] = {}
        self._before: GcEvent | None = None  # the collection right before the next event's; None where not known
        self._sampler: tuple[bool, int] | None = None  # on, epoch
        self._switched_ns: list[int] = []  # when the sampler's clock may have begun anew
        self._allocated = 0
        self._gaps = 0
        self._number = 0
        self._total_ns = 0
        self._lost = 0
        self._begin_ns: int | None = None
        self._end_ns = 0
        self.phases_lost = 0  # Phases that the agent lost, or that were forgotten here

    def freeze(self) -> GcProfile:
        """A copy that later messages do not change. It takes none itself."""
        frozen = GcProfile(self._row_limit, self._phase_limit)
        frozen._rows, frozen._ticks, frozen._phases = self._rows.copy(), self._ticks.copy(), self._phases.copy()
        frozen._by_generation = self._by_generation.copy()
        frozen._allocated, frozen._gaps, frozen._lost = self._allocated, self._gaps, self._lost
        frozen._number, frozen._total_ns = self._number, self._total_ns
        frozen._begin_ns, frozen._end_ns = self._begin_ns, self._end_ns
        frozen.phases_lost = self.phases_lost
        return frozen

    def feed(self, message: Message) -> None:
        """Take one message."""
        match message:
            case GcEvents():
                self._feed_collections(message)
            case Tick():
                self._ticked(message)
            case Sampler():
                if self._sampler not in (None, (message.on, message.epoch)):
                    self._switched_ns.append(message.time_ns)
                self._sampler = message.on, message.epoch
            case Phases():
                self._feed_phases(message)

    def _feed_collections(self, message: GcEvents) -> None:
        for event in message.events:
            self._collection(event)
        if message.dropped:  # they came when the agent's list was full, so after these
            self._before = None
            self._lost += message.dropped
        thin(self._rows, self._row_limit)

    def _feed_phases(self, message: Phases) -> None:
        self.phases_lost += message.dropped
        # An honest agent sends 1,024 at most, and some of them end phases that are known.
        beyond = max(len(message.phases) - 2 * self._phase_limit, 0)
        self.phases_lost += beyond
        for phase in message.phases[beyond:]:
            self._phase(phase)

    @property
    def rows(self) -> Sequence[Collection]:
        """Oldest first; the list grows under the reader."""
        return self._rows

    @property
    def totals(self) -> GcTotals:
        return GcTotals(
            tuple(self._by_generation[generation] for generation in sorted(self._by_generation)),
            self._number,
            self._total_ns,
            self._allocated,
            self._gaps,
            self._lost,
            max(self._end_ns - self._begin_ns, 0) if self._begin_ns is not None else 0,
        )

    def series(self) -> tuple[GcSeries, ...]:
        """The curves: the heap at each tick, and live and allocated at the collections that know. Empty ones too."""
        resident = [(tick.time_ns, tick.rss) for tick in self._ticks if tick.rss is not None]
        blocks = [(tick.time_ns, tick.blocks) for tick in self._ticks if tick.blocks is not None]
        live = [(row.time_ns, row.live_blocks) for row in self._rows if row.live_blocks is not None]
        allocated = [(row.time_ns, row.allocated) for row in self._rows if row.allocated is not None]
        return (
            _series("heap", "bytes", resident),
            _series("heap", "blocks", blocks),
            _series("live", "blocks", live),
            _series("allocated", "bytes", allocated),
        )

    def spans(self, timeline: Timeline | None = None) -> tuple[PhaseSpan, ...]:
        """The phases by their beginning. Those that were forgotten are counted in :attr:`phases_lost`."""
        times = [row.time_ns for row in self._rows]
        free: list[int] = []  # when each lane's last span ends
        spans = []
        for phase in sorted(self._phases.values(), key=lambda phase: (phase.begin_ns, -_end(phase), phase.name)):
            end = max(self._end_ns, phase.begin_ns) if phase.end_ns is None else phase.end_ns
            lane = next((number for number, busy in enumerate(free) if busy <= phase.begin_ns), len(free))
            free[lane : lane + 1] = [end if phase.end_ns is not None else 1 << 63]
            before, after = self._so_far(times, phase.begin_ns - 1), self._so_far(times, end)
            spans.append(
                PhaseSpan(
                    phase.name,
                    phase.begin_ns,
                    end,
                    phase.end_ns is None,
                    lane,
                    after[0] - before[0],
                    after[1] - before[1],
                    _allocated(timeline, phase.begin_ns, end),
                )
            )
        return tuple(spans)

    # -- what comes in ----------------------------------------------------------------------------------------

    def _collection(self, event: GcEvent) -> None:
        allocated = self._since_last(event)
        self._before = event
        self._allocated += allocated or 0
        self._gaps += allocated is None
        self._number += 1
        self._total_ns += event.duration_ns
        self._add_total(event)
        self._seen(event.time_ns, event.time_ns + event.duration_ns)
        tick = self._tick
        self._rows.append(
            Collection(
                event.time_ns,
                event.generation,
                event.duration_ns,
                event.collected,
                event.uncollectable,
                event.live_blocks,
                allocated,
                tick.rss if tick else None,
                tick.blocks if tick else None,
                self._number,
                self._total_ns,
            )
        )
        self._open_rows += 1

    def _since_last(self, event: GcEvent) -> int | None:
        switched = any(time_ns <= event.time_ns for time_ns in self._switched_ns)
        self._switched_ns = [time_ns for time_ns in self._switched_ns if time_ns > event.time_ns]
        before = self._before
        if switched or before is None or before.clock is None or event.clock is None or event.clock < before.clock:
            return None
        return event.clock - before.clock

    def _add_total(self, event: GcEvent) -> None:
        known = self._by_generation.get(event.generation) or GenerationTotals(event.generation, 0, 0, 0, 0, 0)
        self._by_generation[event.generation] = GenerationTotals(
            event.generation,
            known.collections + 1,
            known.duration_ns + event.duration_ns,
            max(known.longest_ns, event.duration_ns),
            known.collected + event.collected,
            known.uncollectable + event.uncollectable,
        )

    def _ticked(self, tick: Tick) -> None:
        """Rows since the tick before take this one's figures where it is the nearer."""
        before = self._tick
        for place in range(max(len(self._rows) - self._open_rows, 0), len(self._rows)):
            row = self._rows[place]
            if before is None or tick.time_ns - row.time_ns < row.time_ns - before.time_ns:
                self._rows[place] = replace(row, rss=tick.rss, heap_blocks=tick.blocks)
        self._open_rows = 0
        self._tick = tick
        self._ticks.append(tick)
        thin(self._ticks, self._row_limit)
        self._seen(tick.time_ns, tick.time_ns)

    def _phase(self, phase: Phase) -> None:
        key = (phase.name, phase.begin_ns)
        known = self._phases.get(key)
        if known is None or known.end_ns is None:
            self._phases[key] = phase
        if len(self._phases) > self._phase_limit:
            ended = (key for key, phase in self._phases.items() if phase.end_ns is not None)
            del self._phases[next(ended, next(iter(self._phases)))]
            self.phases_lost += 1
        self._seen(phase.begin_ns, phase.end_ns or phase.begin_ns)

    def _seen(self, begin_ns: int, end_ns: int) -> None:
        self._end_ns = max(self._end_ns, end_ns)
        if self._begin_ns is None:
            self._begin_ns = begin_ns

    def _so_far(self, times: list[int], time_ns: int) -> tuple[int, int]:
        """How many collections had begun by then, and their time: exact where no row near was thinned out."""
        place = bisect_right(times, time_ns)
        if place:
            return self._rows[place - 1].number, self._rows[place - 1].total_ns
        return 0, 0


def _end(phase: Phase) -> int:
    return 1 << 63 if phase.end_ns is None else phase.end_ns


def _allocated(timeline: Timeline | None, begin_ns: int, end_ns: int) -> int | None:
    if timeline is None:
        return None
    begin, end = timeline.clock_at(begin_ns), timeline.clock_at(end_ns)
    return max(end - begin, 0) if begin is not None and end is not None else None


def _series(
    name: Literal["heap", "live", "allocated"], unit: Literal["bytes", "blocks"], points: list[tuple[int, int]]
) -> GcSeries:
    return GcSeries(name, unit, tuple(time for time, _ in points), tuple(value for _, value in points))
