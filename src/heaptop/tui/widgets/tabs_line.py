"""The line at the top where several processes are attached to: a tab each, and one in front for their sum.

What has room is up to :func:`fitting_tabs`: names go first, then figures, then tabs far from the one shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.strip import Strip
from textual.widget import Widget

from heaptop.tui.charts.chart_style import ChartStyle
from heaptop.tui.state.messages import TabChosen
from heaptop.tui.text import clip

LONGEST_NAME = 16


@dataclass(frozen=True, slots=True)
class Tab:
    """One tab."""

    title: str  # `all 4`, or a pid
    name: str
    figure: str  # How large its heap is
    mark: str  # Where that moves, or the state of its attach

    @property
    def texts(self) -> tuple[str, str, str]:
        """In full, without the name, and without the figure too."""
        parts = ((clip(self.name, LONGEST_NAME), self.figure), (self.figure,), ())
        full, short, least = (" ".join(filter(None, (self.title, *part, self.mark))) for part in parts)
        return full, short, least


@dataclass(frozen=True, slots=True)
class PlacedTab:
    """A tab on the line."""

    number: int
    text: str


def fitting_tabs(tabs: Sequence[Tab], shown: int, width: int) -> tuple[int, list[PlacedTab], int]:
    """Those that have room in ``width`` columns, a blank on either side of each and a bar between two, with how many
    are left out before and behind. The one that is ``shown`` always has a place."""
    full, short, least = zip(*(tab.texts for tab in tabs), strict=True)
    texts = next((texts for texts in (full, short) if _width(texts) <= width), least)
    first, last = shown, shown + 1
    # Grown to the left first, for what is there is the sum and the tabs one came from.
    while True:
        if first > 0 and _drawn(texts, first - 1, last) <= width:
            first -= 1
        elif last < len(tabs) and _drawn(texts, first, last + 1) <= width:
            last += 1
        else:
            break
    return first, [PlacedTab(number, texts[number]) for number in range(first, last)], len(tabs) - last


def _drawn(texts: Sequence[str], first: int, last: int) -> int:
    """Columns that these take, with what says how many there are on either side."""
    return _width(texts[first:last]) + 4 * (first > 0) + 4 * (last < len(texts))


def _width(texts: Sequence[str]) -> int:
    return sum(len(text) + 3 for text in texts) - 1


class TabsLine(Widget):
    """:meth:`show` sets the tabs; a click on one chooses it."""

    DEFAULT_CSS = """
    TabsLine { height: 1; background: $surface; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._content: tuple[tuple[Tab, ...], int, ChartStyle] | None = None

    def show(self, tabs: Sequence[Tab], shown: int, look: ChartStyle) -> None:
        content = (tuple(tabs), shown, look)
        if content != self._content:
            self._content = content
            self.refresh()

    def _pieces(self) -> list[tuple[str, int | None]]:
        """Texts from left to right, with the number of the tab that each one is of."""
        if self._content is None:
            return []
        tabs, shown, look = self._content
        before, placed, behind = fitting_tabs(tabs, shown, self.size.width)
        pieces: list[tuple[str, int | None]] = [(f"‹{before} ", before - 1)] if before else []
        for at, tab in enumerate(placed):
            if at:
                pieces.append(("│", None))
            pieces.append((f" {tab.text} ", tab.number))
        if behind:
            pieces.append((f" {behind}›", placed[-1].number + 1))
        return [(look.text(text), number) for text, number in pieces]

    def render_line(self, y: int) -> Strip:
        base, width = self.rich_style, self.size.width
        if self._content is None or y:
            return Strip.blank(width, base)
        _, shown, look = self._content
        plain = look.colourless or look.palette.theme.ansi
        quiet = Style() if plain else Style.parse(look.palette.theme.secondary or "none")
        chosen = Style(bold=True, reverse=True)
        segments = [Segment(text, chosen if number == shown else quiet) for text, number in self._pieces()]
        return Strip(segments).apply_style(base).adjust_cell_length(width, base)

    def on_click(self, event: events.Click) -> None:
        left = 0
        for text, number in self._pieces():
            left += len(text)
            if event.x < left:
                if number is not None:
                    self.post_message(TabChosen(number))
                return
