"""View 2: every key of it, what it shows in each shape and size, and that a paused one stands still."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from heaptop.analysis.callers.call_paths import Amounts, CallPaths
from heaptop.analysis.callers.producer_table import ProducerTables
from heaptop.analysis.samples.estimate import Estimate
from heaptop.analysis.samples.producers import Sites
from heaptop.analysis.samples.sampled_blocks import SampledBlocks
from heaptop.analysis.text.code_places import CodePlaces
from heaptop.analysis.text.units import parse_size
from heaptop.injector.inspect import target_files
from heaptop.protocol.messages import CodeName
from heaptop.tui.charts.chart_style import ChartStyle
from heaptop.tui.charts.palette import DARK
from heaptop.tui.state.sampling_words import WITHOUT_C
from heaptop.tui.state.source_lines import SourceLines
from heaptop.tui.views.producers import view as producers
from heaptop.tui.views.producers.call_rows import PAGE, CallTree, ExpandedCalls, Kind
from heaptop.tui.views.producers.producer_sheets import WIDE, by_size, change_of, columns_of, spread, tree_sheet
from heaptop.tui.views.producers.view import ProducersView
from heaptop.tui.widgets.icicle_chart import IcicleChart
from tests.fakes import source as fake_source
from tests.fakes.source import FakeSource
from tests.tui.sampled import column, on_sampled_stage
from tests.tui.support import LARGE, SIZES, SMALL, Stage, check_golden, on_stage
from tests.unit.sample_cases import Program

pytestmark = pytest.mark.usefixtures("plain_environment")


def reader_in(folder: Path) -> Callable[[str], bytes]:
    """Reads files below a folder as those of a target are read."""

    def read(path: str) -> bytes:
        root = os.open(folder, os.O_PATH)
        try:
            found = target_files.look_up(root, path)
            try:
                return target_files.read_regular(found)
            finally:
                os.close(found)
        except (OSError, ValueError):
            return b""
        finally:
            os.close(root)

    return read


@asynccontextmanager
async def sampled(
    size: tuple[int, int] = SMALL, *, ticks: int = 20, interval: int = 65_536, ascii: bool = False
) -> AsyncIterator[Stage]:
    """View 2 after so many ticks of sampling."""
    source = FakeSource()
    async with on_stage(size, censuses=0, source=source, ascii=ascii) as stage:
        if interval:
            source.sample(interval, 128)
        await stage.ticks(ticks)
        await stage.press("2")
        yield stage


def view(stage: Stage) -> ProducersView:
    return stage.live.query_one(ProducersView)


def chart(stage: Stage) -> IcicleChart:
    return stage.live.query_one(IcicleChart)


def rows(stage: Stage) -> list[str]:
    """The lines between heading and footer."""
    return [line for line in stage.text.splitlines()[4:-1] if line]


def body(stage: Stage) -> list[str]:
    """All but the header, which says how much waits."""
    return stage.text.splitlines()[2:]


# -- what is shown -------------------------------------------------------------------------------------------------

STATES = {
    "site": [],
    "function": ["b"],
    "stacks": ["enter"],
    "tree": ["v", "j", "enter"],
    "around": ["b", "j", "enter"],
    "icicle": ["v", "v", "j", "j"],
}


@pytest.mark.parametrize("size", SIZES)
async def test_each_table_of_producers_has_its_columns(size: tuple[int, int]) -> None:
    async with sampled(size) as stage:
        check_golden("producers-site-{size}", stage.app)
        for key, heading, figures, first in (
            ("function", "Function ", "Total▼ ± ≈Self ≈Alloc'd", "main (shop/app.py)"),
            ("module", "Module ", "Live▼ ± ≈Share ≈Change ≈Alloc'd", "shop.views"),
            ("chain", "Call stack, innermost first ", "≈Alloc'd ≈Freed Kept▼ ± ≈Share", "create_session ‹ main"),
        ):
            await stage.press("b")
            assert stage.live.view.by == key
            assert stage.lines(3)[0].startswith(heading)
            assert not set(figures.split()) - set(stage.lines(3)[0].split())
            assert stage.lines(4)[0].startswith(first)


@pytest.mark.parametrize("size", SIZES)
async def test_rows_by_handler_are_views_of_a_web_service(
    size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Enter shows the stacks of one."""
    dispatcher = CodeName("/usr/lib/python3/site-packages/flask/app.py", "Flask.dispatch_request", 800)
    monkeypatch.setattr(fake_source, "CODES", (dispatcher, *fake_source.CODES[1:]))
    async with sampled(size) as stage:
        await stage.press("b", "b", "b", "b")
        assert stage.live.view.by == "handler"
        assert "by ≈ sampled handler" in stage.lines(2)[0]
        assert stage.lines(3)[0].startswith("Handler of a request, task or thread")
        assert column(stage, "name") == [
            "request create_session (shop/views.py)",
            "request list_orders (shop/views.py)",
            "request Cache.get (shop/cache.py)",
            "(no site)",
        ]
        await stage.press("enter")
        assert "InstanceState.__init__" in stage.text
        assert "list_orders" not in stage.text
        await stage.press("escape", "b")
        assert stage.live.view.by == "site"


