"""Lifetimes in the middle of a recording are of those blocks alone whose births and deaths were all told."""

from __future__ import annotations

from heaptop.analysis.lifetimes.lifetime_table import LifetimeTable
from heaptop.analysis.lifetimes.live_groups import live_blocks
from heaptop.analysis.samples.sampling import Sampling
from heaptop.protocol.messages import BIRTH, DEATH, CensusRequest, Message, SamplerRequest, Samples, TickRequest
from heaptop.recordings.recording_state import RecordingState
from tests.fakes.source import FakeAgent

TICKS, MIDDLE = 40, 25


def said() -> list[list[Message]]:
    """By tick; sampling begins with the first."""
    agent, ticks = FakeAgent(), []
    first: list[Message] = [*agent.answer(CensusRequest(1)), *agent.answer(SamplerRequest(1, 1 << 16, 128))]
    for number in range(TICKS):
        agent.advance()
        ticks.append([*first, *agent.answer(TickRequest(number)), *agent.answer(CensusRequest(number))])
        first = []
    return ticks


def ages(ticks: list[list[Message]], first: int) -> tuple[list[int], int]:
    """Of the dead that were born at this clock or later, and how many of these live; straight from the records."""
    births: dict[int, int] = {}
    dead = []
    for message in (message for tick in ticks for message in tick if isinstance(message, Samples)):
        births.update({record[0]: record[2] for record in BIRTH.iter_unpack(message.births)})
        for number, _, clock in DEATH.iter_unpack(message.deaths):
            birth = births.pop(number)
            if birth >= first:
                dead.append(clock - birth)
    return dead, sum(birth >= first for birth in births.values())


def test_blocks_from_before_are_in_no_curve() -> None:
    ticks = said()
    recording_state, whole, middle = RecordingState(), Sampling(), Sampling()
    for tick in ticks[:MIDDLE]:
        for message in tick:
            recording_state.feed(message)
            whole.feed(message)
    for message in recording_state.state():
        middle.feed(message)
    for message in (message for tick in ticks[MIDDLE:] for message in tick):
        whole.feed(message)
        middle.feed(message)
    assert whole.told_from == 0 < middle.told_from
    for sampling in (whole, middle):
        dead, alive = ages(ticks, sampling.told_from)
        assert len(dead) > 0
        table = LifetimeTable(sampling)
        group = table.group()
        assert (
            (group.deaths, group.alive)
            == (len(dead), alive)
            == (sampling.lives.ended()[0], len(live_blocks(sampling)))
        )
        survival = table.survival()
        assert survival is not None
        assert max(dead) <= survival.points[-1].age
    # what lives, and for how long by now, is known of all
    assert middle.samples.live_block_count == whole.samples.live_block_count
    assert sorted(sample.birth for sample in middle.samples.live_blocks()) == sorted(
        sample.birth for sample in whole.samples.live_blocks()
    )
