"""Two lines of figures at the top of a screen: fields that have no room are left out, the least important first.

The first frame has them, before anything is imported that a heap is read with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip
from textual.widget import Widget

from heaptop.analysis.text.units import fit_command
from heaptop.tui.charts.chart_style import ChartStyle


@dataclass(frozen=True, slots=True)
class Field:
    """One figure. Fields of low ``rank`` go last; ``tone`` is a name that :func:`_tone` knows."""

    rank: int
    label: str
    value: str
    tone: str = ""

    @property
    def width(self) -> int:
        return len(self.label) + bool(self.label) + len(self.value)


def fitting(fields: Sequence[Field], width: int, gap: int = 2) -> list[Field]:
    """The fields that fit on one line, in their order; those of the lowest rank are dropped first."""
    kept = list(fields)
    while kept and sum(field.width for field in kept) + gap * (len(kept) - 1) > width:
        kept.remove(min(kept, key=lambda field: field.rank))
    return kept


class TopLines(Widget):
    """Two lines, drawn again only when a word on them changed."""

    DEFAULT_CSS = """
    TopLines { height: 2; background: $surface; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._content: tuple[Sequence[Field], Sequence[Field], ChartStyle] | None = None

    def show_fields(self, top: Sequence[Field], bottom: Sequence[Field], look: ChartStyle) -> None:
        content = (top, bottom, look)
        if content != self._content:
            self._content = content
            self.refresh()

    def render_line(self, y: int) -> Strip:
        base, width = self.rich_style, self.size.width
        if self._content is None or y > 1:
            return Strip.blank(width, base)
        top, bottom, look = self._content
        segments = _top_line(top, look, width) if y == 0 else _spread(fitting(bottom, width - 1), look)
        return Strip([Segment(" "), *segments]).apply_style(base).adjust_cell_length(width, base)


def _tone(name: str, look: ChartStyle) -> Style:
    theme = look.palette.theme
    if look.colourless or look.palette.theme.ansi:
        plain = {
            "name": "bold",
            "strong": "bold",
            "good": "bold",
            "bad": "bold reverse",
            "warn": "bold",
            "quiet": "dim",
        }
        return Style.parse(plain.get(name, "bold"))
    tones = {
        "name": f"bold {theme.accent}",
        "strong": "bold",
        "good": f"bold {theme.success}",
        "bad": f"bold {theme.error}",
        "warn": f"bold {theme.warning}",
        "quiet": f"{theme.secondary}",
        "label": f"{theme.secondary}",
    }
    return Style.parse(tones.get(name, "none"))


def _segments(field: Field, look: ChartStyle) -> list[Segment]:
    parts = [Segment(look.text(field.label) + " ", _tone("label", look))] if field.label else []
    return [*parts, Segment(look.text(field.value), _tone(field.tone, look))]


def _spread(fields: Sequence[Field], look: ChartStyle) -> list[Segment]:
    segments: list[Segment] = []
    for field in fields:
        segments += [*_segments(field, look), Segment("  ")]
    return segments


def _top_line(fields: Sequence[Field], look: ChartStyle, width: int) -> list[Segment]:
    """As :func:`fitting`, but the command is cut before it is dropped, and the state is at the right edge."""
    room = width - 2
    command = next((field for field in fields if field.tone == "command"), None)
    others = [field for field in fields if field is not command]
    kept = fitting(others, room - (14 if command else 0))
    used = sum(field.width for field in kept) + 2 * len(kept)
    line: list[Field] = list(kept)
    spare = room - used
    if command is not None and spare >= 4:
        text = fit_command(command.value, spare)
        text = text if len(text) <= spare else f"{text[: spare - 1]}…"
        line.insert(min(2, max(len(line) - 1, 1)), Field(0, "", text, "command"))
        spare -= len(text) + 2
    if not line:
        return []
    *left, last = line
    return [*_spread(left, look), Segment(" " * max(0, spare + 2)), *_segments(last, look)]
