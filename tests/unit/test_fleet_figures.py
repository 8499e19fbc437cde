"""Rows of services: bounded, with labels that nobody can forge, and counters that never fall."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.core import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics_families
from prometheus_client.parser import text_string_to_metric_families

from heaptop.fleet.figures import (
    GC_PAUSES,
    LABEL_LENGTH,
    OTHER,
    GcCounters,
    Rows,
    SiteCounters,
    add_row,
    add_rows,
    label,
    largest,
    target_figures,
)
from heaptop.fleet.metrics import OPEN_METRICS, TEXT, HostMeters, ServiceCollector, ServiceFigures, form_for
from heaptop.fleet.triggers import ProcessReadings
from heaptop.protocol.messages import GcEvent, GcEvents
from tests.support.recorded import events, played

names = st.text(max_size=300)
rows = st.dictionaries(
    st.one_of(names.map(label), st.just(OTHER)), st.tuples(st.integers(0, 1 << 50), st.integers(0, 99)), max_size=30
)
UNITS = ("bytes", "seconds")
readings = st.dictionaries(st.sampled_from([*"abcdefgh", OTHER]), st.integers(0, 1000))


# -- rows ------------------------------------------------------------------------------------------------------


@given(names)
def test_a_label_is_one_short_printable_line(name: str) -> None:
    made = label(name)
    assert made.isprintable()
    assert 0 < len(made) <= LABEL_LENGTH
    assert label(made) == made


@given(rows, st.integers(1, 10))
def test_the_largest_rows_and_other_sum_to_the_whole(given_rows: dict[str, tuple[int, ...]], top: int) -> None:
    kept, left = largest(given_rows, top)
    assert len(kept) <= top + 1
    assert len(kept.keys() - {OTHER}) + left == len(given_rows.keys() - {OTHER})
    for place in (0, 1):
        assert sum(row[place] for row in kept.values()) == sum(row[place] for row in given_rows.values())
    own = [row[0] for name, row in kept.items() if name != OTHER]
    assert all(row[0] <= min(own) for name, row in given_rows.items() if name not in kept and own)


@given(rows, rows)
def test_rows_of_two_processes_with_one_label_are_summed(
    one: dict[str, tuple[int, ...]], two: dict[str, tuple[int, ...]]
) -> None:
    both = dict(one)
    add_rows(both, two)
    assert both.keys() == one.keys() | two.keys()
    assert sum(row[0] for row in both.values()) == sum(row[0] for row in [*one.values(), *two.values()])


def test_figures_of_a_process_sum_to_its_census() -> None:
    recorded = played(events(5))
    figures = target_figures(recorded)
    latest = recorded.history.latest
    assert latest is not None
    assert sum(row[0] for row in figures.types.values()) == latest.total.bytes
    assert sum(row[1] for row in figures.types.values()) == latest.total.count
    assert sum(row[0] for row in figures.sites.values()) == pytest.approx(latest.total.bytes, abs=len(figures.sites))
    assert all(low <= size <= high for size, low, high, _ in figures.sites.values())
    assert figures.allocated["shop/views.py:88 create_session"] > 0


def test_a_process_that_is_not_sampled_has_no_sites() -> None:
    figures = target_figures(played(events(3, sampled=False)))
    assert figures.types
    assert (figures.sites, figures.allocated) == ({}, {})


# -- counters --------------------------------------------------------------------------------------------------


@given(st.lists(readings, min_size=1, max_size=8), st.integers(1, 3))
def test_no_counter_falls_and_all_of_them_grow_as_the_process_allocates(
    given_readings: list[dict[str, int]], top: int
) -> None:
    counters = SiteCounters()
    last: dict[str, int] = {}
    for now in given_readings:
        before, total = dict(counters.bytes), sum(counters.bytes.values())
        counters.add(last, now, top)
        assert all(counters.bytes[name] >= size for name, size in before.items())
        assert sum(counters.bytes.values()) - total == max(sum(now.values()) - sum(last.values()), 0)
        assert len(counters.bytes) <= top + 1
        last = now


def test_a_site_without_a_counter_is_added_to_other() -> None:
    counters = SiteCounters()
    assert counters.add({}, {"a": 10, "b": 5}, 1) == 1
    assert counters.bytes == {"a": 10, OTHER: 5}
    assert counters.add({"a": 10, "b": 5}, {"a": 11, "b": 105}, 1) == 1
    assert counters.bytes == {"a": 11, OTHER: 105}


collections = st.builds(
    GcEvent,
    time_ns=st.just(0),
    generation=st.integers(0, 9),
    collected=st.integers(0, 1 << 40),
    uncollectable=st.integers(0, 1 << 40),
    duration_ns=st.one_of(st.integers(0, 1 << 62), st.sampled_from([round(bound * 1e9) for bound in GC_PAUSES])),
    live_blocks=st.none(),
)


@given(st.lists(st.builds(GcEvents, st.lists(collections, max_size=5).map(tuple), st.integers(0, 9)), max_size=5))
def test_every_collection_is_in_one_bucket_and_one_generation(messages: list[GcEvents]) -> None:
    counters = GcCounters()
    for message in messages:
        counters.add(message)
    events = [event for message in messages for event in message.events]
    assert sum(counters.pauses) == counters.collections.total() == len(events)
    assert counters.collections.keys() <= {0, 1, 2}
    for place, bound in enumerate(GC_PAUSES):
        assert sum(counters.pauses[: place + 1]) == sum(event.duration_ns / 1e9 <= bound for event in events)
    assert counters.lost == sum(message.dropped for message in messages)
    taken = counters.copy()
    counters.add(GcEvents((GcEvent(0, 2, 1, 1, 1, None),), 0))
    assert taken.collections.total() == sum(taken.pauses) == len(events)


# -- metrics ---------------------------------------------------------------------------------------------------


class Services:
    """What a host has."""

    top = 2

    def __init__(self, *services: ServiceFigures) -> None:
        self._services = services

    def services(self) -> Sequence[ServiceFigures]:
        return self._services


def served(form: str, *services: ServiceFigures) -> str:
    meters = HostMeters()
    meters.registry.register(ServiceCollector(Services(*services)))
    meters.refuse("NoCensus")
    meters.pauses.observe(0.003)
    return meters.text(form).decode()


def scraped(*services: ServiceFigures) -> dict[str, Metric]:
    return {family.name: family for family in text_string_to_metric_families(served(TEXT, *services))}


def test_names_that_a_target_chose_break_no_line() -> None:
    rows: Rows = {}
    for name in ('a"} 1\nheaptop_up 1', "b\\", "\x1b[2J\u202e", "ü" * 1000, "", "\ud800"):
        add_row(rows, label(name), (5, 1))
    service = ServiceFigures("shop", processes=1, types=rows)
    families = scraped(service)
    assert all(name.startswith("heaptop_") for name in families)
    assert "heaptop_up" not in families
    samples = families["heaptop_live_bytes"].samples
    assert len(samples) == Services.top + 1
    assert sum(sample.value for sample in samples) == 5 * 6


def full_service() -> ServiceFigures:
    """One that has every series."""
    service = ServiceFigures(
        "shop", 2, 1, 1, 4096, 3.5, {"dict": (64, 1)}, {"a.py:1 f": (9, 8, 10, 1)}, {"a.py:1 f": 99, OTHER: 0}
    )
    service.suspects = {("shop.Session", "a.py:1 f", "module shop ._sessions", "leak"): 7.0}
    service.hunt_age = 12.0
    service.uses.update({"live": 3000, "files": 1096})
    service.used, service.oldest_use = 1, 70.0
    service.readings = [
        ProcessReadings(limit=8000, limit_of="memory.max of /shop", left=600, growth=1.0),
        ProcessReadings(limit=8000, limit_of="memory.max of /shop", left=500, growth=1.5),
    ]
    service.gc = GcCounters()
    service.gc.add(GcEvents((GcEvent(0, 2, 10, 3, 30_000_000, None), GcEvent(0, 7, 1, 0, 9_000_000_000, None)), 5))
    return service


def test_every_metric_has_a_type_and_help_and_base_units() -> None:
    service = full_service()
    families = scraped(service)
    assert [name for name, family in families.items() if not family.documentation or family.type == "unknown"] == []
    assert families["heaptop_site_allocated_bytes"].type == "counter"
    assert families["heaptop_pause_seconds"].type == "histogram"
    values = {
        sample.name: sample.value
        for family in families.values()
        for sample in family.samples
        if sample.labels.get("service") == "shop" and sample.labels.get("site") != OTHER
        if "le" not in sample.labels and sample.labels.get("use") != "files"
    }
    assert values == {
        "heaptop_attached_processes": 2,
        "heaptop_counted_processes": 1,
        "heaptop_inexact_processes": 1,
        "heaptop_resident_bytes": 4096,
        "heaptop_census_age_seconds": 3.5,
        "heaptop_live_bytes": 64,
        "heaptop_live_objects": 1,
        "heaptop_site_live_bytes": 9,
        "heaptop_site_live_low_bytes": 8,
        "heaptop_site_live_high_bytes": 10,
        "heaptop_site_live_blocks": 1,
        "heaptop_site_allocated_bytes_total": 99,
        "heaptop_leak_suspect_bytes_per_second": 7,
        "heaptop_leak_hunt_age_seconds": 12,
        "heaptop_resident_use_bytes": 3000,
        "heaptop_resident_use_processes": 1,
        "heaptop_resident_use_age_seconds": 70,
        "heaptop_memory_limit_bytes": 8000,
        "heaptop_memory_left_bytes": 500,
        "heaptop_memory_limit_seconds": 200,
        "heaptop_gc_collections_total": 2,
        "heaptop_gc_collected_objects_total": 11,
        "heaptop_gc_uncollectable_objects_total": 3,
        "heaptop_gc_lost_collections_total": 5,
        "heaptop_gc_pause_seconds_count": 2,
        "heaptop_gc_pause_seconds_sum": pytest.approx(9.03),
    }
    pauses = families["heaptop_gc_pause_seconds"].samples
    assert {each.labels["le"]: each.value for each in pauses if "le" in each.labels} == {
        **dict.fromkeys(("0.0001", "0.001", "0.005", "0.01", "0.025"), 0),
        **dict.fromkeys(("0.05", "0.1", "0.25", "1.0", "5.0"), 1),
        "+Inf": 2,
    }
    (suspect,) = families["heaptop_leak_suspect_bytes_per_second"].samples
    assert suspect.labels == {
        "service": "shop",
        "type": "shop.Session",
        "site": "a.py:1 f",
        "holder": "module shop ._sessions",
        "verdict": "leak",
    }


def test_open_metrics_has_the_same_samples_and_names_the_units() -> None:
    """Its parser is strict: names of counters, buckets, units, and the end."""
    content = served(OPEN_METRICS, full_service())
    strict = {family.name: family for family in open_metrics_families(content)}
    plain = scraped(full_service())
    assert content.endswith("\n# EOF\n")
    assert " # {" not in content, "an exemplar"

    def samples(families: dict[str, Metric]) -> set[tuple[str, tuple[tuple[str, str], ...]]]:
        every = (each for family in families.values() for each in family.samples)
        return {(each.name, tuple(sorted(each.labels.items()))) for each in every}

    assert samples(strict) == samples(plain)
    assert {name: family.type for name, family in strict.items()} == {
        name: family.type for name, family in plain.items()
    }
    own = {name: family.unit for name, family in strict.items() if not name.startswith("heaptop_process_")}
    assert own == {name: next((unit for unit in UNITS if name.endswith(f"_{unit}")), "") for name in own}
    assert all(each.name.endswith("_total") for one in strict.values() if one.type == "counter" for each in one.samples)


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("", TEXT),
        ("*/*", TEXT),
        ("text/plain;version=0.0.4", TEXT),
        ("text/plain;version=1.0.0;escaping=allow-utf-8", TEXT),
        ("application/openmetrics-text", OPEN_METRICS),
        ("application/openmetrics-text; version=1.0.0; charset=utf-8", OPEN_METRICS),
        ("application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,*/*;q=0.1", OPEN_METRICS),
        ("application/openmetrics-text;version=1.0.0;escaping=dots", OPEN_METRICS),
        ("application/openmetrics-text;version=one", TEXT),
        ("application/openmetrics-text;version=1.0.0\r\nX: y", TEXT),
        ("," * 8000, TEXT),
    ],
)
def test_the_form_is_one_of_two_whatever_is_accepted(accept: str, form: str) -> None:
    assert form_for(accept) == form


def test_the_page_lists_every_metric() -> None:
    page = (Path(__file__).parents[2] / "docs" / "fleet.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(heaptop_\w+)`", page))
    families = scraped(ServiceFigures("shop"))
    served = {f"{name}_total" if family.type == "counter" else name for name, family in families.items()}
    own = {name for name in served if name.startswith("heaptop_process_")}
    assert "`heaptop_process_*`" in page
    assert named == served - own


@pytest.mark.parametrize("growth", [None, 0.0, -5.0])
def test_what_does_not_grow_has_no_forecast(growth: float | None) -> None:
    readings = [ProcessReadings(limit=8000, limit_of="memory.max of /shop", left=600, growth=growth)]
    families = scraped(ServiceFigures("shop", readings=readings))
    assert families["heaptop_memory_limit_seconds"].samples == []
    assert families["heaptop_memory_limit_bytes"].samples[0].value == 8000


def test_where_no_limit_is_known_there_is_none() -> None:
    families = scraped(ServiceFigures("shop", readings=[ProcessReadings(growth=5.0)]))
    for name in ("limit_bytes", "left_bytes", "limit_seconds"):
        assert families[f"heaptop_memory_{name}"].samples == []


def test_without_a_census_there_is_no_age_and_no_type() -> None:
    families = scraped(ServiceFigures("shop", processes=1, rss=1))
    assert families["heaptop_census_age_seconds"].samples == []
    assert families["heaptop_live_bytes"].samples == []
    assert families["heaptop_counted_processes"].samples[0].value == 0
