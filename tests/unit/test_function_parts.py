"""What a function's allocations are made of adds up to what they are."""

from __future__ import annotations

from heaptop.analysis.callers.call_paths import Amounts, CallPaths
from heaptop.analysis.callers.function_parts import parts_of
from heaptop.analysis.samples.sampling import Sampling
from heaptop.protocol.messages import CensusRequest, SamplerRequest, TickRequest
from tests.fakes.source import FakeAgent


def session() -> Sampling:
    agent, sampling = FakeAgent(), Sampling()
    messages = agent.answer(SamplerRequest(0, 65_536, 128))
    for number in range(20):
        messages += [*agent.answer(TickRequest(number)), *agent.answer(CensusRequest(number))]
    for message in messages:
        sampling.feed(message)
    return sampling


def test_both_cuts_add_up_to_the_whole_for_every_function() -> None:
    samples = session().samples
    whole = CallPaths.of(samples.stacks)
    tallies = [*samples.tallies()]
    for function in range(len(samples.codes)):
        amounts = Amounts(whole.below({function}), tallies, samples.stacks)
        for measure in ("live", "allocated"):
            parts = parts_of(amounts.tallies(), samples, measure)
            for by in ("size", "type"):
                found = [part.amount(measure) for part in parts if part.by == by]
                assert sum(found) == amounts.total(0, measure)  # type: ignore[arg-type]
                assert found == sorted(found, reverse=True)


def test_names_of_classes_and_types() -> None:
    samples = session().samples
    parts = parts_of(samples.tallies(), samples, "allocated")
    assert {part.name for part in parts if part.by == "size"} == {"m 33–256 B", "l 257–2048 B", "x > 2048 B"}
    types = [part.name for part in parts if part.by == "type"]
    assert {"str", "dict", "shop.models.Session", "(unknown type)"} <= {*types}
    assert parts_of([], samples, "live") == []
