"""What screens need of the app, which is above them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from heaptop.protocol.source import Source
    from heaptop.tui.charts.chart_style import ChartStyle
    from heaptop.tui.charts.palette import Palette
    from heaptop.tui.screens.live import LiveScreen
    from heaptop.tui.screens.several import Several


class Host(Protocol):
    """:class:`~heaptop.tui.app.HeaptopApp`, which documents them."""

    look: ChartStyle
    read_only: bool

    def open_live(self, source: Source) -> None: ...
    def open_several(self, several: Several) -> None: ...
    def close_live(self, screen: LiveScreen) -> None: ...
    def take_hint(self) -> bool: ...
    def use_palette(self, palette: Palette) -> None: ...
    def action_suspend(self) -> None: ...
    def action_redraw(self) -> None: ...
    def action_leave(self) -> None: ...
