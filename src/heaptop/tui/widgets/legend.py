"""The names behind the chart's letters: a column beside a wide chart, one line under a narrow one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rich.segment import Segment
from rich.style import Style
from textual.geometry import Size
from textual.strip import Strip

from heaptop.analysis.text.units import format_bytes
from heaptop.tui.charts.chart_style import ChartStyle, letter_of
from heaptop.tui.charts.marks import about_bytes
from heaptop.tui.charts.palette import REST_SLOT
from heaptop.tui.terminal.bare import Bare
from heaptop.tui.terminal.repaint import dirty_region
from heaptop.tui.text import clip


class LegendEntry(NamedTuple):
    """One band: its slot, its name, what is left of it where there is little room, its latest bytes, whether these are
    an estimate, and whether the chart has its letter."""

    slot: int
    name: str
    short: str
    bytes: int
    approximate: bool = False
    lettered: bool = True


class Legend(Bare):
    """The largest band first, as in the table at first. Drawn as one line when it is one line high."""

    DEFAULT_CSS = """
    Legend { background: $background; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._entries: Sequence[LegendEntry] = ()
        self._look: ChartStyle | None = None
        self._lines: list[Strip] = []
        self._drawn: dict[LegendEntry | None, Strip] = {}  # The lines of a column by their texts; None is empty
        self._drawn_with: tuple[Style, Size, ChartStyle | None] | None = None

    def show(self, entries: Sequence[LegendEntry], look: ChartStyle) -> None:
        same_look = look == self._look
        before = self._lines
        self._entries = sorted(entries, key=lambda entry: (entry.slot == REST_SLOT, -entry.bytes))
        self._look = look
        self._lines = self._strips()
        pairs = zip(before, self._lines, strict=False)
        dirty = [region for y, pair in enumerate(pairs) if (region := dirty_region(y, *pair)) is not None]
        if not same_look or len(before) != len(self._lines):
            self.refresh()
        elif dirty:
            self.refresh(*dirty)

    def lines(self, size: Size) -> Sequence[Strip]:
        if self._drawn_with is not None and self._drawn_with[1] == size:
            return self._lines
        base = self.rich_style
        return [self._strip(y, base, size) for y in range(size.height)]

    def _strips(self) -> list[Strip]:
        base, size = self.rich_style, self.size
        known = self._drawn if self._drawn_with == (base, size, self._look) else {}
        self._drawn, self._drawn_with = {}, (base, size, self._look)
        if size.height == 1:
            return [self._strip(0, base, size)]
        lines = []
        for y in range(size.height):
            entry = self._entry(y, size)
            strip = self._drawn[entry] = known.get(entry) or self._strip(y, base, size)
            lines.append(strip)
        return lines

    def _entry(self, y: int, size: Size) -> LegendEntry | None:
        """What is in a line of a column, which ends where the chart does."""
        at = y - max(0, size.height - 2 - len(self._entries))
        return self._entries[at] if 0 <= at < len(self._entries) else None

    def _strip(self, y: int, base: Style, size: Size) -> Strip:
        segments = self._one_line() if size.height == 1 else self._nth_line(y, size)
        return Strip(segments).apply_style(base).adjust_cell_length(size.width, base)

    def _nth_line(self, y: int, size: Size) -> list[Segment]:
        look, entry = self._look, self._entry(y, size)
        if look is None or entry is None:
            return []
        room = size.width - 6 - 9
        name = look.text(clip(entry.name, room - 1, keep_tail=True)).ljust(room)
        figure = about_bytes(entry.bytes) if entry.approximate else format_bytes(entry.bytes)
        return [
            Segment("  "),
            _swatch(entry, look),
            Segment(f" {name}"),
            Segment(look.text(figure).rjust(9), Style(dim=True)),
        ]

    def _one_line(self) -> list[Segment]:
        """The largest bands that fit, of those that have a letter in the chart."""
        look, shown = self._look, [entry for entry in self._entries if entry.lettered]
        while shown and sum(len(entry.short) + 6 for entry in shown) > self.size.width - 1:
            shown.remove(min(shown, key=lambda entry: entry.bytes))
        segments: list[Segment] = [Segment(" ")]
        for entry in shown:
            if look is not None:
                segments += [_swatch(entry, look), Segment(f" {look.text(entry.short)}  ")]
        return segments


def _swatch(entry: LegendEntry, look: ChartStyle) -> Segment:
    return Segment(*swatch(entry.slot, look, lettered=entry.lettered))


def swatch(slot: int, look: ChartStyle, *, lettered: bool) -> tuple[str, Style]:
    """What a band is known by: its letter, or where the chart has no room for that its colour alone."""
    if lettered:
        return f" {letter_of(slot)} ", look.swatch(slot)
    return "   ", Style.null() if look.colourless or look.ascii_only else look.swatch(slot)