async def test_shares_in_a_tree_are_of_the_caller() -> None:
    async with sampled() as stage:
        await stage.press(*STATES["tree"])
        assert stage.lines(3)[0].split() == ["Function", "≈Part", "≈Live▼", "≈Alloc'd", "≈Share"]
        assert [name.strip() for name in column(stage, "name")[:3]] == [
            "▾ main (shop/app.py)",
            "▾ create_session (shop/views.py)",
            "(self)",
        ]
        assert column(stage, "part")[:3] == ["100.0%", "70.3%", "75.0%"], "each of the one it is in"


async def test_enter_zooms_into_a_box_of_the_icicle() -> None:
    async with sampled() as stage:
        await stage.press(*STATES["icicle"])
        check_golden("producers-icicle-80x24", stage.app)
        await stage.press("enter", "b")
        assert "Producers ≈ sampled icicle, allocated  ›  create_session (shop/views.py)" in stage.lines(2)[0]
        assert stage.lines(3, 6) == ["all samples ≈38.6 MiB", "main (shop/app.py)", "›create_session (shop/views.py)"]
        assert stage.lines(-3)[0] == "allocated ≈9.52 MiB (7.14 MiB itself), 24.7% of its caller's, 24.7% of all"


@pytest.mark.parametrize("state", ["function", "stacks", "around", "icicle"])
async def test_producers_lose_no_sign_in_ascii(state: str) -> None:
    async with sampled(SMALL, ascii=True) as stage:
        await stage.press(*STATES[state])
        assert stage.text.isascii()
        text = re.sub(r"\?(?=\d)", "", "".join(rows(stage)))  # the mark of figures whose place is approximate
        assert "?" not in text, "no sign that ASCII has nothing for"


async def test_boxes_of_the_icicle_have_lines_without_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with sampled() as stage:
        await stage.press("v", "v", "j", "j")
        boxes = stage.lines(3, 7)
        assert all(line.startswith("│") or line.startswith(" ") for line in boxes)
        assert re.search(r"│Cache\.ge…│›create_session \(shop/views\.py\)─+│list_orders", boxes[2]), "in lines"


async def test_help_explains_the_leak_table() -> None:
    async with sampled(LARGE) as stage:
        await stage.press("question_mark", "pagedown")
        assert "The leak table: what each call stack allocated" in stage.text


# -- keys ----------------------------------------------------------------------------------------------------


async def test_2_chooses_the_view_and_says_what_samples() -> None:
    async with sampled(interval=0) as stage:
        assert stage.live.view.NAME == "producers"
        assert "Allocations are not sampled: press r." in stage.text
        for key in ("v", "v", "b", "enter", "j", "k", "l", "f", "i", "less_than_sign"):
            await stage.press(key)
        assert "press r." in stage.text
        await stage.press("r")
        assert stage.source.sampling[-1][0] > 0


