"""A line between title and figures for what must be known of all of them; it takes no room while there is nothing."""

from __future__ import annotations

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip
from textual.widget import Widget

from heaptop.tui.charts.chart_style import ChartStyle
from heaptop.tui.text import clip_parts


class NoticeLine(Widget):
    """:meth:`show` sets its words."""

    DEFAULT_CSS = """
    NoticeLine { height: 1; width: 1fr; background: $background; display: none; }
    NoticeLine.said { display: block; }
    """

    def __init__(self, *, id: str | None = None, warns: bool = True) -> None:
        """``warns``: it is no mere hint."""
        super().__init__(id=id)
        self._warns = warns
        self._said: tuple[str, ChartStyle] | None = None

    def show(self, text: str, look: ChartStyle) -> None:
        """Empty text makes it go."""
        if (text, look) != self._said:
            self._said = text, look
            self.set_class(bool(text), "said")
            self.refresh()

    def render_line(self, y: int) -> Strip:
        base, width = self.rich_style, self.size.width
        if self._said is None or y:
            return Strip.blank(width, base)
        text, look = self._said
        plain = look.colourless or look.palette.theme.ansi
        theme = look.palette.theme
        warn = Style(bold=True) if plain else Style.parse(f"bold {theme.warning if self._warns else theme.accent}")
        words = look.text(clip_parts(text, max(width - 1, 0)))
        return Strip([Segment(" "), Segment(words, warn)]).apply_style(base).adjust_cell_length(width, base)
