"""How things are drawn: a palette and an :class:`~heaptop.tui.charts.raster.Ink`, and the text styles made of both.

It is passed along with what is to be shown, so that a widget never asks where colours come from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from rich.style import Style

from heaptop.choices import TIMES
from heaptop.tui.charts.palette import MONO, REST_SLOT, Palette
from heaptop.tui.charts.raster import AXIS, EMPTY, GRID, INK, LETTERS, REST_LETTER, Ink

_TO_ASCII: Final = str.maketrans(
    {
        "…": "~", "·": "-", "µ": "u", "●": "*", "○": "o", "▲": "^", "▼": "v", "×": "x", "–": "-", "≈": "~",
        "→": ">", "│": "|", "─": "-", "█": "#", "▌": "|", "▏": "|", "›": ">", "‖": "=", "ⓘ": "i", "’": "'",
        "±": "+-", "‹": "<", "≤": "<", "≥": ">", "▸": "+", "▾": "-",
        "←": "<", "§": "section ", "ö": "o", "ć": "c", "“": '"', "”": '"', "░": ".", "▒": ":", "▓": "+",
        "├": "|", "■": "#", "└": "`", "†": "x",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ChartStyle:
    """A palette, and how bands are distinguished."""

    palette: Palette
    ink: Ink
    keys: Mapping[str, str] = field(default_factory=dict, compare=False)
    """How a key is written that a person has given another name: never changes while the app runs."""

    times: str = TIMES[0]  # How moments are written

    @classmethod
    def of(
        cls, palette: Palette, *, ascii_only: bool, keys: Mapping[str, str] | None = None, times: str = TIMES[0]
    ) -> ChartStyle:
        ink = Ink.ASCII if ascii_only else Ink.TEXTURE if palette is MONO else Ink.COLOUR
        return cls(palette, ink, keys or {}, times)

    def key(self, shown: str) -> str:
        """A key of the binding table, as footer, help and palette write it."""
        return self.keys.get(shown, shown)

    @property
    def ascii_only(self) -> bool:
        return self.ink is Ink.ASCII

    @property
    def colourless(self) -> bool:
        return self.palette is MONO

    def text(self, text: str) -> str:
        """The text as this screen can show it; outside ASCII mode, unchanged."""
        if not self.ascii_only:
            return text
        return text.translate(_TO_ASCII).encode("ascii", "replace").decode()

    def style(self, fg: int, bg: int) -> Style:
        """The style of a run of the raster: slots and roles as its module defines them."""
        return _style(self, fg, bg)

    def swatch(self, slot: int) -> Style:
        """The style of a band's letter in legend and table: as it is in the chart."""
        return _style(self, INK, slot)


@lru_cache(maxsize=4096)
def _style(look: ChartStyle, fg: int, bg: int) -> Style:
    palette = look.palette
    if look.colourless:
        return Style(dim=fg in (AXIS, GRID), bold=fg == INK, reverse=fg == INK)
    if fg in (AXIS, GRID):
        return Style.parse(palette.rest)
    front = palette.ink if fg == INK else palette.band(fg) if fg >= 0 else None
    return Style(color=front, bgcolor=palette.band(bg) if bg != EMPTY else None, bold=fg == INK)


def letter_of(slot: int) -> str:
    """``A`` for slot 0, …; the rest has a mark of its own."""
    return REST_LETTER if slot == REST_SLOT else LETTERS[slot % len(LETTERS)]


def change_style(change: int | None, look: ChartStyle) -> Style:
    """Growth and shrinking, distinguished by their sign first; no change steps back."""
    if change == 0:
        return Style(dim=True)
    return Style.parse(look.palette.shrunk if change is not None and change < 0 else look.palette.grown)