async def test_b_goes_round_the_keys_and_tells_apart_what_each_is_by() -> None:
    async with sampled() as stage:
        seen = []
        for _ in range(6):
            seen.append((stage.live.view.words[0].removesuffix(WITHOUT_C), rows(stage)[0].split("  ")[0]))
            await stage.press("b")
        assert seen[0] == seen[5] == ("Producers by ≈ sampled site", "…/views.py:88 create_session")
        assert [name for name, _ in seen[1:5]] == [
            "Producers by ≈ sampled function",
            "Producers by ≈ sampled module",
            "Producers ≈ leak table, by call stack",
            "Producers by ≈ sampled handler",
        ]
        assert [row for _, row in seen[1:5]] == [
            "main (shop/app.py)",
            "shop.views",
            "create_session ‹ main",
            "(no handler)",
        ]


async def test_what_is_never_sampled_is_named_beside_the_figures() -> None:
    async with sampled() as stage:
        assert "excludes malloc" in stage.text
        await stage.press("7")
        assert "excludes malloc" in stage.text


async def test_what_is_older_than_the_attach_is_a_row_that_nothing_is_inside() -> None:
    async with sampled() as stage:
        assert rows(stage)[-1].startswith("(no site)")
        assert "≈" in rows(stage)[-1]
        await stage.press("G", "enter")
        assert "nothing more inside" in stage.text


async def test_the_share_of_what_has_no_site_is_above_the_table() -> None:
    async with sampled() as stage:
        for key in ("site", "function", "module"):
            assert stage.live.view.by == key
            assert "≈63% (no site) · row 1 of " in stage.lines(2)[0]
            await stage.press("b")
        await stage.press("b", "slash")
        await stage.type("site:views")
        await stage.press("enter")
        assert "(no site)" not in stage.lines(2)[0], "it is filtered out"


async def test_sites_and_modules_say_over_how_long_they_changed() -> None:
    async with sampled(ticks=6) as stage:
        seconds = len(view(stage)._figures._moments) - 1
        assert f"≈Change {seconds}s" in stage.lines(3)[0]
        await stage.press("b", "b")
        assert f"≈Change {seconds}s" in stage.lines(3)[0]


async def test_the_last_row_is_what_is_older_whatever_the_order() -> None:
    async with sampled(LARGE) as stage:
        for key in ("site", "function", "module"):
            assert stage.live.view.by == key
            for _ in columns_of(key, LARGE[0]):
                for _ in range(2):
                    names = column(stage, "name")
                    assert names.index("(no site)") == len(names) - 1
                    await stage.press("i")
                await stage.press("greater_than_sign")
            await stage.press("b")


@pytest.mark.parametrize("size", SIZES)
async def test_every_column_sorts(size: tuple[int, int]) -> None:
    async with sampled(size) as stage:
        for key in ("site", "function", "module", "chain"):
            assert stage.live.view.by == key
            orders = set()
            for _ in columns_of(key, size[0]):
                await stage.press("greater_than_sign")
                assert "▼" in stage.text or "▲" in stage.text
                down = rows(stage)
                await stage.press("i")
                assert sorted(rows(stage)) == sorted(down)
                await stage.press("i")
                assert rows(stage) == down
                orders.add(tuple(down))
            assert len(orders) > 1, key
            await stage.press("less_than_sign")
            assert len(rows(stage)) == len(down)
            await stage.press("b")


async def test_a_click_on_a_heading_sorts() -> None:
    async with sampled() as stage:
        await stage.pilot.click(stage.live.view, offset=(2, 0))
        await stage.pilot.pause()
        assert "Site▲" in stage.text
        names = column(stage, "name")
        assert names[:-1] == sorted(names[:-1])
        assert names[-1] == "(no site)"


