"""The living sampled blocks by group and age: for survival curves, bands by lifetime, and the map of ages."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterator
from functools import partial
from typing import Final

from heaptop.analysis.samples.block_lifetimes import LiveBlock
from heaptop.analysis.samples.estimate import weight
from heaptop.analysis.samples.generations import Cohort, LiveSample
from heaptop.analysis.samples.sampling import GROUPS, UNIT, Sampling

_SLICE: Final = 3000  # Samples that are gone through in one step


def live_blocks(sampling: Sampling, group: Hashable = None) -> list[LiveBlock]:
    """Those of a group, None for all, by their ages: as far as :attr:`Sampling.told_from` lets them through."""
    samples = sampling.samples
    clock, first = samples.clock, sampling.told_from - samples.origin
    return [
        LiveBlock(max(clock - sample.birth, 0), weight(sample.size, sample.interval))
        for sample in samples.live_blocks()
        if sample.birth >= first and (group is None or group in sampling.groups(sample.stack, sample.type, sample.size))
    ]


def alive(sampling: Sampling, group: Hashable = None) -> list[LiveSample]:
    """The same by their births, on the timeline's clock; those that are alike to a chart of lifetimes are one."""
    found: dict[Hashable, list[LiveSample]] = {}
    for _ in find_alive(sampling, str(group[0]) if isinstance(group, tuple) else "", found):
        pass
    return found.get(group, [])


def find_alive(sampling: Sampling, attribute: str, found: dict[Hashable, list[LiveSample]]) -> Iterator[None]:
    """Likewise all groups of one of :data:`GROUPS`, with an empty one the whole by None, into ``found``: in steps of a
    few milliseconds, of those that live as this is called."""
    cuts, columns, origin = sampling.lifetime_bands.cuts, sampling.samples.live_block_columns(), sampling.samples.origin

    def steps() -> Iterator[None]:
        place_of = partial(bisect_left, [cut - origin for cut in cuts])
        places: Counter[tuple[int, int, int, int, int]] = Counter()
        for begin in range(0, columns.rows, _SLICE):
            places.update(columns.places(place_of, begin, begin + _SLICE))
            yield
        number = GROUPS.index(attribute) if attribute else 0
        for done, ((stack, kind, size, interval, place), times) in enumerate(places.items(), 1):
            if place < len(cuts):
                group = sampling.groups(stack, kind, size)[number] if attribute else None
                found.setdefault(group, []).append(LiveSample(cuts[place], weight(size, interval), times))
            if not done % _SLICE:
                yield

    return steps()


def volume_by_age(sampling: Sampling) -> list[list[int]]:
    """``[census][age]``: living volume at each step of :attr:`Sampling.cohorts`, as :meth:`Cohorts.by_age` has it."""
    cohorts, timeline = sampling.cohorts, sampling.timeline
    latest = timeline.latest
    cohorts.reach(latest)
    step, volumes = cohorts.step, Counter[int]()
    columns = sampling.samples.live_block_columns()
    places = columns.places(lambda birth: timeline.clock(birth) // step, 0, columns.rows)
    for (_, _, size, interval, generation), number in places.items():
        volumes[generation] += number * weight(size, interval).bytes
    return cohorts.by_age(latest, [Cohort(generation * step, volume // UNIT) for generation, volume in volumes.items()])
