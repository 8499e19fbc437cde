"""When graph censuses are taken: how often, who goes first, and what is said where there are none."""

from __future__ import annotations

import pytest

from heaptop.analysis.filters.filters import parse_filter
from heaptop.analysis.filters.kept_samples import retainer_term
from heaptop.protocol.images import GROUPS, RETAINERS, STACKS
from heaptop.protocol.source import Event
from heaptop.tui.state import graph_watch
from heaptop.tui.state.graph_watch import SHORTEST, WAITS, GraphFacts, GraphWatch
from heaptop.tui.state.snapshot_client import SnapshotClient, SnapshotPurpose
from tests.fakes.images import FakeImages
from tests.fakes.source import FakeSource


class Bench:
    """A watch, its snapshot client, a source that answers at once, and a clock that only the test moves."""

    def __init__(self) -> None:
        self.source, self.now = FakeSource(), 1000.0
        self.events: list[Event] = []
        self.source.open(self.events.append)
        self.source.attach()
        self.client = SnapshotClient(self.source)
        self.watch = GraphWatch(self.client, lambda said: said + 100, lambda: self.now)

    @property
    def images(self) -> FakeImages:
        return self.source.agent.images

    @property
    def facts(self) -> GraphFacts:
        return self.watch.facts

    def take_events(self) -> None:
        while self.events:
            self.client.feed(self.events.pop(0))

    def turn(self, seconds: float = 0.0, *, wanted: bool = True, kept_by: str = "") -> GraphFacts:
        self.now += seconds
        self.watch.turn(wanted, retainer_term(parse_filter(kept_by)))
        self.take_events()
        return self.facts

    def hold_back(self, *, answering: bool) -> None:
        """One is under way: it is being built, or else asked."""
        self.images.hold = True
        self.turn()
        if answering:
            self.source.go_on()
            self.images.hold = True
            self.take_events()
            assert [one.what for one in self.images.asked] == []
            assert self.client.is_open
        self.images.hold = False


def test_one_is_taken_at_once_and_nothing_stays_open() -> None:
    bench = Bench()
    facts = bench.turn()
    assert [one.what for one in bench.images.asked] == [GROUPS, RETAINERS]
    assert not bench.images.is_open
    assert len(facts.kinds) == len(facts.retainers) == 1
    assert {cell.kind for cell in facts.kinds[0].cells} == {"module", "frame", "runtime", "c", "none"}
    names = {cell.retainer for cell in facts.retainers[0].cells}
    assert {"module shop.cache ._sessions", "held by C", "held by nothing"} <= names
    totals = [sum(cell.bytes for cell in moments[0].cells) for moments in (facts.kinds, facts.retainers)]
    assert totals[0] == totals[1] > 0


def test_what_an_answer_has_no_room_for_is_counted_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Bench().turn().retainers[0].cells
    monkeypatch.setattr(graph_watch, "MOST_SETS", 5)
    cells = Bench().turn().retainers[0].cells
    assert cells[-1].retainer == "(smaller ones)"
    for figure in ("count", "bytes"):
        assert sum(getattr(cell, figure) for cell in cells) == sum(getattr(cell, figure) for cell in whole)


def test_its_cost_is_said_and_the_next_one_waits_for_it() -> None:
    bench = Bench()
    words = bench.turn().words
    assert words.startswith("graph census every 10 s: ")
    assert "on another core, pause 3.1 ms, " in words
    assert len(bench.turn(SHORTEST - 0.5).kinds) == 1
    assert len(bench.turn(1.0).kinds) == 2


def test_a_dear_one_is_taken_rarely() -> None:
    """Five percent of a core, its answers among them."""
    bench = Bench()
    bench.hold_back(answering=True)
    assert bench.turn(3.0).words == "taking a graph census"
    bench.source.go_on()
    bench.take_events()
    assert bench.facts.words.startswith("graph census every 1m 00s: up to 3 s on another core, ")
    assert len(bench.turn(56.0).kinds) == 1
    assert len(bench.turn(2.0).kinds) == 2


def test_none_is_taken_while_nobody_looks() -> None:
    bench = Bench()
    assert not bench.turn(wanted=False).kinds
    assert bench.images.number == 0
    bench.turn()
    assert len(bench.turn(1000.0, wanted=False).kinds) == 1


@pytest.mark.parametrize("building", [False, True])
def test_it_waits_while_a_person_has_a_snapshot(building: bool) -> None:
    bench = Bench()
    bench.turn()
    bench.images.hold = building
    bench.client.open()
    bench.take_events()
    facts = bench.turn(100.0)
    assert facts.words == WAITS
    assert len(facts.kinds) == 1, "what is known stays"
    assert bench.turn(wanted=False).words.startswith("graph census every")
    bench.images.hold = False
    bench.client.close()
    bench.take_events()
    facts = bench.turn()
    assert len(facts.kinds) == 2
    assert facts.words.startswith("graph census every")