async def test_the_filter_restricts_and_says_what_does_not_go() -> None:
    async with sampled() as stage:
        await stage.press("slash")
        await stage.type("site:views")
        await stage.press("enter")
        assert len(rows(stage)) == 2
        assert all("views.py" in row for row in rows(stage))
        await stage.press("b")
        assert "Cache.get" not in stage.text
        await stage.press("v")
        assert "list_orders" in stage.text
        assert "Cache.get" not in stage.text
        await stage.press("v")
        assert "Cache.get" not in stage.text
        await stage.press("escape", "escape", "v")
        assert "Cache.get" in stage.text or len(rows(stage)) > 2
        await stage.press("slash")
        await stage.type("gen:2")
        assert "× Producers have no generation" in stage.text


async def test_follow_keeps_the_row_when_the_order_is_inverted() -> None:
    async with sampled() as stage:
        await stage.press("f", "i")
        table = view(stage).list
        assert table.row_key == "shop/views.py:88 create_session"
        assert "following" in stage.live.view.words[1]


async def test_enter_on_a_module_shows_its_sites_and_esc_goes_back_to_it() -> None:
    async with sampled() as stage:
        await stage.press("b", "b", "j", "enter")
        assert stage.live.view.words[0] == "Producers by ≈ sampled site  ›  producer-module:=shop.cache"
        assert [row.split("  ")[0] for row in rows(stage)] == ["shop/cache.py:30 Cache.get"]
        await stage.press("enter")
        assert "Stack 1 of 1" in stage.text
        await stage.press("escape", "escape")
        assert view(stage).list.row_key == "shop.cache"


async def test_stacks_show_frames_with_the_line_where_it_can_be_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    source = tmp_path / "srv/shop/views.py"
    source.parent.mkdir(parents=True)
    source.write_text("\n" * 87 + "    sessions[key] = Session(\x1b[31mkey)\n", encoding="utf-8")
    monkeypatch.setattr(ProducersView, "_source_lines", lambda self: SourceLines(reader_in(tmp_path)))
    async with sampled() as stage:
        await stage.press("enter")
        frames = [row.strip() for row in rows(stage)]
        assert frames[1].startswith("› shop/views.py:88 create_session")
        assert frames[1].endswith("sessions[key] = Session( [31mkey)")
        assert frames[2] == "shop/app.py:14 main", "nothing is said of a file that cannot be read"
        await stage.press("b", "greater_than_sign", "i")
        assert [row.strip() for row in rows(stage)] == frames, "they have one order"
        await stage.press("v")
        assert stage.live.view.words[0].startswith("Producers ≈ sampled tree")


async def test_the_tree_expands_and_collapses() -> None:
    async with sampled() as stage:
        await stage.press("v")
        assert [row.split("  ")[0].strip() for row in rows(stage)[:1]] == ["▾ main (shop/app.py)"]
        closed = rows(stage)
        await stage.press("j", "enter")
        assert any("(self)" in row for row in rows(stage))
        assert any("InstanceState" in row for row in rows(stage))
        await stage.press("enter")
        assert rows(stage) == closed
        await stage.press("G", "enter")
        assert "nothing more" in stage.text
        await stage.press("b")
        assert "tree, allocated" in stage.live.view.words[0]
        assert "list_orders" in rows(stage)[1], "what was allocated most comes first"


async def test_the_tree_of_a_table_sorted_by_what_was_allocated_is_of_that() -> None:
    async with sampled() as stage:
        stage.live.view.sort_by("allocated")
        await stage.press("v")
        assert "tree, allocated" in stage.live.view.words[0]
        await stage.press("b", "v", "v")
        stage.live.view.sort_by("live")
        await stage.press("v")
        assert "tree, live" in stage.live.view.words[0], "as key b has chosen"


