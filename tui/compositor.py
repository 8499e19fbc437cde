"""Sends to the terminal what changed, and not also all that stands to the left of it in the same widget.

Textual (8.2) crops a changed span at its right end only, and begins every write at the widget's left edge: one
new column of the chart would send the whole chart again. This module changes nothing else of how it draws.
It leans on two classes that Textual keeps to itself; a test of the bytes sent fails if they change.
"""

from __future__ import annotations

from rich.console import Console
from rich.control import Control
from textual._compositor import ChopsUpdate, Compositor


class SpanUpdate(ChopsUpdate):
    """An update that writes each span from its first column to its last."""

    def render_segments(self, console: Console) -> str:
        written: list[str] = []
        for y, x1, x2 in self.spans:
            for end, (x, strip) in zip(self.chop_ends[y], self.chops[y].items(), strict=False):
                left, right = max(x1, x), min(x2, end)
                if strip is not None and left < right:
                    written.append(Control.move_to(left, y).segment.text)
                    written.append(strip.crop(left - x, right - x).render(console))
        return "".join(written)


class SpanCompositor(Compositor):
    """Textual's compositor with :class:`SpanUpdate` in place of its own."""

    def render_partial_update(self) -> ChopsUpdate | None:
        update = super().render_partial_update()
        return None if update is None else SpanUpdate(update.chops, update.spans, update.chop_ends)
