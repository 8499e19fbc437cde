"""The widget around :mod:`heaptop.tui.charts.raster`: a stacked area chart of whatever size it has.

Which bands are high enough for a letter depends on its size: it says when others are.
"""

from __future__ import annotations

from collections.abc import Sequence

from heaptop.analysis.text.time_words import ELAPSED, Times
from heaptop.tui.charts.chart_style import ChartStyle
from heaptop.tui.charts.raster import ChartBands, StyleRun, lettered, picture
from heaptop.tui.state.messages import LettersChanged
from heaptop.tui.widgets.picture import Picture


class AreaChart(Picture):
    """:meth:`show_series` gives it bands; a resize draws them again."""

    lettered: frozenset[int] = frozenset()
    """The slots of the bands that have a letter in the chart."""

    def show_series(self, series: ChartBands, origin: float, look: ChartStyle, times: Times = ELAPSED) -> None:
        """Draw the bands; times on the axis count from ``origin`` seconds, and are written as ``times`` has it."""

        def draw(width: int, height: int) -> Sequence[list[StyleRun]]:
            return picture(series, origin=origin, width=width, height=height, ink=look.ink, times=times)

        self.show(draw, look)

    def _draw(self, *, repaint_all: bool) -> None:
        super()._draw(repaint_all=repaint_all)
        if self._shown is None:
            return
        found = lettered(self._rows, self._shown[1].ink)
        if found != self.lettered:
            self.lettered = found
            self.post_message(LettersChanged())
