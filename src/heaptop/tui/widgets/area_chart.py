"""The widget around :mod:`heaptop.tui.charts.raster`: a stacked area chart of whatever size it has.

Which bands are high enough for a letter depends on its size: it reports when others are.
"""

from __future__ import annotations

from collections.abc import Sequence

from textual import events
from textual.geometry import Offset

from heaptop.analysis.text.time_words import ELAPSED, Times
from heaptop.analysis.text.units import format_bytes
from heaptop.tui.charts.chart_style import ChartStyle
from heaptop.tui.charts.raster import ChartBands, StyleRun, lettered, picture, pointed_at
from heaptop.tui.state.messages import LettersChanged, ViewChanged
from heaptop.tui.widgets.picture import Picture


class AreaChart(Picture):
    """:meth:`show_series` gives it bands; a resize draws them again."""

    lettered: frozenset[int] = frozenset()  # The slots of the bands that have a letter in the chart

    _series: tuple[ChartBands, float, Times] | None = None
    _mouse: Offset | None = None

    def show_series(self, series: ChartBands, origin: float, look: ChartStyle, times: Times = ELAPSED) -> None:
        """Draw the bands; times on the axis count from ``origin`` seconds, and are written as ``times`` has it."""
        self._series = series, origin, times

        def draw(width: int, height: int) -> Sequence[list[StyleRun]]:
            return picture(series, origin=origin, width=width, height=height, ink=look.ink, times=times)

        self.show(draw, look)

    @property
    def pointed(self) -> str:
        """The time and the figures under the mouse: ``at 12.5 s: A 5.92 MiB of 31.2 MiB``; empty for none."""
        if self._series is None or self._mouse is None:
            return ""
        (series, origin, times), (width, height) = self._series, self.size
        found = pointed_at(series, *self._mouse, origin=origin, width=width, height=height, times=times)
        if found is None:
            return ""
        total = format_bytes(round(found.total))
        band = f"{series.letters[found.band]} {format_bytes(round(found.bytes))} of " if found.band is not None else ""
        return f"at {times.moment(found.time).strip()}: {band}{total}"

    def on_mouse_move(self, event: events.MouseMove) -> None:
        self._point(event.offset)

    def on_leave(self) -> None:
        self._point(None)

    def _point(self, at: Offset | None) -> None:
        if at != self._mouse:
            self._mouse = at
            self.post_message(ViewChanged())

    def _draw(self, *, repaint_all: bool) -> None:
        super()._draw(repaint_all=repaint_all)
        if self._shown is None:
            return
        found = lettered(self._rows, self._shown[1].ink)
        if found != self.lettered:
            self.lettered = found
            self.post_message(LettersChanged())
