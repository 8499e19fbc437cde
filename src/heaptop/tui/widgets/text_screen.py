"""A page of plain text over a screen, such as the doctor's report on a process. Esc closes it."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType

from heaptop.tui.charts.chart_style import ChartStyle
from heaptop.tui.widgets.scroll_page import ScrollPage


class TextScreen(ScrollPage):
    """:meth:`show_notice` sets the text, which may come later than the page."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "dismiss", priority=True)]
    DEFAULT_CSS = """
    TextScreen VerticalScroll { width: 96; padding: 0 2; }
    """

    def __init__(self, title: str, text: str, look: ChartStyle) -> None:
        super().__init__(title, look)
        self._said = text

    @property
    def text(self) -> str:
        return self._look.text(self._said)

    def show_notice(self, text: str) -> None:
        self._said = text
        self.again()
