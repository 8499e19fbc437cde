"""Metrics in Prometheus's text format or as OpenMetrics: of services, from the last censuses, and of heaptop itself.

A scrape reads what is there already. It takes no census.
"""

from __future__ import annotations

import os
from collections import Counter as Counts
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Final, Protocol

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.openmetrics.exposition import generate_latest as generate_open_metrics
from prometheus_client.registry import Collector

from heaptop.fleet.figures import GC_PAUSES, OLDEST, GcCounters, Rows, SuspectRows, largest, largest_suspects
from heaptop.fleet.triggers import ProcessReadings, seconds_to_limit

PAUSES: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)
"""Upper bounds of the histogram, in seconds."""
TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"
OPEN_METRICS: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"
"""The two forms of metrics, by their content types."""
UNITS: Final = ("bytes", "seconds")
"""Which a metric has by the end of its name."""

prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]  # a series more for each counter


@dataclass(slots=True)
class ServiceFigures:
    """One service at a moment: sums over its attached processes."""

    service: str
    processes: int = 0
    counted: int = 0  # Processes of which there is a census
    inexact: int = 0  # Processes whose last census is partial, or estimated
    rss: int = 0
    oldest_census: float | None = None  # Seconds
    types: Rows = field(default_factory=dict)
    sites: Rows = field(default_factory=dict)
    allocated: dict[str, int] = field(default_factory=dict)
    uses: Counts[str] = field(default_factory=Counts)  # Resident bytes by use
    used: int = 0  # Processes of which they are known
    oldest_use: float | None = None  # Seconds
    readings: list[ProcessReadings] = field(default_factory=list)  # Of each process
    gc: GcCounters | None = None  # None before anything was read
    suspects: SuspectRows = field(default_factory=dict)
    hunt_age: float | None = None  # Seconds since the last leak hunt that came to a verdict


class HasServices(Protocol):
    """What metrics are read from."""

    def services(self) -> Sequence[ServiceFigures]: ...
    @property
    def top(self) -> int: ...


class HostMeters:
    """heaptop's own metrics. Each may be changed from any thread."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.pauses = Histogram(
            "heaptop_pause_seconds",
            "Longest pause of a process that heaptop caused between two censuses, and of each attach and snapshot.",
            unit="seconds",
            buckets=PAUSES,
            registry=self.registry,
        )
        self.refusals = Counter(
            "heaptop_refusals_total",
            "Attaches, censuses and samplers that were refused, and sessions that failed, by error class.",
            ["class"],
            registry=self.registry,
        )
        self.attaches = Counter("heaptop_attaches_total", "Processes attached to.", registry=self.registry)
        self.censuses = Counter("heaptop_censuses_total", "Censuses taken.", registry=self.registry)
        self.agent_cpu = Counter(
            "heaptop_agent_cpu_seconds",
            "CPU time that heaptop's agents, and the clones they count in, took in all processes.",
            unit="seconds",
            registry=self.registry,
        )
        self.dropped = Counter(
            "heaptop_dropped_series_total",
            "Types and sites that had no series of their own and were summed into other, added up over all censuses.",
            registry=self.registry,
        )
        self.folded = Counter(
            "heaptop_folded_stacks_total",
            "Call stacks, and sums of freed blocks, that were summed into (other sites): a process had too many.",
            registry=self.registry,
        )
        self.hunts = Counter(
            "heaptop_hunts_total",
            "Leak hunts by outcome: a verdict, refused (no memory, or too long a pause) or failed.",
            ["outcome"],
            registry=self.registry,
        )
        self.pushes = Counter(
            "heaptop_pushes_total", "Profiles that were pushed.", ["result"], registry=self.registry
        )
        ProcessCollector(namespace="heaptop", registry=self.registry)

    def refuse(self, name: str) -> None:
        """Count one refusal; ``name`` is that of an error class."""
        self.refusals.labels(name).inc()

    def text(self, form: str) -> bytes:
        """All metrics, in one of the two forms. No exemplar is in them."""
        if form == OPEN_METRICS:
            content: bytes = generate_open_metrics(self.registry)  # type: ignore[no-untyped-call]
            return content
        return prometheus_client.generate_latest(self.registry)


def form_for(accept: str) -> str:
    """Which form a client that sends this ``Accept`` header gets, as prometheus_client's own servers choose. There are
    only two: no name needs the escaping of others."""
    try:
        chosen = choose_encoder(accept)[1]
    except (TypeError, ValueError):  # its version is no number
        return TEXT
    return OPEN_METRICS if chosen.startswith("application/openmetrics-text") else TEXT


def unit_of(name: str) -> str:
    """The unit of a metric; empty where it has none, as a number of processes."""
    return next((unit for unit in UNITS if name.endswith(f"_{unit}")), "")


class ServiceCollector(Collector):
    """The metrics of services."""

    def __init__(self, host: HasServices) -> None:
        self._host = host

    def describe(self) -> Iterator[Metric]:
        """Nothing is collected when the collector is registered."""
        yield from (*_families().values(), _gc_pauses(), _helpers_cpu())

    def collect(self) -> Iterator[Metric]:
        """All services, as they are now."""
        families, pauses = _families(), _gc_pauses()
        for one in self._host.services():
            _add(families, one, self._host.top)
            if one.gc is not None:
                _add_collections(families, pauses, one.service, one.gc)
        yield from (*families.values(), pauses, _helpers_cpu())


def _helpers_cpu() -> CounterMetricFamily:
    """What heaptop's own CPU time, by :class:`ProcessCollector`, leaves out."""
    used = os.times()
    about = "CPU time of the processes that heaptop started to read /proc and to attach."
    seconds = used.children_user + used.children_system
    return CounterMetricFamily("heaptop_helpers_cpu_seconds", about, value=seconds, unit="seconds")


