"""Bands by how long blocks will have lived: against what a program that is followed in whole has done."""

from __future__ import annotations

import pytest

from heaptop.analysis.bands.bands import BandChart
from heaptop.analysis.filters.filters import EVERYTHING, parse_filter
from heaptop.analysis.lifetimes.eventual import (
    KEY,
    Eventual,
    by_lifetime,
    is_eventual,
    longer_than,
    restricted,
    rows_of,
)
from heaptop.analysis.samples.clock import LifetimeBound
from heaptop.analysis.samples.sampling import Sampling
from heaptop.errors import UsageError
from heaptop.protocol.messages import Sampler
from heaptop.protocol.source import Event, Received
from tests.fakes.source import ALLOCATIONS, BYTES_PER_TICK, FakeSource

TICKS = 40
CREATE, ORDERS, CACHE = "shop/views.py:88 create_session", "shop/views.py:131 list_orders", "shop/cache.py:30 Cache.get"


@pytest.fixture(scope="module")
def sampling() -> Sampling:
    sampling, source = Sampling(), FakeSource()

    def take(event: Event) -> None:
        if isinstance(event, Received):
            sampling.feed(event.message)

    source.open(take)
    source.attach()
    source.sample(65_536, 128)
    source.tick(TICKS)
    return sampling


def at_end(chart: BandChart) -> dict[str, int]:
    return {band.name: band.counts[-1] for band in chart.bands if band.bytes[-1]}


def test_the_past_is_cut_by_lifetimes_and_the_present_by_ages(sampling: Sampling) -> None:
    chart = by_lifetime(sampling)
    assert [band.name for band in chart.bands] == [
        "lived 1–10 MB", "lived 10–100 MB", "alive, < 1 MB", "alive, 1–10 MB", "alive, 10–100 MB",
    ]  # fmt: skip
    middle = len(chart.times_ns) // 2
    assert chart.bands[0].bytes[middle] > 0
    assert set(at_end(chart)) == {"alive, < 1 MB", "alive, 1–10 MB", "alive, 10–100 MB"}


@pytest.mark.parametrize(
    ("key", "where", "names"),
    [
        ("producer", "lifetime>10MB", [CREATE, CACHE]),
        ("producer", "lifetime>10MB site:cache", [CACHE]),
        ("producer", "lifetime>1MB", [CREATE, ORDERS, CACHE]),
        ("type", "lifetime>10MB type:shop.*", ["shop.models.Session"]),
        ("size", "lifetime>10MB", ["257–2048", "33–256", "> 2048"]),
    ],
)
def test_other_bands_under_a_bound(key: str, where: str, names: list[str], sampling: Sampling) -> None:
    asked = parse_filter(where)
    assert is_eventual(key, asked)
    assert asked.lifetime is not None
    chart = restricted(sampling, key, asked, longer_than(asked.lifetime, sampling), 10)
    assert {band.name for band in chart.bands} == set(names)
    sizes = [sum(band.bytes) for band in chart.bands]
    assert sizes == sorted(sizes, reverse=True)
    assert all(total.bytes == sum(band.bytes[i] for band in chart.bands) for i, total in enumerate(chart.totals))


def test_what_is_kept_for_ever_is_all_there_once_it_is_old_enough(sampling: Sampling) -> None:
    """create_session frees nothing: what was born 10 MB ago or before lives longer than that."""
    where = parse_filter("lifetime>10MB")
    assert where.lifetime is not None
    chart = restricted(sampling, "producer", where, longer_than(where.lifetime, sampling), 10)
    (create,) = (band for band in chart.bands if band.name == CREATE)
    each_tick = sum(one.count for one in ALLOCATIONS if not one.life) * 65_536
    old = TICKS - 1 - 10_000_000 // BYTES_PER_TICK
    assert create.bytes[-1] == pytest.approx(each_tick * old, rel=0.03)


def test_the_rest_shares_a_band(sampling: Sampling) -> None:
    where = parse_filter("lifetime>1MB")
    assert where.lifetime is not None
    longer = longer_than(where.lifetime, sampling)
    whole, cut = (restricted(sampling, "producer", where, longer, limit) for limit in (10, 1))
    assert [band.name for band in cut.bands] == [whole.bands[0].name, "(other: 2 more)"]
    for one, other in zip(cut.totals, whole.totals, strict=True):
        assert one.bytes == pytest.approx(other.bytes, abs=2), "each band is rounded"


def test_a_chart_that_is_made_in_steps_is_of_the_moment_it_was_begun() -> None:
    sampling, source = Sampling(), FakeSource()

    def take(event: Event) -> None:
        if isinstance(event, Received):
            sampling.feed(event.message)

    source.open(take)
    source.attach()
    source.sample(65_536, 128)
    source.tick(30)
    where = parse_filter("lifetime>1MB")
    assert where.lifetime is not None
    longer = longer_than(where.lifetime, sampling)
    then = by_lifetime(sampling), restricted(sampling, "producer", where, longer, 2)
    made = Eventual(sampling, KEY, EVERYTHING, None, 0), Eventual(sampling, "producer", where, longer, 2)
    steps = [one.work() for one in made]
    for step in steps:
        next(step)
    source.tick(15)  # much of what lived dies
    for step in steps:
        assert not [*step], "so few samples are one step"
    assert tuple(one.chart for one in made) == then
    assert by_lifetime(sampling) != then[0]


def test_rows_are_the_last_moment(sampling: Sampling) -> None:
    chart = by_lifetime(sampling)
    rows = rows_of(chart, "bytes", True)
    assert [row.bytes for row in rows] == sorted((band.bytes[-1] for band in chart.bands), reverse=True)
    assert sum(row.share for row in rows) == pytest.approx(1.0)
    assert all(row.spark[-1] == row.bytes for row in rows)
    assert [row.name for row in rows_of(chart, "name", False)] == sorted(row.name for row in rows)


def test_a_time_goes_by_the_rate_of_allocation(sampling: Sampling) -> None:
    """2 MB a second: ten seconds are 20 MB, of which 10 MB are the nearest class."""
    longer = longer_than(LifetimeBound(None, 10 * 10**9), sampling)
    assert longer.bytes == 10_000_000
    assert longer.text == "lifetime > 10 MB allocated (≈ 10 s)"


def test_a_bound_that_no_class_has(sampling: Sampling) -> None:
    with pytest.raises(UsageError, match="1MB, 10MB, 100MB"):
        longer_than(LifetimeBound(2_000_000, None), sampling)
    with pytest.raises(UsageError, match="not known yet"):
        longer_than(LifetimeBound(None, 10**9), Sampling())


@pytest.mark.parametrize(
    ("key", "where"),
    [
        ("generation", "lifetime>1MB"),
        ("producer-module", "lifetime>1MB"),
        ("producer", "lifetime>1MB type:dict"),
        ("producer", "lifetime>1MB size>1MB"),
        ("lifetime", "lifetime>1MB"),
        ("lifetime", "type:dict"),
    ],
)
def test_what_is_not_kept_together(key: str, where: str) -> None:
    with pytest.raises(UsageError, match="do not go together"):
        is_eventual(key, parse_filter(where))


def test_nothing_was_sampled_yet() -> None:
    sampling = Sampling()
    sampling.feed(Sampler(1, 0, True, 65_536, 128, (65_536,), 1))
    chart = by_lifetime(sampling)
    assert (chart.bands, rows_of(chart, "bytes", True)) == ((), ())
