"""What a session of the host agent reads of its process beside censuses, and what it leaves alone."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from itertools import count
from operator import add

import pytest

from heaptop.analysis.rss.memory import NAMES
from heaptop.analysis.samples.sampling import Sampling
from heaptop.fleet import memory as memory_module
from heaptop.fleet.memory import LIMIT_SECONDS, QUIET_SECONDS
from heaptop.fleet.metrics import HostMeters
from heaptop.fleet.selection import ChosenProcess, SeenProcess
from heaptop.fleet.session import MOST_TALLIES, FleetSession, SharedSource, bounded_sampling
from heaptop.fleet.triggers import ProcessReadings
from heaptop.injector.api import AttachOptions, MemoryLimit
from heaptop.protocol.event_queue import EventQueue
from heaptop.protocol.messages import (
    BIRTH,
    DEATH,
    Census,
    CensusRequest,
    CodeName,
    Codes,
    Decision,
    GcEvent,
    GcEvents,
    Memory,
    Message,
    Samples,
    StackNode,
    Stacks,
    Tick,
    TickRequest,
    Types,
)
from heaptop.protocol.source import Attached, Received, is_tick
from tests.fakes.source import OUTSIDE, FakeSource
from tests.unit.sample_cases import EVERYTHING, sampler
from tests.unit.test_analysis_samples import KNOWN, grown_by_turns

LIMIT = MemoryLimit(64 << 30, "memory.max of /shop", 32 << 30)


class Clock:
    """Ours, and the processor time of the thread that reads memory."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.used = 1000.0, 0.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now)
        monkeypatch.setattr(time, "thread_time", lambda: self.used)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


@pytest.fixture
def source() -> FakeSource:
    source = FakeSource()
    source.agent.mode = "clone"
    return source


@pytest.fixture
def meters() -> HostMeters:
    return HostMeters()


