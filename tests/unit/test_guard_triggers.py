"""When the guard acts: what is written is what is read, errors point at the place, and unknown figures fire nothing."""

from __future__ import annotations

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heaptop.errors import UsageError
from heaptop.fleet.triggers import (
    HUNT_EVERY,
    LEAST_TREND,
    TREND_SECONDS,
    ProcessReadings,
    RssTrend,
    Trigger,
    parse_trigger,
    readings_words,
    seconds_to_limit,
)

MB = 10**6
shares = st.integers(1, 10_000).map(lambda hundredths: hundredths / 100)
sizes = st.integers(0, 10**15)
seconds = st.integers(1, 10**7)
triggers = st.one_of(
    st.builds(Trigger, st.sampled_from(["rss", "left"]), sizes),
    st.builds(Trigger, st.sampled_from(["rss", "left"]), shares, st.just(True)),
    st.builds(Trigger, st.just("growth"), sizes),
    st.builds(Trigger, st.sampled_from(["time to limit", "every", "verdict"]), seconds),
    st.builds(Trigger, st.just("garbage"), st.integers(0, 10**11)),
    st.builds(Trigger, st.just("pressure"), shares),
)


@given(triggers)
def test_a_printed_trigger_parses_to_itself(trigger: Trigger) -> None:
    assert parse_trigger(str(trigger)) == trigger


@pytest.mark.parametrize(
    ("text", "trigger"),
    [
        ("rss > 2GB", Trigger("rss", 2 * 10**9)),
        ("RSS>80% of limit", Trigger("rss", 80, True)),
        ("left < 200MiB", Trigger("left", 200 << 20)),
        ("growth > 10MB/min", Trigger("growth", 10 * MB)),
        ("growth > 1 MB/s", Trigger("growth", 60 * MB)),
        (" time  to limit < 30min ", Trigger("time to limit", 1800)),
        (" limit  in < 30min ", Trigger("time to limit", 1800)),
        ("limit in<1h30m", Trigger("time to limit", 5400)),
        ("verdict = leak", Trigger("verdict", HUNT_EVERY)),
        ("verdict = leak every 20min", Trigger("verdict", 1200)),
        ("garbage > 1000", Trigger("garbage", 1000)),
        ("pressure > 7.5 %", Trigger("pressure", 7.5)),
        ("every 6h", Trigger("every", 21_600)),
    ],
)
def test_what_a_person_writes_is_read(text: str, trigger: Trigger) -> None:
    assert parse_trigger(text) == trigger


