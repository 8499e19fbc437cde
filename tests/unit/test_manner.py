"""How the next census is asked for: modes, budgets, questions; and the forecast that they rest on."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heaptop.injector import forecast
from heaptop.injector.forecast import PauseModel, pause_ns, rollup, shortage
from heaptop.injector.manner import UNBOUNDED, Manner
from heaptop.protocol.messages import Census, CensusRequest, Decision
from heaptop.protocol.source import Forecast

GIB = 1 << 30
COUNTED = Census(1, 0, "clone", True, "", (), 0, 50_000_000, 0, 0, 0)


def seen(anonymous: int = GIB, huge: int = 0, headroom: int | None = None) -> Forecast:
    return Forecast(anonymous, anonymous, huge, pause_ns(anonymous, huge), headroom)


def test_a_clone_is_asked_for_within_the_budget() -> None:
    manner = Manner(budget_ns=100_000_000)
    manner.foresee(seen())
    assert manner.request(5, None) == CensusRequest(5, mode="clone", reason="", budget_ns=100_000_000)


def test_above_the_budget_a_person_is_asked_first_and_once() -> None:
    manner = Manner(budget_ns=100_000_000)
    manner.foresee(seen(8 * GIB))
    question = manner.request(5, None)
    assert isinstance(question, Decision)
    assert question.mode == "clone"
    assert question.pause_ns > 8 * 15_000_000
    manner.decide(True)
    assert manner.request(6, None) == CensusRequest(6, mode="clone", reason="", budget_ns=UNBOUNDED)


def test_a_declined_pause_means_slices_from_then_on() -> None:
    manner = Manner(budget_ns=0)
    manner.foresee(seen())
    assert isinstance(manner.request(5, None), Decision)
    manner.decide(False)
    request = manner.request(6, None)
    assert isinstance(request, CensusRequest)
    assert request.mode == "python"
    assert "declined" in request.reason
    manner.decide(True)
    assert manner.request(7, None) == replace(request, id=7), "there was nothing to decide"


def test_huge_pages_make_the_same_heap_cheap() -> None:
    manner = Manner(budget_ns=100_000_000)
    manner.foresee(seen(8 * GIB, huge=8 * GIB))
    assert isinstance(manner.request(5, None), CensusRequest)


def test_what_was_measured_replaces_what_was_expected_and_grows_with_the_process() -> None:
    manner = Manner(budget_ns=100_000_000)
    manner.foresee(seen())
    manner.counted(COUNTED, 2 * GIB)
    assert isinstance(manner.request(5, 3 * GIB), CensusRequest)
    question = manner.request(6, 5 * GIB)
    assert isinstance(question, Decision)
    assert question.pause_ns == 125_000_000


def test_one_long_pause_among_short_ones_is_the_machine_s() -> None:
    manner = Manner(budget_ns=100_000_000)
    manner.foresee(seen())
    for pause in (20, 400, 22, 21, 23):
        manner.counted(replace(COUNTED, pause_ns=pause * 1_000_000), GIB)
        assert isinstance(manner.request(5, GIB), CensusRequest)
    for _ in range(3):
        manner.counted(replace(COUNTED, pause_ns=150_000_000), GIB)
    assert isinstance(manner.request(6, GIB), Decision), "by now they are all long"


def test_without_room_for_a_clone_the_target_is_stopped() -> None:
    manner = Manner()
    manner.foresee(seen(4 * GIB, headroom=10 << 20))
    request = manner.request(5, None)
    assert isinstance(request, CensusRequest)
    assert request.mode == "stop"
    assert request.reason.startswith("only 10 MiB of memory are free")


def test_a_mode_that_a_person_chose_has_no_reason_and_no_forecast() -> None:
    for mode in ("stop", "python"):
        manner = Manner(mode)
        manner.foresee(seen(64 * GIB, headroom=0))
        assert manner.request(5, None) == CensusRequest(5, mode=mode, reason="")


@given(st.integers(0, 1 << 44), st.integers(0, 1 << 44), st.none() | st.integers(0, 1 << 44))
def test_more_memory_never_makes_a_pause_shorter(anonymous: int, more: int, headroom: int | None) -> None:
    assert pause_ns(anonymous + more, 0) >= pause_ns(anonymous, 0) > 0
    assert pause_ns(anonymous, anonymous) <= pause_ns(anonymous, 0)
    short = shortage(seen(anonymous, headroom=headroom))
    if headroom is None:
        assert not short
    elif short:
        assert shortage(seen(anonymous + more, headroom=headroom))


@given(st.integers(1, 1 << 40), st.none() | st.integers(1, 1 << 44))
def test_a_measured_pause_is_never_expected_to_shrink(pause: int, rss: int | None) -> None:
    model = PauseModel(seen())
    model.measure(pause, rss)
    assert model.expect(rss) == pause
    assert model.expect(None) == pause
    assert model.expect(2 * rss if rss else rss) >= pause


def test_this_process_has_a_forecast() -> None:
    found = forecast.forecast(os.getpid())
    assert found is not None
    assert found.rss >= found.anonymous >= found.huge >= 0
    assert found.anonymous > 1 << 20
    assert found.headroom is None or found.headroom > 1 << 20
    assert forecast.forecast((1 << 22) + 1) is None


def test_only_a_rollup_is_read_as_one() -> None:
    text = "55d-7ff ---p 00000000 00:00 0 [rollup]\nRss:  12 kB\nAnonHugePages: 2048 kB\n"
    assert rollup(text) == {"Rss": 12 << 10, "AnonHugePages": 2 << 20}
    for wrong in ("x\nRss: 12 MB\n", "x\nRss: 12\n", "x\nnothing\n"):
        with pytest.raises(ValueError, match=r"kB|unpack"):
            rollup(wrong)
