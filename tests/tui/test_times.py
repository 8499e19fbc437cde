"""Times on the screen as a person wants them, and bytes."""

from __future__ import annotations

from heaptop.analysis.text.units import using
from heaptop.tui.app import make_app
from heaptop.tui.screens.live import LiveScreen
from tests.fakes.source import FakeSource
from tests.tui.support import Stage

HEARD = 1_795_342_325.0
"""2026-11-22 10:12:05 in UTC."""


async def test_axes_and_collections_tell_the_time_of_day() -> None:
    fake = FakeSource()
    app = make_app(fake, theme="dark", times="utc")
    async with app.run_test(size=(80, 24)) as pilot:
        stage = Stage(app, fake, pilot)
        await stage.until(lambda: any(isinstance(s, LiveScreen) for s in app.screen_stack), "the screen is there")
        stage.live.session.wall = lambda: HEARD
        fake.attach()
        await stage.ticks(24)
        axis = next(line for line in stage.text.splitlines() if "10:12:10" in line)
        assert (
            axis.split()
            == ["10:12:05", "10:12:10", "10:12:15", "10:12:20", "10:12:25", "10:12:30", "10:12:35"][: len(axis.split())]
        )
        await stage.press("8")
        assert any(line.startswith(" 10:12:2") for line in stage.text.splitlines()[16:])
        stage.app.use_palette(stage.app.look.palette)
        assert stage.app.look.times == "utc"


async def test_a_chart_has_round_units_of_either_kind() -> None:
    fake = FakeSource()
    with using("decimal"):
        app = make_app(fake, theme="dark")
        async with app.run_test(size=(80, 24)) as pilot:
            stage = Stage(app, fake, pilot)
            await stage.until(lambda: any(isinstance(s, LiveScreen) for s in app.screen_stack), "the screen is there")
            fake.attach()
            await stage.ticks(24)
            assert "40 MB╶┤" in stage.text
            assert "iB" not in stage.text
