"""The widget around :mod:`heaptop.tui.raster`: a stacked area chart of whatever size it has."""

from __future__ import annotations

from collections.abc import Sequence

from heaptop.census.time_words import ELAPSED, Times
from heaptop.tui.look import Look
from heaptop.tui.raster import Run, Series, picture
from heaptop.tui.widgets.picture import Picture


class AreaChart(Picture):
    """:meth:`show_series` gives it bands; a resize draws them again."""

    def show_series(self, series: Series, origin: float, look: Look, times: Times = ELAPSED) -> None:
        """Draw the bands; times on the axis count from ``origin`` seconds, and are written as ``times`` has it."""

        def draw(width: int, height: int) -> Sequence[list[Run]]:
            return picture(series, origin=origin, width=width, height=height, ink=look.ink, times=times)

        self.show(draw, look)