async def test_enter_on_a_function_shows_its_callers_and_callees() -> None:
    async with sampled() as stage:
        await stage.press("b", "j", "enter")
        assert stage.live.view.words[0] == "Producers ≈ sampled tree, live  ›  create_session (shop/views.py)"
        text = [row.strip() for row in rows(stage)]
        assert text[0].startswith("▾ Callers of create_session")
        assert "main (shop/app.py)" in rows(stage)[1]
        assert text[2].startswith("▾ Callees of create_session")
        parts = [float(row.split("%")[0].split()[-1]) for row in rows(stage)[3:5]]
        assert sum(parts) == pytest.approx(100, abs=0.2)
        await stage.press("escape")
        assert view(stage).list.cursor == 1


async def test_the_icicle_moves_zooms_and_goes_back() -> None:
    async with sampled() as stage:
        await stage.press("v", "v")
        assert "›all samples" in stage.text
        await stage.press("j", "j")
        assert "›create_session" in stage.text
        await stage.press("l")
        assert "›list_orders" in stage.text
        await stage.press("h", "h", "h")
        assert stage.text.splitlines()[-2].strip() == "main (shop/app.py) › Cache.get (shop/cache.py)"
        await stage.press("l", "enter")
        assert len(chart(stage).zoom) == 2
        assert "Cache.get" not in stage.text
        await stage.press("G")
        assert "›InstanceState" in stage.text
        await stage.press("pageup")
        assert "›all samples" in stage.text
        await stage.press("pagedown", "k", "k", "k", "down", "home", "end", "enter")
        assert len(chart(stage).zoom) == 3
        await stage.press("escape")
        assert len(chart(stage).zoom) == 2
        await stage.press("escape")
        assert not chart(stage).zoom
        await stage.press("escape")
        title = f"Producers ≈ sampled icicle, live{WITHOUT_C}"
        assert stage.live.view.words[0] == title, "what key v chose is no level"
        assert "nothing to go back to" in stage.text


async def test_the_icicle_goes_by_the_mouse() -> None:
    async with sampled() as stage:
        await stage.press("v", "v")
        await stage.pilot.click(IcicleChart, offset=(20, 2))
        await stage.pilot.pause()
        assert "›create_session" in stage.text
        await stage.pilot.click(IcicleChart, offset=(20, 2), times=2)
        await stage.pilot.pause()
        assert len(chart(stage).zoom) == 2


@pytest.mark.parametrize("size", SIZES)
async def test_the_table_beside_the_icicle_has_the_figures_of_the_tree(size: tuple[int, int]) -> None:
    async with sampled(size) as stage:
        await stage.press("v")
        names = [name.strip().lstrip("▸▾ ") for name in column(stage, "name")]
        figures = {name: set() for name in names}
        for key in ("live", "part", "share"):
            for name, text in zip(names, column(stage, key), strict=True):
                figures[name].add(text)
        await stage.press("v", "j")
        seen = 0
        for line in stage.text.splitlines():
            for name in names:
                if f" {name}  " in line and not name.startswith("("):
                    assert all(text in line for text in figures[name]), f"{figures[name]} in {line}"
                    seen += 1
        assert seen >= 3


@pytest.mark.parametrize("size", SIZES)
async def test_a_click_on_a_row_of_the_table_chooses_its_box(size: tuple[int, int]) -> None:
    async with sampled(size) as stage:
        await stage.press("v", "v")
        lines = stage.text.splitlines()
        line = next(place for place, line in enumerate(lines) if "list_orders (shop/views.py)  " in line)
        top = stage.live.query_one(IcicleChart).region.y
        await stage.pilot.click(IcicleChart, offset=(size[0] - 40, line - top))
        await stage.pilot.pause()
        below = [line.strip() for line in stage.text.splitlines()[-3:]]
        assert "main (shop/app.py) › list_orders (shop/views.py)" in below


