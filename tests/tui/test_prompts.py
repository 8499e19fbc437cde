"""While a text is typed, the bottom line says what Enter and Esc do with it; a click there does the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from heaptop.errors import AgentLost
from heaptop.protocol.messages import Decision
from heaptop.tui.widgets.footer import Footer
from tests.support.recorded import written
from tests.tui.sampled import column
from tests.tui.support import SIZES, SMALL, Stage, on_stage
from tests.tui.test_picker import picking
from tests.tui.test_recording import LAST, TICKS, opened

pytestmark = pytest.mark.usefixtures("plain_environment", "utc")


def bottom(stage: Stage) -> str:
    return " ".join(stage.text.splitlines()[-1].split())


@pytest.mark.parametrize("size", SIZES)
async def test_what_enter_and_esc_do(size: tuple[int, int]) -> None:
    async with on_stage(size) as stage:
        before = bottom(stage)
        for key, words in (
            ("slash", "Enter keep filter Esc cancel ctrl+c quit"),
            ("M", "Enter mark Esc cancel ctrl+c quit"),
            ("s", "Enter save Esc cancel ctrl+c quit"),
        ):
            await stage.press(key)
            assert bottom(stage) == words
            await stage.ticks(2)
            assert bottom(stage) == words, "as long as it is open"
            await stage.press("escape")
            assert bottom(stage) == before


async def test_a_name_has_all_the_room() -> None:
    async with on_stage(SMALL) as stage:
        await stage.press("slash")
        await stage.type("type:shop")
        await stage.press("enter", "s")
        await stage.settled()
        line = stage.text.splitlines()[2]
        assert line.startswith(" save as heaptop-4242-bands-")
        assert line.endswith(".tsv"), "all of it is seen, and nothing beside it"
        await stage.type("x")
        await stage.press("enter")
        await stage.until(lambda: "× End the name in .tsv" in stage.text, "the reason is shown beside the name")


async def test_what_is_typed_inside_a_row_is_one_term_more() -> None:
    async with on_stage() as stage:
        await stage.press("b", "enter", "slash")
        await stage.type("type:dict")
        await stage.press("enter")
        assert str(stage.bands.where) == "module:=builtins type:dict"
        assert stage.bands.crumbs == ("module:=builtins", "type:dict")
        await stage.press("escape", "slash", "enter", "escape")
        assert stage.bands.crumbs == (), "as it is left it is no filter of its own"


@pytest.mark.parametrize("key", ["slash", "M", "s"])
async def test_what_a_key_came_to_is_not_said_beside_a_field(key: str) -> None:
    async with on_stage() as stage:
        await stage.press("escape")
        assert "nothing to go back to" in stage.text
        await stage.press(key)
        await stage.settled()
        assert "nothing to go back to" not in stage.text


async def test_a_filter_that_is_wrong_is_not_kept() -> None:
    async with on_stage() as stage:
        await stage.press("slash")
        await stage.type("type:")
        await stage.until(lambda: "×" in stage.text.splitlines()[2], "it is wrong")
        assert bottom(stage).startswith("Esc cancel · Terms: type:Session, module:app,")
        await stage.press("enter")
        assert stage.app.focused is not None
        await stage.type("Session")
        assert bottom(stage).startswith("Enter keep filter")


async def test_of_a_filter_that_is_wrong_no_half_term_is_shown_and_what_to_write_is_said() -> None:
    async with on_stage() as stage:
        rows = stage.live.view.table.row_count
        await stage.press("slash")
        await stage.type("type:size")
        await stage.until(lambda: not stage.live.view.table.row_count, "nothing matches")
        await stage.type(",")
        await stage.until(lambda: "×" in stage.text.splitlines()[2], "it is wrong")
        await stage.until(lambda: stage.live.view.table.row_count == rows, "as before")
        assert "Nothing" not in stage.text
        for _ in range(len("type:size,")):
            await stage.press("backspace")
        await stage.type("type:Session foo:x")
        await stage.until(lambda: "Unknown field 'foo'" in stage.text, "it is wrong")
        assert stage.live.view.table.row_count == 1, "the first of its terms"
        assert bottom(stage).startswith("Esc cancel · Names: type, module, generation, site,")
        await stage.press("escape")
        assert stage.live.view.table.row_count == rows
        assert "Names:" not in stage.text


async def test_a_filter_costs_no_band_its_letter() -> None:
    async with on_stage() as stage:
        before = dict(zip(column(stage, "name"), column(stage, "band"), strict=True))
        await stage.press("slash")
        await stage.type("!type:Session")
        await stage.until(lambda: "shop.models.Session" not in column(stage, "name"), "it is filtered")
        assert "".join(column(stage, "band")).strip(), "others have letters"
        await stage.press("escape")
        assert dict(zip(column(stage, "name"), column(stage, "band"), strict=True)) == before


@pytest.mark.parametrize("finish", ["enter", "escape"])
async def test_what_is_asked_meanwhile_is_not_answered_by_a_letter_of_the_text(finish: str) -> None:
    async with on_stage() as stage:
        await stage.press("slash")
        await stage.type("t")
        stage.source.say(Decision(1, "stop", "no core", 300_000_000, 100_000_000))
        await stage.until(lambda: stage.live.session.decision, "it is known")
        await stage.type("yn")
        assert stage.source.decisions == []
        assert "Pause process 4242" not in stage.text
        assert "tyn" in stage.text.splitlines()[2]
        await stage.press(finish)
        await stage.until(lambda: "Pause process 4242" in stage.text, "it is asked")
        assert bottom(stage).startswith("y allow n decline")
        await stage.press("y")
        assert stage.source.decisions == [True]


async def test_an_end_that_comes_meanwhile_is_told_afterwards() -> None:
    async with on_stage() as stage:
        await stage.press("slash")
        stage.source.end(AgentLost("The agent has exited."))
        await stage.until(lambda: stage.live.session.error, "it is known")
        await stage.type("q")
        assert stage.app.is_running, "that was a letter"
        await stage.press("escape")
        await stage.until(lambda: "The agent has exited." in stage.text, "it is told")


async def test_a_time_of_a_recording(tmp_path: Path) -> None:
    async with opened(written(tmp_path / "night.heaptop", TICKS)) as stage:
        await stage.at(LAST)
        await stage.press("T")
        assert bottom(stage) == "Enter go there Esc cancel ctrl+c quit"


async def test_the_footer_follows_what_is_typed_in_the_picker() -> None:
    async with picking(SMALL) as (stage, machine):
        assert bottom(stage).startswith("Enter attach")
        await stage.press("slash")
        await stage.type("shop")
        assert bottom(stage) == "Enter keep filter Esc no filter ctrl+c quit"
        await stage.press("enter")
        assert bottom(stage).startswith("Enter attach")
        assert not machine.sources


async def test_a_click_does_it() -> None:
    async with on_stage() as stage:
        await stage.press("slash")
        await stage.type("type:dict")
        await stage.pilot.click(Footer, offset=(3, 0))
        await stage.until(lambda: not stage.app.focused, "the filter is kept")
        assert str(stage.live.view.where) == "type:dict"
        await stage.press("slash")
        await stage.type("x")
        await stage.pilot.click(Footer, offset=(22, 0))
        await stage.until(lambda: not stage.app.focused, "it is as before")
        assert str(stage.live.view.where) == "type:dict"


async def test_the_palette_offers_the_same() -> None:
    async with on_stage() as stage:
        await stage.press("slash")
        assert [key.shown for key in stage.live.keys_now] == ["Enter", "Esc", "ctrl+c"]


@pytest.mark.parametrize("size", SIZES)
async def test_an_empty_field_says_what_may_be_typed_in_it(size: tuple[int, int]) -> None:
    fields = {"slash": "type:Session", "M": "before the import", "s": "a file name that ends in .tsv"}
    async with on_stage(size) as stage:
        for key in ("slash", "M", "slash", "s", "slash"):
            await stage.press(key, "ctrl+u")
            assert [each for each, words in fields.items() if words in stage.text] == [key]
            await stage.press("escape")
