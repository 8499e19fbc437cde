"""Which sampled blocks a filter lets through: one answer for reports, tables and views."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from typing import Final

from heaptop.analysis.filters.attributes import band_key
from heaptop.analysis.filters.filters import Filter, origin_of
from heaptop.analysis.filters.predicates import FilterFigures, Rest
from heaptop.analysis.samples.estimate import whole
from heaptop.analysis.samples.long_lived import LongLived
from heaptop.analysis.samples.moments import named_cell
from heaptop.analysis.samples.producers import Sites
from heaptop.analysis.samples.sampled_blocks import SampledBlocks
from heaptop.analysis.samples.sampling import Sampling
from heaptop.analysis.samples.tallies import Tally
from heaptop.errors import UsageError

NOTHING: Final = FilterFigures(0, 0)

TallyFilter = Callable[[Tally], bool]


def selected(sampling: Sampling, where: Filter, samples: SampledBlocks | None = None) -> SampledBlocks:
    """The samples that figures under this filter are summed from: under ``lifetime>…`` those alone that live longer.

    Args:
        samples: those of a display that is held; by default all as they are now.

    Raises:
        UsageError: the filter has a bound on lifetimes, and nothing is known of them.
    """
    samples = samples or sampling.samples
    if where.lifetime is None:
        return samples
    if samples.is_traced:
        raise UsageError("Traces have no lifetimes.", why="tracemalloc does not record when an object was allocated.")
    return LongLived(samples, sampling.timeline, where.lifetime)


def tally_filter(
    samples: SampledBlocks, sites: Sites, where: Filter, verdicts: dict[Hashable, bool | Rest] | None = None
) -> TallyFilter | None:
    """The filter for sampled blocks; None for one that lets everything through.

    Args:
        samples: what :func:`selected` gives. Bounds on size and count are on what lives in it of a block's type.
        verdicts: what is known of this filter, by type and stack, whatever figures are; kept by the caller.

    Raises:
        UsageError: it asks for what sampled blocks do not know, or is bounded by a lifetime and the samples are not.
    """
    if not where:
        return None
    origin_of(band_key("producer"), where)
    if where.lifetime != samples.lifetime:
        raise UsageError("These figures have no lifetimes.", fix="Leave lifetime out.")
    known = {} if verdicts is None else verdicts
    totals = _live_blocks(samples) if where.bounded else {}

    def fits(tally: Tally) -> bool:
        place = tally.type, tally.stack
        verdict = known.get(place)
        if verdict is None:
            site, module = (sites.name(tally.stack, key) for key in ("site", "module"))
            cell = named_cell(samples.type_name(tally.type), site, module)
            verdict = known[place] = where.of_cell(cell)
        return verdict if isinstance(verdict, bool) else verdict(totals.get(tally.type, NOTHING))

    return fits


def _live_blocks(samples: SampledBlocks) -> dict[int, FilterFigures]:
    """What lives of a block's type, by its number."""
    counts, sizes = Counter[int](), Counter[int]()
    for tally in samples.tallies():
        counts[tally.type] += tally.live.count
        sizes[tally.type] += tally.live.bytes
    return {kind: FilterFigures(whole(sizes[kind]), whole(counts[kind])) for kind in counts}
