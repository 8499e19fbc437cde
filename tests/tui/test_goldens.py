"""The screen in every state, as text. A change of looks is a change of these files."""

from __future__ import annotations

import pytest

from heaptop.errors import PtraceDenied, TargetExited
from heaptop.protocol.messages import Decision
from heaptop.protocol.source import Forecast, IntervalChanged
from tests.fakes.source import FakeSource
from tests.tui.support import LARGE, SIZES, SMALL, check_golden, on_stage

pytestmark = pytest.mark.usefixtures("plain_environment")


def name(state: str, size: tuple[int, int]) -> str:
    return f"{state}-{size[0]}x{size[1]}"


@pytest.mark.parametrize("size", SIZES)
async def test_waiting_says_what_for_and_how_long(size: tuple[int, int]) -> None:
    async with on_stage(size, attach=False) as stage:
        stage.source.wait("waiting for the interpreter", 7.4)
        await stage.until(lambda: "7 s" in stage.text, "the seconds are shown")
        check_golden(name("waiting", size), stage.app)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("key", "presses"), [("type", 0), ("module", 1), ("generation", 2)])
async def test_bands_by_each_key(size: tuple[int, int], key: str, presses: int) -> None:
    async with on_stage(size) as stage:
        await stage.press(*["b"] * presses)
        check_golden(name(f"bands-{key}", size), stage.app)


@pytest.mark.parametrize("size", SIZES)
async def test_first_census(size: tuple[int, int]) -> None:
    async with on_stage(size, censuses=1) as stage:
        check_golden(name("first-census", size), stage.app)


async def test_attached_before_the_first_census() -> None:
    async with on_stage(SMALL, censuses=0) as stage:
        await stage.until(lambda: "live" in stage.text, "the screen says live")
        check_golden(name("attached", SMALL), stage.app)


@pytest.mark.parametrize("size", SIZES)
async def test_filter(size: tuple[int, int]) -> None:
    async with on_stage(size) as stage:
        await stage.press("slash")
        await stage.type("shop !Order")
        check_golden(name("filter-typing", size), stage.app)
        await stage.press("enter")
        check_golden(name("filter", size), stage.app)


@pytest.mark.parametrize("size", SIZES)
async def test_wrong_filter_is_told_in_the_bar(size: tuple[int, int]) -> None:
    async with on_stage(size) as stage:
        await stage.press("slash")
        await stage.type("colour:red")
        check_golden(name("filter-error", size), stage.app)


@pytest.mark.parametrize("size", SIZES)
async def test_help(size: tuple[int, int]) -> None:
    async with on_stage(size) as stage:
        await stage.press("question_mark")
        check_golden(name("help", size), stage.app)


async def test_drilled_into_a_type() -> None:
    async with on_stage(SMALL) as stage:
        await stage.press("enter")
        check_golden(name("drilled", SMALL), stage.app)


@pytest.mark.parametrize("size", SIZES)
async def test_paused_shows_the_past_and_says_how_much_waits(size: tuple[int, int]) -> None:
    async with on_stage(size) as stage:
        await stage.press("space")
        await stage.ticks(3)
        check_golden(name("paused", size), stage.app)


@pytest.mark.parametrize("size", SIZES)
async def test_exited_keeps_what_was_seen(size: tuple[int, int]) -> None:
    async with on_stage(size) as stage:
        stage.source.end(TargetExited("Process 4242 ended with exit code 1."))
        await stage.until(lambda: "exited" in stage.text, "the screen says exited")
        check_golden(name("exited", size), stage.app)


@pytest.mark.parametrize("size", SIZES)
async def test_error_panel(size: tuple[int, int]) -> None:
    async with on_stage(size, attach=False) as stage:
        stage.source.end(PtraceDenied("Process 4242 belongs to user shop, and you are lina."))
        await stage.until(lambda: "lina" in stage.text, "the error is shown")
        check_golden(name("error", size), stage.app)


@pytest.mark.parametrize("size", SIZES)
async def test_ascii(size: tuple[int, int]) -> None:
    async with on_stage(size, ascii=True) as stage:
        check_golden(name("ascii", size), stage.app)
        assert stage.text.isascii()


@pytest.mark.parametrize("size", SIZES)
async def test_no_color(size: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with on_stage(size) as stage:
        check_golden(name("no-color", size), stage.app)


async def test_a_note_about_the_target_is_shown_while_waiting() -> None:
    async with on_stage(SMALL, attach=False, source=FakeSource(note="Its output goes to shop.log")) as stage:
        stage.source.wait("starting the program", 0.4)
        await stage.until(lambda: "starting the program" in stage.text, "what is waited for is shown")
        assert "shop.log" in stage.text
        check_golden(name("waiting-note", SMALL), stage.app)


@pytest.mark.parametrize("size", SIZES)
async def test_a_heap_counted_by_the_native_core(size: tuple[int, int]) -> None:
    source = FakeSource()
    source.agent.mode, source.agent.pause_ns = "clone", 14_200_000
    async with on_stage(size, source=source) as stage:
        source.announce(IntervalChanged(4.0, 1.0))
        await stage.until(lambda: "throttled" in stage.text, "the interval is shown")
        check_golden(name("native", size), stage.app)


@pytest.mark.parametrize("size", SIZES)
async def test_a_long_pause_is_asked_about(size: tuple[int, int]) -> None:
    async with on_stage(size, censuses=0) as stage:
        stage.source.announce(Forecast(6 << 30, 5 << 30, 0, 150_000_000))
        stage.source.say(Decision(1, "clone", "", 150_000_000, 100_000_000))
        await stage.until(lambda: "Pause process" in stage.text, "it is asked")
        check_golden(name("decision", size), stage.app)


async def test_a_colour_theme_does_not_change_the_words() -> None:
    texts = []
    for theme in ("dark", "light", "ansi", "colour-blind"):
        async with on_stage(LARGE, theme=theme) as stage:
            texts.append(stage.text)
    assert texts[0] == texts[1] == texts[2] == texts[3]
