"""What a key came to is said beside what is looked at, or in place of the keys: never over the title or the filter."""

from __future__ import annotations

import pytest

from heaptop.analysis.filters.filters import parse_filter
from heaptop.errors import TargetExited
from heaptop.tui.keys.trail import SEPARATOR
from heaptop.tui.state.saving import MOST_COPIED
from heaptop.tui.views import VIEWS
from heaptop.tui.widgets.footer import Footer
from tests.fakes.source import FakeSource
from tests.tui.scenes import SCENES
from tests.tui.support import SMALL, Stage, on_stage
from tests.tui.test_picker import picking

pytestmark = pytest.mark.usefixtures("plain_environment")

LONG = "the hunt has a snapshot open; press o when it is done, or x to cancel"
SHORT = "copied"


def bar(stage: Stage) -> str:
    return stage.text.splitlines()[2]


def bottom(stage: Stage) -> str:
    return stage.text.splitlines()[-1].strip()


@pytest.mark.sample(2)
@pytest.mark.parametrize("filtered", [False, True])
@pytest.mark.parametrize("name", VIEWS)
async def test_the_line_above_every_view_stays(name: str, filtered: bool) -> None:
    source = FakeSource()
    source.sample(64 << 10, 128)
    async with on_stage(SMALL, source=source) as stage:
        view = stage.live.query_one(VIEWS[name])
        await stage.press(str(view.NUMBER % 10))
        await stage.settled()
        if filtered and SCENES[name].where:
            view.set_where(parse_filter(SCENES[name].where))
        stage.live.state.status.until = 0.0
        stage.live.redraw_words()
        await stage.settled()
        await stage.until(lambda: "asking…" not in bar(stage), "nothing is waited for")
        before, keys = bar(stage), bottom(stage)
        stage.live.stuck(LONG)
        await stage.settled()
        assert bar(stage) == before
        assert bottom(stage) == LONG
        stage.live.stuck(SHORT)
        await stage.settled()
        title = stage.live.words[0].partition(SEPARATOR)[0]
        assert bar(stage).startswith(f" {title}")
        assert SHORT in bar(stage) or bottom(stage) == SHORT
        assert view.filtered in bar(stage)
        stage.live.state.status.until = 0.0
        stage.live.redraw_words()
        await stage.settled()
        assert (bar(stage), bottom(stage)) == (before, keys), "when it is gone"


async def test_what_was_looked_into_is_still_told() -> None:
    async with on_stage(SMALL) as stage:
        await stage.press("b", "enter", "slash")
        await stage.type("size>1kB")
        await stage.press("enter")
        await stage.settled()
        before = bar(stage)
        stage.live.outcome("x" * 40)
        await stage.settled()
        assert bar(stage) == before
        assert "x" * 40 in bottom(stage)
        await stage.press("1")
        assert "help" in bottom(stage), "until the next key"


@pytest.mark.parametrize("notice", ["excluded from retainer sets: module shop.cache ._sessions and all of it", "short"])
async def test_a_remark_of_the_view_is_read_in_full_too(monkeypatch: pytest.MonkeyPatch, notice: str) -> None:
    async with on_stage(SMALL) as stage:
        await stage.press("w")
        await stage.settled()
        before = bar(stage)
        stage.live.view._notice = notice
        stage.live.redraw_words()
        await stage.settled()
        assert bar(stage).startswith(before[:40].rstrip()), "what led there stays"
        assert notice in bar(stage) or notice == bottom(stage)
        assert (notice == "short") == (notice[:5] in bar(stage)), "once"
        monkeypatch.setattr(stage.live.state.status, "notice_until", 0.0)
        stage.live.redraw_words()
        await stage.settled()
        assert bar(stage).startswith(before[:40].rstrip())
        assert notice[:5] in bar(stage), "a reminder stays"
        assert "help" in bottom(stage)


async def test_a_message_in_place_of_the_keys_is_clicked_in_vain() -> None:
    async with on_stage(SMALL) as stage:
        stage.live.stuck(LONG)
        await stage.settled()
        await stage.pilot.click(Footer, offset=(2, 0))
        assert stage.live.view.NAME == "bands"
        assert bottom(stage) == LONG


async def test_what_is_too_much_to_copy_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    async with on_stage(SMALL) as stage:
        monkeypatch.setattr(VIEWS["bands"], "copied", "x" * (MOST_COPIED + 1))
        await stage.press("y")
        assert "s saves them" in stage.text
        assert bar(stage).startswith(" 1 Bands by type")


async def test_over_a_panel_it_is_seen_too() -> None:
    async with on_stage(SMALL, attach=False) as stage:
        await stage.press("c")
        assert bottom(stage) == "not attached yet"


async def test_the_end_of_the_process_leaves_the_title() -> None:
    async with on_stage(SMALL) as stage:
        stage.source.end(TargetExited("Process 4242 has ended, and took a long sentence with it to say how it ended."))
        await stage.until(lambda: "Process 4242 has ended" in bar(stage), "it is told")
        assert bar(stage).startswith(" 1 Bands by type ")


async def test_the_picker_says_it_below_its_list() -> None:
    async with picking(SMALL) as (stage, _):
        before = stage.text.splitlines()[0]
        await stage.press("a")
        assert stage.text.splitlines()[0] == before
        assert "no Python processes below it" in bottom(stage)
        await stage.press("j")
        assert "Enter attach" in bottom(stage)
