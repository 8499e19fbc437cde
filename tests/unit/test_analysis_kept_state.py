"""What is known of samples, said as one piece at any moment, leads on to the same as all that was said before it."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heaptop.analysis.samples.sampled_blocks import SampledBlocks
from heaptop.analysis.samples.tallies import Tally
from heaptop.errors import ProtocolError
from heaptop.protocol.codec import decode, encode
from heaptop.protocol.messages import Codes, Message, Sampler, StackNode, Stacks, Types
from heaptop.protocol.recorded import INT, LONG, TALLY, KeptNumbers, KeptStacks, Likenesses, LiveBlocks, Tallied
from heaptop.protocol.registry import RECORDED
from tests.unit.sample_cases import Program, sampler
from tests.unit.test_analysis_any_session import sessions


def sums(tally: Tally) -> tuple[object, ...]:
    """Exact as far as doubles are: the moments of the dead."""
    ended = [part for one in (tally.freed, tally.lost) for part in one.parts]
    return tally.live.parts, tuple(pytest.approx(part, rel=1e-12) for part in ended)


def known(samples: SampledBlocks) -> dict[object, object]:
    """All that figures are made from, by names instead of numbers."""
    found: dict[object, object] = {}
    for tally in samples.tallies():
        path = [
            (samples.codes[samples.stacks.codes[node]], samples.stacks.lines[node])
            for node in samples.stacks.path(tally.stack)
        ]
        if tally.live.samples or tally.freed.samples or tally.lost.samples:
            found[(*path, tally.stack < 0, samples.type_name(tally.type), tally.bin)] = sums(tally)
    found["living"] = sorted(samples.live_blocks())
    found["clock"] = samples.time_ns, samples.clock, samples.dropped
    return found


def fed(messages: Iterable[Message], samples: SampledBlocks | None = None) -> SampledBlocks:
    samples = samples or SampledBlocks()
    for message in messages:
        samples.feed(message)
    return samples


def begun_with(samples: SampledBlocks, said: Iterable[Message]) -> SampledBlocks:
    """Others that were told in one piece what these know, over the wire; ``said`` is what these were told."""
    states = [message for message in said if isinstance(message, Sampler)]
    kept = [Types(0, tuple(samples.types)), *states[:1], *states[-1:], *samples.kept()]
    packed = [decode(encode(message), RECORDED) for message in kept]
    return fed(message for message in packed if message is not None)


@settings(max_examples=60)
@given(sessions(), st.data())
def test_whoever_begins_in_the_middle_knows_the_same(said: list[Message], data: st.DataObject) -> None:
    cut = data.draw(st.integers(2, len(said)))
    try:
        whole = fed(said[:cut])
        begun = begun_with(whole, said[:cut])
        assert known(begun) == known(whole)
        fed(said[cut:], whole)
    except ProtocolError:
        return
    assert known(fed(said[cut:], begun)) == known(whole)


def test_stacks_of_a_session_of_the_sampler_before_are_not_lost() -> None:
    program = Program(65_536)
    program.allocate(("a", "b"), 100)
    said = [sampler(65_536)]
    program.run()
    program.samples.feed(sampler(65_536, epoch=2))
    before = known(program.samples)
    begun = begun_with(program.samples, [*said, sampler(65_536, epoch=2)])
    assert known(begun) == before
    again = Codes(0, tuple(program.samples.codes[1:])), Stacks(1, (StackNode(0, 0, 7),))
    assert known(fed(again, begun)) == known(fed(again, program.samples)) == before


WORDS = INT.pack(0)
BLOCK = LONG.pack(100)


ONE = INT.pack(1)


def like(**fields: object) -> Likenesses:
    whole = {"first": 1, "stacks": WORDS, "types": INT.pack(-1), "sizes": BLOCK, "intervals": BLOCK}
    return Likenesses(**{**whole, **fields})  # type: ignore[arg-type]


def live_blocks(**fields: object) -> LiveBlocks:
    whole = {"first": 0, "likenesses": ONE, "births": BLOCK, "domains": b"\1"}
    return LiveBlocks(1, 1, **{**whole, **fields})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "message",
    [
        KeptStacks(2, WORDS, WORDS, WORDS),
        KeptStacks(1, INT.pack(1), WORDS, WORDS),
        KeptStacks(1, WORDS, INT.pack(5), WORDS),
        KeptStacks(1, WORDS, WORDS, b""),
        KeptStacks(1, WORDS, WORDS, INT.pack(-1)),
        KeptStacks(1, WORDS, WORDS, WORDS[:3]),
        KeptNumbers(INT.pack(7), b""),
        KeptNumbers(b"", INT.pack(-2)),
        KeptNumbers(INT.pack(0)[:3], b""),
        Tallied(TALLY.pack(9, 0, 1, 0, 0, 1, 1, 1, 1, 0.0, 0.0), b""),
        Tallied(b"", TALLY.pack(0, 9, 1, 0, 0, 1, 1, 1, 1, 0.0, 0.0)),
        Tallied(TALLY.pack(0, 0, 1, 0, 0, 1, 1, 1, 1, float("nan"), 0.0), b""),
        Tallied(TALLY.pack(0, 0, 1, 0, 0, 1, 1, 1 << 63, 1, 0.0, 0.0), b""),
        like(first=2),
        like(stacks=INT.pack(9)),
        like(stacks=INT.pack(-2)),
        like(types=INT.pack(9)),
        like(sizes=LONG.pack(0)),
        like(sizes=LONG.pack(1 << 48)),
        like(intervals=LONG.pack(0)),
        like(sizes=BLOCK * 2),
        like(stacks=WORDS * 2, types=INT.pack(-1) * 2, sizes=BLOCK * 2, intervals=BLOCK * 2),
        live_blocks(),
    ],
    ids=lambda message: type(message).__name__,
)
def test_what_cannot_be_is_refused_and_nothing_is_taken(message: Message) -> None:
    refused(message, fed(BEFORE))


@pytest.mark.parametrize(
    "message",
    [
        live_blocks(first=3),
        live_blocks(likenesses=INT.pack(2)),
        live_blocks(likenesses=INT.pack(3)),
        live_blocks(likenesses=INT.pack(-1)),
        live_blocks(likenesses=ONE * 2),
        live_blocks(births=BLOCK[:7]),
        live_blocks(births=LONG.pack(0)[:7] + b"\x20"),
        live_blocks(domains=b"\x09"),
        live_blocks(domains=b""),
        LiveBlocks(1, 1 << 62, 0, ONE, BLOCK, b"\1"),
    ],
    ids=repr,
)
def test_living_blocks_that_cannot_be_are_refused(message: Message) -> None:
    nobody = like(first=2, stacks=INT.pack(-2), sizes=LONG.pack(0), intervals=LONG.pack(0))
    refused(message, fed([*BEFORE, like(), nobody]))


def test_likenesses_come_before_what_is_alike() -> None:
    samples = fed([*BEFORE, like(), live_blocks()])
    refused(like(first=2, sizes=LONG.pack(7)), samples)
    assert [one.size for one in samples.live_blocks()] == [100]


BEFORE = Types(0, ()), sampler(65_536), Codes(0, ())


def refused(message: Message, samples: SampledBlocks) -> None:
    before = known(samples)
    with pytest.raises(ProtocolError):
        samples.feed(message)
    assert known(samples) == before
