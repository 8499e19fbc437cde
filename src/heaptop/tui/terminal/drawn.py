"""What a screen shows, as text."""

from __future__ import annotations

from typing import Any

from rich.cells import cell_len
from textual.geometry import Region
from textual.screen import Screen
from textual.strip import Strip
from textual.widget import Widget


def drawn_lines(screen: Screen[Any]) -> list[str]:
    """The screen line by line, without blanks at the ends of lines, nor scroll bars."""
    cells = [[" "] * screen.size.width for _ in range(screen.size.height)]
    widgets: list[Widget] = [screen, *screen.walk_children(Widget)]
    placed = [(screen.find_widget(widget), widget) for widget in widgets if widget.region and widget.display]
    # What is in front comes last.
    for place, widget in sorted(placed, key=lambda each: each[0].order):
        seen = place.region.intersection(place.clip)
        crop = Region(seen.x - place.region.x, seen.y - place.region.y, seen.width, seen.height)
        for y, strip in enumerate(widget.render_lines(crop) if seen else (), seen.y):
            cells[y][seen.x : seen.right] = _cells(strip)
    return ["".join(line).rstrip() for line in cells]


def _cells(strip: Strip) -> list[str]:
    """A character a cell, and nothing in the further cells of a wide one."""
    return [part for char in strip.text for part in (char, *[""] * (cell_len(char) - 1))]
