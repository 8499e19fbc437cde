"""Some seconds of sampling, as rows for ``heaptop census --by producer|producer-module|handler|size|lifetime``.

It builds plain dicts, lists, strings and numbers. A new report is one function and one line in :data:`REPORTS`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from heaptop.analysis.bands.report import census_json
from heaptop.analysis.filters.filters import EVERYTHING, LIVE_BLOCKS, Filter
from heaptop.analysis.filters.selection import TallyFilter, selected, tally_filter
from heaptop.analysis.heap.history import Amount, CensusRecord
from heaptop.analysis.lifetimes.live_groups import live_blocks
from heaptop.analysis.samples.bins import bins
from heaptop.analysis.samples.estimate import Estimate
from heaptop.analysis.samples.generations import DECADES, class_label
from heaptop.analysis.samples.producers import live_total, older_than_sampling, producers
from heaptop.analysis.samples.sampled_blocks import SampledBlocks
from heaptop.analysis.samples.sampling import NEVER_SAMPLED, Sampling
from heaptop.protocol.messages import NATIVE

if TYPE_CHECKING:
    from heaptop.documents import SampledJson, SampledRowJson


@dataclass(frozen=True, slots=True)
class ReportRow:
    """One row; the largest come first, but lifetimes have an order of their own."""

    name: str
    live: Estimate
    more: dict[str, Any] = field(default_factory=dict)  # Further figures, by their names in JSON


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a report is made of."""

    sampling: Sampling
    record: CensusRecord
    samples: SampledBlocks
    where: TallyFilter | None


@dataclass(frozen=True, slots=True)
class AttributeReport:
    """How one attribute is reported."""

    title: str
    rows: Callable[[_Asked], list[ReportRow]]
    allocated: bool = False
    """Whether its rows say what was allocated and freed too, as ``allocated_bytes`` and ``freed_bytes``."""
    alive: bool = True  # Whether its rows are what lives; else all that was allocated since sampling began


def report_rows(by: str, sampling: Sampling, record: CensusRecord, where: Filter = EVERYTHING) -> list[ReportRow]:
    """The rows of one of :data:`REPORTS`, of what the filter lets through.

    Raises:
        UsageError: this report cannot be restricted so.
    """
    check_filter(by, where)
    samples = selected(sampling, where)
    return REPORTS[by].rows(_Asked(sampling, record, samples, tally_filter(samples, sampling.sites, where)))


def report_filtered(
    by: str, rows: list[ReportRow], sampling: Sampling, record: CensusRecord, where: Filter
) -> tuple[int, int]:
    """How many rows a filter leaves out, and how many bytes, of what was sampled."""
    whole = report_rows(by, sampling, record) if where else rows
    whole = [row for row in whole if row.live.samples or row in rows]
    return len(whole) - len(rows), sum(row.live.bytes for row in whole) - sum(row.live.bytes for row in rows)


def check_filter(by: str, where: Filter) -> None:
    """Whether a report can be restricted so.

    Raises:
        UsageError: it cannot.
    """
    where.allow(LIVE_BLOCKS if by != "lifetime" else (), f"Samples by {by}")


def _by_producer(key: str, asked: _Asked) -> list[ReportRow]:
    samples, older = asked.samples, None
    if asked.where is None:
        total, cells = asked.record.total, asked.record.cells
        # Blocks have room for what sys.getsizeof hides, too.
        counted = Amount(total.count, total.bytes + sum([cell.hidden for cell in cells]))
        older = older_than_sampling(counted, live_total(samples))
    return [
        ReportRow(row.name, row.live, {**_flow(row.allocated, row.freed), "share": row.share})
        for row in producers(samples, asked.sampling.sites, key, asked.where, older)
        if row.live.bytes
    ]


def _by_size(asked: _Asked) -> list[ReportRow]:
    known = not asked.samples.only_live
    rows = [
        ReportRow(
            f"{row.label} B",
            row.kept,
            {
                **_flow(row.allocated if known else None, row.freed if known else None),
                "types": [one.type.full for one in row.types[:3]],
            },
        )
        for row in bins(asked.samples, asked.where).rows
    ]
    return sorted(rows, key=lambda row: (-row.live.bytes, -(row.more["allocated_bytes"] or 0)))


def _flow(allocated: Estimate | None, freed: Estimate | None) -> dict[str, int | None]:
    """What was allocated and freed, each with its interval; None where that is not known."""
    return {
        f"{name}_{part}": None if one is None else getattr(one, part)
        for name, one in (("allocated", allocated), ("freed", freed))
        for part in ("bytes", "low", "high", "count")
    }


def _by_lifetime(asked: _Asked) -> list[ReportRow]:
    """Classes of lifetime, in bytes allocated meanwhile: what died in each, and what lives by its age."""
    sampling = asked.sampling
    living = live_blocks(sampling)
    survival = sampling.lives.survival(None, living)
    died, alive = [], []
    missed = sampling.samples.missed, sampling.samples.live_missed
    for one in sampling.lives.classes(DECADES, None, living, missed):
        label = class_label(one.low, one.high)
        at = survival.at(one.low) if survival is not None else None
        reaching = {"survival": at.object_survival, "survival_low": at.low, "survival_high": at.high} if at else {}
        if one.died.samples:
            died.append(ReportRow(f"died, {label}", one.died, {"from_bytes": one.low, **reaching}))
        if one.live_blocks.samples:
            alive.append(ReportRow(f"live, {label}", one.live_blocks, {"from_bytes": one.low}))
    return [*died, *alive]


REPORTS: Final[dict[str, AttributeReport]] = {
    "producer": AttributeReport("Allocated at", partial(_by_producer, "site")),
    "producer-module": AttributeReport("Module", partial(_by_producer, "module")),
    "handler": AttributeReport("Handler", partial(_by_producer, "handler")),
    "size": AttributeReport("Block size", _by_size, allocated=True),
    "lifetime": AttributeReport("Lifetime", _by_lifetime, alive=False),
}


def report_json(
    by: str,
    rows: list[ReportRow],
    sampling: Sampling,
    record: CensusRecord,
    *,
    pid: int,
    python: str,
    where: Filter,
    seconds: float,
    top: int | None = None,
) -> SampledJson:
    """The document: that of a census, with these rows. ``total`` stays the census's; ``filtered`` is as
    :func:`report_filtered` has it."""
    shown = rows if top is None else rows[:top]
    filtered = report_filtered(by, rows, sampling, record, where)
    state = sampling.state
    return {
        **census_json(record, pid=pid, python=python, top=0),
        "schema": "heaptop.sampled",
        "version": 1,
        "by": by,
        "where": where.text,
        "filtered": {"rows": filtered[0], "bytes": filtered[1]},
        "shown": len(shown),
        "of": len(rows),
        "sampled": {
            "seconds": seconds,
            "means": state.means if state else NATIVE,
            "not_sampled": "" if sampling.samples.is_traced else NEVER_SAMPLED,
            "interval": state.interval if state else 0,
            "allocated_bytes": sampling.timeline.latest,
            "live_bytes": live_total(sampling.samples).bytes,
            "dropped": sampling.samples.dropped,
            "approximate": list(state.approximate) if state else [],
            "arrays": bool(state and state.arrays),
        },
        "rows": [_row(row) for row in shown],
    }


def _row(row: ReportRow) -> SampledRowJson:
    live = row.live
    return {
        "name": row.name,
        "count": live.count if live.samples else None,
        "bytes": live.bytes,
        "low": live.low,
        "high": live.high,
        "samples": live.samples,
        **cast("SampledRowJson", row.more),
    }
