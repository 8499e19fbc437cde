"""Moments of a recording, as they are typed and read."""

from __future__ import annotations

from time import tzset

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heaptop.analysis.reports.census_timeline import CensusTimeline
from heaptop.analysis.reports.moments_diff import moment_json
from heaptop.analysis.reports.recorded import Recorded
from heaptop.analysis.text.recorded_times import RecordedSpan, utc
from heaptop.errors import UsageError
from heaptop.protocol.messages import Census, Tick
from heaptop.protocol.source import Seek

pytestmark = pytest.mark.usefixtures("utc")

SECOND = 1_000_000_000
HOUR = 3600 * SECOND
FIRST = 7 * HOUR
NIGHT = 1_750_024_800.0  # 2025-06-15 22:00 UTC
SPAN = RecordedSpan(FIRST, FIRST + 12 * HOUR, NIGHT)


@pytest.mark.parametrize(
    ("typed", "hours"),
    [
        ("0", 0),
        ("5400", 1.5),
        ("+90m", 1.5),
        ("90m", 1.5),
        ("1h30m", 1.5),
        ("+1.5h", 1.5),
        ("-1h", 11),
        ("-30m", 11.5),
        ("-0", 12),
        ("22:00", 0),
        ("23:30", 1.5),
        ("02:13", 4 + 13 / 60),
        ("2:13:30", 4 + 13.5 / 60),
        ("10:00", 12),
        (" +12h ", 12),
    ],
)
def test_times_are_read_in_each_form(typed: str, hours: float) -> None:
    assert SPAN.moment(typed) == FIRST + round(hours * HOUR)


@pytest.mark.parametrize(
    "typed", ["", "soon", "1x", "90 m", "1h30", "25:00", "12:60", "1:2", "--1h", "+-1h", "1e3", "٣", "nan"]
)
def test_what_is_no_time_says_how_times_are_written(typed: str) -> None:
    with pytest.raises(UsageError, match="is not a time") as caught:
        SPAN.moment(typed)
    assert "+90m" in caught.value.fix


@pytest.mark.parametrize("typed", ["13h", "-13h", "11:00", "21:59", "99999999"])
def test_a_time_outside_says_from_when_to_when_it_goes(typed: str) -> None:
    with pytest.raises(UsageError, match="from 22:00:00 to 10:00:00"):
        SPAN.moment(typed)


def test_the_second_that_the_end_is_in_belongs_to_it() -> None:
    span = RecordedSpan(0, 90_600_000_000, NIGHT + 0.7)
    assert span.moment("22:01:31") == 90_600_000_000
    assert span.moment("22:00") == 0


@given(st.integers(0, 12 * 3600))
def test_what_is_read_can_be_typed(after: int) -> None:
    moment = FIRST + after * 1_000_000_000
    assert SPAN.moment(SPAN.clock(moment)) == moment
    assert SPAN.moment(f"{after}s") == moment


def test_what_a_program_reads_is_in_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Kathmandu")
    tzset()
    assert utc(NIGHT + 0.123456) == "2025-06-15T22:00:00.123+00:00"
    told = Recorded("a", shown=Seek(FIRST + HOUR, FIRST, FIRST + 12 * HOUR, FIRST, NIGHT + 3600.5))
    assert moment_json(told)["time"] == "2025-06-15T23:00:00.500+00:00"


def test_a_recording_says_it_of_itself() -> None:
    shown = Seek(FIRST + HOUR, FIRST, FIRST + 12 * HOUR, FIRST, NIGHT + 3600)
    assert RecordedSpan.of(shown) == SPAN
    assert (SPAN.words, SPAN.short) == ("from 22:00:00 to 10:00:00", "22:00–10:00")
    assert RecordedSpan(0, 60_000_000_000, NIGHT).short == "22:00:00–22:01:00"


def test_report_and_diff_say_the_same_rss_of_one_moment() -> None:
    """Ticks come after the last census too, and not all of them know it."""
    told = Recorded("a", shown=Seek(5 * SECOND, 0, 5 * SECOND, 0, NIGHT))
    for second, rss in ((1, 100), (2, None), (3, 300), (5, None)):
        told.take(tick(second, rss))
        if second in (1, 2):
            told.take(census(second))
    points = CensusTimeline.of(told).points
    assert [(point.time_ns, point.rss) for point in points] == [(SECOND, 100), (2 * SECOND, 300)]
    assert moment_json(told)["rss"] == points[-1].rss == told.rss
    told.history.feed(tick(6, 600))
    assert moment_json(told)["rss"] == CensusTimeline.of(told).points[-1].rss == 600


def test_a_first_census_before_any_tick_has_the_rss_of_the_first_tick() -> None:
    """Else a short recording would begin with the RSS of its second census, and show too little growth."""
    told = Recorded("a", shown=Seek(12 * SECOND, 0, 12 * SECOND, 0, NIGHT))
    for message in (census(1), tick(2, 100), census(12), tick(12, 300)):
        told.take(message)
    assert [point.rss for point in CensusTimeline.of(told).points] == [100, 300]


def test_a_tick_after_the_second_census_is_not_the_beginning() -> None:
    told = Recorded("a", shown=Seek(12 * SECOND, 0, 12 * SECOND, 0, NIGHT))
    for message in (census(1), census(2), census(3), tick(4, 100)):
        told.take(message)
    assert [point.rss for point in CensusTimeline.of(told).points] == [None, None, 100]


def tick(second: int, rss: int | None) -> Tick:
    return Tick(second, second * SECOND, rss, 0, True, (0, 0, 0), 0, 1, 0)


def census(second: int) -> Census:
    return Census(second, second * SECOND, "clone", True, "", (), 1, 1, 1, 1, 0)
