"""A page over a screen that scrolls where the screen is low, and is closed by Esc: help, and the doctor's report.

Subclasses give the text.
"""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.visual import VisualType
from textual.widgets import Static

from heaptop.tui.charts.chart_style import ChartStyle
from heaptop.tui.widgets.too_small import TooSmall


class ScrollPage(ModalScreen[None]):
    """What is on it is :attr:`text`; whoever changes that calls :meth:`again`."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "dismiss", priority=True),
        Binding("j,down", "scroll(1)", priority=True),
        Binding("k,up", "scroll(-1)", priority=True),
        Binding("pagedown,space", "page(1)", priority=True),
        Binding("pageup", "page(-1)", priority=True),
        Binding("g,home", "edge(False)", priority=True),
        Binding("G,end", "edge(True)", priority=True),
    ]
    DEFAULT_CSS = """
    ScrollPage { align: center middle; background: $background 60%; layers: below above; }
    ScrollPage TooSmall { margin: 0; }
    ScrollPage.-narrow TooSmall, ScrollPage.-low TooSmall { display: block; }
    ScrollPage:ansi { background: ansi_default; }
    ScrollPage VerticalScroll {
        max-width: 100%; height: auto; max-height: 100%; background: $surface;
        border: round $secondary; border-title-color: $accent; border-subtitle-color: $secondary;
        scrollbar-size-vertical: 0;
    }
    ScrollPage.-ascii VerticalScroll { border: ascii $secondary; }
    ScrollPage Static { width: 1fr; height: auto; }
    """

    def __init__(self, heading: str, look: ChartStyle) -> None:
        super().__init__(classes="-ascii" if look.ascii_only else "")
        self._heading, self._look = heading, look

    @property
    def text(self) -> VisualType:
        """All of it, for the width that there is."""
        raise NotImplementedError

    def compose(self) -> ComposeResult:
        with VerticalScroll(can_focus=False) as page:
            page.border_title = self._look.text(self._heading)
            page.border_subtitle = "j k PgDn PgUp scroll  Esc closes"
            yield Static(self.text, markup=False)
        yield TooSmall(ascii_only=self._look.ascii_only)

    def again(self) -> None:
        for shown in self.query(Static):
            shown.update(self.text)

    def on_resize(self) -> None:
        self.again()

    def action_scroll(self, lines: int) -> None:
        self.query_one(VerticalScroll).scroll_relative(y=lines, animate=False, immediate=True)

    def action_page(self, pages: int) -> None:
        page = self.query_one(VerticalScroll)
        page.scroll_relative(y=pages * max(page.size.height - 1, 1), animate=False, immediate=True)

    def action_edge(self, end: bool) -> None:
        page = self.query_one(VerticalScroll)
        page.scroll_to(y=page.max_scroll_y if end else 0, animate=False, immediate=True)
