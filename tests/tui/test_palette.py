"""What the command palette offers: all that can be done at this moment, and nothing twice."""

from __future__ import annotations

from inspect import isawaitable
from operator import attrgetter
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.command import CommandList

from heaptop.analysis.filters.filters import parse_filter
from heaptop.errors import AgentLost
from heaptop.tui.app import HeaptopApp
from heaptop.tui.keys.bindings import QUESTION
from heaptop.tui.screens.commands import HeaptopCommands, match
from heaptop.tui.screens.question import QuestionScreen
from heaptop.tui.screens.table_screen import PaletteCommand
from heaptop.tui.state.sampling_words import RATES
from heaptop.tui.views import LIVE, VIEWS
from heaptop.tui.widgets.help_screen import HelpScreen
from tests.fakes.source import FakeSource
from tests.tui.support import LARGE, SMALL, Stage, on_stage

pytestmark = pytest.mark.usefixtures("plain_environment")


def offered(stage: Stage) -> dict[str, PaletteCommand]:
    """By title."""
    commands = [*HeaptopCommands(stage.app.screen)._commands()]
    assert len({command.title for command in commands}) == len(commands), "something is listed twice"
    return {command.title: command for command in commands}


async def run(stage: Stage, title: str) -> None:
    result = offered(stage)[title].run()
    if isawaitable(result):
        await result
    await stage.pilot.pause()


async def sampled(stage: Stage) -> None:
    stage.source.sample(65536, 128)
    await stage.ticks(2)


def own_keys(stage: Stage) -> set[str]:
    return {command.help for command in offered(stage).values()}


async def test_every_key_but_those_of_the_cursor_is_in_it_somewhere() -> None:
    seen: set[str] = set()
    async with on_stage(SMALL) as stage:
        for view in VIEWS.values():
            await stage.press(str(view.NUMBER % 10))
            seen |= own_keys(stage)
    keys = [key for key in LIVE if key.group not in ("Move", QUESTION) and not key.everywhere and key.shown != ":"]
    assert {f"key {key.shown}" for key in keys} <= seen


async def test_a_view_is_shown_by_each_of_what_it_knows() -> None:
    async with on_stage(LARGE) as stage:
        await sampled(stage)
        for name in VIEWS:
            await stage.press(str(VIEWS[name].NUMBER % 10))
            view = stage.live.view
            assert name == view.NAME
            assert view.by in (view.bys or {""}), "a view that is cut in one way has none"
            for key, words in reversed(view.bys.items()):
                title = f"{view.TITLE} {words}"
                if key == view.by:
                    assert title not in offered(stage)
                    continue
                await run(stage, title)
                assert view.by == key
                assert stage.live.view is view


async def test_what_does_not_go_with_the_filter_is_left_out() -> None:
    async with on_stage() as stage:
        assert "Bands by generation" in offered(stage)
        stage.bands.set_where(parse_filter("site:views"))
        found = offered(stage)
        assert "Bands by generation" not in found
        assert "Bands by producer" in found
        assert "Bands by kind of root" not in found


async def test_nothing_is_drawn_of_what_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    async with on_stage() as stage:
        drawn: list[str] = []
        show = stage.bands.show
        monkeypatch.setattr(stage.bands, "show", lambda *shown: (drawn.append(stage.bands.by), show(*shown)))
        stage.bands.show_by("kind")
        assert set(drawn) == {"kind"}


async def test_rows_are_sorted_by_a_column_by_its_heading() -> None:
    async with on_stage(LARGE) as stage:
        assert "Sort by Bytes" not in offered(stage), "they are"
        await run(stage, "Sort by Objects")
        assert "Objects▼" in stage.text
        assert "Sort by Bytes" in offered(stage)


async def test_tree_and_icicle_are_of_what_lives_or_of_all_that_was_allocated() -> None:
    async with on_stage(LARGE) as stage:
        await sampled(stage)
        await stage.press("2", "v", "v")
        await run(stage, "Producers all allocations")
        assert "icicle, allocated" in stage.text


async def test_rates_by_name_but_for_the_one_it_has() -> None:
    source = FakeSource()
    source.sample(RATES[1], 128)
    async with on_stage(source=source) as stage:
        titles = [title for title in offered(stage) if title.startswith("Sampling:") and "one sample" in title]
        assert titles == ["Sampling: one sample per 512 KiB", "Sampling: one sample per 8 KiB"]
        assert "Sampling: 200 samples/s" in offered(stage)
        await run(stage, "Sampling: off")
        await stage.ticks(1)
        assert "Sampling: off" not in offered(stage)
        await run(stage, "Sampling: one sample per 8 KiB")
        await stage.ticks(1)
        assert "1/8 KiB" in stage.text


