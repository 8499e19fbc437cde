"""A widget that is nothing but its lines: no border, padding, tint or opacity around them.

This module never draws a line: what a widget's ``lines`` gives is what the screen gets. Textual looks up for each
line what its style sheet has around it, which takes longer than making most of ours.
"""

from __future__ import annotations

from collections.abc import Sequence

from textual.geometry import Region, Size
from textual.strip import Strip
from textual.widget import Widget

from heaptop.tui.terminal import contract
from heaptop.tui.terminal.ensured_resize import EnsuredResize


class Bare(EnsuredResize, Widget):
    """All of its lines that are in sight are asked for at each frame in which one has changed: they must be at hand."""

    def lines(self, size: Size) -> Sequence[Strip]:
        """All of them. The size is looked up once for all, which is a walk through the layout."""
        raise NotImplementedError

    def render_line(self, y: int) -> Strip:
        return self.lines(self.size)[y]

    def render_lines(self, crop: Region) -> list[Strip]:
        if contract.broken():
            return super().render_lines(crop)
        self._dirty_regions.clear()  # Textual keeps each that there ever was until it makes the lines itself
        background, filters, size = self.background_colors[1], self.get_line_filters(), self.size
        strips = list(self.lines(size)[crop.y : crop.bottom])
        for one in filters:
            strips = [strip.apply_filter(one, background) for strip in strips]
        begin, end = crop.column_span
        return strips if (begin, end) == (0, size.width) else [strip.crop(begin, end) for strip in strips]
