"""A display that is held: whatever is said later, every figure of it stays what it was."""

from __future__ import annotations

from typing import Any

import pytest

from heaptop.analysis.lifetimes.eventual import by_lifetime
from heaptop.analysis.lifetimes.lifetime_table import LifetimeTable
from heaptop.analysis.lifetimes.live_groups import alive, live_blocks, volume_by_age
from heaptop.analysis.samples.sampling import GROUPS, Sampling
from heaptop.protocol.messages import CensusRequest, Phase, Phases, SamplerRequest, Tick, TickRequest
from tests.fakes.source import SECOND, START_NS, FakeAgent


def session(ticks: int) -> tuple[FakeAgent, Sampling]:
    agent, sampling = FakeAgent(), Sampling()
    for message in agent.answer(SamplerRequest(0, 65_536, 128)):
        sampling.feed(message)
    go_on(agent, sampling, ticks)
    sampling.feed(Phases((Phase("load", START_NS + 3 * SECOND, None),), 0))
    return agent, sampling


def go_on(agent: FakeAgent, sampling: Sampling, ticks: int) -> None:
    for number in range(ticks):
        agent.advance()
        for message in [*agent.answer(TickRequest(number)), *agent.answer(CensusRequest(number))]:
            sampling.feed(message)


def figures(sampling: Sampling) -> dict[str, Any]:
    """All that any view asks for."""
    table = LifetimeTable(sampling)
    return {
        "tallies": sorted(
            (tally.stack, tally.type, tally.bin, tally.live.parts, tally.freed.parts, tally.lost.parts)
            for tally in sampling.samples.tallies()
        ),
        "living": [*sampling.samples.live_blocks()],
        "ages": live_blocks(sampling),
        "living count": sampling.samples.live_block_count,
        "tally count": sampling.samples.tally_count,
        "by age": volume_by_age(sampling),
        "groups": {key: table.groups(key) for key in GROUPS},
        "survival": table.survival(),
        "bands": by_lifetime(sampling),
        "chart": sampling.lifetime_bands.chart(("type", "str"), alive(sampling, ("type", "str"))),
        "clock": (sampling.samples.clock, sampling.timeline.latest, sampling.timeline.pairs),
        "collections": (tuple(sampling.gc.rows), sampling.gc.totals, sampling.gc.series()),
        "phases": sampling.gc.spans(sampling.timeline),
        "standing": (sampling.on, sampling.sampling_status),
    }


def test_it_says_what_was_known_and_nothing_of_what_comes() -> None:
    agent, sampling = session(20)
    before = figures(sampling)
    held = sampling.freeze()
    go_on(agent, sampling, 15)
    sampling.feed(Phases((Phase("load", START_NS + 3 * SECOND, START_NS + 30 * SECOND),), 0))
    assert figures(held) == before
    for message in agent.answer(SamplerRequest(99, 0, 128)):
        sampling.feed(message)
    for message in agent.answer(SamplerRequest(100, 8_192, 128)):
        sampling.feed(message)
    go_on(agent, sampling, 5)
    assert figures(held) == before
    assert figures(sampling) != before


def test_it_takes_no_messages() -> None:
    agent, sampling = session(3)
    tick = next(message for message in agent.answer(TickRequest(9)) if isinstance(message, Tick))
    with pytest.raises(TypeError, match="takes no messages"):
        sampling.freeze().feed(tick)


def test_what_looks_at_it_leaves_the_session_as_it_is() -> None:
    _, sampling = session(10)
    before = figures(sampling)
    figures(sampling.freeze())
    assert figures(sampling) == before
