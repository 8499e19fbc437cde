"""What grew since a moment, by censuses alone: the differences that a plain count gives."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heaptop.analysis.bands.census_growth import SPARK, CensusGrowth, growth_since
from heaptop.analysis.bands.series import SeriesCache
from heaptop.analysis.filters.attributes import band_key
from heaptop.analysis.filters.filters import EVERYTHING, parse_filter
from heaptop.analysis.heap.history import Amount, CensusRecord
from tests.unit.census_cases import Heap, filters, heaps, ramp, snapshots

SECOND = 10**9


def counted(snapshot: CensusRecord, key: str, text: str) -> dict[str, Amount]:
    """The slow way."""
    found: dict[str, Amount] = {}
    for cell in parse_filter(text).select(snapshot):
        before = found.get(band_key(key).label(cell), Amount(0, 0))
        found[band_key(key).label(cell)] = Amount(before.count + cell.count, before.bytes + cell.bytes)
    return found


@given(st.lists(heaps, min_size=1, max_size=20), st.sampled_from(["type", "module"]), filters, st.integers(-1, 21))
def test_differences_of_two_counts(given_heaps: list[Heap], key: str, text: str, second: int) -> None:
    taken = snapshots(given_heaps)
    growth = growth_since(taken, second * SECOND, key, parse_filter(text), SeriesCache())
    first = min(max(second, 0), len(taken) - 1)
    before, now = counted(taken[first], key, text), counted(taken[-1], key, text)
    none = Amount(0, 0)
    assert growth.seconds == len(taken) - 1 - first
    assert {row.name: (row.count, row.bytes, row.now, row.now_bytes) for row in growth.rows} == {
        name: (after.count - was.count, after.bytes - was.bytes, after.count, after.bytes)
        for name in before.keys() | now.keys()
        for was, after in [(before.get(name, none), now.get(name, none))]
        if was != after
    }
    assert [row.bytes for row in growth.rows] == sorted((row.bytes for row in growth.rows), reverse=True)
    for row in growth.rows:
        assert row.count_rate * growth.seconds == pytest.approx(row.count)
        assert len(row.spark) <= SPARK
        assert (row.spark[0], row.spark[-1]) == (row.now - row.count, row.now)


def test_before_the_first_census_nothing_is_known() -> None:
    assert growth_since((), 0, "type", EVERYTHING, SeriesCache()) == CensusGrowth((), 0.0)
    assert growth_since(ramp({2: [5]}), 0, "type", EVERYTHING, SeriesCache()) == CensusGrowth((), 0.0)


def test_a_memo_goes_on_where_it_was() -> None:
    memo, sizes = SeriesCache(), [n * n for n in range(40)]
    for length in (3, 20, 40):
        (row,) = growth_since(ramp({2: sizes[:length]}), SECOND, "type", EVERYTHING, memo).rows
        assert (row.bytes, row.byte_rate) == (sizes[length - 1] - 1, (sizes[length - 1] - 1) / (length - 2))
