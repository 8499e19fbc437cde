"""Samples: what is said is kept, what cannot be is refused whole, and sums are always those of a plain account."""

from __future__ import annotations

import struct
import tracemalloc
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from heaptop.analysis.samples.estimate import Sums, weight, whole
from heaptop.analysis.samples.live_blocks import ID_LIMIT, Likeness, LiveBlockColumns, Sample
from heaptop.analysis.samples.sampled_blocks import UNKNOWN_TYPE_NAME, Death, SampledBlocks
from heaptop.analysis.samples.sizes import CLASSES, XLARGE, bin_label, bin_of, class_of, coarse
from heaptop.analysis.samples.stacks import FORGOTTEN
from heaptop.analysis.samples.tallies import UNKNOWN_TYPE
from heaptop.errors import ProtocolError
from heaptop.protocol.messages import (
    BIRTH,
    DEATH,
    TYPED,
    Bye,
    CensusRequest,
    CodeName,
    Codes,
    Message,
    SamplerRequest,
    Samples,
    StackNode,
    Stacks,
    TickRequest,
    TypeName,
    Types,
)
from tests.fakes.source import FakeAgent
from tests.unit.sample_cases import Program, sampler

RATE = 65_536


def said(births: Iterable[bytes] = (), deaths: Iterable[bytes] = (), typed: Iterable[bytes] = ()) -> Samples:
    return Samples(1, 1_000, b"".join(births), b"".join(deaths), b"".join(typed))


def birth(number: int = 0, stack: int = 1, size: int = 64, type: int = 0, domain: int = 1, rate: int = 0) -> bytes:
    return BIRTH.pack(number, stack, 0, size, type, domain, rate, 0)


KNOWN = (
    sampler(RATE),
    Types(0, (TypeName("builtins", "list"), TypeName("app", "Session"))),
    Codes(0, (CodeName("app.py", "main", 1),)),
    Stacks(1, (StackNode(0, 0, 3),)),
    said([birth(7)]),
)
"""One code, one stack, two types, one interval; block 7 lives."""


def known(samples: SampledBlocks | None = None) -> SampledBlocks:
    """What they are that were told this."""
    samples = samples or SampledBlocks()
    for message in KNOWN:
        samples.feed(message)
    return samples


def test_tallies_that_are_gone_are_not_kept_for_whoever_asks_what_changed() -> None:
    samples = known(SampledBlocks(tally_limit=8))
    assert grown_by_turns(samples.feed) < 100_000
    assert len(samples.changes()) == 1, "block 7 lives, and nothing else"


def grown_by_turns(feed: Callable[[Message], None]) -> int:
    """What is taken more after many blocks of many sizes were born, had their type found, and died."""

    def turn(times: int) -> None:
        for number in range(times):
            feed(said([birth(8, size=100 + number % 100)]))
            feed(said(deaths=[DEATH.pack(8, 0, 5)], typed=[TYPED.pack(8, 1)]))

    turn(1_000)
    tracemalloc.start()
    try:
        turn(2_000)
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