async def test_the_help_of_another_view() -> None:
    async with on_stage() as stage:
        assert "Help: Bands" not in offered(stage)
        await run(stage, "Help: Sizes")
        screen = stage.app.screen
        assert isinstance(screen, HelpScreen)
        assert "Memory blocks by size" in stage.text
        await stage.press("escape")
        assert stage.live.view.NAME == "bands"


async def test_no_palette_opens_over_a_question() -> None:
    async with on_stage(censuses=2) as stage:
        await stage.press("V", "ctrl+p", "colon")
        assert "Show values" in stage.text
        assert isinstance(stage.app.screen, QuestionScreen)


async def test_after_the_end_no_sampler_is_offered() -> None:
    async with on_stage(censuses=2) as stage:
        stage.source.end(AgentLost("The agent has exited."))
        await stage.until(lambda: "agent lost" in stage.text, "it is told")
        assert "Sampling: off" not in offered(stage)


@pytest.mark.parametrize(("name", "lacks"), [("bands", "zoom"), ("gc", "why"), ("sizes", "exclude")])
async def test_keys_that_mean_nothing_on_a_view_are_left_out(name: str, lacks: str) -> None:
    async with on_stage() as stage:
        await stage.press(str(VIEWS[name].NUMBER % 10))
        assert not [key for key in stage.live.keys_now if key.action.startswith(lacks)]
        assert [key for key in LIVE if key.action.startswith(lacks)]


async def test_the_palette_is_ascii_in_every_view() -> None:
    async with on_stage(ascii=True) as stage:
        await sampled(stage)
        for view in VIEWS.values():
            await stage.press(str(view.NUMBER % 10))
            assert all((command.title + command.help).isascii() for command in offered(stage).values())


async def searched(stage: Stage, query: str) -> list[str]:
    """What it comes to, the best first."""
    hits = [hit async for hit in HeaptopCommands(stage.app.screen).search(query)]
    return [hit.text or "" for hit in sorted(hits, key=attrgetter("score"), reverse=True)]


SEARCHED = {
    "leak": "Leaks: what grew, and why",
    "save": "Save the table or screen",
    "copy": "Copy this row",
    "filter": "Filter as you type",
    "theme": "Theme: dark",
    "light": "Theme: light",
    "rate": "Sampling rate, or off",
    "sampling off": "Sampling: off",
    "snapshot": "Take a new snapshot",
    "mark": "Mark, and check what is new",
    "help": "Help: this page",
    "help leaks": "Help: Leaks",
    "quit": "Detach and quit",
    "memory": "Memory: what RSS is made of",
    "why": "What keeps this row alive",
    "sort": "Sort: column to the left",
    "pause": "Pause the display only",
    "record": "Start or stop recording",
    "map": "Heap map: object addresses",
    "generation": "Bands by generation",
    "census": "Take a census now",
    "Theme:": "Theme: dark",
}
"""What a person types, and the command that is meant by it."""


ASCII = st.text(st.characters(codec="ascii"), max_size=12)


async def test_what_is_meant_comes_first_and_nothing_else_is_offered() -> None:
    async with on_stage(LARGE) as stage:
        await sampled(stage)
        words = {command.title: f"{command.title} {command.word}".lower() for command in offered(stage).values()}
        for query, meant in SEARCHED.items():
            titles = await searched(stage, query)
            assert titles[0] == meant
            assert len(titles) == len(set(titles))
            for title in titles:
                assert all(word in words[title] for word in query.lower().split()), title


async def test_for_what_nothing_is_called_nothing_is_offered() -> None:
    async with on_stage() as stage:
        for query in ("zzz", "lks", "-", ": :", "xx leak"):
            assert await searched(stage, query) == [], query


async def test_it_is_searched_as_it_is_typed() -> None:
    async with on_stage() as stage:
        await stage.press("ctrl+p")
        listed = stage.app.screen.query_one(CommandList)
        await stage.type("leak")
        await stage.until(lambda: [str(option.prompt).partition("\n")[0] for option in listed.options] == [
            "Leaks: what grew, and why", "Help: Leaks",
        ], "both are found")  # fmt: skip
        await stage.press("enter")
        await stage.until(lambda: stage.app.screen is stage.live, "the palette is closed")
        await stage.until(lambda: stage.live.view.NAME == "leaks", "the best was chosen")


@given(ASCII, ASCII)
def test_what_is_marked_is_what_was_searched_for(query: str, title: str) -> None:
    found = match(query, PaletteCommand(title, "", print))
    for begin, end in found.places if found is not None else ():
        assert title[begin:end].lower() in query.lower()


def test_the_app_has_these_commands() -> None:
    assert {cast("Any", provider)() for provider in HeaptopApp.COMMANDS} == {HeaptopCommands}
