"""The page behind ?: all that a view shows is explained in few sentences; the docs say where figures come from."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from rich.cells import cell_len

from heaptop.choices import MODES
from heaptop.injector.backends.registry import BACKENDS
from heaptop.tui.charts.chart_style import ChartStyle
from heaptop.tui.charts.palette import DARK
from heaptop.tui.keys.bindings import PICKER, Key
from heaptop.tui.keys.explaining import ABOVE, SOURCES, FigureHelp
from heaptop.tui.screens.picker import EXPLAINS as PICKER_EXPLAINS
from heaptop.tui.state.control import recording
from heaptop.tui.state.snapshot_status import snapshot_words
from heaptop.tui.views import LIVE, VIEWS
from heaptop.tui.widgets import header
from heaptop.tui.widgets.help_screen import NAMES, WIDTH, HelpPage, HelpScreen, help_text, keys_here
from heaptop.tui.widgets.virtual_table import VirtualTable
from tests.fakes.shop import growing_shop
from tests.fakes.source import FakeSource
from tests.support import view_pages
from tests.tui.scenes import SCENES
from tests.tui.support import LARGE, SMALL, Stage, on_stage

pytestmark = pytest.mark.usefixtures("plain_environment")

LOOK = ChartStyle.of(DARK, ascii_only=False)
DOCUMENTED = Path(__file__).parents[2] / "docs" / "sources.md"
TABLES = {name: view.EXPLAINS for name, view in VIEWS.items()} | {"above": ABOVE, "picker": PICKER_EXPLAINS}
MARKS = "≈±≥≤█░│·▸▾›●?!~"
"""What stands for something, where it is not drawn by a chart."""


def explains(one: FigureHelp, heading: str) -> bool:
    return any(heading == name or (name.endswith("…") and heading.startswith(name[:-1])) for name in one.names)


# -- what is said ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TABLES)
def test_each_figure_is_explained_once_in_one_to_three_sentences(name: str) -> None:
    seen: set[str] = set()
    for one in TABLES[name]:
        sentences = re.findall(r"[.?!](?:\s|$)", one.text)
        assert 1 <= len(sentences) <= 3, f"{one.names}: {one.text}"
        assert one.text[-1] == "."
        assert not seen & set(one.names), f"{seen & set(one.names)} is explained twice"
        seen |= set(one.names)


@pytest.mark.parametrize("name", VIEWS)
def test_every_view_says_what_it_shows_and_from_which_paper(name: str) -> None:
    view = VIEWS[name]
    assert view.SHOWS
    cited = [one.cited.source for one in view.EXPLAINS if one.cited is not None]
    assert [source for source in cited if source.short != "CPython"]


def test_what_a_view_shows_and_its_keys_come_before_what_is_known_of_the_session() -> None:
    key = PICKER[0]
    page = HelpPage("Processes", PICKER, first="Sampling is off.", shows="All processes.", here=(key.action,))
    lines = help_text(page, LOOK).plain.splitlines()
    assert lines[0] == "All processes."
    assert key.description in lines[2]
    assert lines[3:6] == ["", "In this session", "Sampling is off."]


@pytest.mark.parametrize("name", VIEWS)
def test_the_page_of_a_view_has_its_keys_and_figures(name: str) -> None:
    """``python -m tests.support.view_pages`` writes them."""
    by_hand, begin, tables = view_pages.page_of(name).read_text("utf-8").partition(view_pages.BEGIN)
    assert by_hand.startswith(f"# {VIEWS[name].NUMBER} {VIEWS[name].TITLE}\n")
    assert begin + tables == view_pages.tables(VIEWS[name])


def test_every_paper_is_some_views_and_in_the_docs() -> None:
    cited = {one.cited.source for table in TABLES.values() for one in table if one.cited is not None}
    assert cited == {*SOURCES}
    page = DOCUMENTED.read_text("utf-8")
    assert all(f"- **{source.short}**: " in page for source in SOURCES)


# -- all that is shown is explained ------------------------------------------------------------------------------


@asynccontextmanager
async def on_scene(size: tuple[int, int], name: str) -> AsyncIterator[Stage]:
    source = FakeSource()
    source.agent.images.plant = growing_shop
    source.sample(65536, 128)
    async with on_stage(size, censuses=8, source=source) as stage:
        await press(stage, str(VIEWS[name].NUMBER % 10))
        yield stage


async def press(stage: Stage, key: str) -> None:
    await (stage.ticks(5) if key == "+" else stage.press(key))

    def is_quiet() -> bool:
        return not (stage.live.hunting.is_busy or stage.live.client.is_busy or stage.live.draw_due)

    await stage.until(is_quiet, "all is answered")
    await stage.settled()


@pytest.mark.parametrize("name", SCENES)
async def test_every_heading_and_mark_that_a_view_shows_is_explained(name: str) -> None:
    shown: set[str] = set()
    marks: set[str] = set()
    async with on_scene(LARGE, name) as stage:
        for keys in SCENES[name].tables:
            for key in keys:
                await press(stage, key)
                assert name == stage.live.view.NAME
                shown |= headings_of(stage)
                marks |= marks_of(stage)
            await stage.pilot.resize_terminal(*SMALL)
            await stage.settled()
            shown |= headings_of(stage)
            marks |= marks_of(stage)
            await stage.pilot.resize_terminal(*LARGE)
    shown.discard("")
    assert len(shown) >= (0 if name == "heap_map" else 8)
    assert [one for one in sorted(shown) if not any(explains(each, one) for each in VIEWS[name].EXPLAINS)] == []
    known = "".join(one_name for one in VIEWS[name].EXPLAINS for one_name in one.names)
    by_charts = {"heap_map": "█", "sizes": ""}
    assert marks - set(known) - set(by_charts.get(name, "·│░█")) == set()


def headings_of(stage: Stage) -> set[str]:
    sheets = [table.sheet for table in stage.live.view.query(VirtualTable)]
    return {column.title for sheet in sheets if sheet is not None for column in sheet.columns}


def marks_of(stage: Stage) -> set[str]:
    """What stands in a table, or beside a picture, before a figure or a name."""
    begins = rf"(?:^|\s)([{re.escape(MARKS)}])(?=[\w\s.])"
    return {mark for line in stage.lines(4, -1) for mark in re.findall(begins, line)}


def words_of(*functions: Callable[..., object]) -> set[str]:
    """The words in texts that these functions are made of, but for names of tones and dictionaries."""
    found: set[str] = set()
    for one in functions:
        tree = ast.parse(inspect.getsource(one)).body[0]
        assert isinstance(tree, ast.FunctionDef)
        body = tree.body[1:] if ast.get_docstring(tree) else tree.body
        texts = [each.value for part in body for each in ast.walk(part) if isinstance(each, ast.Constant)]
        found |= {word for text in texts if isinstance(text, str) for word in re.findall(r"[A-Za-z]{2,}", text)}
    return found - {"warn", "bad", "good", "strong", "quiet", "name", "command", "heaptop"}


def test_every_word_of_the_header_is_explained() -> None:
    names = " ".join(name for one in ABOVE for name in one.names)
    own = [one for _, one in inspect.getmembers(header, inspect.isfunction) if one.__module__ == header.__name__]
    said = words_of(*own)
    assert {"estimated", "partial", "throttled", "pause", "mode", "agent"} <= said
    assert said - set(re.findall(r"[A-Za-z]+", names)) == set()
    assert words_of(recording.recording_text) - {"MiB"} <= set(re.findall(r"[A-Za-z]+", names))


@pytest.mark.parametrize("word", [*MODES, *(one.name for one in BACKENDS)])
def test_each_way_in_and_each_way_of_counting_is_explained(word: str) -> None:
    assert any(re.search(rf"\b{word}\b", one.text) for one in ABOVE)


def test_the_line_of_a_snapshot_is_explained() -> None:
    names = set(re.findall(r"[A-Za-z]+", " ".join(name for one in ABOVE for name in one.names)))
    assert words_of(snapshot_words) - {"unknown"} <= names


def test_all_views_have_a_scene() -> None:
    assert set(SCENES) == set(VIEWS)


# -- the page -----------------------------------------------------------------------------------------------------


def page_of(name: str) -> HelpPage:
    view = VIEWS[name]
    return HelpPage(
        title=view.TITLE,
        keys=LIVE,
        shows=view.SHOWS,
        explains=view.EXPLAINS,
        words=view.HELP,
        here=view.OFFERS,
        means=view.MEANS,
        above=ABOVE,
    )


@pytest.mark.parametrize("name", VIEWS)
def test_the_page_fits_its_width_and_has_every_key_once(name: str) -> None:
    text = help_text(page_of(name), LOOK).plain
    assert max(cell_len(line) for line in text.splitlines()) <= WIDTH
    view = VIEWS[name]
    for key in LIVE:
        said = view.MEANS.get(key.action, key.description)
        lines = [line for line in text.splitlines() if f"{key.shown:>6} {said}" in line]
        assert len(lines) == 1, f"{key.shown}: {lines}"


@pytest.mark.parametrize("name", VIEWS)
def test_what_a_view_says_of_its_keys_is_of_keys_it_offers(name: str) -> None:
    view = VIEWS[name]
    offered = [action.partition("=")[0] for action in view.OFFERS]
    assert set(view.MEANS) <= set(offered)
    assert [key.action for key in keys_here(page_of(name))] == offered


@pytest.mark.parametrize("name", VIEWS)
def test_the_keys_come_first_then_the_figures_and_no_papers(name: str) -> None:
    text = help_text(page_of(name), LOOK).plain
    first = keys_here(page_of(name))[0]
    parts = (VIEWS[name].SHOWS[:30], f"{first.shown:>6} ", "What the figures mean", "Filters:", "Above every view")
    places = [text.index(part) for part in parts]
    assert places == sorted(places)
    assert not [source.short for source in SOURCES if source.short in text and source.short != "CPython"]


def test_names_that_are_too_long_stand_above_what_they_mean() -> None:
    one = FigureHelp(("a" * NAMES,), "It is long.", SOURCES[0].at("fig. 1"))
    short = FigureHelp(("b",), "It is short.")
    lines = help_text(HelpPage("", keys=(), explains=(one, short)), LOOK).plain.splitlines()
    assert lines[0] == "a" * NAMES
    assert lines[1].strip() == "It is long."
    assert lines[2] == f"{'b':<{NAMES}}It is short."


def test_a_key_without_a_meaning_here_keeps_its_own() -> None:
    keys = (Key("a", "a", "first", "does this", "G"), Key("c", "c", "other", "does that", "G"))
    text = help_text(HelpPage("", keys=keys, here=("other",), means={"other": "does it here"}), LOOK).plain
    assert text.index("does it here") < text.index("does this")
    assert "does that" not in text


async def test_help_of_a_view() -> None:
    async with on_stage() as stage:
        await stage.press("8", "question_mark")
        assert "─ 8 GC: what it shows ─" in stage.lines(0)[0]
        page = help_text(stage.live.help_of("gc"), stage.app.look).plain.splitlines()
        assert [line.strip("│ ") for line in stage.lines(1, -1)] == [line.strip() for line in page[: SMALL[1] - 2]]


async def test_the_help_of_each_view_loses_no_letter_in_ascii() -> None:
    async with on_stage(SMALL, ascii=True) as stage:
        for name in VIEWS:
            text = help_text(stage.live.help_of(name), stage.app.look).plain
            assert text.isascii()
            assert "?" not in re.sub(r"\?( |\)|$|\n)", "", text), "no letter was lost"


async def test_the_page_scrolls_and_closes() -> None:
    async with on_stage(SMALL) as stage:
        for close in ("escape", "q", "question_mark"):
            await stage.press("question_mark")
            screen = stage.app.screen
            assert isinstance(screen, HelpScreen)
            scroll = screen.query_one("VerticalScroll")
            places = []
            for key in ("j", "pagedown", "down", "k", "up", "pageup", "G", "g"):
                await stage.press(key)
                places.append(scroll.scroll_offset.y)
            page, end = scroll.size.height - 1, scroll.max_scroll_y
            assert places == [1, page + 1, page + 2, page + 1, page, 0, end, 0]
            await stage.press(close)
            assert stage.app.screen is stage.live


async def test_what_must_be_known_now_is_said_only_of_what_is_shown() -> None:
    source = FakeSource()
    source.sample(65536, 128)
    async with on_stage(LARGE, source=source) as stage:
        assert "sampled every 64 KiB" in stage.live.help_page.first
        assert stage.live.help_of("gc").first == ""


async def test_the_help_of_a_view_of_the_snapshot_has_the_whole_of_its_line() -> None:
    async with on_stage(SMALL) as stage:
        await stage.press("0")
        await stage.until(lambda: "closes in" in stage.text, "the snapshot is open")
        line = stage.line("closes in").strip()
        assert line.endswith(" · …"), "whole parts of it fit"
        whole = stage.live.help_page.first
        assert line.removesuffix(" · …").partition(" old")[2] in whole
        assert re.search(r" · pause \S+ ms · [0-9,]+ objects, \S+ KiB\.", whole)


def test_the_pickers_keys_are_on_its_page() -> None:
    text = help_text(HelpPage("", keys=PICKER, here=("attach",)), LOOK).plain
    assert all(key.description in text for key in PICKER)
