"""What one process, and a service of several, keeps in memory: rows with labels, bounded in number and length.

Labels are made of names that the target chose. They are cut off and made printable before rows are summed, so that no
two rows of a service have the same label.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from heaptop.analysis.heap.history import CensusRecord
from heaptop.analysis.reports.recorded import Recorded
from heaptop.analysis.samples.producers import NO_SITE, Flow, live_total, older_than_sampling
from heaptop.analysis.samples.sampling import Sampling
from heaptop.protocol.findings import NO_LEAK, Findings
from heaptop.protocol.messages import GcEvents
from heaptop.protocol.text import printable

OTHER: Final = "other"  # The row of all that has none of its own
LABEL_LENGTH: Final = 160  # Characters of a label's value

GC_PAUSES: Final = (0.0001, 0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)
"""Upper bounds of the histogram of collections, in seconds."""
OLDEST: Final = 2  # The last generation of the collector
MOST_SUSPECTS: Final = 10  # Of one leak hunt: the most severe first

Rows = dict[str, tuple[int, ...]]  # Figures by label. The first one decides which rows are large.
SuspectRows = dict[tuple[str, str, str, str], float]  # Bytes a second by type, site, holder and verdict


def label(name: str) -> str:
    """A name that others chose as a label's value: printable, on one line, of bounded length, not empty."""
    return printable(name, LABEL_LENGTH).strip() or "(no name)"


def add_row(rows: Rows, name: str, figures: Iterable[int]) -> None:
    """Add to the row of that label."""
    before = rows.get(name)
    new = tuple(figures)
    rows[name] = new if before is None else tuple(map(sum, zip(before, new, strict=True)))


def add_rows(rows: Rows, more: Rows) -> None:
    """Add every row to the one with its label."""
    for name, figures in more.items():
        add_row(rows, name, figures)


def largest(rows: Rows, top: int) -> tuple[Rows, int]:
    """The ``top`` largest rows, and :data:`OTHER`, the sum of those left; and how many these are."""
    names = sorted((name for name in rows if name != OTHER), key=lambda name: (-rows[name][0], name))
    kept = {name: rows[name] for name in names[:top]}
    left = names[top:]
    for name in [*left, *([OTHER] if OTHER in rows else [])]:
        add_row(kept, OTHER, rows[name])
    return kept, len(left)


@dataclass(frozen=True, slots=True)
class TargetFigures:
    """What one process kept at its last census."""

    types: Rows = field(default_factory=dict)  # By type: bytes and objects. Empty before the first census.
    sites: Rows = field(default_factory=dict)
    """By allocation site, of what lives: bytes, their lower and upper bounds, and blocks. Estimated."""
    allocated: Mapping[str, int] = field(default_factory=dict)
    """By allocation site: bytes allocated since the attach. Estimated."""


def target_figures(recorded: Recorded, *, counted: bool = True) -> TargetFigures:
    """All rows of a process, as far as it was read; without ``counted`` those made of samples alone."""
    latest = recorded.history.latest if counted else None
    live, allocated = _sites(recorded.sampling, latest)
    return TargetFigures(_types(latest) if latest is not None else {}, live, allocated)


def _types(record: CensusRecord) -> Rows:
    rows: Rows = {}
    for cell in record.cells:
        add_row(rows, label(cell.type.full), (cell.bytes, cell.count))
    return rows


def _sites(sampling: Sampling, latest: CensusRecord | None) -> tuple[Rows, dict[str, int]]:
    if sampling.state is None:
        return {}, {}  # never sampled: nothing is known of sites
    samples, sites = sampling.samples, sampling.sites
    flows: dict[str, Flow] = {}
    for tally in samples.tallies():
        flows.setdefault(label(sites.name(tally.stack, "site")), Flow()).add(tally)
    live: Rows = {}
    for name, flow in flows.items():
        if flow.live.samples:
            estimate = flow.live.estimate(samples.live_missed)
            add_row(live, name, (estimate.bytes, estimate.low, estimate.high, estimate.count))
    if latest is not None:
        older = older_than_sampling(latest.total, live_total(samples))
        add_row(live, NO_SITE, (older.bytes, older.low, older.high, older.count))
    if samples.only_live:
        return live, {}
    return live, {name: flow.allocated.rounded_bytes for name, flow in flows.items()}