@pytest.mark.parametrize("state", ["site", "stacks", "around", "icicle"])
async def test_while_the_display_is_paused_nothing_moves(state: str) -> None:
    async with sampled() as stage:
        await stage.press("1", "space", "2", *STATES[state])
        before = body(stage)
        await stage.ticks(5)
        assert body(stage) == before
        keys = ["b", "v", "b", "v", "v", "b", "b", "b"]
        await stage.press(*keys)
        await stage.ticks(3)
        moved = body(stage)
        await stage.press("space")
    async with sampled() as stage:
        await stage.press("1", "space", "2", *STATES[state], *keys)
        assert body(stage) == moved, "also what was asked for only then is as it was"


async def test_live_figures_move_and_the_cursor_stays() -> None:
    async with sampled() as stage:
        await stage.press("j")
        before = rows(stage)[1]
        await stage.ticks(3)
        assert rows(stage)[1] != before
        assert view(stage).list.cursor == 1


async def test_the_order_by_change_is_that_of_what_is_written() -> None:
    async with sampled(LARGE, ticks=25) as stage:
        while view(stage)._sort != "change":
            await stage.press(">")
        written = column(stage, "change")[:-1]  # what is older stands last
        figures = [parse_size(text.lstrip("+-")) * (-1 if text[0] == "-" else 1) for text in written]
        assert figures == sorted(figures, reverse=True)
        assert len(set(figures)) > 2


@pytest.mark.parametrize("keys", [[], ["b", "b"], ["b", "b", "b", ">"]])
async def test_a_large_table_is_made_in_steps_and_says_the_same(
    monkeypatch: pytest.MonkeyPatch, keys: list[str]
) -> None:
    async with sampled() as stage:
        await stage.press(*keys)
        await stage.ticks(5)
        told = body(stage)
    monkeypatch.setattr(producers, "SMALL", -1)
    monkeypatch.setattr(producers, "REST", 0)
    monkeypatch.setattr("heaptop.analysis.callers.producer_table._SLICE", 3)
    async with sampled() as stage:
        await stage.press(*keys)
        before = body(stage)
        await stage.ticks(5)
        await stage.until(lambda: body(stage) == told, "it says the same as when it is made at once")
        assert before != told
        assert not view(stage)._background.is_busy


async def test_what_was_sampled_stays_when_sampling_ends() -> None:
    async with sampled() as stage:
        stage.source.sample(0, 128)
        await stage.ticks(2)
        assert stage.live.session.sampling.on is False
        await stage.press("b", "b", "b")
        assert "create_session ‹ main" in stage.text


async def test_narrow_and_low_screens_hold() -> None:
    for size in ((WIDE, 12), (20, 6)):
        async with sampled(size) as stage:
            for key in ("b", "b", "b", "v", "v", "j", "enter", "escape", "v", "j", "enter"):
                await stage.press(key)
            assert max(map(len, stage.text.splitlines())) <= size[0]


async def test_the_error_sorts_as_it_is_written() -> None:
    async with sampled(SMALL) as stage:
        await stage.press("greater_than_sign")
        assert "±▼" in stage.text
        written = [int(text.strip("±%")) for text in column(stage, "error")]
        assert written == sorted(written, reverse=True)


async def test_a_functions_sizes_and_types() -> None:
    async with sampled(LARGE) as stage:
        await stage.press("b", "j", "enter")
        assert "Callers of create_session" in stage.text
        names = [text.strip() for text in column(stage, "name")]
        sizes, types = names.index("By block size"), names.index("By type, where known")
        assert names[sizes + 1 : types] == ["l 257–2048 B", "m 33–256 B"]
        assert names[types + 1 :] == ["shop.models.Session", "sqlalchemy.orm.state.InstanceState"]
        parts = column(stage, "part")
        assert parts[sizes + 1 : types] == parts[types + 1 :] == ["75.0%", "25.0%"]
        live = column(stage, "live")
        assert live[types + 1] == live[names.index("(self)")], "the sessions are what it allocates itself"
        await stage.press("G")
        assert not stage.live.view.action_drill(), "nothing is inside a type"
        await stage.press("b")
        assert "tree, allocated" in stage.text
        assert [text.strip() for text in column(stage, "name")] == names


