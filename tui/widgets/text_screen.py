"""A page of plain text over a screen, such as what the doctor says of a process. It scrolls; Esc closes it."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from heaptop.tui.look import Look


class TextScreen(ModalScreen[None]):
    """:meth:`say` sets the text, which may come later than the page."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,enter", "dismiss", priority=True),
        Binding("j,down", "scroll(1)", priority=True),
        Binding("k,up", "scroll(-1)", priority=True),
        Binding("pagedown", "scroll(10)", priority=True),
        Binding("pageup", "scroll(-10)", priority=True),
    ]
    DEFAULT_CSS = """
    TextScreen { align: center middle; background: $background 60%; }
    TextScreen:ansi { background: ansi_default; }
    TextScreen VerticalScroll {
        width: 96; max-width: 100%; height: auto; max-height: 100%; padding: 0 2; background: $surface;
        border: round $secondary; border-title-color: $accent; border-subtitle-color: $secondary;
        scrollbar-size-vertical: 0;
    }
    TextScreen.-ascii VerticalScroll { border: ascii $secondary; }
    TextScreen Static { width: 1fr; height: auto; }
    """

    def __init__(self, title: str, text: str, look: Look) -> None:
        super().__init__(classes="-ascii" if look.ascii_only else "")
        self._title, self._text, self._look = title, text, look

    def compose(self) -> ComposeResult:
        with VerticalScroll(can_focus=False) as page:
            page.border_title = self._look.text(self._title)
            page.border_subtitle = "j k scroll  Esc closes"
            yield Static(self._look.text(self._text), markup=False)

    def say(self, text: str) -> None:
        self._text = text
        for shown in self.query(Static):
            shown.update(self._look.text(text))

    def action_scroll(self, lines: int) -> None:
        self.query_one(VerticalScroll).scroll_relative(y=lines, animate=False, immediate=True)
