"""The screen in every state: whole where people know heaptop by it, else by the lines that matter."""

from __future__ import annotations

import pytest

from heaptop.errors import PtraceDenied, TargetExited
from heaptop.protocol.messages import Decision
from heaptop.protocol.source import Forecast, IntervalChanged
from heaptop.tui.charts.palette import PALETTES
from tests.fakes.source import FakeSource
from tests.tui.sampled import column
from tests.tui.support import GOLDENS, LARGE, SIZES, SMALL, check_golden, on_stage

pytestmark = pytest.mark.usefixtures("plain_environment")


def test_every_golden_belongs_to_a_test() -> None:
    """By its name in their source: one that nothing is compared with would be kept for nothing."""
    source = "".join(path.read_text("utf-8") for path in GOLDENS.parent.glob("test_*.py"))
    both = {f"-{width}x{height}" for width, height in (SMALL, LARGE)}
    unused = set()
    for path in GOLDENS.iterdir():
        names = {path.stem, *(path.stem.replace(size, "-{size}") for size in both)}
        if not any(f'"{name}"' in source for name in names):
            unused.add(path.name)
    assert unused == set()


async def test_waiting_says_what_for_and_how_long() -> None:
    async with on_stage(attach=False) as stage:
        stage.source.wait("waiting for the interpreter", 7.4)
        await stage.until(lambda: "7 s" in stage.text, "the seconds are shown")
        check_golden("waiting-80x24", stage.app)


@pytest.mark.parametrize("size", SIZES)
async def test_bands_by_each_key(size: tuple[int, int]) -> None:
    async with on_stage(size) as stage:
        check_golden("bands-type-{size}", stage.app)
        for key, names in (
            ("module", ["builtins", "shop.models", "sqlalchemy.orm.state", "shop.cache", "collections"]),
            ("generation", ["gen 2", "untracked", "gen 0", "gen 1"]),
        ):
            await stage.press("b")
            assert stage.lines(2)[0].startswith(f" 1 Bands by {key} ")
            assert stage.line("Bytes▼").split()[0] == key.title()
            assert column(stage, "name") == names
            letters = {text.strip() for text in column(stage, "band")} - {""}
            chart = "".join(stage.lines(3, stage.text.splitlines().index(stage.line("Bytes▼"))))
            assert letters
            assert letters <= set(chart), "a row's letter is its band's"


async def test_the_first_census_shows_no_change_yet() -> None:
    async with on_stage(censuses=1) as stage:
        assert "*estimated*" in stage.lines(1)[0]
        assert "every" not in stage.lines(1)[0], "an interval is between two"
        assert " Change " in stage.line("Bytes▼")
        assert set(column(stage, "change")) == {"0"}


async def test_attached_before_the_first_census() -> None:
    async with on_stage(censuses=0) as stage:
        await stage.until(lambda: "live" in stage.text, "the screen says live")
        assert stage.lines(1)[0] == "", "there are no figures"
        assert stage.lines(16)[0] == "Waiting for the first census."
        assert column(stage, "name") == []


async def test_the_table_is_filtered_while_a_filter_is_typed() -> None:
    async with on_stage() as stage:
        await stage.press("slash")
        await stage.type("shop !Order")
        check_golden("filter-typing-80x24", stage.app)
        typed = stage.lines(3, -1)
        await stage.press("enter")
        assert stage.lines(2)[0].endswith("6.25 MiB · 15 rows, 35.1 MiB filtered out")
        assert stage.lines(3, -1) == typed, "it filtered while it was typed"
        assert all(name.startswith("shop.") and "Order" not in name for name in column(stage, "name"))


async def test_wrong_filter_is_told_in_the_bar() -> None:
    async with on_stage() as stage:
        await stage.press("slash")
        await stage.type("colour:red")
        check_golden("filter-error-80x24", stage.app)


async def test_the_help_page_of_the_first_view() -> None:
    async with on_stage() as stage:
        await stage.press("question_mark")
        check_golden("help-80x24", stage.app)


async def test_drilled_into_a_type() -> None:
    async with on_stage() as stage:
        whole = column(stage, "bytes")[0]
        await stage.press("enter")
        assert stage.lines(2)[0] == f" 1 Bands by generation  ›  type:=dict   {whole} · 1 row, 32.4 MiB filtered out"
        assert column(stage, "name") == ["gen 2", "gen 1", "gen 0"]


async def test_paused_shows_the_past_and_says_how_much_waits() -> None:
    async with on_stage() as stage:
        await stage.press("space")
        await stage.ticks(3)
        check_golden("paused-80x24", stage.app)


async def test_exited_keeps_what_was_seen() -> None:
    async with on_stage() as stage:
        stage.source.end(TargetExited("Process 4242 ended with exit code 1."))
        await stage.until(lambda: "exited" in stage.text, "the screen says exited")
        check_golden("exited-80x24", stage.app)


async def test_a_refusal_is_shown_in_a_panel() -> None:
    async with on_stage(attach=False) as stage:
        stage.source.end(PtraceDenied("Process 4242 belongs to user shop, and you are lina."))
        await stage.until(lambda: "lina" in stage.text, "the error is shown")
        check_golden("error-80x24", stage.app)


async def test_the_first_view_in_ascii() -> None:
    async with on_stage(ascii=True) as stage:
        check_golden("ascii-80x24", stage.app)
        assert stage.text.isascii()


async def test_the_first_view_without_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with on_stage() as stage:
        check_golden("no-color-80x24", stage.app)


async def test_a_note_about_the_target_is_shown_while_waiting() -> None:
    async with on_stage(attach=False, source=FakeSource(note="Its output goes to shop.log")) as stage:
        stage.source.wait("starting the program", 0.4)
        await stage.until(lambda: "starting the program" in stage.text, "what is waited for is shown")
        assert "0 s" not in stage.text, "while heaptop loads nothing counts the seconds"
        assert "Python 3.11.7, user shop. Its output goes to shop.log" in stage.text


async def test_a_heap_counted_by_the_native_core() -> None:
    source = FakeSource()
    source.agent.mode, source.agent.pause_ns = "clone", 14_200_000
    async with on_stage(source=source) as stage:
        source.announce(IntervalChanged(4.0, 1.0))
        await stage.until(lambda: "throttled" in stage.text, "the interval is shown")
        assert stage.lines(1)[0].endswith("  throttled to 4 s  pause 14.2 ms  mode clone")


async def test_a_long_pause_is_asked_about() -> None:
    async with on_stage(censuses=0) as stage:
        stage.source.announce(Forecast(6 << 30, 5 << 30, 0, 150_000_000))
        stage.source.say(Decision(1, "clone", "", 150_000_000, 100_000_000))
        await stage.until(lambda: "Pause process" in stage.text, "it is asked")
        check_golden("decision-80x24", stage.app)


async def test_a_colour_theme_does_not_change_the_words() -> None:
    async with on_stage(LARGE) as stage:
        before = stage.text
        for theme in ("light", "ansi", "colour-blind"):
            stage.app.use_palette(PALETTES[theme])
            await stage.settled()
            assert stage.text == before, theme
