"""How the agent tells what was sampled, with a core made of Python: in small reads, whole, once, until it is gone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgpack
import pytest

from heaptop.protocol.messages import (
    BIRTH,
    TYPED,
    Bye,
    Census,
    Codes,
    DetachRequest,
    Failure,
    Sampler,
    Tick,
    TickRequest,
)
from tests.support.agents import agent_space
from tests.support.fake_core import STATS, SamplingCore, idle_session, talking

MILLISECOND = 1_000_000


class Processor:
    """The agent's CPU clock and rests: each read takes so many nanoseconds."""

    def __init__(self, core: SamplingCore, cost: int) -> None:
        self._core = core
        self._cost = cost
        self.stretches: list[int] = []
        """CPU time between two rests."""
        self._rested_at = 0

    def clock(self) -> int:
        return self._core.reads * self._cost

    def rest(self, ns: int) -> None:
        if ns:
            self.wait()

    def wait(self) -> None:
        self.stretches.append(self.clock() - self._rested_at)
        self._rested_at = self.clock()


@pytest.mark.parametrize("cost", [MILLISECOND // 10, MILLISECOND, 5 * MILLISECOND])
def test_between_two_rests_reads_take_three_milliseconds_at_most(cost: int) -> None:
    """One read is as short as it can be; a second one is begun only where it will fit."""
    core = SamplingCore(waiting=1000)
    processor = Processor(core, cost)
    core.rest = processor.rest  # type: ignore[method-assign]
    with talking(core, cpu_clock=lambda _: processor.clock) as talk:
        talk.give_core()
        assert talk.sample().on
        talk.tick(Tick)
        first = core.reads
        processor.wait()  # for the next request
        talk.tick(Tick)
    assert core.reads == 2 * first, "the rest of what is waiting comes with the next tick"
    assert max(processor.stretches) <= max(3 * MILLISECOND, cost)
    assert sum(processor.stretches) >= (first - 1) * cost
    assert max(core.limits) <= 4000
    assert first * max(core.limits) <= 1 << 16, "what the screen can take in"


def test_without_more_there_is_one_read_and_no_rest() -> None:
    core = SamplingCore()
    with talking(core) as talk:
        talk.give_core()
        talk.sample()
        talk.tick(Tick)
        assert core.reads == 1
        talk.tick(Tick)
        assert core.reads == 2
        assert talk.sampling.samples.live_block_count == 2


def test_codes_with_long_names_come_in_parts_that_fit_a_frame() -> None:
    core = SamplingCore()
    core.codes_per_read = 1201
    with talking(core, LONGEST_CODES=lambda _: 1000) as talk:
        talk.give_core()
        talk.sample()
        talk.send(TickRequest(1))
        heard = []
        while not isinstance(message := talk.next(), Tick):
            heard.append(message)
        parts = [message for message in heard if isinstance(message, Codes)]
        assert [(part.first, len(part.names)) for part in parts] == [(0, 500), (500, 500), (1000, 201)]
        assert talk.sampling.samples.codes[-1].function == "f0.1200"


def failing(kind: str, times: int = 1) -> Callable[[Any], Any]:
    """A ``pack`` for which there is no memory when a message of that kind is made."""
    left = [times]

    def make(pack: Any) -> Any:
        def packed(value: Any, out: bytearray) -> None:
            if left[0] and type(value) is list and value and value[0] == kind:
                left[0] -= 1
                raise MemoryError
            pack(value, out)

        return packed

    return make


@pytest.mark.parametrize("kind", ["codes", "stacks", "samples"])
@pytest.mark.parametrize("times", [1, 3])
def test_what_could_not_be_said_of_samples_is_said_later(kind: str, times: int) -> None:
    core = SamplingCore()
    with talking(core, pack=failing(kind, times)) as talk:
        talk.give_core()
        talk.sample()
        for _ in range(times):
            assert "out of memory" in talk.tick(Failure).text
        assert core.reads == 1, "nothing more is read meanwhile"
        talk.tick(Tick)
        assert core.reads == 2
        assert talk.sampling.samples.live_block_count == 2


def test_types_that_could_not_be_said_are_said_later() -> None:
    core = SamplingCore()
    with talking(core, pack=failing("types")) as talk:
        talk.give_core()
        assert "out of memory" in talk.census(Failure).text
        census = talk.census(Census)
        assert {row.type for row in census.rows} == {1}
        assert talk.history.records[-1].cells[0].type.qualname == "T2"


@pytest.mark.slow
def test_types_of_a_count_in_slices_that_could_not_be_said_are_said_later() -> None:
    with talking(SamplingCore(), pack=failing("types")) as talk:
        talk.give_core()
        assert "out of memory" in talk.census(Failure, mode="python").text
        assert talk.census(Census, mode="python").rows


@pytest.mark.parametrize("exact", [False, True])
def test_exact_sites_are_only_for_who_asks_for_them(exact: bool) -> None:
    core = SamplingCore()
    with talking(core) as talk:
        talk.give_core()
        state = talk.sample(exact=exact)
        assert state.on
        assert (state.approximate == ()) == exact
        assert bool(core.options["reborn"]) == exact


def test_where_exact_sites_cannot_be_had_nothing_is_sampled_and_it_is_said() -> None:
    core = SamplingCore()
    core.reborn_refusal = "another reference tracer is there"
    with talking(core) as talk:
        talk.give_core()
        state = talk.sample(exact=True)
        assert (state.on, state.text) == (False, "exact sites are not available: another reference tracer is there")
        assert not core.sample_stats()["on"]
        assert talk.sample(exact=False).on


def test_that_sites_are_exact_no_more_is_said() -> None:
    core = SamplingCore()
    with talking(core) as talk:
        talk.give_core()
        assert talk.sample(exact=True).approximate == ()
        core.options["reborn"] = False
        talk.send(TickRequest(1))
        assert "float" in talk.expect(Sampler).approximate
        talk.expect(Tick)
        assert talk.sampling.samples.live_block_count == 1


def test_what_stays_in_the_target_is_said_with_the_goodbye() -> None:
    core = SamplingCore()
    core.stays = "another tool's hook lies over heaptop's"
    with talking(core) as talk:
        talk.give_core()
        talk.sample()
        talk.send(DetachRequest())
        assert talk.expect(Bye).left == core.stays


def test_a_goodbye_that_left_nothing_says_nothing() -> None:
    with talking(SamplingCore()) as talk:
        talk.give_core()
        talk.sample()
        talk.send(DetachRequest())
        assert talk.expect(Bye).left == ""


def test_a_collection_in_the_middle_of_a_tick_is_told_once() -> None:
    """A thread's collection and the agent's tick meet anywhere: here, while the callback asks for the time."""
    space = agent_space()
    told: list[Any] = []
    space["send"] = lambda s, kind, fields: told.append((kind, fields))
    s = idle_session(space)
    callback = space["make_gc_callback"](s)
    info = {"generation": 0, "collected": 1, "uncollectable": 0}
    callback("start", info)
    callback("stop", {**info, "collected": 1})
    own, turns = space["clock"], [0]

    def clock() -> int:
        turns[0] += 1
        if turns[0] == 2:
            space["tick"](s, 1)
        return int(own())

    space["clock"] = clock
    callback("start", info)
    callback("stop", {**info, "collected": 2})
    space["tick"](s, 2)
    collected = [row[2] for kind, fields in told if kind == "gc" for row in fields["events"]]
    assert collected == [1, 2]


def test_a_phase_that_ends_in_the_middle_of_a_tick_is_told_once() -> None:
    space = agent_space()
    told: list[Any] = []
    s = idle_session(space)
    listener = space["make_listener"](s)
    listener("a", 1, True)
    listener("a", 1, False)
    listener("b", 2, True)

    def send(s: Any, kind: str, fields: Any) -> None:
        told.extend(row[0] for row in fields["phases"] if row[2] is not None)
        if told == ["a"]:
            listener("b", 2, False)

    space["send"] = send
    space["send_phases"](s)
    space["send_phases"](s)
    assert told == ["a", "b"]


def test_an_interrupt_in_the_middle_of_a_phase_is_the_programs_own() -> None:
    space = agent_space()
    s = idle_session(space)
    listener = space["make_listener"](s)

    def clock() -> int:
        raise KeyboardInterrupt

    space["clock"] = clock
    with pytest.raises(KeyboardInterrupt):
        listener("a", 1, True)
    assert s.phases_dropped == 0


# -- where memory runs out in the middle --------------------------------------------------------------------


class Said:
    """A session that samples, by a core made of Python, with what it says; ``scarce`` kinds fail once each."""

    def __init__(self) -> None:
        self.space = agent_space()
        self.s = idle_session(self.space)
        self.core = SamplingCore()
        self.module = self.core.as_module()
        self.s.core = self.module
        self.s.callback, self.s.listener = self.space["make_gc_callback"](self.s), self.space["make_listener"](self.s)
        self.told: list[tuple[str, dict[str, Any]]] = []
        self.scarce: list[str] = []
        self.space["send"] = self._send
        self.space["listen_to_phases"] = lambda s: None  # this process's own heaptop stays without a listener
        self.s.sampler_request = {"interval": 64}
        self.space["sampler"](self.s, 1)
        assert self.s.sampling

    def _send(self, s: Any, kind: str, fields: dict[str, Any]) -> None:
        if kind in self.scarce:
            self.scarce.remove(kind)
            raise MemoryError
        self.told.append((kind, fields))

    def tick(self) -> None:
        self.space["tick"](self.s, 1)

    def counted(self, typed: bytes, types: Sequence[tuple[str, str]] = ()) -> None:
        """What follows a census that the core has made."""
        packed, rows = msgpack.packb(types), msgpack.packb([])
        self.space["send_counted"](self.s, 1, "clone", "", packed, rows, {**STATS, "typed": typed}, 0, (0, 0), 0)

    def all(self, kind: str, field: str) -> list[Any]:
        return [fields[field] for said, fields in self.told if said == kind]

    @property
    def births(self) -> list[int]:
        return [BIRTH.unpack(birth)[0] for birth in self.all("samples", "births")]

    @property
    def typed(self) -> list[bytes]:
        return [bytes(typed) for typed in self.all("samples", "typed")]


def failing_once(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that there is no memory for the first time."""
    times: list[None] = []

    def called(*arguments: Any) -> Any:
        times.append(None)
        if len(times) == 1:
            raise MemoryError
        return function(*arguments)

    return called


TYPE = TYPED.pack(0, 0)


def test_a_read_that_could_not_be_told_of_is_told_before_a_census_reads_more() -> None:
    """A tick in the middle of a census is answered by itself: what fails in it does not end the census."""
    said = Said()
    said.space["read_messages"] = failing_once(said.space["read_messages"])
    with pytest.raises(MemoryError):
        said.tick()
    said.counted(b"")
    assert said.births == [0, 1]
    assert said.all("codes", "first") == [0, 1]


def test_that_samples_begin_anew_is_told_with_them_where_it_could_not_be_told_at_once() -> None:
    said = Said()
    said.space["sampler_state"] = failing_once(failing_once(said.space["sampler_state"]))
    for interval in (0, 64):
        said.s.sampler_request = {"interval": interval}
        with pytest.raises(MemoryError):
            said.space["sampler"](said.s, 1)
    said.tick()
    assert said.all("sampler", "epoch") == [1, 2]
    assert [kind for kind, _ in said.told] == ["sampler", "sampler", "codes", "stacks", "samples", "tick"]


class Scarce(list[Any]):
    """A list that cannot grow by more than one item, at first."""

    def __init__(self) -> None:
        super().__init__()
        self._grow = failing_once(lambda more: list(self) + list(more))

    def __iadd__(self, more: Any) -> Any:
        return self._grow(more)

    def __add__(self, more: Any) -> Any:
        return self._grow(more)


def test_an_epoch_is_told_where_there_was_no_room_for_the_message_at_first() -> None:
    said = Said()
    said.tick()
    said.s.unsent = Scarce()
    said.core.epoch = 1
    with pytest.raises(MemoryError):
        said.tick()
    said.tick()
    assert said.all("sampler", "epoch") == [1, 2]
    kinds = [kind for kind, _ in said.told]
    assert kinds.index("sampler", 1) < len(kinds) - 1 - kinds[::-1].index("samples")
    assert said.births == [0, 1, 2]


def test_types_of_samples_outlive_a_read_that_failed() -> None:
    said = Said()
    said.module.sample_read = failing_once(said.module.sample_read)
    with pytest.raises(MemoryError):
        said.counted(TYPE)
    said.tick()
    said.tick()
    assert said.typed == [TYPE, b""]


def test_types_of_samples_outlive_types_that_could_not_be_said() -> None:
    said = Said()
    said.scarce = ["types"]
    with pytest.raises(MemoryError):
        said.counted(TYPE, [("shop", "T")])
    assert said.typed == []
    said.space["send_unsent"](said.s)
    said.tick()
    assert said.typed == [TYPE]
    kinds = [kind for kind, _ in said.told]
    assert kinds.index("types") < kinds.index("samples")


def test_types_of_samples_do_not_go_with_what_was_read_before_them() -> None:
    """Its births are told only with the read that follows."""
    said = Said()
    said.space["read_messages"] = failing_once(said.space["read_messages"])
    with pytest.raises(MemoryError):
        said.tick()
    said.counted(TYPE)
    assert said.typed == [b"", TYPE]


def test_types_of_two_censuses_go_together_where_nothing_was_read_in_between() -> None:
    said = Said()
    said.scarce = ["types"]
    with pytest.raises(MemoryError):
        said.counted(TYPE, [("shop", "T")])
    said.counted(TYPED.pack(1, 0))
    assert said.typed == [TYPE + TYPED.pack(1, 0)]


@pytest.mark.parametrize("by", ["the core", "a person"])
def test_types_of_samples_are_nobodys_once_samples_begin_anew(by: str) -> None:
    said = Said()
    said.module.sample_read = failing_once(said.module.sample_read)
    with pytest.raises(MemoryError):
        said.counted(TYPE)
    if by == "the core":
        said.core.epoch += 1
    else:
        for interval in (0, 64):
            said.s.sampler_request = {"interval": interval}
            said.space["sampler"](said.s, 1)
    said.tick()
    assert said.typed == [b""]
    assert len(set(said.all("sampler", "epoch"))) == 2
