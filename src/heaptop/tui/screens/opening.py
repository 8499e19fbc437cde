"""The first frame: which process is about to be attached to, while all that a heap is shown with is still being loaded.

What this module imports is all that is loaded until a person sees something; ``tests/unit/test_cli_first_frame.py``
says what must not be among it. It never opens a source: the live screen that follows does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, Final, cast

from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.screen import Screen

from heaptop.tui.charts.chart_style import ChartStyle
from heaptop.tui.keys.bindings import HEAPTOP, bindings
from heaptop.tui.state.opening import Opening
from heaptop.tui.widgets.footer import Footer
from heaptop.tui.widgets.panel import Panel, attaching_text
from heaptop.tui.widgets.top_lines import Field, TopLines

if TYPE_CHECKING:
    from heaptop.tui.screens.host import Host

TYPED: Final = 100  # Keys that are kept at most


class OpeningScreen(Screen[None]):
    """As the live screen is while it waits. Without an opening it is empty, and under all other screens."""

    AUTO_FOCUS = ""
    BINDINGS: ClassVar[list[BindingType]] = bindings(key for key in HEAPTOP if key.action == "leave")
    DEFAULT_CSS = """
    OpeningScreen { background: $background; overflow: hidden; }
    """

    def __init__(self, opening: Opening | None, look: ChartStyle, shown: Callable[[Opening], None]) -> None:
        """``shown`` is called when it is on the terminal, or nearly."""
        super().__init__(id="_default")
        self._opening = opening
        self._look = look
        self._shown = shown
        self._typed: list[events.Key] = []

    def compose(self) -> ComposeResult:
        if self._opening is not None:
            yield TopLines()
            yield Panel()
            yield Footer(HEAPTOP, self._look)

    def on_mount(self) -> None:
        opening = self._opening
        if opening is None:
            return
        self.query_one(Panel).show(*attaching_text(opening, note=opening.note), self._look)
        self.query_one(TopLines).show_fields(_fields(opening), (), self._look)
        self.call_after_refresh(self._shown, opening)

    def on_key(self, event: events.Key) -> None:
        """Keep it for the live screen: a person who knows the keys types them while the rest is loaded."""
        if event.key not in self.active_bindings and len(self._typed) < TYPED:
            self._typed.append(event)

    def on_screen_suspend(self) -> None:
        """Another screen has come: it gets what was typed for it."""
        if self._opening is not None:
            for event in self._typed:
                self.app.post_message(events.Key(event.key, event.character))
        self._typed.clear()

    def action_leave(self) -> None:
        cast("Host", self.app).action_leave()


def _fields(opening: Opening) -> list[Field]:
    """As :func:`heaptop.tui.widgets.header.identity` has them of a session that waits."""
    fields = [
        Field(9, "", "heaptop", "name"),
        Field(9, "pid", str(opening.pid or "")),
        Field(5, "", opening.command, "command"),
        Field(6, "Python", opening.python),
        Field(10, "", "○ attaching", "warn"),
    ]
    return [field for field in fields if field.value]
