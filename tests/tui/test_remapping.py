"""Other keys on the real screens: they work, and footer, help and palette show them."""

from __future__ import annotations

from textual.widgets import Static

from heaptop.tui.app import make_app
from heaptop.tui.widgets.help_screen import HelpScreen
from tests.fakes.source import FakeSource
from tests.tui.support import Stage

WANTED = {"]": ("F2",), "b": ("ctrl+b",), "j": ("ctrl+n",), "m": ("d",), "d": ("m",), "?": ("F1",)}


async def test_keys_that_a_person_asks_for() -> None:
    fake = FakeSource()
    app = make_app(fake, theme="dark", keys=WANTED)
    async with app.run_test(size=(80, 24)) as pilot:
        stage = Stage(app, fake, pilot)
        await stage.until(lambda: len(app.screen_stack) > 1, "the screen is there")
        fake.attach()
        await stage.ticks(3)
        assert stage.live.view.NAME == "bands"
        await stage.press("ctrl+b")
        assert "by module" in stage.text
        await stage.press("b")
        assert "by generation" in stage.text
        row = stage.bands.list.cursor
        await stage.press("ctrl+n")
        await stage.press("down")
        await stage.press("j")
        assert stage.bands.list.cursor == min(row + 3, stage.bands.list.row_count - 1)
        assert "ctrl+b group" in stage.text
        await stage.press("f2")
        assert stage.live.view.NAME == "producers"
        await stage.press("right_square_bracket")
        assert stage.live.view.NAME == "retainers"
        await stage.press("f1")
        assert isinstance(app.screen, HelpScreen)
        said = app.screen.query_one(Static).content
        assert "F2 next view" in str(said)
        assert "d mark, and check what is new" in str(said)
        assert "m check what is new, no mark" in str(said)
        await stage.press("escape")
        await stage.press("ctrl+p")
        await stage.until(lambda: "key F2" in stage.text or "Search" in stage.text, "the palette is open")
        await stage.type("next view")
        await stage.until(lambda: "key F2" in stage.text, "the palette shows the key")
