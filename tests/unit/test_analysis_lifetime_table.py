"""Lifetimes of every group at one moment, against the curves that they are made from."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest

from heaptop.analysis.lifetimes.lifetime_table import FEW, MARKS, LifetimeTable
from heaptop.analysis.lifetimes.live_groups import live_blocks, volume_by_age
from heaptop.analysis.samples.estimate import weight
from heaptop.analysis.samples.live_blocks import LiveBlockColumns
from heaptop.analysis.samples.sampled_blocks import Death
from heaptop.analysis.samples.sampling import GROUPS, Sampling
from heaptop.analysis.samples.survival import bin_of
from heaptop.protocol.messages import CensusRequest, SamplerRequest, TickRequest
from tests.fakes.source import BYTES_PER_TICK, FakeAgent


def sampled(ticks: int) -> Sampling:
    agent, sampling = FakeAgent(), Sampling()
    for message in agent.answer(SamplerRequest(1, 65536, 128)):
        sampling.feed(message)
    more(agent, sampling, ticks)
    return sampling


def more(agent: FakeAgent, sampling: Sampling, ticks: int) -> None:
    for number in range(ticks):
        agent.advance()
        for request in (TickRequest(2 * number), CensusRequest(2 * number + 1)):
            for message in agent.answer(request):
                sampling.feed(message)


def test_groups_are_all_samples_each_once() -> None:
    sampling = sampled(20)
    table = LifetimeTable(sampling)
    whole = table.group()
    assert whole.alive == sampling.samples.live_block_count
    for attribute in GROUPS:
        groups = table.groups(attribute)
        assert sum(group.alive for group in groups) == whole.alive
        assert sum(group.deaths for group in groups) == whole.deaths
        assert abs(sum(group.alive_bytes for group in groups) - whole.alive_bytes) <= len(groups)
        assert [-group.deaths - group.alive for group in groups] == sorted(-g.deaths - g.alive for g in groups)


def test_curves_are_those_of_the_living_one_by_one() -> None:
    sampling = sampled(20)
    table = LifetimeTable(sampling)
    for attribute in GROUPS:
        for group in table.groups(attribute):
            expected = sampling.lives.survival(group.key, live_blocks(sampling, group.key))
            found = table.survival(group.key, mortality=True)
            assert expected is not None
            if group.few:
                assert found is None
                continue
            assert found is not None
            assert found.deaths == expected.deaths
            assert found.censored == expected.censored
            for one, other in zip(found.points, expected.points, strict=True):
                assert one.object_survival == pytest.approx(other.object_survival)
                assert (one.low, one.high) == pytest.approx((other.low, other.high))
            assert [p.object_mortality for p in found.mortality] == pytest.approx(
                [p.object_mortality for p in expected.mortality]
            )


def test_figures_say_what_the_curve_says() -> None:
    table = LifetimeTable(sampled(20))
    curve, figures = table.survival(), table.figures()
    assert curve is not None
    assert figures is not None
    assert figures.median == curve.age_at(0.5)
    assert figures.marks == tuple(curve.at(mark) for mark in MARKS), "the whole has not died"
    assert figures.marks[-1] is None, "nothing has lived for 100 MB"
    assert all(left >= right for left, right in pairwise(figures.shape))


def test_of_few_samples_nothing_is_said_but_their_number() -> None:
    table = LifetimeTable(sampled(2))
    few = [group for group in table.groups("type") if group.deaths + group.alive < FEW]
    assert few
    assert all(group.few and table.figures(group.key) is None for group in few)


def test_it_stays_as_it_was_made() -> None:
    agent, sampling = FakeAgent(), Sampling()
    for message in agent.answer(SamplerRequest(1, 65536, 128)):
        sampling.feed(message)
    more(agent, sampling, 12)
    at_once, later = LifetimeTable(sampling), LifetimeTable(sampling)
    expected = [(group, at_once.figures(group.key)) for group in at_once.groups("site")]
    more(agent, sampling, 12)
    assert [(group, later.figures(group.key)) for group in later.groups("site")] == expected


def test_work_makes_everything_ready_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("heaptop.analysis.lifetimes.lifetime_table.SLICE", 7)
    sampling = sampled(20)
    table = LifetimeTable(sampling)
    assert sum(1 for _ in table.work("type")) > table.steps // 7
    assert table.groups("type") == LifetimeTable(sampling).groups("type")
    assert sum(1 for _ in table.work("type")) == 1, "what is done is done"


def test_time_is_by_the_average_rate() -> None:
    table = LifetimeTable(sampled(20))
    assert table.time_ns(BYTES_PER_TICK) == pytest.approx(10**9)
    assert LifetimeTable(Sampling()).time_ns(10**6) is None


class Deaths:
    """All of them, as they are told."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, int, float]] = []

    def on_deaths(self, deaths: Sequence[Death]) -> None:
        self.seen += [(birth, clock, one.bytes / weight(1, 1).bytes) for _, one, birth, clock in deaths]

    def on_void(self, columns: LiveBlockColumns, clock: int) -> None:
        raise AssertionError("nothing is made void here")


def test_by_age_is_what_lived_at_each_step() -> None:
    agent, sampling, deaths = FakeAgent(), Sampling(), Deaths()
    sampling.samples.observe(deaths)
    for message in agent.answer(SamplerRequest(1, 65536, 128)):
        sampling.feed(message)
    more(agent, sampling, 20)
    matrix = volume_by_age(sampling)
    step = sampling.cohorts.step
    assert len(matrix) == sampling.samples.clock // step
    blocks = deaths.seen + [
        (sample.birth, 1 << 60, sample.size * sample.blocks) for sample in sampling.samples.live_blocks()
    ]
    for number, column in enumerate(matrix):
        at = (number + 1) * step
        lived = sum(size for birth, death, size in blocks if birth < at <= death)
        assert sum(column) == pytest.approx(lived, rel=0.001, abs=len(blocks))


def test_where_all_have_died_survival_is_nothing_at_any_greater_age() -> None:
    sampling = Sampling()
    for number in range(40):
        sampling.lives.add_dead((None, ("site", "short")), bin_of(100 + number), weight(32, 65536))
    figures = LifetimeTable(sampling).figures(("site", "short"))
    assert figures is not None
    for point in figures.marks:
        assert point is not None
        assert point.object_survival == 0.0
        assert 0.0 < point.high < 0.15
