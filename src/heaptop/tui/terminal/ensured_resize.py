"""Widgets that learn their size also where Textual forgets to say it.

Textual (8.2) sends no Resize event to a widget that is shown for the first time while something else is being drawn:
its compositor has the widget in its map before the layout that would compare the two. A key that comes in just that
moment would lead to a view that stays empty.
"""

from __future__ import annotations

from typing import cast

from textual import events
from textual.geometry import Size
from textual.message_pump import MessagePump
from textual.widget import Widget


class EnsuredResize(MessagePump):
    """To be put before the class of Textual whose size matters to what it draws. It is no widget itself: of a widget's
    bases, Textual follows the first alone for its style."""

    _told = Size(0, 0)

    def on_resize(self, event: events.Resize) -> None:
        self._told = event.size

    def laid_out(self) -> None:
        """The screen was laid out. Behind the events of that, see whether one is missing."""
        if self._widget.outer_size != self._told:
            self.call_later(self._tell)

    def _tell(self) -> None:
        widget, size = self._widget, self._widget.outer_size
        if size != self._told:
            self.post_message(events.Resize(size, widget.virtual_size, widget.container_size))

    @property
    def _widget(self) -> Widget:
        return cast("Widget", self)
