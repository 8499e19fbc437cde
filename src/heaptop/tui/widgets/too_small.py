"""Covers a screen that is too small to be read: how large it is, and how large it must be.

The screen under it takes only those that need no look at it.
"""

from __future__ import annotations

from typing import Final

from rich.text import Text
from textual.geometry import Size
from textual.widget import Widget

LEAST: Final = (50, 12)  # Columns and lines with which every view still shows a name, a figure and a few rows

ROOMY: Final = ("-wide-enough", "-high-enough")  # The classes of a screen that is not too small
HORIZONTAL: Final[list[tuple[int, str]]] = [(0, "-narrow"), (LEAST[0], ROOMY[0])]
VERTICAL: Final[list[tuple[int, str]]] = [(0, "-low"), (LEAST[1], ROOMY[1])]
"""For the app, as Textual takes them: the class that each screen has from so many columns, or lines, on."""


def is_too_small(size: Size) -> bool:
    return size.width < LEAST[0] or size.height < LEAST[1]


def needs(columns: int, lines: int) -> str:
    """Its text in a terminal of this size."""
    return f"heaptop needs {LEAST[0]}×{LEAST[1]}; this terminal is {columns}×{lines}."


class TooSmall(Widget):
    """Over all of the screen but the footer, which names the keys. Where a panel is, over what is above that: a panel
    has text, and what it asks can be answered."""

    DEFAULT_CSS = """
    TooSmall {
        display: none; layer: above; width: 1fr; height: 1fr; margin: 0 0 1 0; padding: 0 1;
        background: $background; content-align: center middle; text-style: bold;
    }
    """

    def __init__(self, *, ascii_only: bool = False) -> None:
        super().__init__()
        self._ascii_only = ascii_only

    def render(self) -> Text:
        text = needs(*self.app.size)
        return Text(text.replace("×", "x") if self._ascii_only else text, justify="center")
