"""Leak hunts of the host agent: in one growing process at a time, beside its session, which none of them ends."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heaptop.errors import AgentLost, ImageRefused, PauseTooLong
from heaptop.fleet import hunts as hunts_module
from heaptop.fleet import memory as memory_module
from heaptop.fleet.configuration import FleetConfig
from heaptop.fleet.figures import MOST_SUSPECTS, OTHER, HuntResult, largest_suspects, suspect_rows
from heaptop.fleet.hunts import (
    FAILED,
    MOST_CELLS,
    MOST_OBJECTS,
    REFUSED,
    LeakHunts,
    SessionHuntWatch,
    hunt,
    next_hunted,
)
from heaptop.fleet.memory import ServedMemory
from heaptop.fleet.metrics import HostMeters
from heaptop.fleet.selection import ChosenProcess, SeenProcess
from heaptop.fleet.session import FleetSession
from heaptop.injector.api import AttachOptions
from heaptop.protocol.findings import LEAK, NO_LEAK, UNCLEAR
from heaptop.protocol.images import FIRST_ID, LIVE
from heaptop.protocol.messages import Decision, Failure, Message, Tick, TypeName
from heaptop.watching import hunting
from tests.fakes.graph import Planted, PlantedHeap, Reference, Root
from tests.fakes.shop import growing_shop
from tests.fakes.source import SECOND, FakeSource
from tests.support.processes import eventually

SHORT = 0.05
"""Seconds of a hunt: the target's clock moves on at each image."""


def carts(image: int) -> PlantedHeap:
    """A dict that has ten more of something in each image."""
    place, all_carts = 0x10000, range(0x20000, 0x20000 + 64 * 10 * (image + 1), 64)
    return PlantedHeap(
        objects=(
            Planted(0x1000, TypeName("builtins", "module"), 72, (Reference(".carts", place),)),
            Planted(place, TypeName("builtins", "dict"), 500, tuple(Reference("[*]", each) for each in all_carts)),
            *(Planted(each, TypeName("shop", "Cart"), 48, stack=2) for each in all_carts),
        ),
        roots=(Root("module", "module shop", 0x1000),),
    )


class Target(FakeSource):
    """One that clones can be made of, and whose heap grows while nobody looks."""

    def __init__(self, plant: Callable[[int], PlantedHeap] = carts) -> None:
        super().__init__(step_ns=5 * SECOND)
        self.agent.mode = "clone"
        self.agent.images.plant = plant
        self.images_asked = 0
        self.before_image: Callable[[], None] = lambda: None

    def census_now(self) -> None:
        super().census_now()
        self.tick()

    def image(self, keep: float, memory: int = 0) -> int:
        self.images_asked += 1
        self.tick()
        self.before_image()
        return super().image(keep, memory)

    def memory_now(self) -> None:
        super().memory_now()
        self.tick(census=False)


class Watched:
    """Sessions of targets, and the hunts."""

    def __init__(self) -> None:
        self.meters = HostMeters()
        self.short = ""
        self.hunts = LeakHunts(self.meters, lambda pid, objects: self.short)
        self.config = FleetConfig(hunt=SHORT, hunt_cooldown=1000.0, budget=1e6)  # hunts of no real time
        self.sources: list[Target] = []
        self.sessions: list[FleetSession] = []

    def attach(self, source: Target | None = None, growth: float = 5000.0) -> FleetSession:
        source = source or Target()
        pid = len(self.sessions) + 1
        seen = SeenProcess(pid, 1, "www", "python shop.py", "shop", 100, 1000.0)
        options = AttachOptions(interval=60.0, sample_interval=64 << 10, sample_target=20)
        session = FleetSession(
            ChosenProcess(seen, "shop"), source, self.meters, options, lambda *_: None, lambda *_: None
        )
        session.open()
        source.sample(options.sample_interval, options.sample_depth, target=options.sample_target)
        source.attach()
        source.tick()
        session.growth = growth
        self.sources.append(source)
        self.sessions.append(session)
        return session

    def hunt(self) -> None:
        """Let the next hunt begin and end, if one is due."""
        self.hunts.begin_due(self.sessions, self.config)
        self.hunts.join(60)

    def outcomes(self) -> dict[str, float]:
        samples = [each for family in self.meters.hunts.collect() for each in family.samples]
        return {each.labels["outcome"]: each.value for each in samples if each.name == "heaptop_hunts_total"}


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    monkeypatch.setattr(hunting, "LATE_SECONDS", 1000.0)
    monkeypatch.setattr(memory_module, "memory_limit", lambda pid: None)
    return Watched()


