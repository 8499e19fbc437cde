"""The line at the top where several processes are attached to: a tab each, and one in front for their sum.

What has room is chosen by :func:`fitting_tabs`, which is pure: names go first, then tabs far from the one shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.strip import Strip
from textual.widget import Widget

from heaptop.tui.look import Look
from heaptop.tui.messages import TabChosen
from heaptop.tui.widgets.virtual_table import clip

LONGEST_NAME = 16


@dataclass(frozen=True, slots=True)
class Tab:
    """One tab."""

    title: str
    """``all 4``, or a pid."""
    name: str
    figure: str
    """How large its heap is, and where it moves; or how its attach stands."""

    def text(self, *, named: bool) -> str:
        name = clip(self.name, LONGEST_NAME) if named else ""
        return " ".join(part for part in (self.title, name, self.figure) if part)


@dataclass(frozen=True, slots=True)
class Placed:
    """A tab on the line."""

    number: int
    text: str


def fitting_tabs(tabs: Sequence[Tab], shown: int, width: int) -> tuple[int, list[Placed], int]:
    """Those that have room in ``width`` columns, a blank on either side of each and a bar between two, with how many
    are left out before and behind. The one that is ``shown`` always has a place."""
    texts = [tab.text(named=True) for tab in tabs]
    if _width(texts) > width:
        texts = [tab.text(named=False) for tab in tabs]
    first, last = shown, shown + 1
    # Grown to the left first, for what stands there is the sum and the tabs one came from.
    while first > 0 or last < len(tabs):
        room = width - (4 if first > 1 else 0) - (4 if last + 1 < len(tabs) else 0)
        if first > 0 and _width(texts[first - 1 : last]) <= room:
            first -= 1
        elif last < len(tabs) and _width(texts[first : last + 1]) <= room:
            last += 1
        else:
            break
    return first, [Placed(number, texts[number]) for number in range(first, last)], len(tabs) - last


def _width(texts: Sequence[str]) -> int:
    return sum(len(text) + 3 for text in texts) - 1


class TabsLine(Widget):
    """:meth:`show` sets the tabs; a click on one chooses it."""

    DEFAULT_CSS = """
    TabsLine { height: 1; background: $surface; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._content: tuple[tuple[Tab, ...], int, Look] | None = None

    def show(self, tabs: Sequence[Tab], shown: int, look: Look) -> None:
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