def _gc_pauses() -> HistogramMetricFamily:
    about = "Duration of garbage collections since the attach: all threads of a process wait for them."
    return HistogramMetricFamily("heaptop_gc_pause_seconds", about, labels=["service"], unit="seconds")


def _counter(name: str, about: str, *labels: str) -> CounterMetricFamily:
    return CounterMetricFamily(f"heaptop_{name}", f"{about} since the attach.", labels=["service", *labels])


def _gauge(name: str, about: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"heaptop_{name}", about, labels=["service", *labels], unit=unit_of(name))


def _families() -> dict[str, GaugeMetricFamily | CounterMetricFamily]:
    sampled = "Estimated from samples."
    allocated = f"Bytes allocated since the attach, by allocation site. {sampled}"
    return {
        "processes": _gauge("attached_processes", "Processes that heaptop is attached to."),
        "counted": _gauge("counted_processes", "Attached processes of which there is a census."),
        "inexact": _gauge("inexact_processes", "Attached processes whose last census is partial or estimated."),
        "age": _gauge("census_age_seconds", "Age of the oldest of the last censuses of the service's processes."),
        "rss": _gauge("resident_bytes", "Resident memory of the attached processes."),
        "uses": _gauge("resident_use_bytes", "Resident memory by use.", "use"),
        "used": _gauge("resident_use_processes", "Attached processes whose resident memory is known by use."),
        "use_age": _gauge("resident_use_age_seconds", "Age of the oldest of their readings."),
        "limit": _gauge("memory_limit_bytes", "The smallest memory limit of the service's processes."),
        "left": _gauge("memory_left_bytes", "Memory left before the first limit of one of the service's processes."),
        "forecast": _gauge("memory_limit_seconds", "Time until the first memory limit, if RSS keeps growing so."),
        "type_bytes": _gauge(
            "live_bytes", "Bytes of live objects by type at the last census, with native memory they own.", "type"
        ),
        "type_objects": _gauge("live_objects", "Live objects by type at the last census.", "type"),
        "site_bytes": _gauge("site_live_bytes", f"Live bytes by allocation site. {sampled}", "site"),
        "site_low": _gauge("site_live_low_bytes", "Lower bound of heaptop_site_live_bytes (95 %).", "site"),
        "site_high": _gauge("site_live_high_bytes", "Upper bound of heaptop_site_live_bytes (95 %).", "site"),
        "site_blocks": _gauge("site_live_blocks", f"Live memory blocks by allocation site. {sampled}", "site"),
        "suspects": _gauge(
            "leak_suspect_bytes_per_second",
            "Growth of what the last leak hunts suspect.",
            *("type", "site", "holder", "verdict"),
        ),
        "hunt_age": _gauge("leak_hunt_age_seconds", "Age of the service's last leak hunt that came to a verdict."),
        "allocated": CounterMetricFamily(
            "heaptop_site_allocated_bytes", allocated, labels=["service", "site"], unit="bytes"
        ),
        "collections": _counter("gc_collections", "Garbage collections", "generation"),
        "collected": _counter("gc_collected_objects", "Objects that garbage collections freed"),
        "uncollectable": _counter("gc_uncollectable_objects", "Garbage that the collector could not free"),
        "lost": _counter("gc_lost_collections", "Garbage collections missing in these figures"),
    }


def _add(families: dict[str, GaugeMetricFamily | CounterMetricFamily], one: ServiceFigures, top: int) -> None:
    for key, value in (("processes", one.processes), ("counted", one.counted), ("inexact", one.inexact)):
        families[key].add_metric([one.service], value)
    families["rss"].add_metric([one.service], one.rss)
    if one.oldest_census is not None:
        families["age"].add_metric([one.service], one.oldest_census)
    _add_memory(families, one)
    for keys, rows in (
        (("type_bytes", "type_objects"), one.types),
        (("site_bytes", "site_low", "site_high", "site_blocks"), one.sites),
    ):
        for name, figures in largest(rows, top)[0].items():
            for key, figure in zip(keys, figures, strict=True):
                families[key].add_metric([one.service, name], figure)
    for labels, rate in largest_suspects(one.suspects, top).items():
        families["suspects"].add_metric([one.service, *labels], rate)
    if one.hunt_age is not None:
        families["hunt_age"].add_metric([one.service], one.hunt_age)
    for name, size in one.allocated.items():
        families["allocated"].add_metric([one.service, name], size)


def _add_memory(families: dict[str, GaugeMetricFamily | CounterMetricFamily], one: ServiceFigures) -> None:
    """What is not known is left out."""
    for use, size in one.uses.items():
        families["uses"].add_metric([one.service, use], size)
    limits = [each.limit for each in one.readings if each.limit is not None]
    left = [each.left for each in one.readings if each.left is not None]
    for key, value in (
        ("used", one.used),
        ("use_age", one.oldest_use),
        ("limit", min(limits, default=None)),
        ("left", min(left, default=None)),
        ("forecast", seconds_to_limit(one.readings)),
    ):
        if value is not None:
            families[key].add_metric([one.service], value)


def _add_collections(
    families: dict[str, GaugeMetricFamily | CounterMetricFamily],
    pauses: HistogramMetricFamily,
    service: str,
    gc: GcCounters,
) -> None:
    for generation in range(OLDEST + 1):
        families["collections"].add_metric([service, str(generation)], gc.collections[generation])
    for key, value in (("collected", gc.collected), ("uncollectable", gc.uncollectable), ("lost", gc.lost)):
        families[key].add_metric([service], value)
    bounds = [*(str(bound) for bound in GC_PAUSES), "+Inf"]
    pauses.add_metric([service], list(zip(bounds, accumulate(gc.pauses), strict=True)), gc.seconds)