# -- pure parts ----------------------------------------------------------------------------------------------


def test_a_spread_is_the_larger_side_in_percent() -> None:
    assert spread(Estimate(1000, 1, 900, 1200, 5)) == "±20%"
    assert spread(Estimate(1000, 1, 700, 1100, 5)) == "±30%", "the larger side"
    assert spread(Estimate(1000, 1, 1000, 1000, 5)) == "exact"
    assert spread(Estimate(10**6, 1, 10**6 - 1, 10**6, 5)) == "±1%", "never less than it is"
    assert spread(Estimate(10, 1, 0, 1000, 1)) == "±>999"
    assert spread(Estimate(0, 0, 0, 0, 0)) == ""


def test_size_classes_in_words() -> None:
    assert by_size((0.0, 0.681, 0.187, 0.132), 15) == "m68 l19 x13"
    assert by_size((0.1, 0.4, 0.3, 0.2), 11) == "m40 l30 x20"
    assert by_size((), 11) == ""


def test_a_change_is_from_the_first_to_the_last() -> None:
    assert change_of([3, 9, 5]) == 2
    assert change_of([0, 9]) == 9
    assert change_of([]) == 0


def test_a_page_of_children_at_a_time() -> None:
    program = Program()
    for number in range(2 * PAGE + 50):
        program.allocate(("main", f"f{number}"), 10 + number)
    samples = program.run()
    tree, expanded = all_calls(samples), ExpandedCalls()
    (main,) = tree.rows(expanded)
    assert main.kind is Kind.CLOSED
    for shown, left in ((PAGE, PAGE + 50), (2 * PAGE, 50), (2 * PAGE + 50, 0)):
        assert tree.toggle(tree.rows(expanded)[0 if shown == PAGE else -1], expanded)
        lines = tree.rows(expanded)
        assert len(lines) == 1 + shown + (left > 0)
        assert lines[-1].more == left
    names = [tree.sections[0].total(line.nodes[0], "live") for line in lines[1:]]
    assert names == sorted(names, reverse=True)
    assert not tree.toggle(lines[-1], expanded), "a leaf has nothing below it"


LIBRARY = "/usr/lib/python3.11/json/decoder.py"


def all_calls(samples: SampledBlocks) -> CallTree:
    """All calls of a program, of which those of one file are a library's."""
    amounts = Amounts(CallPaths.of(samples.stacks), list(samples.tallies()), samples.stacks)
    return CallTree((amounts,), "live", lambda function: samples.codes[function].file == LIBRARY)


def texts(tree: CallTree, samples: SampledBlocks, expanded: ExpandedCalls, room: int = 99) -> list[str]:
    """The names of its lines, in so many columns."""
    tables = ProducerTables(samples, Sites(samples, CodePlaces(["/srv"], ["/usr"])))
    sheet = tree_sheet(tree.rows(expanded), tree, tables, 80, ChartStyle.of(DARK, ascii_only=False), "")
    return [sheet.draw(row)[0].fit(room, keep_tail=False) for row in sheet.rows]


def test_calls_with_the_same_figures_are_one_line_that_can_be_unfolded() -> None:
    program = Program()
    program.allocate(("main", "run", "serve", "a"), 10)
    program.allocate(("main", "run", "serve", "b", "c"), 5)
    samples = program.run()
    tree, expanded = all_calls(samples), ExpandedCalls()
    tree.expand(0, "0", 0, -1, expanded)
    folded = ["▾ main › run › serve (app.py)", "    a (app.py)", "    b › c (app.py)"]
    assert texts(tree, samples, expanded) == folded
    assert texts(tree, samples, expanded, 28)[0] == "▾ main › … › serve (app.py)"
    assert texts(tree, samples, expanded, 20)[0] == "▾ … serve (app.py)"
    assert tree.unfold(tree.rows(expanded)[0], expanded)
    unfolded = ["▾ main (app.py)", "  ▾ run (app.py)", "    ▾ serve (app.py)"]
    assert texts(tree, samples, expanded) == [*unfolded, "        a (app.py)", "        b › c (app.py)"]
    assert tree.unfold(tree.rows(expanded)[1], expanded), "on any of them"
    assert texts(tree, samples, expanded) == folded
    assert not tree.unfold(tree.rows(expanded)[1], expanded), "one call is not folded"
    assert tree.toggle(tree.rows(expanded)[0], expanded)
    assert texts(tree, samples, expanded) == ["▸ main › run › serve (app.py)"]


