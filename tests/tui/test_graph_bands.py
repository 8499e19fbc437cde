"""Bands by retainers and by kind of root: graph censuses, how often, what they cost, and when there are none."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial

import pytest

from heaptop.analysis.filters.filters import parse_filter
from heaptop.analysis.filters.predicates import NameTerm
from heaptop.analysis.heap.graph_history import GraphCell
from heaptop.errors import UsageError
from heaptop.tui.state import graph_watch
from heaptop.tui.state.graph_watch import GraphFacts, GraphWatch
from heaptop.tui.state.snapshot_client import SnapshotPurpose, SnapshotStage
from heaptop.tui.views.producers.view import ProducersView
from tests.tui.sampled import column, on_sampled_stage
from tests.tui.support import LARGE, SMALL, Stage, on_stage

pytestmark = pytest.mark.usefixtures("plain_environment")

BY = {"retainer": 7, "kind": 8}
"""How often b is pressed from the type on."""


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


class StruckWatch(GraphWatch):
    """Its turn comes when the test strikes the second, never when the screen's own does: that comes at any time."""

    by_test = False

    def turn(self, wanted: bool, kept_by: NameTerm | None = None) -> None:
        if self.by_test:
            super().turn(wanted, kept_by)


class GraphStage:
    """A live screen whose graph censuses go by a clock and by seconds that only the test has."""

    def __init__(self, stage: Stage) -> None:
        self.stage, self.clock = stage, Clock()
        self.watch = StruckWatch(stage.live.client, stage.live.session.sampling.samples.stack_of, self.clock)
        stage.live.state.graph = self.watch

    @property
    def facts(self) -> GraphFacts:
        return self.watch.facts

    @property
    def images(self) -> int:
        """So many were asked for, by whomever."""
        return self.stage.source.agent.images.number

    def strike(self) -> None:
        """The screen's clock strikes once."""
        self.watch.by_test = True
        self.stage.live.second()
        self.watch.by_test = False

    async def second(self) -> None:
        """It strikes, and what follows is on the screen."""
        self.strike()
        await self.stage.ticks(1)
        await self.stage.settled()

    async def rounds(self, number: int) -> None:
        """So many times it is due."""
        for _ in range(number):
            await self.rest()
            self.clock.now += graph_watch.SHORTEST  # in the middle of one it would be what that one has cost
            wanted = len(self.facts.kinds) + 1
            await self.second()
            await self.stage.until(partial(self._has, wanted), "it was taken")
        await self.rest()

    async def rest(self) -> None:
        """Until none is under way, and nothing else has had its turn since that was seen."""
        while self.watch._under_way:
            await self.stage.pilot.pause(0.02)

    def _has(self, number: int) -> bool:
        return len(self.facts.kinds) >= number

    def latest(self, key: str) -> Sequence[GraphCell]:
        moments = self.facts.kinds if key == "kind" else self.facts.retainers
        return moments[-1].cells


@asynccontextmanager
async def on_graph_stage(size: tuple[int, int] = SMALL, key: str = "retainer") -> AsyncIterator[GraphStage]:
    async with on_stage(size, censuses=2) as stage:
        made = GraphStage(stage)
        await stage.press(*["b"] * BY[key])
        assert stage.bands.words[0] == f"Bands by {key}"
        yield made


async def test_the_band_of_a_leaking_retainer_grows() -> None:
    """Sessions leak into the cache: its band is what grows."""
    async with on_graph_stage() as graph:
        await graph.rounds(6)
        for heading, grows in (("Retainers", "module shop.cache ._sessions"), ("Kind of root", "module")):
            assert stage_heading(graph.stage) == heading
            assert graph.stage.lines(3)[0].startswith(" graph census every 10 s: up to ")
            names, changes = column(graph.stage, "name"), column(graph.stage, "change")
            assert names[0] == grows
            assert changes[0] == "+10.8 KiB"
            assert all(change == "0" or change.endswith(" B") for change in changes[1:]), "others hardly"
            assert len(column(graph.stage, "growth")[0].strip()) == 6, "one for each census"
            await graph.stage.press("b")


def stage_heading(stage: Stage) -> str:
    """The name of the first column that has one."""
    return stage.line("Bytes▼").strip().partition("  ")[0]


async def test_none_is_taken_while_nobody_looks() -> None:
    async with on_graph_stage() as graph:
        for keys in (("b", "b"), ("2",), ("8",)):
            await graph.stage.press(*keys)
            await graph.second()
            assert graph.images == 0
        await graph.stage.press("1", "V")
        graph.stage.bands.set_where(parse_filter("retainer:cache"))
        await graph.second()
        assert graph.images == 0, "a question stands before it"
        await graph.stage.press("n", "slash")
        await graph.second()
        assert graph.images == 0, "a filter is being typed"
        await graph.stage.press("enter")
        await graph.second()
        assert graph.images == 1


async def test_it_waits_while_a_person_has_a_snapshot() -> None:
    async with on_graph_stage(LARGE) as graph:
        await graph.rounds(1)
        await graph.stage.press("o")
        graph.clock.now += 100
        await graph.second()
        await graph.second()
        assert graph.images == 2
        assert "graph censuses wait for the snapshot: x closes it" in graph.stage.text
        assert "module shop.cache ._sessions" in graph.stage.text, "what is known stays"
        await graph.stage.press("x")
        await graph.stage.until(lambda: not graph.stage.live.client.is_open, "the person's snapshot is closed")
        await graph.second()
        await graph.second()
        await graph.stage.until(lambda: graph.images == 3, "another one was taken")
        assert "graph census every" in graph.stage.text


