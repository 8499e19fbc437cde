"""The widget around :mod:`heaptop.tui.charts.heap_map_picture`: the window on the address space, and moving in it.

Its owner gives the mark of each place, and receives a message when the window moved.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from textual import events

from heaptop.analysis.snapshot.heap_map import MapWindow
from heaptop.tui.charts.chart_style import ChartStyle
from heaptop.tui.charts.heap_map_picture import paint, place_at, plot_size
from heaptop.tui.charts.raster import StyleRun
from heaptop.tui.state.messages import RowChosen, ViewChanged
from heaptop.tui.widgets.picture import Picture

_SHIFT = 8  # Columns of one press of the keys to the left and right: one place


class HeapMap(Picture):
    """A :class:`~heaptop.tui.widgets.cursor.Cursor` over the places of a map."""

    def __init__(self, changed: Callable[[], None]) -> None:
        """``changed`` is called when there is another window, or another place under the cursor."""
        super().__init__()
        self.follow = False
        self.window: MapWindow | None = None
        self._changed = changed
        self._look: ChartStyle | None = None

    def open(self, extents: Sequence[tuple[int, int]], look: ChartStyle) -> None:
        """Show all of these; what was zoomed stays where it is on the new map, if that is there too."""
        before = self.window
        window = (
            MapWindow.whole(extents, *plot_size(*self.size, look.ink))
            if any(high > low for low, high in extents)
            else None
        )
        if window is not None and before is not None:
            window = window.kept(before)
        self.window = window

    def fit(self, look: ChartStyle) -> None:
        """Make the window as large as the widget is."""
        self._look = look
        if self.window is not None:
            self.window = self.window.resized(*plot_size(*self.size, look.ink))

    def show_marks(self, marks: Callable[[MapWindow], Sequence[int]], look: ChartStyle, key: Hashable) -> None:
        """Draw; nothing is done while ``key`` and window are as before."""
        window = self.window

        def draw(width: int, height: int) -> list[list[StyleRun]]:
            wide, rows = plot_size(width, height, look.ink)
            if window is None or window.width * window.rows != wide * rows:
                return []
            step = window.width * (window.rows // height)
            firsts = range(window.top, window.end, step)
            addresses = [window.layout.address(place) for place in firsts]
            return paint(marks(window), addresses, window.cursor - window.top, width, height, look)

        self.show(draw, look, key=(key, window, tuple(self.size)))

    # -- moving ----------------------------------------------------------------------------------------------

    def _go(self, window: MapWindow | None) -> bool:
        """Use another window; False where it is the same."""
        if window is None or window == self.window:
            return False
        self.window = window
        self._changed()
        self.post_message(ViewChanged())
        return True

    @property
    def place(self) -> object:
        return self.window

    @property
    def row_count(self) -> int:
        return self.window.layout.count if self.window is not None else 0

    def move(self, rows: int) -> None:
        if self.window is not None:
            self._go(self.window.moved(rows * self.window.width))

    def move_to(self, row: int) -> None:
        """To a place."""
        self._go(self.window and self.window.to(row))

    def page(self, pages: int) -> None:
        self._go(self.window and self.window.paged(pages))

    def shift(self, columns: int) -> None:
        self._go(self.window and self.window.moved(columns // _SHIFT))

    def zoom(self, steps: int) -> bool:
        return self._go(self.window and self.window.zoomed(steps))

    def zoom_out(self) -> bool:
        """All of it again; False where it is shown already."""
        return self.window is not None and not self.window.is_whole and self.zoom(-64)

    # -- the mouse -------------------------------------------------------------------------------------------

    def _pointed(self, event: events.MouseEvent) -> MapWindow | None:
        """With the cursor where the pointer is."""
        if self.window is None or self._look is None:
            return None
        place = place_at(event.x, event.y, self.size.width, self._look.ink)
        if place is None or self.window.top + place >= self.window.end:
            return None
        return self.window.to(self.window.top + place)

    def on_click(self, event: events.Click) -> None:
        event.stop()
        window = self._pointed(event)
        if window is not None and not self._go(window) and event.chain > 1:
            self.post_message(RowChosen(str(window.cursor)))

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        self._wheel(event, 1)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        self._wheel(event, -1)

    def _wheel(self, event: events.MouseEvent, steps: int) -> None:
        """Closer to where the pointer is, or away; with Shift or Ctrl, up or down."""
        event.stop()
        if event.shift or event.ctrl:
            self._go(self.window and self.window.panned(-steps))
        elif (window := self._pointed(event)) is not None:
            self._go(window.zoomed(steps))

    def on_resize(self, event: events.Resize) -> None:
        super().on_resize(event)
        self._changed()