# -- one hunt --------------------------------------------------------------------------------------------------


def test_a_hunt_names_type_site_and_holder_and_the_session_goes_on(watched: Watched) -> None:
    session = watched.attach(Target(growing_shop))
    found = hunt(session, SHORT)
    (first, *_) = suspect_rows(found)
    assert first[0] == "shop.models.Session"
    assert first[1].endswith("views.py:88 create_session")
    assert first[2:] == ("module shop.cache ._sessions", LEAK)
    source = watched.sources[0]
    assert (source.closed, session.ended) == (False, None)
    assert source.targets == [20, 1000, 20], "sampled densely during the hunt, then as before"
    assert not source.behind()
    censuses = watched.meters.registry.get_sample_value("heaptop_censuses_total")
    source.tick()
    assert watched.meters.registry.get_sample_value("heaptop_censuses_total") == (censuses or 0) + 1


def test_what_is_not_sampled_is_not_sampled_for_a_hunt(watched: Watched) -> None:
    session = watched.attach()
    session._options = AttachOptions(sample_interval=0)
    del watched.sources[0].sampling[:]
    hunt(session, SHORT)
    assert watched.sources[0].sampling == []


def test_a_second_hunt_in_a_session_finds_it_again(watched: Watched) -> None:
    session = watched.attach()
    assert [hunt(session, SHORT).verdict for _ in range(2)] == [LEAK, LEAK]


def test_the_session_goes_on_when_a_hunt_fails(watched: Watched) -> None:
    session = watched.attach()
    source = watched.sources[0]
    source.agent.images.refusal = "only 3 MiB of memory are free"
    with pytest.raises(ImageRefused, match="3 MiB"):
        hunt(session, SHORT)
    assert session.error is None
    assert watched.meters.registry.get_sample_value("heaptop_refusals_total", {"class": "NoCensus"}) is None
    source.agent.images.refusal = ""
    assert hunt(session, SHORT).verdict == LEAK


def test_a_snapshot_that_would_pause_too_long_is_declined_and_censuses_go_on(watched: Watched) -> None:
    session = watched.attach()
    source = watched.sources[0]

    def ask() -> None:
        source.say(Decision(FIRST_ID, "clone", "", 90_000_000, 50_000_000))
        source.agent.images.refusal = "a pause of about 90 ms was declined"

    source.before_image = ask
    with pytest.raises(ImageRefused, match="declined"):
        hunt(session, SHORT)
    assert source.decisions == [False]
    assert session.census_age is not None
    assert session.mode == "clone"


def test_a_census_that_would_pause_too_long_ends_the_hunt(watched: Watched) -> None:
    session = watched.attach()
    watched.sources[0].census_now = lambda: watched.sources[0].say(  # type: ignore[method-assign]
        Decision(1, "clone", "", 90_000_000, 50_000_000)
    )
    with pytest.raises(PauseTooLong):
        hunt(session, SHORT)
    assert session.error is None


