"""The sampler's pure parts, compiled alone: random numbers without libm, and the hash that its tables share."""

from __future__ import annotations

import ctypes
import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.building import library_with
from tests.support.core_builds import SANITIZED, sanitized_throughout


@pytest.fixture(scope="module")
def parts() -> ctypes.CDLL:
    loaded = ctypes.CDLL(str(library_with("sampling_parts.c", options=SANITIZED if sanitized_throughout() else ())))
    loaded.parts_log.argtypes, loaded.parts_log.restype = [ctypes.c_double], ctypes.c_double
    loaded.parts_scale.argtypes, loaded.parts_scale.restype = [ctypes.c_uint64], ctypes.c_double
    return loaded


@given(x=st.floats(min_value=2**-60, max_value=2**60))
def test_the_logarithm_agrees_with_libm(parts: ctypes.CDLL, x: float) -> None:
    assert parts.parts_log(x) == pytest.approx(math.log(x), rel=1e-9, abs=1e-12)


@given(interval=st.integers(2, 2**40))
def test_scale_of_an_interval(parts: ctypes.CDLL, interval: int) -> None:
    assert parts.parts_scale(interval) == pytest.approx(1 / math.log1p(-1 / interval), rel=1e-9)


@pytest.mark.parametrize("interval", [1, 2, 10, 4096, 65536, 1 << 40])
def test_gaps_are_geometric(parts: ctypes.CDLL, interval: int) -> None:
    count = 20_000
    gaps = (ctypes.c_int64 * count)()
    parts.parts_draw(ctypes.c_uint64(7), ctypes.c_uint64(interval), gaps, count)
    mean, spread = interval - 1, math.sqrt(interval * (interval - 1))
    assert 0 <= min(gaps) <= max(gaps) <= 37 * interval
    assert abs(statistics.fmean(gaps) - mean) <= 4 * spread / math.sqrt(count)
    longer = sum(gap >= interval for gap in gaps) / count
    wanted = (1 - 1 / interval) ** interval
    assert abs(longer - wanted) <= 4 * math.sqrt(wanted * (1 - wanted) / count)


@given(data=st.data())
def test_the_hash_has_what_was_added_and_not_removed(parts: ctypes.CDLL, data: st.DataObject) -> None:
    """Few hashes, so that entries push each other on, also past the end of the table."""
    keys = data.draw(st.lists(st.sampled_from([0, 1, 2, 6, 7, 8, 15, 2**32 - 1]), min_size=1, max_size=60))
    steps: list[int] = []
    present: set[int] = set()
    for position in data.draw(st.lists(st.integers(0, len(keys) - 1), max_size=200)):
        steps.append(-1 - position if position in present else position)
        present ^= {position}
    left = (ctypes.c_uint32 * (len(keys) + 1))()
    found = parts.parts_index(
        (ctypes.c_uint32 * len(keys))(*keys), (ctypes.c_int32 * len(steps))(*steps), len(steps), left
    )
    assert found == len(present)
    assert set(left[:found]) == present