def test_a_call_that_allocates_itself_is_not_folded_with_its_callee() -> None:
    program = Program()
    program.allocate(("main",), 10)
    program.allocate(("main", "run"), 5)
    samples = program.run()
    tree, expanded = all_calls(samples), ExpandedCalls()
    tree.expand(0, "0", 0, -1, expanded)
    assert texts(tree, samples, expanded) == ["▾ main (app.py)", "    (self)", "    run (app.py)"]


def test_frames_of_libraries_that_call_one_another_are_one_line_with_what_they_allocate() -> None:
    program = Program()
    inside = f"{LIBRARY} loads", f"{LIBRARY} decode", f"{LIBRARY} scan"
    program.allocate(("main", *inside[:2]), 10)
    program.allocate(("main", *inside), 5)
    program.allocate(("main", *inside, "hook"), 20)
    samples = program.run()
    tree, expanded = all_calls(samples), ExpandedCalls()
    tree.expand(0, "0", 0, -1, expanded)
    first, own, hook = tree.rows(expanded)
    assert texts(tree, samples, expanded) == [
        "▾ main › … 3 library frames (json/decoder.py)",
        "    (self)",
        "    hook (app.py)",
    ]
    assert texts(tree, samples, expanded, 30)[0] == "▾ main › … 3 library frames"
    amounts = tree.sections[0]
    assert tree.own(own) >> 16 == 15, "of all that are folded"
    assert tree.own(own) + amounts.total(hook.nodes[0], "live") == amounts.total(first.nodes[0], "live")
    assert amounts.own_live(own.nodes).bytes == tree.own(own)
    tree.unfold(first, expanded)
    assert [text.strip("▾ ") for text in texts(tree, samples, expanded)] == [
        "main (app.py)",
        "loads (json/decoder.py)",
        "decode (json/decoder.py)",
        "(self)",
        "scan (json/decoder.py)",
        "(self)",
        "hook (app.py)",
    ]


def test_source_is_read_from_regular_files_only(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("# coding: latin-1\n\tname = 'é'\n", encoding="latin-1")
    (tmp_path / "bad.py").write_bytes(b"# coding: no-such\nx\n")
    os.mkfifo(tmp_path / "pipe.py")
    with open(tmp_path / "big.py", "wb") as big:
        big.truncate(1 << 23)
    source = SourceLines(reader_in(tmp_path))
    assert source.line("/app.py", 2) == "name = 'é'"
    assert source.line("/app.py", 3) == source.line("/app.py", 0) == ""
    assert source.line("app.py", 2) == "", "relative to what is not known"
    for name in ("/none.py", "/pipe.py", "/big.py", "/bad.py", "/", "<string>", "/app.py\0"):
        assert source.line(name, 1) == ""


async def test_w_says_why_a_row_cannot_be_asked_about() -> None:
    async with on_sampled_stage(key="2") as stage:
        await stage.press("G", "w")
        assert "its site is unknown: view 3 shows by type what keeps it" in stage.text
        await stage.press("v", "w")
        assert "w works on a site of the table: press Esc or v first" in stage.text
        await stage.press("v", "v", "slash")
        await stage.type("site:nowhere")
        await stage.press("enter")
        await stage.settled()
        await stage.press("w")
        assert stage.live.state.status.text.startswith("no site to select yet: ")