@pytest.fixture
def session(
    source: FakeSource, meters: HostMeters, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> FleetSession:
    monkeypatch.setattr(memory_module, "memory_limit", lambda pid: LIMIT)
    seen = SeenProcess(1, 1, "www", "python shop.py", "shop", 100, 1000.0)
    options = AttachOptions(interval=60.0, pause_budget=0.05)
    session = FleetSession(
        ChosenProcess(seen, "shop"), source, meters, options, lambda *_: None, lambda *_: None
    )
    session.open()
    source.attach()
    return session


# -- other readers ---------------------------------------------------------------------------------------------


def test_a_reader_that_leaves_takes_no_other_with_it(session: FleetSession, source: FakeSource) -> None:
    """A guard reads from the opening on, a leak hunt for a while."""
    guard, hunt = EventQueue(), EventQueue()
    session.join(guard.put, guard.is_behind)
    source.tick()
    leaves = SharedSource(session)
    leaves.open(hunt.put, hunt.is_behind)
    assert isinstance(hunt.get(0), Attached)
    types = hunt.get(0)
    assert isinstance(types, Received)
    assert isinstance(types.message, Types)
    guard.drain()
    source.tick()
    assert is_tick(guard.get(0))
    assert is_tick(hunt.get(0))
    leaves.close()
    hunt.drain()
    guard.drain()
    source.tick()
    assert (len(guard) > 0, len(hunt)) == (True, 0)
    assert source.behind()
    guard.drain()
    assert not source.behind()


# -- samples ---------------------------------------------------------------------------------------------------


def test_what_is_kept_of_samples_does_not_grow_with_time() -> None:
    sampling, plain = bounded_sampling(), Sampling()
    for message in KNOWN:
        sampling.feed(message)
        plain.feed(message)
    times = count(2_000, 1_000)

    def feed(message: Message) -> None:
        now = next(times)
        sampling.feed(replace(message, clock=now) if isinstance(message, Samples) else message)
        sampling.feed(Tick(now, now, 1 << 30, 1 << 20, True, (0, 0, 0), 0, 1, now))
        sampling.feed(GcEvents((GcEvent(now, 2, 0, 0, 1, now),), 0))

    grown_by_turns(feed)  # until the sums of all sizes are there
    assert grown_by_turns(feed) < 10_000
    grown_by_turns(plain.feed)
    grown_by_turns(plain.feed)
    assert sampling.samples.tally_count < plain.samples.tally_count
    for sums in ("live", "freed", "allocated"):
        (found, wanted) = (
            reduce(add, [getattr(tally, sums) for tally in each.samples.tallies()]) for each in (sampling, plain)
        )
        assert found == wanted
    (full,) = sampling.gc.totals.generations
    assert full.collections == 12_000, "a leak hunt reads these"


def test_stacks_beyond_the_limit_are_counted_and_allocated_bytes_stay_right(
    session: FleetSession, source: FakeSource, meters: HostMeters
) -> None:
    """As of a program whose code is made anew all the time."""
    most = 2 * MOST_TALLIES
    source.say(sampler(EVERYTHING), Codes(0, (CodeName("/srv/new.py", "f", 1),)))
    source.say(Stacks(1, tuple(StackNode(0, 0, line) for line in range(1, most + 1))))
    for first in range(1, most + 1, 4096):
        numbers = range(first, first + 4096)
        births = b"".join(BIRTH.pack(number, number, number, 64, 0, 1, 0, 0) for number in numbers)
        deaths = b"".join(DEATH.pack(number, 0, number) for number in numbers)
        source.say(Samples(1, first + 4096, births, b"", b"", 0), Samples(1, first + 4096, b"", deaths, b"", 0))
    source.tick()
    assert session.sampling.samples.tally_count <= MOST_TALLIES
    assert (meters.registry.get_sample_value("heaptop_folded_stacks_total") or 0) >= MOST_TALLIES / 2
    assert sum(session.figures.allocated.values()) == most * 64


# -- what a process claims -------------------------------------------------------------------------------------


def test_a_process_adds_no_more_pauses_and_cpu_time_than_there_was_time(
    session: FleetSession, source: FakeSource, meters: HostMeters, clock: Clock
) -> None:
    """Both are figures of all processes together."""

    def total(name: str) -> float:
        return meters.registry.get_sample_value(name) or 0.0

    source.tick(census=False)
    (census,) = [each for each in source.agent.answer(CensusRequest(1)) if isinstance(each, Census)]
    census = replace(census, rows=())
    (tick,) = [each for each in source.agent.answer(TickRequest(2)) if isinstance(each, Tick)]
    clock.now += 10.0
    paused = total("heaptop_pause_seconds_sum")
    source.say(replace(census, pause_ns=250_000_000), replace(tick, agent_cpu_ns=3_000_000_000))
    assert total("heaptop_pause_seconds_sum") - paused == pytest.approx(0.25), "the truth is not changed"
    assert total("heaptop_agent_cpu_seconds_total") == pytest.approx(3)
    for claim in (10**18, 10**15, -(10**18)):
        source.say(replace(census, pause_ns=claim), replace(tick, agent_cpu_ns=claim))
        assert 0.25 <= total("heaptop_pause_seconds_sum") - paused <= 10
        assert 3 <= total("heaptop_agent_cpu_seconds_total") <= 10 * (os.cpu_count() or 1)


# -- memory by use ---------------------------------------------------------------------------------------------


def test_resident_memory_is_read_by_use_and_sums_to_the_whole(session: FleetSession, source: FakeSource) -> None:
    assert session.memory.use is None
    source.tick()
    assert session.memory.use is not None
    assert session.memory.use.bytes.keys() <= NAMES.keys()
    assert sum(session.memory.use.bytes.values()) == sum(region.rss for region in OUTSIDE.regions)
    assert session.memory.use.bytes["live"] > 0


def with_memory(source: FakeSource, monkeypatch: pytest.MonkeyPatch, change: Callable[[Memory], Memory]) -> None:
    """Every answer about memory is changed like that first."""
    say = source.say

    def changed(*messages: Message) -> None:
        say(*(change(each) if isinstance(each, Memory) else each for each in messages))

    monkeypatch.setattr(source, "say", changed)


def test_what_was_expensive_to_read_is_read_rarely(
    session: FleetSession, source: FakeSource, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def take_long(memory: Memory) -> Memory:
        clock.used += 0.4
        return memory

    with_memory(source, monkeypatch, take_long)
    source.tick()
    assert source.memory_requests == 1
    clock.now += 399.0
    source.tick(5)
    assert source.memory_requests == 1
    clock.now += 2.0
    source.tick()
    assert source.memory_requests == 2


def test_what_holds_mallocs_locks_for_long_is_asked_once(
    session: FleetSession, source: FakeSource, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_memory(source, monkeypatch, lambda memory: replace(memory, duration_ns=51_000_000))
    source.tick()
    clock.now += 1e6
    source.tick()
    assert source.memory_requests == 1


def test_a_process_that_would_wait_too_long_is_not_asked(session: FleetSession, source: FakeSource) -> None:
    source.tick()
    assert session.memory.is_due(490_000_000, "clone")
    assert session.memory.use is not None
    assert not session.memory.is_due(510_000_000, "clone")
    assert session.memory.use is None


@pytest.mark.parametrize("mode", ["python", "stop"])
def test_a_process_that_is_not_counted_in_clones_is_not_asked(
    session: FleetSession, source: FakeSource, mode: str
) -> None:
    source.tick()
    assert not session.memory.is_due(1_000_000, mode)
    assert session.memory.use is None


def test_memory_by_use_is_not_served_when_no_other_census_comes(session: FleetSession, source: FakeSource) -> None:
    source.tick()
    source.say(Decision(1, "clone", "", 90_000_000, 50_000_000))
    assert session.memory.use is None


# -- the memory limit ------------------------------------------------------------------------------------------


def tick(source: FakeSource, clock: Clock, seconds: int, rate: int) -> None:
    """For so many seconds one each, with RSS that grows by ``rate`` bytes a second."""
    for number in range(seconds):
        clock.now += 1.0
        source.say(Tick(number, 0, (100 << 20) + number * rate, 0, True, (0, 0, 0), 0, 1, 0))


def test_growth_is_known_after_a_while_and_forgotten_without_ticks(
    session: FleetSession, source: FakeSource, clock: Clock
) -> None:
    tick(source, clock, 20, 1000)
    assert session.memory.readings == ProcessReadings(limit=LIMIT.bytes, limit_of=LIMIT.of, left=LIMIT.left)
    tick(source, clock, 100, 1000)
    assert session.memory.readings.growth == pytest.approx(1000, rel=0.3)
    clock.now += QUIET_SECONDS + 1
    assert session.memory.readings.growth is None


def test_the_limit_is_read_again_only_after_some_seconds(
    session: FleetSession, source: FakeSource, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[int] = []

    def read(pid: int) -> None:
        reads.append(pid)

    monkeypatch.setattr(memory_module, "memory_limit", read)
    tick(source, clock, round(3 * LIMIT_SECONDS), 0)
    assert 2 <= len(reads) <= 3
    assert session.memory.readings == ProcessReadings(growth=session.memory.readings.growth)
    assert session.memory.seconds_left is None


def test_the_time_left_follows_the_growth_of_the_last_seconds(
    session: FleetSession, source: FakeSource, clock: Clock
) -> None:
    tick(source, clock, 60, 0)
    assert session.memory.seconds_left is None
    tick(source, clock, 60, 1 << 20)
    assert session.memory.seconds_left == pytest.approx((LIMIT.left or 0) / (1 << 20), rel=0.01)