@pytest.mark.parametrize("answering", [False, True])
def test_a_person_who_wants_a_snapshot_goes_first(answering: bool) -> None:
    """It is taken from a graph census that is under way, which is neither a failure nor forgotten."""
    bench = Bench()
    bench.hold_back(answering=answering)
    bench.client.open()
    bench.take_events()
    for _ in range(3):
        facts = bench.turn(SHORTEST)
        assert bench.images.is_open, "it is not closed by what came before it"
        assert bench.client.purpose is SnapshotPurpose.LOOKING
        assert (facts.words, facts.failure) == (WAITS, "")
    bench.client.close()
    bench.take_events()
    assert len(bench.turn().kinds) == 1


def test_a_refusal_is_said_and_not_repeated_at_once() -> None:
    bench = Bench()
    bench.images.refusal = "it needs the native core"
    bench.turn()
    facts = bench.turn(1.0)
    assert (facts.kinds, facts.failure, facts.words) == ((), "it needs the native core", "")
    bench.images.refusal = ""
    assert bench.turn(SHORTEST - 2.0).failure
    facts = bench.turn(SHORTEST + 2.0)
    assert not facts.failure
    assert len(facts.kinds) == 1


@pytest.mark.parametrize("answering", [False, True])
def test_one_that_fails_later_leaves_what_is_known(answering: bool) -> None:
    bench = Bench()
    bench.turn()
    bench.now += SHORTEST
    bench.images.asked.clear()
    bench.hold_back(answering=answering)
    bench.images.failure = "there was no memory for it"
    bench.source.go_on()
    bench.take_events()
    facts = bench.turn(1.0)
    assert facts.failure == "there was no memory for it"
    assert facts.words == "the last graph census failed: there was no memory for it"
    assert len(facts.kinds) == 1
    assert not bench.images.is_open
    facts = bench.turn(2 * SHORTEST)
    assert len(facts.kinds) == 2
    assert not facts.failure


def test_one_that_ends_by_itself_has_failed() -> None:
    bench = Bench()
    bench.hold_back(answering=True)
    bench.source.end_image("it was killed")
    bench.take_events()
    assert bench.turn(1.0).failure == "it was killed"


def test_an_answer_that_was_given_up_halfway_is_said_to_be() -> None:
    bench = Bench()
    bench.hold_back(answering=True)
    bench.client.give_up()
    bench.take_events()
    assert bench.facts.words.endswith("· stopped halfway")


# -- sampled blocks -----------------------------------------------------------------------------------------


def test_it_asks_which_sampled_blocks_are_kept() -> None:
    """Sessions (stack 2) and their states (6) by the cache's dict; pages (3) by its other one."""
    bench = Bench()
    kept = bench.turn(kept_by="retainer:_sessions").kept
    assert [one.what for one in bench.images.asked] == [GROUPS, RETAINERS, STACKS, STACKS]
    assert kept is not None
    assert kept.parts == {102: 1.0, 106: 1.0}
    assert kept.retainers == 1
    assert kept.time_ns == bench.facts.kinds[0].time_ns
    assert not bench.images.is_open


def test_other_retainers_are_asked_about_soon_and_the_same_ones_when_it_is_time() -> None:
    bench = Bench()
    bench.hold_back(answering=True)
    bench.now += 3.0
    bench.source.go_on()
    bench.take_events()
    assert "every 1m 00s" in bench.facts.words
    assert bench.turn(SHORTEST - 4.0, kept_by="retainer:_sessions").kept is None
    assert bench.turn(2.0, kept_by="retainer:_sessions").kept is not None
    assert len(bench.turn(SHORTEST - 1.0, kept_by="retainer:_sessions").kinds) == 2
    assert len(bench.turn(2.0, kept_by="retainer:_sessions").kinds) == 3


def test_no_retainer_of_that_name() -> None:
    kept = Bench().turn(kept_by="retainer:nobody").kept
    assert kept is not None
    assert (kept.parts, kept.retainers, kept.failure) == (None, 0, "")


def test_that_blocks_are_not_told_is_no_failure_of_the_census() -> None:
    bench = Bench()
    bench.images.hold = True
    bench.turn(kept_by="retainer:_sessions")
    for _ in range(3):
        bench.source.go_on()
        bench.images.hold = True
        bench.take_events()
    bench.images.failure = "allocations are not sampled"
    bench.source.go_on()
    bench.take_events()
    facts = bench.turn(1.0, kept_by="retainer:_sessions")
    assert facts.kept is not None
    assert (facts.kept.failure, facts.failure) == ("allocations are not sampled", "")
    assert len(facts.kinds) == 1
    assert not bench.images.is_open