@dataclass(frozen=True, slots=True)
class HuntResult:
    """The result of the last leak hunt in a process."""

    verdict: str
    at: float  # When it ended, by `time.monotonic`
    suspects: SuspectRows
    sentences: tuple[str, ...]


def suspect_rows(found: Findings) -> SuspectRows:
    """The suspects of a hunt that are, or may be, a leak."""
    rows: SuspectRows = {}
    for suspect in [each for each in found.suspects if each.verdict != NO_LEAK][:MOST_SUSPECTS]:
        holder = suspect.retainer or suspect.holder or "(none)"
        key = label(suspect.type), label(suspect.site or NO_SITE), label(holder), suspect.verdict
        rows[key] = rows.get(key, 0.0) + suspect.byte_rate
    return rows


def add_suspects(rows: SuspectRows, more: SuspectRows) -> None:
    """Add every suspect to the one of the same labels."""
    for key, rate in more.items():
        rows[key] = rows.get(key, 0.0) + rate


def largest_suspects(rows: SuspectRows, top: int) -> SuspectRows:
    """The ``top`` that grow the fastest, and for each verdict one named :data:`OTHER`, the sum of those left."""
    ranked = sorted(rows, key=lambda key: (-rows[key], key))
    kept = {key: rows[key] for key in ranked[:top]}
    for key in ranked[top:]:
        add_suspects(kept, {(OTHER, OTHER, OTHER, key[-1]): rows[key]})
    return kept


class SiteCounters:
    """Bytes that a service has allocated by site, as counters of which none ever falls.

    A site keeps the counter that it once got; what sites without one allocate is added to :data:`OTHER`. A process that
    ends takes nothing away.
    """

    def __init__(self) -> None:
        self.bytes: dict[str, int] = {}

    def add(self, before: Mapping[str, int], now: Mapping[str, int], top: int) -> int:
        """Add what a process allocated between two readings; how many sites were added to :data:`OTHER`, because
        ``top`` have a counter already.

        The sampler may move a site's bytes to the row of stacks that it no longer distinguishes: so the whole is
        counted, and of a single site only what it grew by.
        """
        grown = {name: size - before.get(name, 0) for name, size in now.items() if size > before.get(name, 0)}
        left = max(sum(now.values()) - sum(before.values()), 0)
        folded = 0
        for name in sorted(grown, key=lambda name: (-grown[name], name)):
            if name == OTHER or (name not in self.bytes and len(self.bytes.keys() - {OTHER}) >= top):
                folded += 1
                continue
            counted = min(grown[name], left)
            self.bytes[name] = self.bytes.get(name, 0) + counted
            left -= counted
        self.bytes[OTHER] = self.bytes.get(OTHER, 0) + left
        return folded


@dataclass(slots=True)
class GcCounters:
    """Collections of a service's processes since the attach. None of these figures ever falls."""

    collections: Counter[int] = field(default_factory=Counter)  # By generation
    pauses: list[int] = field(default_factory=lambda: [0] * (len(GC_PAUSES) + 1))
    """How many lasted up to each of :data:`GC_PAUSES`, and longer than the one before it; at last, longer than all."""
    seconds: float = 0.0
    collected: int = 0
    uncollectable: int = 0
    lost: int = 0  # Collections that are in no other figure: there were too many between two ticks

    def add(self, message: GcEvents) -> None:
        """Count what a process has collected."""
        for event in message.events:
            seconds = event.duration_ns / 1e9
            self.collections[min(event.generation, OLDEST)] += 1
            self.pauses[bisect_left(GC_PAUSES, seconds)] += 1
            self.seconds += seconds
            self.collected += event.collected
            self.uncollectable += event.uncollectable
        self.lost += message.dropped

    def copy(self) -> GcCounters:
        """The figures as they are now."""
        return replace(self, collections=self.collections.copy(), pauses=self.pauses.copy())


@dataclass(slots=True)
class ServiceCounters:
    """What is added up over a service's processes, those that have ended among them."""

    sites: SiteCounters = field(default_factory=SiteCounters)
    gc: GcCounters = field(default_factory=GcCounters)