@pytest.mark.parametrize(("rss", "is_asked"), [(64 << 20, True), (64 << 30, False)])
def test_a_hunt_does_not_read_the_mappings_of_a_large_process(watched: Watched, rss: int, is_asked: bool) -> None:
    session = watched.attach()
    source = watched.sources[0]
    tick = source.agent.answer

    def answer(request: Message) -> list[Message]:
        return [replace(each, rss=rss) if isinstance(each, Tick) else each for each in tick(request)]

    source.agent.answer = answer  # type: ignore[method-assign]
    source.tick()
    before = source.memory_requests
    hunt(session, SHORT)
    assert (source.memory_requests > before) == is_asked


def test_a_session_that_ends_ends_its_hunt(watched: Watched) -> None:
    session = watched.attach()
    watched.sources[0].before_image = lambda: watched.sources[0].end(AgentLost("The agent exited."))
    with pytest.raises(AgentLost, match="exited"):
        hunt(session, SHORT)
    with pytest.raises(AgentLost, match="exited"):
        hunt(session, SHORT)


def test_pauses_of_a_hunt_are_counted(watched: Watched) -> None:
    session = watched.attach()
    before = watched.meters.registry.get_sample_value("heaptop_pause_seconds_count") or 0
    censuses = watched.meters.registry.get_sample_value("heaptop_censuses_total") or 0
    hunt(session, SHORT)
    taken = (watched.meters.registry.get_sample_value("heaptop_censuses_total") or 0) - censuses
    assert watched.meters.registry.get_sample_value("heaptop_pause_seconds_count") == before + taken + 4


def test_failures_of_snapshots_are_no_refused_censuses(watched: Watched) -> None:
    watched.attach()
    watched.sources[0].say(Failure(FIRST_ID, "cancelled"))
    assert watched.meters.registry.get_sample_value("heaptop_refusals_total", {"class": "NoCensus"}) is None


# -- which, and when -------------------------------------------------------------------------------------------


def test_only_what_grows_is_hunted_the_fastest_first(watched: Watched) -> None:
    slow, still, fast = watched.attach(growth=3e3), watched.attach(growth=0.0), watched.attach(growth=9e9)
    assert next_hunted(watched.sessions, time.monotonic()) is fast
    watched.hunt()
    assert (fast.hunt is not None, slow.hunt, still.hunt) == (True, None, None)
    watched.hunt()
    assert slow.hunt is not None
    watched.hunt()
    assert still.hunt is None
    assert watched.outcomes() == {LEAK: 2}


def test_a_process_that_is_counted_without_clones_is_not_hunted(watched: Watched) -> None:
    session = watched.attach()
    for mode, is_hunted in (("python", False), ("", False), ("stop", True), ("clone", True)):
        session.mode = mode
        assert (next_hunted([session], time.monotonic()) is session) == is_hunted


def test_a_process_of_very_many_objects_is_not_hunted(watched: Watched) -> None:
    session = watched.attach()
    session.objects = MOST_OBJECTS + 1
    assert next_hunted([session], time.monotonic()) is None


