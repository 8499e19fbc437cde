"""What the tests of several processes share: members on fake sources, and an app that shows them in tabs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from heaptop.errors import HeaptopError
from heaptop.protocol.deferred import DeferredSource
from heaptop.protocol.source import Source, TargetInfo
from heaptop.tui.app import make_app
from heaptop.tui.screens.several import FamilyChanges, MemberProcess, Several
from heaptop.tui.screens.summed_screen import SummedScreen
from heaptop.tui.screens.tabs import Tabs
from tests.fakes.source import FakeAgent, FakeSource
from tests.tui.support import SMALL, Stage

WORKERS = (1201, 1203, 1207)


def late(pid: int, connect: Callable[[], Source]) -> DeferredSource:
    return DeferredSource(TargetInfo(pid, "gunicorn: worker [shop]", "3.11.7", "web"), connect)


def member(pid: int) -> MemberProcess:
    """One that nobody drives."""
    source = late(pid, lambda: FakeSource(FakeAgent(pid=pid)))
    return MemberProcess(source, source, "shop")


@dataclass
class Fleet:
    """Some processes, and what a test makes of them."""

    refused: dict[int, HeaptopError] = field(default_factory=dict)
    sources: dict[int, FakeSource] = field(default_factory=dict)
    """Those that were begun, in that order."""
    come: list[int] = field(default_factory=list)
    """Pids of processes that the next look finds."""
    gone: set[int] = field(default_factory=set)
    members: dict[int, MemberProcess] = field(default_factory=dict)

    def member(self, pid: int, *, asked: bool = True) -> MemberProcess:
        def connect() -> FakeSource:
            if pid in self.refused:
                raise self.refused[pid]
            agent = FakeAgent(pid=pid)
            agent.mode = "clone"
            agent.time_ns += pid * 1_000_000
            agent.censuses = len(self.sources) * 3
            self.sources[pid] = FakeSource(agent)
            return self.sources[pid]

        source = late(pid, connect)
        self.members[pid] = MemberProcess(source, source, f"w{len(self.members) + 1}", asked)
        return self.members[pid]

    def look(self) -> FamilyChanges:
        new, self.come = [self.member(pid, asked=False) for pid in self.come], []
        return FamilyChanges(new, frozenset(self.members.keys() - self.gone))


@dataclass
class TabsStage(Stage):
    """An app in tabs under test."""

    fleet: Fleet

    @property
    def tabs(self) -> Tabs:
        assert self.app.tabs is not None
        return self.app.tabs

    @property
    def summed(self) -> SummedScreen:
        return next(screen for screen in self.tabs.screens if isinstance(screen, SummedScreen))

    async def begun(self, pid: int) -> FakeSource:
        """The source of that process, once it is its turn."""
        await self.until(lambda: pid in self.fleet.sources, f"it is the turn of {pid}")
        source = self.fleet.sources[pid]
        await self.until(lambda: source._deliver is not None, f"{pid} is opened")
        return source

    async def count(self, *pids: int, times: int = 1) -> None:
        """A tick and a census of each, one after the other."""
        for _ in range(times):
            for pid in pids:
                source = self.fleet.sources[pid]
                before = source.agent.censuses
                source.tick()
                assert source.agent.censuses == before + 1
                await self.until(lambda: self.taken(source), f"{source.agent.pid} was taken in")  # noqa: B023

    def taken(self, source: FakeSource) -> bool:
        screens = self.tabs.screens
        session = next(s.session for s in screens if s.session.target.pid == source.agent.pid)
        latest = session.history.latest
        return latest is not None and latest.time_ns == source.agent.time_ns

    async def attach_all(self, *pids: int) -> None:
        """Each attached and counted once, in turn."""
        for pid in pids:
            (await self.begun(pid)).attach()
            await self.count(pid)


@asynccontextmanager
async def in_tabs(
    size: tuple[int, int] = SMALL,
    pids: Sequence[int] = WORKERS,
    *,
    fleet: Fleet | None = None,
    attach: bool = True,
    ascii: bool = False,
    theme: str | None = "dark",
) -> AsyncIterator[TabsStage]:
    """An app on several fake sources, each attached and counted once."""
    found = fleet or Fleet()
    several = Several("gunicorn: master [shop]", [found.member(pid) for pid in pids], found.look)
    app = make_app(several=several, ascii=ascii, theme=theme)
    async with app.run_test(size=size) as pilot:
        stage = TabsStage(app, FakeSource(), pilot, found)
        await stage.until(lambda: app.tabs is not None, "the tabs are there")
        for screen in stage.tabs.screens:
            session = screen.session
            session.clock = lambda session=session: session.heard_at or 0.0  # type: ignore[misc]
        if attach:
            await stage.attach_all(*[pid for pid in pids if pid not in found.refused])
        yield stage
