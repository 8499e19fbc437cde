"""Moments as a person wants them written: since the attach, of day, of day in UTC."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heaptop.analysis.text.time_words import DAY, ELAPSED, Times
from heaptop.tui.charts.raster import window_for

ATTACH = 1_795_342_325.25
"""2026-11-22 10:12:05 in UTC."""


@pytest.fixture
def _half_an_hour_off(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A time zone that is 5 hours and a half east."""
    monkeypatch.setenv("TZ", "XXX-5:30")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def test_times_are_counted_from_the_attach() -> None:
    assert [ELAPSED.tick(seconds, 5) for seconds in (0, 45, 90, 7200)] == ["0s", "45s", "1m30", "2h"]
    assert ELAPSED.moment(12.3456) == "12.346 s"
    assert ELAPSED.moment(665) == "11m 05s"
    assert ELAPSED.first_tick(7.0, 5) == 10


def test_ticks_of_a_clock_are_on_round_times() -> None:
    times = Times.of("utc", ATTACH)
    assert times.first_tick(0, 60) == pytest.approx(54.75)
    assert times.tick(54.75, 60) == "10:13"
    assert times.first_tick(0, 15) == pytest.approx(9.75)
    assert times.tick(9.75, 15) == "10:12:15"
    assert times.tick(times.first_tick(0, DAY), DAY) == "23 Nov"
    assert times.moment(0.8) == "10:12:06"


@pytest.mark.usefixtures("_half_an_hour_off")
def test_on_the_readers_clock() -> None:
    times = Times.of("clock", ATTACH)
    assert times.moment(0) == "15:42:05"
    first = times.first_tick(0, 3600)
    assert times.tick(first, 3600) == "16:00"
    assert times.tick(times.first_tick(0, DAY), DAY) == "23 Nov"


def test_as_long_as_nobody_knows_when_the_attach_was() -> None:
    assert Times.of("clock", None) == ELAPSED
    assert Times.of("elapsed", ATTACH) == ELAPSED


@given(st.floats(0, 1e6), st.floats(0, 1e5), st.integers(20, 200), st.floats(0, 2e9))
def test_ticks_stand_in_the_window_at_round_times(first: float, length: float, width: int, attach: float) -> None:
    window = window_for(first, first + length, width, Times(attach, utc=True))
    step = window.ticks[1][0] - window.ticks[0][0] if len(window.ticks) > 1 else 1
    for seconds, text in window.ticks:
        assert window.start - 1e-6 <= seconds <= window.start + window.span + 1e-6
        off = (attach + seconds) % step
        assert min(off, step - off) < 1e-3
        assert 5 <= len(text) <= 8
