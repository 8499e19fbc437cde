"""Bands: they sum to the total, whatever is asked; smooth below rough; calm from tick to tick."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heaptop.analysis.bands.bands import KEEP_NAMED, Band, BandChart, bands
from heaptop.analysis.bands.series import SeriesCache
from heaptop.analysis.bands.table import table
from heaptop.analysis.filters.filters import EVERYTHING, parse_filter
from heaptop.analysis.heap.history import Amount, History
from heaptop.errors import UsageError
from heaptop.protocol.messages import Types
from tests.unit.census_cases import NAMES, Heap, census, filters, heaps, history, keys, ramp, snapshots


def names(chart: BandChart) -> list[str]:
    return [band.name for band in chart.bands]


@given(st.lists(heaps, max_size=6), keys, filters, st.integers(0, 8))
def test_bands_sum_to_what_passes_the_filter(given_heaps: list[Heap], key: str, text: str, limit: int) -> None:
    where = parse_filter(text)
    taken = snapshots(given_heaps)
    chart = bands(taken, key, where, limit)
    assert len(chart.times_ns) == len(chart.totals) == len(taken)
    for index, snapshot in enumerate(taken):
        cells = list(where.select(snapshot))
        assert chart.totals[index] == Amount(sum(cell.count for cell in cells), sum(cell.bytes for cell in cells))
        assert sum(band.bytes[index] for band in chart.bands) == chart.totals[index].bytes
        assert sum(band.counts[index] for band in chart.bands) == chart.totals[index].count
    assert all(value >= 0 for band in chart.bands for value in (*band.bytes, *band.counts))


@given(st.lists(heaps, max_size=6), keys, filters, st.integers(0, 8))
def test_the_limit_holds_and_the_rest_is_last_and_says_how_many(
    given_heaps: list[Heap], key: str, text: str, limit: int
) -> None:
    taken, where = snapshots(given_heaps), parse_filter(text)
    everything = bands(taken, key, where, 1000).bands
    chart = bands(taken, key, where, limit)
    named = [band for band in chart.bands if not band.is_rest]
    assert len(named) == min(limit, len(everything))
    hidden = len(everything) - len(named)
    assert [band.name for band in chart.bands if band.is_rest] == ([f"(other: {hidden} more)"] if hidden else [])
    assert all(not band.is_rest for band in chart.bands[:-1])
    assert {band.name: band for band in named}.items() <= {band.name: band for band in everything}.items()


@given(st.lists(heaps, max_size=5), keys, st.integers(0, 4), st.data())
def test_the_order_of_rows_means_nothing(given_heaps: list[Heap], key: str, limit: int, data: st.DataObject) -> None:
    shuffled = History()
    shuffled.feed(Types(0, NAMES))
    for number, heap in enumerate(given_heaps):
        shuffled.feed(census(number, heap, data.draw(st.permutations(list(heap)))))
    assert bands(shuffled.records, key, EVERYTHING, limit) == bands(snapshots(given_heaps), key, EVERYTHING, limit)


@given(st.lists(heaps, max_size=14), keys, filters, st.integers(2, 8))
def test_a_memo_changes_nothing(given_heaps: list[Heap], key: str, text: str, limit: int) -> None:
    """Also when the history thins itself out between two frames."""
    memo, where = SeriesCache(), parse_filter(text)
    growing = History(limit)
    growing.feed(Types(0, NAMES))
    for number, heap in enumerate(given_heaps):
        growing.feed(census(number, heap))
        for one in ("type", key):
            assert bands(growing.records, one, where, 3, memo=memo) == bands(growing.records, one, where, 3)


def test_a_memo_takes_an_earlier_moment_too() -> None:
    """A paused display asks for fewer snapshots than the frame before."""
    taken, memo = ramp({0: [1, 2, 3], 1: [4, 4, 4]}), SeriesCache()
    for length in (3, 2, 3, 0, 1):
        assert bands(taken[:length], "type", EVERYTHING, 5, memo=memo) == bands(taken[:length], "type", EVERYTHING, 5)


def test_smooth_bands_are_drawn_below_rough_ones() -> None:
    """A flat band, a ramp (a leak), a wobble, a saw: from the bottom up."""
    taken = ramp(
        {
            0: [10, 900, 10, 900, 10, 900],
            1: [500, 520, 490, 510, 500, 515],
            2: [100, 200, 300, 400, 500, 600],
            3: [300, 300, 300, 300, 300, 300],
        }
    )
    assert names(bands(taken, "type", EVERYTHING, 4)) == ["shop.models.Order", "shop.models.Session", "str", "dict"]


def test_ties_go_by_name() -> None:
    taken = ramp({0: [5, 5], 3: [5, 5], 1: [5, 5], 2: [5, 5]})
    assert names(bands(taken, "type", EVERYTHING, 2)) == ["dict", "shop.models.Order", "(other: 2 more)"]


def test_roughness_is_the_deviation_of_the_first_differences() -> None:
    """Against the definition, on the order of all pairs: an outlier beats a steeper ramp."""
    taken = ramp({0: [0, 1000, 2000, 3000], 1: [10, 10, 12, 10]})
    assert names(bands(taken, "type", EVERYTHING, 2)) == ["dict", "str"]


def test_the_order_holds_until_it_is_wrong_by_twice() -> None:
    taken = ramp({0: [0, 10, 0, 10, 0], 1: [0, 12, 0, 12, 0]})
    assert names(bands(taken, "type", EVERYTHING, 2)) == ["dict", "str"]
    other = BandChart((), (Band("str", (), ()), Band("dict", (), ())), ())
    assert names(bands(taken, "type", EVERYTHING, 2, previous=other)) == ["str", "dict"]
    taken = ramp({0: [0, 10, 0, 10, 0], 1: [0, 30, 0, 30, 0]})
    assert names(bands(taken, "type", EVERYTHING, 2, previous=other)) == ["dict", "str"]


def test_a_named_band_stays_until_another_is_a_quarter_larger() -> None:
    before = BandChart((), (Band("dict", (), ()),), ())
    for size, named in ((110, "dict"), (126, "str")):
        taken = ramp({0: [100, 100], 1: [size, size]})
        assert names(bands(taken, "type", EVERYTHING, 1, previous=before))[0] == named
        assert names(bands(taken, "type", EVERYTHING, 1))[0] == "str"


@given(st.lists(heaps, min_size=1, max_size=6), keys, st.integers(0, 4), st.data())
def test_named_are_the_largest_by_area(given_heaps: list[Heap], key: str, limit: int, data: st.DataObject) -> None:
    taken = snapshots(given_heaps)
    everyone = bands(taken, key, EVERYTHING, 100).bands
    before = data.draw(st.lists(st.sampled_from([band.name for band in everyone] or ["none"]), unique=True))
    chart = bands(
        taken, key, EVERYTHING, limit, previous=BandChart((), tuple(Band(name, (), ()) for name in before), ())
    )
    more, less = KEEP_NAMED
    largest = sorted(everyone, key=lambda band: (-sum(band.bytes) * (more if band.name in before else less), band.name))
    named = {band.name for band in chart.bands if not band.is_rest}
    assert named == {band.name for band in largest[:limit]}


@given(st.lists(heaps, min_size=1, max_size=6), keys, st.integers(0, 4))
def test_a_chart_after_itself_is_itself(given_heaps: list[Heap], key: str, limit: int) -> None:
    taken = snapshots(given_heaps)
    chart = bands(taken, key, EVERYTHING, limit)
    assert bands(taken, key, EVERYTHING, limit, previous=chart) == chart


def test_a_band_that_went_keeps_its_past() -> None:
    taken = history([{(0, 2): (1, 8)}, {(1, 2): (1, 4)}, {(0, 2): (2, 9), (1, 2): (1, 4)}]).records
    by_name = {band.name: band for band in bands(taken, "type", EVERYTHING, 5).bands}
    assert by_name["dict"] == Band("dict", (8, 0, 9), (1, 0, 2))
    assert by_name["str"] == Band("str", (0, 4, 4), (0, 1, 1))


def test_an_unknown_key_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="colour"):
        bands((), "colour", EVERYTHING, 3)


@given(st.lists(heaps, min_size=1, max_size=14), keys, filters, st.data())
def test_a_memo_follows_any_thinning(given_heaps: list[Heap], key: str, text: str, data: st.DataObject) -> None:
    """Whatever is dropped, in whatever order it is asked for: the memo gives what starting over gives."""
    memo, where, taken = SeriesCache(), parse_filter(text), list(snapshots(given_heaps))
    for _ in range(3):
        kept = data.draw(st.lists(st.sampled_from(taken), unique_by=id, max_size=len(taken)))
        if data.draw(st.booleans()):
            kept = [snapshot for snapshot in taken if snapshot in kept]
        assert bands(kept, key, where, 3, memo=memo) == bands(kept, key, where, 3)
        assert table(kept, key, where, memo=memo) == table(kept, key, where)
