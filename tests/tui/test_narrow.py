"""Narrow and low screens: what is dropped, what stays, and what is said where nothing can be shown."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.widgets import Static

from heaptop.analysis.callers.producer_table import TABLE_KEYS, ProducerTables
from heaptop.analysis.samples.sampled_blocks import SampledBlocks
from heaptop.analysis.samples.sampling import Sampling
from heaptop.protocol.findings import GROWTH_KEYS
from heaptop.protocol.messages import Decision
from heaptop.tui.charts.chart_style import ChartStyle
from heaptop.tui.charts.palette import DARK
from heaptop.tui.charts.raster import EMPTY, StyleRun
from heaptop.tui.screens.table_screen import UNSEEN
from heaptop.tui.state.sheet import ALWAYS, GAP, WIDE, Column, Sheet, fair_share, kept
from heaptop.tui.views import LIVE, VIEWS
from heaptop.tui.views.leaks import hunting_sheets
from heaptop.tui.views.producers import producer_sheets
from heaptop.tui.views.producers.call_rows import CallTree
from heaptop.tui.views.retainers import retainer_sheets
from heaptop.tui.widgets.picture import _filled
from heaptop.tui.widgets.too_small import LEAST, TooSmall, needs
from heaptop.tui.widgets.virtual_table import VirtualTable
from tests.tui.sampled import on_sampled_stage
from tests.tui.support import Stage, check_golden, on_stage
from tests.tui.test_picker import picking

pytestmark = pytest.mark.usefixtures("plain_environment")

COLUMNS = st.lists(
    st.builds(
        Column,
        key=st.sampled_from(["name", "bytes", "count", "share", "bar"]),
        title=st.just(""),
        width=st.integers(0, 20),
        rank=st.sampled_from([0, 1, 2, ALWAYS]),
        least=st.integers(0, 20),
    ),
    max_size=8,
).map(tuple)


def room(columns: tuple[Column, ...], shown: tuple[int, ...]) -> int:
    needed = [room for i in shown if (room := columns[i].needs(0))]
    return sum(needed) + GAP * (len(needed) - 1)


@given(COLUMNS, st.integers(0, 120), st.sampled_from(["", "bytes", "share"]))
def test_columns_go_by_rank_and_no_more_than_needed(columns: tuple[Column, ...], width: int, sort: str) -> None:
    shown = kept(columns, width, sort)
    assert list(shown) == sorted(shown)
    gone = [i for i in range(len(columns)) if i not in shown]
    for i in gone:
        assert columns[i].width
        assert columns[i].key not in ("name", sort)
        assert columns[i].rank < ALWAYS
    if room(columns, shown) > width:
        assert all(not columns[i].width or columns[i].key in ("name", sort) or columns[i].rank == ALWAYS for i in shown)
    if gone:
        last = max(gone, key=lambda i: (columns[i].rank, -i))
        assert room(columns, tuple(sorted((*shown, last)))) > width
        free = [i for i in shown if columns[i].width and columns[i].key not in ("name", sort)]
        assert all((columns[i].rank, -i) > (columns[last].rank, -last) for i in free)


BANDS = (
    Column("band", "", 3, rank=ALWAYS),
    Column("name", "Type", 0),
    Column("count", "Objects", 9),
    Column("bytes", "Bytes", 9),
    Column("bar", "", 10, rank=0),
    Column("change", "Change", 10, rank=2),
)


@pytest.mark.parametrize(
    ("width", "shown"),
    [
        (80, "band name count bytes bar change"),
        (67, "band name count bytes bar change"),
        (66, "band name count bytes change"),
        (45, "band name bytes change"),
        (30, "band name bytes"),
        (5, "band name bytes"),
    ],
)
def test_what_a_table_shows_at_some_widths(width: int, shown: str) -> None:
    assert [BANDS[i].key for i in kept(BANDS, width, "bytes")] == shown.split()


LOOK = ChartStyle.of(DARK, ascii_only=False)
WIDTHS = range(60, 221, 4)
TABLES: dict[str, Callable[[int], Sheet[Any]]] = {
    **{
        f"producers by {key}": lambda width, key=key: producer_sheets.table_sheet(
            (), producer_sheets.ProducerFacts(key, width, LOOK, sort="allocated" if key == "chain" else "live")
        )
        for key in TABLE_KEYS
    },
    "tree of calls": lambda width: producer_sheets.tree_sheet(
        (), CallTree((), "live"), ProducerTables(SampledBlocks(), Sampling().sites), width, LOOK, ""
    ),
    **{
        f"retainers by {key}": lambda width, key=key: retainer_sheets.row_sheet((), key, retained(width))
        for key in retainer_sheets.ROW_COLUMNS
    },
    "tree of paths": lambda width: retainer_sheets.tree_sheet(
        (), None, {}, "retained", retained(width), by_retained=True, as_list=False
    ),
    "objects": lambda width: retainer_sheets.object_sheet((), retained(width)),
    "around one object": lambda width: retainer_sheets.line_sheet((), retained(width)),
    "suspects": lambda width: hunting_sheets.suspect_sheet((), hunting_sheets.SuspectFacts(width, LOOK, "bytes")),
    **{
        f"growth by {key}": lambda width, key=key: hunting_sheets.grown_sheet(
            (), key, hunting_sheets.SuspectFacts(width, LOOK, "bytes")
        )
        for key in GROWTH_KEYS
    },
    "growth by censuses": lambda width: hunting_sheets.counted_sheet(
        (), hunting_sheets.SuspectFacts(width, LOOK, "bytes")
    ),
}


def retained(width: int) -> retainer_sheets.RetainerFacts:
    return retainer_sheets.RetainerFacts(width, LOOK, sort="retained", wide=width >= WIDE)


def has_fair_share(columns: Sequence[Column], shown: Sequence[int], width: int, sort: str) -> bool:
    """Whether names have it, or nothing is shown in their place that could go."""
    name = next(columns[i] for i in shown if columns[i].key == "name")
    rest = sum(columns[i].width for i in shown) + GAP * (len(shown) - 1)
    may_go = [i for i in shown if columns[i].width and columns[i].rank < ALWAYS and columns[i].key != sort]
    return width - rest >= (name.least or fair_share(width)) or not may_go


@pytest.mark.parametrize("name", TABLES)
def test_names_have_a_fair_share_of_every_table(name: str) -> None:
    for width in WIDTHS:
        sheet = TABLES[name](width)
        shown = kept(sheet.columns, width, sheet.sort)
        assert has_fair_share(sheet.columns, shown, width, sheet.sort), width
        assert fair_share(width) >= 16


@pytest.mark.parametrize(("width", "gone"), [(200, ""), (150, "range samples"), (120, "range samples trend"), (80, "")])
def test_which_figures_of_sites_go_first(width: int, gone: str) -> None:
    columns = TABLES["producers by site"](width).columns
    shown = kept(columns, width, "live")
    assert {column.key for i, column in enumerate(columns) if i not in shown} == {*gone.split()}


@pytest.mark.parametrize("key", ["6", "7"])
async def test_names_have_a_fair_share_of_lifetimes_and_sizes(key: str) -> None:
    async with on_sampled_stage((220, 40), key) as stage:
        await stage.press("b" if key == "6" else "enter")
        await stage.settled()
        for width in (220, 150, 120, 100, 80, 60):
            await stage.pilot.resize_terminal(width, 40)
            await stage.settled()
            table = next(table for table in stage.live.view.query(VirtualTable) if table.display)
            assert table.sheet is not None
            assert has_fair_share(table.sheet.columns, table._kept, table.size.width, table.sheet.sort), width


def shown_columns(stage: Stage) -> list[str]:
    table = next(table for table in stage.live.view.query(VirtualTable) if table.display)
    assert table.sheet is not None
    return [table.sheet.columns[i].key for i in table._kept]


# -- the app -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [(60, 20), LEAST], ids=["60x20", "least"])
@pytest.mark.parametrize(("key", "first"), [("1", "bytes"), ("2", "live"), ("6", "dead"), ("7", "kept"), ("8", "time")])
async def test_every_table_keeps_what_matters(size: tuple[int, int], key: str, first: str) -> None:
    async with on_sampled_stage(size, key) as stage:
        columns = shown_columns(stage)
        assert first in columns
        assert key == "8" or "name" in columns
        lines = stage.text.splitlines()
        assert len(lines) == size[1]
        assert all(len(line) <= size[0] for line in lines)
        assert "heaptop needs" not in stage.text


async def test_the_column_that_is_sorted_by_is_there() -> None:
    async with on_stage((50, 20)) as stage:
        usual = shown_columns(stage)
        assert "share" not in usual
        assert {"name", "bytes", "change"} <= {*usual}
        await stage.press("greater_than_sign")
        assert "Share▼" in stage.text
        await stage.press("less_than_sign")
        assert "Bytes▼" in stage.text
        assert shown_columns(stage) == usual


async def test_a_heading_that_is_clicked_is_the_one_that_is_seen() -> None:
    async with on_stage((50, 20)) as stage:
        heading = next(y for y, line in enumerate(stage.text.splitlines()) if "Bytes▼" in line)
        x = stage.text.splitlines()[heading].index("Change")
        await stage.pilot.click(offset=(x, heading))
        await stage.pilot.pause()
        assert "Change 1s▼" in stage.text


@pytest.mark.parametrize("key", [view.NUMBER for view in VIEWS.values() if not view.FROZEN])
async def test_no_view_fails_at_any_size(key: int) -> None:
    async with on_stage((80, 24)) as stage:
        await stage.press(str(key))
        for size in ((60, 20), LEAST, (49, 11), (20, 4), (5, 2), (1, 1), (80, 24)):
            await stage.pilot.resize_terminal(*size)
            await stage.pilot.pause()
            assert all(len(line) <= size[0] for line in stage.text.splitlines())
        await stage.until(lambda: f" {key} " in stage.text, "the view is back")


async def test_views_on_60_columns() -> None:
    async with on_stage((60, 20)) as stage:
        check_golden("narrow-bands-60x20", stage.app)
        await stage.press(str(VIEWS["gc"].NUMBER))
        assert stage.line("At▼").split() == ["At▼", "Gen", "Took", "Collected", "Uncollectable"]
        assert stage.line(" at 23.750 s").endswith("RSS 66.9 MiB"), "what is said of the row has room"
        await stage.press(str(VIEWS["leaks"].NUMBER))
        assert stage.line("Bytes▼").split() == ["Type", "Objects", "Bytes▼", "Objects/s", "Now"]
        assert "distinguishes a leak from a cache" in stage.text


async def test_the_picker_on_60_columns() -> None:
    async with picking((60, 20)) as (stage, _):
        assert stage.lines(1)[0].split() == ["PID", "Python", "RSS▼", "Command"]
        assert stage.line("4242").endswith("python -m shop.server --port 8…")


async def test_too_small_is_said_and_passes() -> None:
    async with on_stage((40, 10)) as stage:
        assert "heaptop needs 50×12; this terminal is" in stage.text
        await stage.pilot.resize_terminal(80, 24)
        await stage.press("2", "slash")
        await stage.type("shop")
        await stage.pilot.resize_terminal(49, 12)
        await stage.type("y")
        assert needs(49, 12) in stage.text
        await stage.pilot.resize_terminal(50, 11)
        assert needs(50, 11) in stage.text
        await stage.pilot.resize_terminal(50, 12)
        assert "heaptop needs" not in stage.text
        await stage.until(lambda: stage.app.focused, "one can type again")
        assert " / shop" in " ".join(stage.text.split()), "what was typed before is there"
        assert "shopy" not in stage.text, "what could not be seen is not"
        assert stage.live.view.NAME == "producers"
        await stage.type("x")
        assert "shopx" in stage.text


async def test_keys_whose_work_cannot_be_seen_do_nothing() -> None:
    async with on_stage() as stage:

        def state() -> tuple[object, ...]:
            live, source, known = stage.live, stage.source, stage.live.state
            view, cursor = live.view, live.view.table.place
            checks = known.held, known.questions, known.status.text, known.prompts.open, live.client.stage
            asked = source.census_requests, tuple(source.sampling), source._requests
            return view.NAME, view.by, view.where, view.table.follow, cursor, checks, asked, len(stage.app.screen_stack)

        await stage.pilot.resize_terminal(49, 11)
        await stage.until(lambda: stage.live.has_class("-narrow"), "it is known")
        before = state()
        for key in sorted({key.keys.partition(",")[0] for key in LIVE if key.action not in UNSEEN}):
            await stage.press(key)
            assert state() == before, key
            assert "heaptop needs" in stage.text, key
        last = stage.text.splitlines()[-1].split()
        assert last == ["q", "quit"], "the keys that act"


async def test_a_picker_that_cannot_be_seen_attaches_to_nothing() -> None:
    async with picking((80, 24)) as (stage, machine):
        await stage.pilot.resize_terminal(40, 10)
        await stage.press("enter", "a", "slash", "q")
        await stage.until(lambda: stage.app._exit, "q left it, and was no text")
        assert not machine.sources


async def test_too_small_in_ascii() -> None:
    async with on_stage((40, 10), ascii=True) as stage:
        assert stage.text.isascii()
        assert "heaptop needs 50x12" in stage.text


async def test_a_question_can_be_read_and_answered_where_it_is_too_small() -> None:
    async with on_stage((43, 10)) as stage:
        stage.source.say(Decision(1, "stop", "no core", 300_000_000, 100_000_000))
        await stage.until(lambda: "Pause process 4242" in stage.text, "it is asked")
        assert "process for about 300 ms; the" in stage.text
        assert stage.lines(-1)[0] == " y allow  n decline  ? help  q quit"
        await stage.press("n")
        assert stage.source.decisions == [False]
        assert "Pause process" not in stage.text


async def test_the_help_page_and_the_picker_say_it_too() -> None:
    async with picking((80, 24)) as (stage, _):
        await stage.pilot.resize_terminal(40, 10)
        assert "heaptop needs" in stage.text.replace("\n", " ")
        await stage.pilot.resize_terminal(80, 24)
        await stage.press("question_mark")
        await stage.pilot.resize_terminal(40, 10)
        assert sum(notice.display for notice in stage.app.screen.query(TooSmall)) == 1
        await stage.pilot.resize_terminal(80, 24)
        assert "Processes" in stage.text
        await stage.press("escape")
        assert "heaptop needs" not in stage.text
        assert "4242" in stage.text


async def test_help_has_one_column_on_a_narrow_screen() -> None:
    async with on_stage((60, 20)) as stage:
        await stage.press("question_mark")
        page = stage.app.screen.query_one(Static)
        assert max(map(len, str(page.content).splitlines())) < 60
        await stage.pilot.resize_terminal(80, 24)
        await stage.pilot.pause()
        assert re.search(r"^ +2 Producers: allocation sites +\S+ \w", str(page.content), re.M)


async def test_one_can_leave_where_it_is_too_small() -> None:
    async with on_stage((20, 4)) as stage:
        await stage.press("q")
        await stage.until(lambda: stage.app._exit, "it ends")
        assert stage.app.return_value is None


@given(st.lists(st.text("ab", max_size=5).map(lambda text: StyleRun(text, 0, EMPTY)), max_size=5), st.integers(0, 12))
def test_a_row_of_a_picture_is_as_wide_as_the_picture(row: list[StyleRun], width: int) -> None:
    whole = "".join(run.text for run in row)
    assert "".join(run.text for run in _filled(row, width)) == whole[:width].ljust(width)


FIGURE = re.compile(r"[+\-≈±?]?\d[\d,.]*(?: ?(?:[KMGT]i?B|B|%|ms|µs|s|k|M|/s|/min))?")


@pytest.mark.parametrize("key", ["1", "2", "6", "7", "8"])
async def test_figures_are_flush_right_in_every_table(key: str) -> None:
    async with on_sampled_stage((200, 50), key) as stage:
        seen = 0
        for _ in range(4):
            table = next(table for table in stage.live.view.query(VirtualTable))
            sheet = table.sheet
            assert sheet is not None
            for row in sheet.rows:
                for column, piece in zip(sheet.columns, sheet.draw(row), strict=True):
                    if FIGURE.fullmatch(piece.text.strip()):
                        assert column.right, (column.key, piece.text)
                        seen += 1
            await stage.press("b")
        assert seen