async def test_the_view_of_retainers_has_a_snapshot_of_its_own() -> None:
    async with on_graph_stage() as graph:
        await graph.rounds(1)
        await graph.stage.press("3")
        await graph.stage.until(lambda: graph.stage.live.client.stage is SnapshotStage.OPEN, "it is open")
        assert graph.stage.live.client.purpose is SnapshotPurpose.LOOKING
        assert graph.images == 2


async def test_a_refusal_is_said_in_place_of_bands() -> None:
    async with on_graph_stage() as graph:
        images = graph.stage.source.agent.images
        images.refusal = "it needs a clone, and none is made: mode python was chosen"
        await graph.second()
        await graph.second()
        assert "No graph census: it needs a clone, and none is made: mode python was chosen." in graph.stage.text
        assert "graph census every" not in graph.stage.text
        images.refusal = ""
        graph.clock.now += graph_watch.SHORTEST
        await graph.rounds(1)
        assert "No graph census" not in graph.stage.text
        assert "._sessions" in graph.stage.text


# -- filters ------------------------------------------------------------------------------------------------


async def test_types_by_what_keeps_them() -> None:
    async with on_graph_stage(LARGE) as graph:
        await graph.stage.press("b", "b")
        assert graph.stage.bands.words[0] == "Bands by type"
        await graph.stage.press("slash")
        await graph.stage.type("retainer:_sessions")
        await graph.stage.press("enter")
        await graph.rounds(2)
        rows = {row.name: row.bytes for row in graph.stage.bands._rows}
        told: dict[str, int] = {}
        for cell in graph.latest("retainer"):
            if "_sessions" in cell.retainer:
                told[cell.type.full] = told.get(cell.type.full, 0) + cell.bytes
        assert rows == told
        assert "shop.models.Session" in rows
        assert "≈" not in graph.stage.bands.words[1]
        assert "as of 1 s ago" in graph.stage.bands.words[1]


async def test_enter_shows_the_types_of_a_retainer_and_esc_goes_back() -> None:
    async with on_graph_stage(LARGE) as graph:
        await graph.rounds(1)
        row = graph.stage.bands._rows[0]
        await graph.stage.press("enter")
        assert graph.stage.bands.words[0].startswith("Bands by type  ›  retainer:")
        assert sum(one.bytes for one in graph.stage.bands._rows) == row.bytes
        await graph.stage.press("escape")
        assert graph.stage.bands._rows[0].name == row.name


async def test_other_views_say_why_they_know_none() -> None:
    async with on_stage() as stage:
        for key, term in (("2", "kind:c"), *((key, term) for key in "678" for term in ("kind:c", "retainer:cache"))):
            await stage.press(key)
            with pytest.raises(UsageError, match="have no") as caught:
                stage.live.view.set_where(parse_filter(term))
            assert "nothing keeps dead ones" in (caught.value.why or ""), key


# -- producers ----------------------------------------------------------------------------------------------


async def test_producers_by_what_keeps_their_blocks() -> None:
    """Pages are in two caches, one of which has all and the other one half; it has nothing of other stacks."""
    async with on_sampled_stage(LARGE, "2", ticks=30) as stage:
        graph = GraphStage(stage)
        await stage.press("slash")
        await stage.type("retainer:rendered")
        await stage.press("enter")
        assert "Waiting for a graph census." in stage.text
        graph.strike()
        await stage.until(lambda: graph.facts.kept is not None, "it was taken")
        await stage.ticks(1)
        said = "≈ the part of each stack that was kept 1 s ago · graph census every 10 s"
        await stage.until(lambda: said in stage.text, "it is said")
        assert [name.strip() for name in column(stage, "name")] == ["shop/views.py:131 list_orders"]
        assert "Freed" not in stage.text, "of the dead nothing is known"
        for key in ("v", "v", "v", "b", "enter"):
            await stage.press(key)
            assert "retainer:rendered" in stage.live.view.words[0]
        kept = graph.facts.kept
        assert kept is not None
        assert kept.parts is not None
        (part,) = kept.parts.values()
        assert 0.5 < part < 0.6, "the half with the larger ones"
        whole, some = stage.live.session.sampling.samples, stage.live.query_one(ProducersView)._figures.samples
        of_all = sum(tally.live.bytes for tally in whole.tallies() if tally.stack in kept.parts)
        assert sum(tally.live.bytes for tally in some.tallies()) == pytest.approx(part * of_all, rel=1e-6)


@pytest.mark.parametrize(
    ("where", "says"),
    [
        ("retainer:nobody", "No retainer matches retainer:nobody."),
        ("retainer:history", "No sample that is kept this way matches retainer:history."),
    ],
)
async def test_producers_of_nothing_that_is_kept(where: str, says: str) -> None:
    async with on_sampled_stage(SMALL, "2", ticks=3) as stage:
        graph = GraphStage(stage)
        stage.live.view.set_where(parse_filter(where))
        await graph.second()
        await stage.until(lambda: graph.facts.kept is not None, "it was taken")
        await stage.ticks(1)
        assert says in stage.text


async def test_producers_know_one_retainer_term() -> None:
    async with on_sampled_stage(SMALL, "2", ticks=3) as stage:
        for where in ("!retainer:cache", "retainer:cache lifetime>1MB"):
            with pytest.raises(UsageError):
                stage.live.view.set_where(parse_filter(where))
