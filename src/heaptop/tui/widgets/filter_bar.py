"""The line above a view: its title, and the filter's input when it is asked for.

Its owner parses the text and reports what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Iterator

from rich.highlighter import Highlighter
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Input, Static

from heaptop.tui.charts.chart_style import ChartStyle
from heaptop.tui.keys.trail import fit_trail
from heaptop.tui.state.messages import FilterAccepted, FilterDropped, FilterEdited
from heaptop.tui.text import clip


class _Line(Widget):
    """Words on the left, words on the right, in one line."""

    DEFAULT_CSS = """
    _Line { height: 1; width: 1fr; background: $panel; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._left = self._right = self._last = ""
        self._wrong = False
        self._look: ChartStyle | None = None

    def show(self, left: str, right: str, look: ChartStyle, *, last: str = "", wrong: bool = False) -> None:
        """``last`` is at the right end, and whatever else gives way to it; half of the line is for ``left``, if it
        needs that, or a third, for the first of ``right`` to be shown."""
        shown = left, right, last, look, wrong
        if shown != (self._left, self._right, self._last, self._look, self._wrong):
            self._left, self._right, self._last, self._look, self._wrong = shown
            self.refresh()

    def render_line(self, y: int) -> Strip:
        base, width, look = self.rich_style, self.size.width, self._look
        if look is None:
            return Strip.blank(width, base)
        return Strip(self._segments(look, width)).apply_style(base).adjust_cell_length(width, base)

    def _segments(self, look: ChartStyle, width: int) -> Iterator[Segment]:
        plain = look.colourless or look.palette.theme.ansi
        bad = Style(bold=True) if plain else Style.parse(f"bold {look.palette.theme.error}")
        right, last = look.text(self._right), look.text(self._last)
        room = width - min(len(self._left), width // 2) - 4
        if last:
            more = width - min(len(self._left), width // 3) - len(last) - 7
            first = right.split(" · ")[0]
            before = _fitting(right, room - len(last) - 3) or (first if len(first) <= more else "")
            right = f"{before} {look.text('·')} {last}" if before else last
        elif self._wrong and len(self._left) + len(right) + 4 > width:
            right = ""  # what is wrong is marked in place
        elif len(right) > room:
            right = _fitting(right, room)
        left = look.text(fit_trail(self._left, max(4, width - len(right) - (4 if right else 2))))
        yield Segment(" " + left, bad if self._wrong else Style(bold=True))
        yield Segment(" " * max(1, width - len(left) - len(right) - 2))
        yield Segment(right, Style(dim=True) if look.colourless else Style.null())


def _fitting(words: str, room: int) -> str:
    """The first of them that fit, in whole; what one remark is, as far as it fits."""
    parts = words.split(" · ")
    while len(parts) > 1 and len(" · ".join(parts)) > room:
        parts.pop()
    kept = " · ".join(parts)
    return kept if len(kept) <= room else clip(kept, room) if room >= 20 else ""


class _Mark(Highlighter):
    """Marks the characters that are wrong."""

    def __init__(self) -> None:
        self.place: tuple[int, int] | None = None

    def highlight(self, text: Text) -> None:
        if self.place is not None:
            text.stylize("bold underline reverse", *self.place)


class _FilterInput(Input):
    """A text field that gives Esc to the bar, and keeps every printable key."""

    DEFAULT_CSS = """
    _FilterInput { height: 1; width: 1fr; border: none; padding: 0; background: $panel; }
    _FilterInput:focus { border: none; background-tint: initial; }
    """

    def __init__(self) -> None:
        self._mark = _Mark()
        super().__init__(select_on_focus=False, highlighter=self._mark)

    def mark(self, place: tuple[int, int] | None) -> None:
        """Show which characters are wrong; None where none are."""
        if place != self._mark.place:
            self._mark.place = place
            self.refresh()

    def on_key(self, event: events.Key) -> None:
        if event.key == "escape":
            event.stop()
            event.prevent_default()
            self.post_message(FilterDropped())


class FilterBar(Horizontal):
    """:meth:`show` sets its words; :meth:`edit` turns it into an input until Enter or Esc."""

    DEFAULT_CSS = """
    FilterBar { height: 1; background: $panel; }
    FilterBar > .prompt { width: 3; display: none; text-style: bold; }
    FilterBar > _FilterInput { display: none; }
    FilterBar.editing > _FilterInput, FilterBar.editing > .prompt { display: block; }
    FilterBar.editing > _Line { width: 1.5fr; }
    FilterBar.clean.editing > _Line { width: 38; }
    FilterBar.bare.editing > _Line { display: none; }
    """

    def compose(self) -> ComposeResult:
        yield Static(" /", classes="prompt")
        yield _FilterInput()
        yield _Line()

    @property
    def editing(self) -> bool:
        return self.has_class("editing")

    def show(
        self,
        left: str,
        right: str,
        look: ChartStyle,
        *,
        filtered: str = "",
        error: str = "",
        place: tuple[int, int] | None = None,
    ) -> None:
        """The words: what is shown on the left, how much of it on the right, and last how much the filter hides, which
        is never cut off; or what is wrong with the filter, and with which of its characters."""
        self.query_one(_FilterInput).mark(place if error else None)
        self.set_class(not error, "clean")
        self.set_class(not (right or filtered or error), "bare")
        line = self.query_one(_Line)
        if error:
            line.show(f"× {error}", f"at character {place[0] + 1}" if place is not None else "", look, wrong=True)
        else:
            line.show("" if self.editing else left, right, look, last=filtered)

    def edit(self, text: str, prompt: str = " /", placeholder: str = "") -> None:
        """``prompt``: what is in front of the field; ``placeholder``: what is in it while it is empty."""
        self.add_class("editing")
        asks = self.query_one(".prompt", Static)
        asks.update(prompt)
        asks.styles.width = len(prompt) + 1
        field = self.query_one(_FilterInput)
        field.placeholder = placeholder
        with field.prevent(Input.Changed):
            field.value = text
        field.cursor_position = len(text)
        field.focus()

    def insert(self, text: str) -> None:
        """Text that was typed before the field had the focus."""
        self.query_one(_FilterInput).insert_text_at_cursor(text)

    def listen(self, listens: bool) -> None:
        """Whether keys come to the field: not while it cannot be seen."""
        if self.editing and listens:
            self.query_one(_FilterInput).focus()
        elif self.editing:
            self.screen.set_focus(None)

    def take(self) -> None:
        """As Enter does."""
        self.post_message(FilterAccepted(self.query_one(_FilterInput).value))

    def drop(self) -> None:
        """As Esc does."""
        self.post_message(FilterDropped())

    def close(self) -> None:
        self.remove_class("editing")

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        if self.editing:
            self.post_message(FilterEdited(event.value))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.post_message(FilterAccepted(event.value))
