"""The two clocks of lifetimes: allocated bytes and time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heaptop.analysis.samples.clock import LifetimeBound, Timeline, parse_lifetime, size_label
from heaptop.errors import UsageError

SECOND = 10**9


def timeline(*pairs: tuple[int, int], limit: int = 100) -> Timeline:
    out = Timeline(limit)
    for clock, time_ns in pairs:
        out.add(clock, time_ns)
    return out


def test_nothing_is_known_before_the_first_pair() -> None:
    empty = Timeline()
    assert (empty.time_ns(5), empty.clock_at(5), empty.bytes_in(5)) == (None, None, None)
    assert (empty.latest, empty.clock_by(5)) == (0, None)
    assert timeline((3, 7)).bytes_in(SECOND) is None


def test_between_two_pairs_both_clocks_run_evenly() -> None:
    line = timeline((0, 100), (1000, 200), (1100, 400))
    assert [line.time_ns(clock) for clock in (0, 500, 1000, 1050, 1100)] == [100, 150, 200, 300, 400]
    assert [line.clock_at(time) for time in (100, 150, 200, 300, 400)] == [0, 500, 1000, 1050, 1100]
    assert [line.time_ns(clock) for clock in (-1, 2000)] == [100, 400]
    assert [line.clock_at(time) for time in (0, 2000)] == [0, 1100]
    assert line.bytes_in(30) == 110


def test_a_block_is_born_when_the_clock_first_stood_so() -> None:
    line = timeline((0, 0), (1000, 10), (1000, 90))
    assert line.time_ns(1000) == 10
    assert line.clock_at(50) == 1000
    assert (line.clock_by(5), line.clock_by(-1)) == (500, None)


def test_the_clock_goes_on_when_the_samplers_begins_anew() -> None:
    line = timeline((0, 0), (1000, 10))
    line.begin_anew(20)
    assert line.clock(5) == 1005
    line.add(500, 30)
    assert line.latest == 1500
    assert line.pairs == ((0, 0), (1000, 10), (1000, 20), (1500, 30))
    assert line.bytes_in(20) == 1500
    line.begin_anew(5)
    assert line.clock(1) == 1501


def test_what_runs_back_stands_still() -> None:
    assert timeline((10, 100), (5, 90), (20, 110)).pairs == ((10, 100), (10, 100), (20, 110))


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=1, max_size=60),
    st.integers(2, 9),
    st.integers(-10, 3000),
    st.integers(-10, 3000),
)
def test_neither_clock_ever_runs_back(steps: list[tuple[int, int]], limit: int, one: int, other: int) -> None:
    line = Timeline(limit)
    clock = time = 0
    for more, later in steps:
        clock, time = clock + more, time + later
        line.add(clock, time)
    assert len(line.pairs) <= limit
    assert line.pairs[-1] == (clock, time)
    low, high = sorted((one, other))
    for ask in (line.time_ns, line.clock_at):
        before, after = ask(low), ask(high)
        assert before is not None
        assert after is not None
        assert before <= after
    for known, when in line.pairs:
        first = line.time_ns(known)
        assert first is not None
        assert first <= when


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("10MB", LifetimeBound(10**7, None)),
        ("1GiB", LifetimeBound(1 << 30, None)),
        ("512", LifetimeBound(512, None)),
        ("5M", LifetimeBound(5 * 10**6, None)),
        ("10s", LifetimeBound(None, 10 * SECOND)),
        ("1.5 min", LifetimeBound(None, 90 * SECOND)),
        ("500ms", LifetimeBound(None, SECOND // 2)),
        ("2H", LifetimeBound(None, 7200 * SECOND)),
    ],
)
def test_a_lifetime_is_bytes_or_time(text: str, bound: LifetimeBound) -> None:
    assert parse_lifetime(text) == bound


@pytest.mark.parametrize("text", ["", "s", "10 days", "-5s", "MB", "1e3s", "٣s"])
def test_what_is_no_lifetime_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not a lifetime"):
        parse_lifetime(text)


@pytest.mark.parametrize("text", ["5m", "5 m", "1.5m"])
def test_minutes_and_megabytes_are_told_apart(text: str) -> None:
    with pytest.raises(UsageError, match="minutes or megabytes"):
        parse_lifetime(text)


def test_a_bound_is_reached_on_its_own_clock() -> None:
    line = timeline((0, 0), (10**6, 60 * SECOND))
    assert parse_lifetime("15s").born_by(line, 10**6, 60 * SECOND) == 750_000
    assert parse_lifetime("2min").born_by(line, 10**6, 60 * SECOND) is None, "nothing was born before the first pair"
    assert parse_lifetime("100kB").born_by(line, 10**6, 60 * SECOND) == 899_999, "longer, not as long"


def test_bounds_are_written_as_they_are_typed() -> None:
    assert [parse_lifetime(text).text for text in ("10MB", "1.5GB", "12", "10s")] == ["10 MB", "1.5 GB", "12 B", "10 s"]
    assert size_label(2 * 10**18) == "2 EB"
    assert [size_label(number) for number in (0, 999, 999.6, 12_345, 999_600)] == [
        "0 B", "999 B", "1 kB", "12.3 kB", "1 MB",
    ]  # fmt: skip
