"""View 2 by native memory: rows, stacks, filter and order, in a program that was started with --native; no other."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from heaptop.protocol.messages import MallocBlocks, MallocFrame, MallocSite, MallocSites, Memory, MemoryRequest, Outside
from heaptop.protocol.source import Attached, Event
from heaptop.tui.views.producers.view import ProducersView
from heaptop.tui.widgets.help_screen import HelpScreen
from tests.fakes.source import OUTSIDE, FakeSource
from tests.tui.support import LARGE, SIZES, SMALL, Stage, check_golden, on_stage

pytestmark = pytest.mark.usefixtures("plain_environment")
KIB, MIB = 1 << 10, 1 << 20
LOAD = (MallocFrame("/srv/app.py", "load", 42), MallocFrame("/srv/app.py", "main", 7))


def sites(*, dropped: int = 0) -> MallocSites:
    """Of a program that decompresses, parses, and has a thread without Python."""
    return MallocSites(
        128 * KIB, 128 * KIB, 900, dropped, 0,
        (
            MallocSite("/usr/lib/libz.so.1", "inflateInit2_", LOAD, "", (MallocBlocks(MIB, MIB, 128 * KIB, 9),)),
            MallocSite("/usr/lib/libxml2.so.2", "xmlStrdup", LOAD[1:], "", (MallocBlocks(64, 64, 128 * KIB, 3),)),
            MallocSite("/usr/lib/libssl.so.3", "", (), "none", (MallocBlocks(4096, 4096, 128 * KIB, 2),)),
        ),
    )  # fmt: skip


class Native(FakeSource):
    """A process that was started with --native; each request for memory is answered when a test says so."""

    def _send(self, event: Event) -> None:
        super()._send(replace(event, native=True) if isinstance(event, Attached) else event)

    def memory_now(self) -> None:
        self.memory_requests += 1

    def answer(self, found: MallocSites | None, *, outside: Outside | None = OUTSIDE) -> None:
        (said,) = self.agent.answer(MemoryRequest(1))
        assert isinstance(said, Memory)
        self.say(replace(said, outside=replace(outside, native=found) if outside is not None else None))


@asynccontextmanager
async def on_native_stage(size: tuple[int, int] = SMALL, found: MallocSites | None = None) -> AsyncIterator[Stage]:
    """View 2 by native memory, as soon as there are figures."""
    source = Native()
    async with on_stage(size, censuses=2, source=source) as stage:
        await stage.press("2", "b", "b", "b", "b", "b")
        await stage.until(lambda: source.memory_requests > 0, "memory is asked for")
        source.answer(found or sites())
        await stage.settled()
        yield stage


def view(stage: Stage) -> ProducersView:
    return stage.live.query_one(ProducersView)


def lines(stage: Stage) -> list[str]:
    """The line of each row of the table."""
    return [row.line for row in view(stage)._rows]


@pytest.mark.parametrize("size", SIZES)
async def test_each_line_and_library_has_its_live_bytes_with_their_interval(size: tuple[int, int]) -> None:
    async with on_native_stage(size) as stage:
        assert lines(stage) == ["/srv/app.py:42", "/srv/app.py:7", "(no Python stack)"]
        check_golden("producers-native-{size}", stage.app)


async def test_a_process_without_native_samples_does_not_offer_them() -> None:
    async with on_stage(censuses=2) as stage:
        await stage.press("2")
        assert "native" not in view(stage).bys
        await stage.press("b", "b", "b", "b", "b")
        assert view(stage).by == "site"
        assert not view(stage).wants_memory


async def test_before_the_first_figures_it_says_what_it_waits_for() -> None:
    source = Native()
    async with on_stage(source=source) as stage:
        await stage.press("2", "b", "b", "b", "b", "b")
        assert "Waiting for figures of native memory." in stage.text


@pytest.mark.parametrize(
    ("outside", "words"),
    [(OUTSIDE, "their table could not be read"), (None, "The kernel does not report this process's memory")],
)
async def test_an_answer_without_native_samples_says_why(outside: Outside | None, words: str) -> None:
    source = Native()
    async with on_stage(source=source) as stage:
        await stage.press("2", "b", "b", "b", "b", "b")
        await stage.until(lambda: source.memory_requests > 0, "memory is asked for")
        source.answer(None, outside=outside)
        await stage.until(lambda: words in stage.text, "it says why")


async def test_memory_is_asked_for_only_while_native_sites_are_shown() -> None:
    async with on_native_stage() as stage:
        assert view(stage).wants_memory
        await stage.press("b")
        assert (view(stage).by, view(stage).wants_memory) == ("site", False)


async def test_enter_shows_the_call_and_its_stack() -> None:
    async with on_native_stage() as stage:
        await stage.press("enter")
        assert stage.line("Called by libz.so.1 inflateInit2_: ")
        assert stage.line("/srv/app.py:42 load")
        assert stage.line("/srv/app.py:7 main")
        await stage.press("escape")
        assert lines(stage)[0] == "/srv/app.py:42"


async def test_what_has_no_python_stack_says_why() -> None:
    async with on_native_stage() as stage:
        await stage.press("G", "enter")
        assert stage.line("Called by libssl.so.3: ")
        assert stage.line("(no Python stack)")


async def test_a_filter_finds_lines_libraries_and_sizes() -> None:
    async with on_native_stage(LARGE) as stage:
        for typed, left in (("site:xml", ["/srv/app.py:7"]), ("size>1MB", ["/srv/app.py:42"])):
            await stage.press("slash", *typed, "enter")
            assert lines(stage) == left
            assert "2 rows" in stage.text
            await stage.press("escape")


async def test_a_filter_by_type_is_refused_because_native_memory_has_none() -> None:
    async with on_native_stage(LARGE) as stage:
        await stage.press("slash", *"type:Session", "enter")
        assert "Native memory" in stage.text
        assert not view(stage).where


async def test_native_memory_is_not_offered_where_the_filter_asks_for_what_it_does_not_know() -> None:
    async with on_stage(LARGE, censuses=2, source=Native()) as stage:
        await stage.press("2", "slash", *"type:Session", "enter")
        shown = set()
        for _ in range(7):
            await stage.press("b")
            shown.add(view(stage).by)
        assert ("native" in shown, len(shown), view(stage).where.text) == (False, 5, "type:Session")


async def test_rows_are_sorted_by_what_is_chosen() -> None:
    async with on_native_stage() as stage:
        assert view(stage)._chosen == ("live", True)
        await stage.press("i")
        assert lines(stage) == ["(no Python stack)", "/srv/app.py:7", "/srv/app.py:42"]
        view(stage).sort_by("caller")
        await stage.settled()
        assert next(row.caller for row in view(stage)._rows) == "libz.so.1 inflateInit2_"


async def test_dropped_samples_are_reported_above_the_table_and_on_the_help_page() -> None:
    async with on_native_stage(LARGE, sites(dropped=8)) as stage:
        assert stage.line("At least: 8 samples of native memory were dropped")
        await stage.press("question_mark")
        assert isinstance(stage.app.screen, HelpScreen)
        assert "At least: 8 samples of native memory were dropped" in stage.text


async def test_the_tree_is_of_sampled_blocks() -> None:
    async with on_native_stage() as stage:
        await stage.press("v")
        assert "tree" in view(stage).words[0]
        await stage.press("v", "v")
        assert view(stage).by == "site"