def test_no_process_fills_the_hosts_memory_with_marks(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    session = watched.attach()
    monkeypatch.setattr(hunts_module, "MOST_OBJECTS", 15)
    with pytest.raises(ImageRefused, match="too many for the host agent to mark"):
        hunt(session, SHORT)
    assert not [each for each in watched.sources[0].agent.images.asked if each.what == LIVE]
    assert SessionHuntWatch(session).history._cell_limit == MOST_CELLS


def test_a_process_rests_after_a_hunt(watched: Watched) -> None:
    session = watched.attach()
    watched.hunt()
    watched.hunt()
    assert watched.outcomes() == {LEAK: 1}
    assert session.hunt_again_at > time.monotonic() + 900


def test_what_no_longer_leaks_is_no_suspect_any_more(watched: Watched) -> None:
    session = watched.attach()
    watched.hunt()
    assert session.hunt is not None
    assert session.hunt.suspects
    watched.sources[0].agent.images.plant = lambda image: carts(1)
    session.growth, session.hunt_again_at = 0.0, 0.0
    watched.hunt()
    assert (session.hunt.verdict, session.hunt.suspects) == (NO_LEAK, {})
    session.growth, session.hunt_again_at = 0.0, 0.0
    watched.hunt()
    assert watched.outcomes() == {LEAK: 1, NO_LEAK: 1}


def test_what_is_only_unclear_is_hunted_again_where_it_grows(watched: Watched) -> None:
    session = watched.attach(growth=0.0)
    rows = {("a", "b", "c", UNCLEAR): 1.0}
    session.hunt = HuntResult(UNCLEAR, 0.0, rows, ())
    assert next_hunted([session], time.monotonic()) is None
    session.hunt = HuntResult(LEAK, 0.0, rows, ())
    assert next_hunted([session], time.monotonic()) is session


def test_where_memory_is_short_nothing_is_asked_of_the_process(watched: Watched) -> None:
    session = watched.attach()
    source = watched.sources[0]
    watched.short = "only 3 MiB of memory are free"
    watched.hunt()
    assert watched.outcomes() == {REFUSED: 1}
    assert (source.images_asked, source.census_requests, session.hunt) == (0, 0, None)
    watched.short = ""
    watched.hunt()
    assert watched.outcomes() == {REFUSED: 1}, "it rests first"


@pytest.mark.parametrize(("left", "seconds"), [(None, 120.0), (1e6, 120.0), (100.0, 50.0), (10.0, None)])
def test_a_hunt_ends_long_before_the_memory_limit(
    watched: Watched, monkeypatch: pytest.MonkeyPatch, left: float | None, seconds: float | None
) -> None:
    session = watched.attach()
    monkeypatch.setattr(ServedMemory, "seconds_left", left)
    planned, why = watched.hunts._seconds_for(session, 120.0)
    assert (planned if not why else None) == seconds


def test_a_process_that_claims_a_great_cost_keeps_no_other_from_being_hunted_in(watched: Watched) -> None:
    """What an agent used is what its process claims."""
    watched.attach()
    watched.attach(growth=10_000.0)
    watched.config = replace(watched.config, budget=0.5)
    watched.hunt()
    watched.sessions[1]._agent_cpu = 10**17
    watched.hunts._began -= 100.0
    watched.hunt()
    assert [source.images_asked > 0 for source in watched.sources] == [True, True]


def test_several_processes_that_claim_great_costs_keep_no_other_from_being_hunted_in(watched: Watched) -> None:
    """The one that is hunted in among them."""
    for _ in range(5):
        watched.attach()
    watched.attach(growth=10_000.0)
    watched.config = replace(watched.config, budget=0.5, share=0.01)
    watched.hunt()
    assert watched.sources[5].images_asked
    for session in watched.sessions[1:]:
        session._agent_cpu = 10**17
    watched.hunts._began -= 100.0
    watched.hunt()
    assert sum(source.images_asked > 0 for source in watched.sources) == 2


def test_no_hunt_begins_while_the_budget_is_used_up(watched: Watched) -> None:
    first, second = watched.attach(), watched.attach()
    watched.hunt()
    for each in (first, second):
        each._agent_cpu += 10**15
    watched.config = replace(watched.config, budget=1.0, share=0.5)
    watched.hunt()
    assert sum(each.hunt is not None for each in (first, second)) == 1
    watched.hunts._began -= 3e6
    watched.hunt()
    assert None not in (first.hunt, second.hunt)


def test_what_an_earlier_session_used_is_no_credit_of_the_next(watched: Watched) -> None:
    """Its agent counts from 0 anew."""
    first, second = watched.attach(growth=10_000.0), watched.attach()
    first._agent_cpu = 10**15
    watched.hunt()
    watched.sessions.clear()
    again, third = watched.attach(growth=0.0), watched.attach(growth=0.0)
    watched.sessions += [second]
    assert again.chosen.key == first.chosen.key
    for each in (second, third):
        each._agent_cpu += 10**15
    watched.config = replace(watched.config, budget=1.0, share=0.5)
    watched.hunt()
    assert second.hunt is None


def test_a_hunt_that_cost_much_is_followed_by_a_long_rest(watched: Watched) -> None:
    session = watched.attach()
    watched.config = FleetConfig(hunt=SHORT, hunt_cooldown=0.0, share=0.01)
    watched.sources[0].before_image = lambda: setattr(session, "_agent_cpu", session._agent_cpu + 10 * SECOND)
    watched.hunt()
    assert session.hunt_again_at > time.monotonic() + 3000


def test_without_hunts_none_begins(watched: Watched) -> None:
    session = watched.attach()
    watched.config = FleetConfig(hunt=0.0)
    watched.hunt()
    assert (session.hunt, watched.outcomes()) == (None, {})


def test_one_hunt_at_a_time(watched: Watched) -> None:
    watched.attach(growth=9e9), watched.attach()
    with held(watched.sources[0]) as reached:
        watched.hunts.begin_due(watched.sessions, watched.config)
        assert reached.wait(60)
        watched.hunts.begin_due(watched.sessions, watched.config)
        assert watched.sources[1].images_asked == 0
    watched.hunts.join(60)
    assert watched.outcomes() == {LEAK: 1}


def test_a_profile_is_made_while_a_snapshot_is_waited_for(watched: Watched) -> None:
    session = watched.attach()
    with held(watched.sources[0]) as reached:
        watched.hunts.begin_due(watched.sessions, watched.config)
        assert reached.wait(60)
        assert session.lock.acquire(timeout=60)
        session.lock.release()
    watched.hunts.join(60)


@contextmanager
def held(source: Target) -> Iterator[threading.Event]:
    """Its first image comes at the end of this; set when it is asked for."""
    reached, go_on = threading.Event(), threading.Event()

    def wait() -> None:
        reached.set()
        assert go_on.wait(60)

    source.before_image = wait
    try:
        yield reached
    finally:
        go_on.set()


def test_a_fault_of_a_hunt_is_counted(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> Any:
        raise ValueError("a bug")

    session = watched.attach()
    monkeypatch.setattr(hunts_module, "hunt", fail)
    watched.hunt()
    assert watched.outcomes() == {FAILED: 1}
    assert session.hunt_again_at > time.monotonic()


# -- growth ----------------------------------------------------------------------------------------------------


def test_a_session_sees_what_grows_from_its_censuses(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    session = watched.attach(growth=0.0)
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now)
    for _ in range(5):
        assert session.growth == 0.0
        now += 1.0
        watched.sources[0].tick()
    assert eventually(lambda: session.growth > 0)
    watched.sources[0].say(Decision(1, "clone", "", 90_000_000, 50_000_000))
    assert session.growth == 0.0


# -- rows ------------------------------------------------------------------------------------------------------

keys = st.tuples(st.text(max_size=3), st.text(max_size=3), st.text(max_size=3), st.sampled_from([LEAK, UNCLEAR]))


@given(st.dictionaries(keys, st.integers(0, 1 << 40).map(float), max_size=30), st.integers(1, 5))
def test_suspects_are_bounded_and_sum_to_the_whole(rows: dict[tuple[str, str, str, str], float], top: int) -> None:
    kept = largest_suspects(rows, top)
    assert len(kept) <= top + 2
    assert sum(kept.values()) == sum(rows.values())
    assert len([key for key in kept if key[:3] != (OTHER, OTHER, OTHER)]) <= top


def test_one_process_has_few_suspects_and_none_that_is_no_leak(watched: Watched) -> None:
    found = hunt(watched.attach(Target(growing_shop)), SHORT)
    assert NO_LEAK in {each.verdict for each in found.suspects}
    rows = suspect_rows(found)
    assert 0 < len(rows) <= MOST_SUSPECTS
    assert NO_LEAK not in {verdict for *_, verdict in rows}
    assert HuntResult(LEAK, 0.0, rows, ()).suspects == rows