@pytest.mark.parametrize(
    ("text", "message", "place"),
    [
        ("heap > 2GB", "There is no such trigger", "heap"),
        ("", "There is no such trigger", ""),
        ("rss < 2GB", "rss needs '>' here", "<"),
        ("left > 2GB", "left needs '<' here", ">"),
        ("rss", "rss needs '>' here", ""),
        ("rss > lots", "expected a size such as 2GB", "lots"),
        ("rss > 80%", "expected 'of limit'", "80%"),
        ("rss > 180% of limit", "at most 100%", "180% of limit"),
        ("rss > 0% of limit", "more than 0%", "0% of limit"),
        ("growth > 10MB", "expected a rate such as 10MB/min", "10MB"),
        ("growth > 10MB/week", "units of time are s, min and h", "10MB/week"),
        ("limit in < soon", "expected a time", "soon"),
        ("every 0s", "expected a time", "0s"),
        ("every", "expected a time", ""),
        ("verdict = good", "expected 'leak'", "good"),
        ("verdict = leak every", "expected 'leak'", "leak every"),
        ("garbage > 1.5", "expected a number of objects", "1.5"),
        ("pressure > 10", "expected per cent", "10"),
        ("rss_high > 2GB", "There is no such trigger", "rss_high"),
    ],
)
def test_what_is_no_trigger_is_pointed_at(text: str, message: str, place: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        parse_trigger(text)
    assert caught.value.place is not None
    start, end = caught.value.place
    assert text[start:end] == place
    assert "time to limit < 30min" in caught.value.fix


@given(st.text(max_size=40))
def test_any_text_is_a_trigger_or_an_error(text: str) -> None:
    try:
        trigger = parse_trigger(text)
    except UsageError:
        return
    assert parse_trigger(str(trigger)) == trigger


KNOWN = ProcessReadings(
    rss=800 * MB,
    limit=1000 * MB,
    limit_of="memory.max of /app",
    left=100 * MB,
    growth=1.0 * MB,
    garbage=7,
    pressure=3.0,
)


@pytest.mark.parametrize(
    ("holds", "does_not"),
    [
        ("rss > 799MB", "rss > 800MB"),
        ("rss > 79% of limit", "rss > 80% of limit"),
        ("left < 101MB", "left < 100MB"),
        ("left < 11% of limit", "left < 10% of limit"),
        ("growth > 59MB/min", "growth > 60MB/min"),
        ("time to limit < 101s", "time to limit < 100s"),
        ("garbage > 6", "garbage > 7"),
        ("pressure > 2%", "pressure > 3%"),
        ("every 50s", "every 51s"),
    ],
)
def test_a_trigger_fires_beyond_its_bound_and_not_at_it(holds: str, does_not: str) -> None:
    assert parse_trigger(holds).fires(KNOWN, 50)
    assert not parse_trigger(does_not).fires(KNOWN, 50)


def test_a_verdict_fires_where_a_hunt_has_found_a_leak() -> None:
    trigger = parse_trigger("verdict = leak")
    assert trigger.fires(ProcessReadings(verdict_is_leak=True), 0)
    assert not trigger.fires(KNOWN, 10**6)


@given(triggers.filter(lambda trigger: trigger.figure != "every"))
def test_what_is_not_known_fires_nothing(trigger: Trigger) -> None:
    assert not trigger.fires(ProcessReadings(), 10**9)


def test_growth_is_that_of_the_last_minutes_and_one_spike_is_none() -> None:
    trend = RssTrend()
    for second in range(int(LEAST_TREND)):
        trend.add(second, 100 * MB + second * MB)
    assert trend.growth is None, "too little to tell"
    trend.add(LEAST_TREND, 130 * MB)
    assert trend.growth == pytest.approx(MB)
    for second in range(40, 40 + int(TREND_SECONDS)):
        trend.add(second, 500 * MB if second == 300 else 130 * MB)
    assert trend.growth == 0
    assert ProcessReadings(left=5, growth=trend.growth).seconds_left is None


HIDDEN: Final = "; that of its control group is not visible"


def reading(left: int | None, growth: float | None, of: str = "memory.max of /a") -> ProcessReadings:
    return ProcessReadings(limit=1000, limit_of=of, left=left, growth=growth)


@pytest.mark.parametrize(
    ("processes", "seconds"),
    [
        ([], None),
        ([reading(600, 2.0)], 300.0),
        ([reading(600, 2.0), reading(600, 4.0)], 100.0),
        ([reading(600, 2.0), reading(500, None), reading(None, None)], 250.0),
        ([reading(600, 5.0), reading(600, -3.0)], 300.0),
        ([reading(600, 1.0), reading(600, -3.0)], None),
        ([reading(600, 2.0), reading(600, 4.0, "memory.max of /b")], 150.0),
        ([reading(600, -2.0), reading(900, 3.0, "memory.max of /b")], 300.0),
        ([reading(600, 2.0, "the machine"), reading(600, 2.0, f"the machine{HIDDEN}")], 150.0),
        ([reading(None, 2.0)], None),
        ([reading(600, None)], None),
    ],
)
def test_processes_of_one_limit_grow_towards_it_together(
    processes: list[ProcessReadings], seconds: float | None
) -> None:
    assert seconds_to_limit(processes) == seconds


def test_what_is_known_is_one_line() -> None:
    assert readings_words(KNOWN) == (
        "RSS 763 MiB, 80 % of 954 MiB (memory.max of /app), 95.4 MiB left, +977 KiB/s, limit reached in about "
        "1m 40s at that rate, 7 objects in gc.garbage, memory pressure 3 %"
    )
    assert readings_words(ProcessReadings()) == ""
