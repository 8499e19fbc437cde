"""The keys at the bottom, from the binding table: what has no room is left out, `?` and `q` never are.

A large screen has a second line, which names all views. The outcome of a key is in place of the keys for some seconds,
where it has no room elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Final

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.strip import Strip
from textual.widget import Widget

from heaptop.tui.charts.chart_style import ChartStyle
from heaptop.tui.keys.bindings import Key
from heaptop.tui.text import together

Hint = tuple[str, str, str]
"""The keys as written, the word, and the action of a click."""
TALL: Final = 40
"""Lines of a screen from which on one of them names the views."""


def hints(table: Sequence[Key], width: int, look: ChartStyle | None = None) -> list[Hint]:
    """What fits on a line of ``width`` columns; keys of one word are drawn together (``<> sort``, ``0-9 views``)."""
    found: list[Hint] = []
    for word, alike in groupby((key for key in table if key.footer), key=lambda key: key.footer):
        keys = [*alike]
        shown = [look.key(key.shown) if look else key.shown for key in keys]
        found.append((together(shown), word, keys[-1].click or keys[-1].action))
    while len(found) > 2 and _columns(found) > width:
        del found[-3]
    return found


def view_names(table: Sequence[Key], width: int, height: int, look: ChartStyle | None = None) -> list[Hint]:
    """``1 Bands``, ``2 Producers`` … where the screen is tall enough for a line more, and wide enough for all."""
    views = [key for key in table if key.group == "Views" and key.word]
    found = [(look.key(key.shown) if look else key.shown, key.word, key.action) for key in views]
    return found if height >= TALL and _columns(found) <= width else []


def _columns(hints: Sequence[Hint]) -> int:
    """How many columns they take, with a blank in front and two between them."""
    return sum(len(shown) + len(word) + 3 for shown, word, _ in hints) - 1


class Footer(Widget):
    """One line, or two; a click on a word presses its key."""

    DEFAULT_CSS = """
    Footer { height: 1; dock: bottom; background: $surface; }
    """

    def __init__(self, table: Sequence[Key], look: ChartStyle) -> None:
        super().__init__()
        self._table = table
        self._look = look
        self._said = ""

    def show(self, table: Sequence[Key], look: ChartStyle, said: str = "") -> None:
        """``said`` is in place of the keys."""
        if (table, look, said) != (self._table, self._look, self._said):
            self._table, self._look, self._said = table, look, said
            self.refresh()
        self.styles.height = len(self._lines)

    @property
    def _lines(self) -> list[list[Hint]]:
        """The hints of each line; the last is that of the keys."""
        size, look = self.app.size, self._look
        views = view_names(self._table, size.width, size.height, look)
        if not views:
            return [hints(self._table, size.width, look)]
        return [views, hints([key for key in self._table if key.group != "Views"], size.width, look)]

    def render_line(self, y: int) -> Strip:
        base, width = self.rich_style, self.size.width
        lines = self._lines
        if y >= len(lines):
            return Strip.blank(width, base)
        look = self._look
        plain = look.colourless or look.palette.theme.ansi
        strong = Style(bold=True) if plain else Style.parse(f"bold {look.palette.theme.accent}")
        quiet = Style() if plain else Style.parse(f"{look.palette.theme.secondary}")
        if self._said and y == len(lines) - 1:
            room = max(width - 2, 1)
            said = look.text(self._said if len(self._said) <= room else f"{self._said[: room - 1]}…")
            return Strip([Segment(f" {said}", Style(bold=True))]).apply_style(base).adjust_cell_length(width, base)
        segments = [Segment(" ")]
        for shown, word, _ in lines[y]:
            segments += [Segment(shown, strong), Segment(f" {word}  ", quiet)]
        return Strip(segments).apply_style(base).adjust_cell_length(width, base)

    async def on_click(self, event: events.Click) -> None:
        lines = self._lines
        if event.y >= len(lines) or (self._said and event.y == len(lines) - 1):
            return
        left = 1
        for shown, word, action in lines[event.y]:
            right = left + len(shown) + len(word) + 3
            if left <= event.x < right:
                await self.run_action(f"screen.{action}")
                return
            left = right