class Deaths:
    """An observer that remembers."""

    def __init__(self) -> None:
        self.dead: list[Death] = []
        self.void: list[tuple[list[int], int]] = []

    def on_deaths(self, deaths: Sequence[Death]) -> None:
        self.dead += deaths

    def on_void(self, columns: LiveBlockColumns, clock: int) -> None:
        self.void.append(([columns.likenesses[number].size for number in columns.likeness if number], clock))


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (Types(1, (TypeName("a", "b"),)), "number 2 comes next"),
        (Codes(0, (CodeName("a", "b", 1),)), "number 1 comes next"),
        (Codes(2, (CodeName("a", "b", 1),)), "number 1 comes next"),
        (Stacks(1, (StackNode(0, 0, 1),)), "number 2 comes next"),
        (Stacks(2, (StackNode(0, 0, 1), StackNode(3, 0, 1))), "Stack 3 has a caller"),
        (Stacks(2, (StackNode(0, 1, 1),)), "Stack 2 has a caller or code"),
        (Stacks(2, (StackNode(0, -1, 1),)), "Stack 2 has a caller or code"),
        (Stacks(2, (StackNode(0, 0, -1),)), "line -1"),
        (Stacks(2, (StackNode(0, 0, 1 << 31),)), "line"),
        (sampler(RATE, 0), "no number of bytes"),
        (sampler(RATE // 2), "changed the intervals"),
        (said([birth()[:-1]]), "births .* incomplete"),
        (said(deaths=[b"abc"]), "deaths .* incomplete"),
        (said(typed=[b"abc"]), "types .* incomplete"),
        (said([birth(7)]), "is live already"),
        (said([birth(1), birth(1)]), "is live already"),
        (said([birth(1, stack=2)]), "never sent"),
        (said([birth(1, type=3)]), "never sent"),
        (said([birth(1, size=0)]), "impossible"),
        (said([birth(1, size=1 << 63)]), "impossible"),
        (said([birth(1, domain=3)]), "impossible"),
        (said([birth(1, rate=1)]), "impossible"),
        (said([birth(ID_LIMIT)]), "is the largest"),
        (said([birth(1)], [DEATH.pack(2, 0, 5)]), "2 died, which was not alive"),
        (said([birth(1)], [DEATH.pack(7, 0, 5), DEATH.pack(7, 0, 5)]), "died twice"),
        (said([birth(1)], [DEATH.pack(7, 3, 5)]), "never named"),
        (said([birth(1)], typed=[TYPED.pack(1, 2)]), "never named"),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_is_taken(message: Message, why: str) -> None:
    samples = known()
    before = picture(samples)
    with pytest.raises(ProtocolError, match=why):
        samples.feed(message)
    assert picture(samples) == before
    samples.feed(said([birth(1)], [DEATH.pack(7, 0, 5), DEATH.pack(1, 0, 5)]))
    assert samples.live_block_count == 0


def picture(samples: SampledBlocks) -> object:
    tallies = [(one.stack, one.type, one.bin, one.live.copy(), one.freed.copy()) for one in samples.tallies()]
    numbers = len(samples.types), len(samples.codes), len(samples.stacks), samples.clock, samples.live_block_count
    return tallies, list(samples.live_blocks()), numbers, samples.state


def test_births_before_the_sampler_spoke_are_refused() -> None:
    with pytest.raises(ProtocolError):
        SampledBlocks().feed(said([birth(stack=0)]))


def test_a_block_that_lives_and_one_that_died_between_two_messages() -> None:
    samples = known()
    deaths = Deaths()
    samples.observe(deaths)
    samples.feed(said([birth(1, size=100)], [DEATH.pack(1, 0, 900)]))
    (only,) = samples.live_blocks()
    assert only == Sample(7, 1, UNKNOWN_TYPE, 64, RATE, 0, 1)
    assert only.blocks == pytest.approx(RATE / 64, rel=1e-3)
    assert deaths.dead == [(Likeness(1, UNKNOWN_TYPE, 100, RATE), weight(100, RATE), 0, 900)]


def test_a_death_before_its_birth_is_at_it() -> None:
    """Clocks of two threads differ by an interval."""
    samples = known()
    deaths = Deaths()
    samples.observe(deaths)
    samples.feed(said([BIRTH.pack(1, 1, 500, 64, 0, 1, 0, 0)], [DEATH.pack(1, 0, 400)]))
    samples.work_in()
    assert [(birth, clock) for _, _, birth, clock in deaths.dead] == [(500, 500)]


def test_a_type_that_becomes_known_takes_the_block_along() -> None:
    program = Program()
    first, second, third = (program.allocate(("main",), 56) for _ in range(3))
    program.run()
    program.find(first, "Session")
    program.find(99, "Session")  # freed, and said so, before the census was read
    program.free(second, "Token")
    samples = program.run()
    rows = {samples.type_name(one.type).qualname: one for one in samples.tallies()}
    assert rows["Session"].live == rows["Token"].freed == rows["(unknown type)"].live == Sums.of([(56, 1)])
    assert {one.id: samples.type_name(one.type).qualname for one in samples.live_blocks()} == {
        first: "Session",
        third: "(unknown type)",
    }
    program.free(first, "Token")  # a free list handed it on
    program.free(third)
    program.run()
    assert {samples.type_name(one.type).qualname: one.freed.rounded_count for one in samples.tallies()} == {
        "Token": 2,
        "(unknown type)": 1,
    }


def test_a_new_epoch_voids_the_living_and_keeps_what_is_known() -> None:
    program = Program()
    deaths = Deaths()
    program.samples.observe(deaths)
    dead, _ = program.allocate(("main",), 10), program.allocate(("main",), 10)
    program.free(dead)
    samples = program.run()
    samples.feed(sampler(1, epoch=2))
    assert samples.live_block_count == 0
    assert [sizes for sizes, _ in deaths.void] == [[10]]
    (tally,) = samples.tallies()
    assert (tally.allocated.rounded_bytes, tally.freed.rounded_bytes, tally.live.rounded_bytes) == (20, 10, 0)
    assert tally.lost.rounded_bytes == 10
    assert sum(size for _, size, _ in samples.changes()) == 0, "nothing had been asked before"
    program.allocate(("main", "more"), 10)  # code and stacks go on where they were
    assert program.run().live_block_count == 1


def test_switched_off_and_on_numbers_begin_anew_and_places_are_the_same() -> None:
    program = Program()
    program.allocate(("main", "f"), 10)
    program.run()
    program.stop()
    assert program.samples.live_block_count == 1, "as it was when it was switched off"
    program.start()
    assert program.samples.live_block_count == 0
    program.allocate((), 1)  # nothing that needs a code: they begin anew later
    program.run()
    program.allocate(("other",), 1)
    program.allocate(("main", "f"), 30)
    samples = program.run()
    assert [code.function for code in samples.codes] == ["main", "f", "other"]
    assert len(samples.stacks) == 4
    tally = next(one for one in samples.tallies() if one.bin == 30)
    assert [samples.codes[samples.stacks.codes[node]].function for node in samples.stacks.path(tally.stack)] == [
        "f",
        "main",
    ]


def test_several_intervals_in_one_session() -> None:
    program = Program(1, RATE)
    program.allocate(("main",), 100, rate=0)
    program.allocate(("main",), 100, rate=1)
    (tally,) = program.run().tallies()
    assert tally.live == Sums.of([(100, 1), (100, RATE)])
    assert [one.interval for one in program.samples.live_blocks()] == [1, RATE]


def changes(samples: SampledBlocks) -> list[tuple[str, int, int, int]]:
    """Type, bin, bytes and blocks."""
    return [
        (samples.type_name(one.type).qualname, one.bin, whole(size), whole(blocks))
        for one, size, blocks in samples.changes()
    ]


def test_what_has_changed_is_said_once() -> None:
    program = Program()
    program.allocate(("main",), 40, "Token")
    going = program.allocate(("main", "f"), 40)
    unknown = UNKNOWN_TYPE_NAME.qualname
    assert changes(program.run()) == [("Token", 40, 40, 1), (unknown, 40, 40, 1)]
    program.find(going, "Token")
    program.run()
    program.free(going)
    large = program.allocate((), 3_000)
    assert changes(program.run()) == [(unknown, 40, -40, -1), (unknown, XLARGE, 3_000, 1)]
    assert changes(program.samples) == []
    program.free(large)
    program.allocate((), 3_000)
    assert changes(program.run()) == [], "one went, and another came"


def test_the_account_of_the_fake_agent_adds_up() -> None:
    agent = FakeAgent()
    samples = SampledBlocks()
    requests: list[Message] = [CensusRequest(0), SamplerRequest(1, RATE), TickRequest(2), TickRequest(3)]
    requests += [CensusRequest(4), SamplerRequest(5, 0), SamplerRequest(6, 8_192), TickRequest(7), CensusRequest(8)]
    for request in [*requests, *(TickRequest(number) for number in range(9, 40))]:
        for message in agent.answer(request):
            samples.feed(message)
    samples.feed(Bye("detached"))
    assert samples.live_block_count == sum(one.live.samples for one in samples.tallies()) > 0
    assert samples.state is not None
    assert samples.state.intervals == (RATE, 8_192)


@pytest.mark.parametrize("exact_sizes", [True, False])
def test_memory_is_bounded_and_sums_stay_true(exact_sizes: bool) -> None:
    samples = SampledBlocks(tally_limit=64, stack_limit=400, exact_sizes=exact_sizes)
    program = Program(samples=samples)
    live_blocks = [program.allocate(("main", f"keeps{number}"), 48) for number in range(20)]
    allocated = 20 * 48
    for number in range(3_000):
        size = 1 + number % 2_500
        program.free(program.allocate(("main", f"f{number % 600}"), size, f"T{number % 7}"))
        allocated += size
        if number % 100 == 99:
            program.run()
            assert len(list(samples.tallies())) <= 64 + len(live_blocks) + 1
    assert len(samples.stacks) <= 400
    assert sum(one.allocated.rounded_bytes for one in samples.tallies()) == allocated
    assert sum(one.live.rounded_bytes for one in samples.tallies()) == 20 * 48
    assert any(one.stack == FORGOTTEN for one in samples.tallies())
    assert samples.folded > 64, "it says how many"
    by_class = [0, 0, 0, 0]
    for one in samples.tallies():
        by_class[class_of(one.bin)] += one.allocated.rounded_count
    wanted = [class_of(bin_of(1 + number % 2_500)) for number in range(3_000)] + [1] * 20
    assert by_class == [wanted.count(kind) for kind in range(4)]


def test_a_living_sample_takes_no_more_than_is_said() -> None:
    samples = known()
    births = said(birth(number, size=64 + number % 5) for number in range(100, 50_100))
    tracemalloc.start()
    try:
        samples.feed(births)
        samples.work_in()
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert samples.live_block_count == 50_001
    assert taken / 50_000 < 65  # and what is there once


@given(st.integers(1, 1 << 50))
def test_a_bin_and_the_class_it_lies_in(size: int) -> None:
    number = bin_of(size)
    kind = CLASSES[class_of(number)]
    assert kind == ("s" if size <= 32 else "m" if size <= 256 else "l" if size <= 2048 else "x")
    assert class_of(coarse(number)) == class_of(number)
    assert coarse(coarse(number)) == coarse(number)
    assert bin_label(number) == (str(size) if size <= 1024 else "1025–2048" if size <= 2048 else "> 2048")
    assert (number == XLARGE) == (kind == "x")


class Account(RuleBasedStateMachine):
    """Any order of births, deaths, finds, voids and moments, against a plain list of blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.program = Program(1, 64)
        self.deaths = Deaths()
        self.program.samples.observe(self.deaths)
        self.told: Counter[tuple[int, ...]] = Counter()
        self.told_blocks = 0
        self.live_blocks: dict[int, tuple[tuple[str, ...], int, int, str]] = {}
        self.freed: list[tuple[tuple[str, ...], int, int, str]] = []
        self.lost = 0
        self.pending: set[int] = set()

    @rule(
        frames=st.lists(st.sampled_from("fgh"), max_size=3),
        size=st.sampled_from([1, 33, 1024, 1025, 5_000]),
        rate=st.integers(0, 1),
        type=st.sampled_from(["", "A", "B"]),
    )
    def allocate(self, frames: list[str], size: int, rate: int, type: str) -> None:
        number = self.program.allocate(tuple(frames), size, type, rate)
        self.live_blocks[number] = (tuple(frames), size, (1, 64)[rate], type)

    @precondition(lambda self: self.live_blocks)
    @rule(data=st.data(), type=st.sampled_from(["", "A", "C"]))
    def free(self, data: st.DataObject, type: str) -> None:
        number = data.draw(st.sampled_from(sorted(self.live_blocks)))
        self.program.free(number, type)
        *rest, before = self.live_blocks.pop(number)
        self.freed.append((*rest, type or before))
        self.pending.add(number)

    @precondition(lambda self: set(self.live_blocks))
    @rule(data=st.data(), type=st.sampled_from(["A", "C"]))
    def find(self, data: st.DataObject, type: str) -> None:
        number = data.draw(st.sampled_from(sorted(self.live_blocks)))
        self.program.find(number, type)
        self.live_blocks[number] = (*self.live_blocks[number][:3], type)

    @rule()
    def run(self) -> None:
        self.program.run()

    @rule()
    def restart(self) -> None:
        self.program.stop()
        self.lost += len(self.live_blocks)
        self.live_blocks.clear()
        self.program.start()

    @invariant()
    def the_sums_are_those_of_the_blocks(self) -> None:
        samples = self.program.run()
        assert self.totals(lambda one: one.live) == self.expected(self.live_blocks.values())
        assert self.totals(lambda one: one.freed) == self.expected(self.freed)
        assert sum(one.lost.samples for one in samples.tallies()) == self.lost
        assert len(self.deaths.dead) == len(self.freed)
        assert {one.id for one in samples.live_blocks()} == set(self.live_blocks)
        assert samples.live_block_count == len(self.live_blocks)
        for one, size, blocks in samples.changes():
            self.told[one.stack, one.type, one.bin] += size
            self.told_blocks += blocks
        live = Counter({(one.stack, one.type, one.bin): one.live.bytes for one in samples.tallies()})
        assert +self.told == +live
        assert self.told_blocks == sum(one.live.count for one in samples.tallies())

    def totals(self, part: object) -> dict[object, Sums]:
        samples = self.program.samples
        found: dict[object, Sums] = {}
        for one in samples.tallies():
            sums = part(one)  # type: ignore[operator]
            if sums.samples:
                path = tuple(
                    samples.codes[samples.stacks.codes[node]].function
                    for node in reversed(samples.stacks.path(one.stack))
                )
                name = samples.type_name(one.type).qualname if one.type >= 0 else ""
                found.setdefault((path, name, one.bin), Sums()).merge(sums)
        return found

    def expected(self, blocks: Iterable[tuple[tuple[str, ...], int, int, str]]) -> dict[object, Sums]:
        found: dict[object, list[tuple[int, int]]] = defaultdict(list)
        for frames, size, interval, type in blocks:
            found[frames, type, bin_of(size)].append((size, interval))
        return {key: Sums.of(sizes) for key, sizes in found.items()}


TestAccount = Account.TestCase
TestAccount.settings = settings(max_examples=40, stateful_step_count=25)


def test_records_are_as_long_as_the_protocol_says() -> None:
    assert (BIRTH.size, DEATH.size, TYPED.size) == (32, 16, 8)
    assert struct.calcsize("<I") == 4
