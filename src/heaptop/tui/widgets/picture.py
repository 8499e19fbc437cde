"""A widget around any pure raster: it asks for rows of its own size, and repaints what changed in them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Region, Size
from textual.strip import Strip

from heaptop.tui.charts.chart_style import ChartStyle
from heaptop.tui.charts.raster import EMPTY, StyleRun
from heaptop.tui.terminal.bare import Bare

Draw = Callable[[int, int], Sequence[list[StyleRun]]]
"""From width and height to that many rows; missing ones are blank, what is wider is cut."""


class Picture(Bare):
    """:meth:`show` gives it a function; a resize calls it again."""

    DEFAULT_CSS = """
    Picture { width: 1fr; height: 1fr; background: $background; }
    """

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._shown: tuple[Draw, ChartStyle] | None = None
        self._key: tuple[Hashable, ChartStyle] | None = None
        self._rows: list[list[StyleRun]] = []
        self._strips: list[Strip] = []
        self._inked: tuple[Style, ChartStyle, int] | None = None  # What the strips were made with

    def show(self, draw: Draw, look: ChartStyle, *, key: Hashable = None) -> None:
        """Draw; nothing is done where ``key`` is that of the picture which is shown already."""
        if key is not None and self._rows and (key, look) == self._key:
            return
        self._shown, self._key = (draw, look), (key, look)
        self._draw(repaint_all=False)

    def show_lines(self, lines: list[list[StyleRun]], look: ChartStyle) -> None:
        """Draw these, as high as they are."""
        self.styles.height = len(lines)
        self.show(lambda width, height: lines, look)

    def on_resize(self, event: events.Resize) -> None:
        self._draw(repaint_all=True)

    def _draw(self, *, repaint_all: bool) -> None:
        width, height = self.size
        if self._shown is None or width < 1 or height < 1:
            return
        draw, look = self._shown
        before = self._rows
        rows = list(draw(width, height))[:height]
        self._rows = [_filled(row, width) for row in rows] + [_filled([], width)] * (height - len(rows))
        base = self.rich_style
        alike = bool(before) and self._inked == (base, look, width)
        known = dict(zip(map(tuple, before), self._strips, strict=True)) if alike else {}
        self._inked = base, look, width
        styles = _Styles(base, look)
        self._strips = [
            known.get(tuple(row)) or Strip([Segment(text, styles[fg, bg]) for text, fg, bg in row], width)
            for row in self._rows
        ]
        if repaint_all or len(before) != len(self._rows):
            self.refresh()
            return
        dirty = [
            Region(span[0], y, span[1] - span[0], 1)
            for y, (old, new) in enumerate(zip(before, self._rows, strict=True))
            if (span := changed_span(old, new)) is not None
        ]
        if dirty:
            self.refresh(*dirty)

    def restyle(self) -> None:
        """Forget what is on the screen: the colours changed under it."""
        self._rows = []

    def lines(self, size: Size) -> Sequence[Strip]:
        if self._inked is None or self._inked[2] != size.width:
            return [Strip.blank(size.width, self.rich_style)] * size.height
        missing = size.height - len(self._strips)
        return [*self._strips, *[Strip.blank(size.width, self.rich_style)] * missing] if missing > 0 else self._strips


class _Styles(dict[tuple[int, int], Style]):
    """Of runs, by foreground and background: a picture has thousands of runs, and few styles."""

    def __init__(self, base: Style, look: ChartStyle) -> None:
        super().__init__()
        self._base, self._look = base, look

    def __missing__(self, worn: tuple[int, int]) -> Style:
        style = self[worn] = self._base + self._look.style(*worn)
        return style


def _filled(row: list[StyleRun], width: int) -> list[StyleRun]:
    """A row of exactly this width: what a figure takes more, on a screen too narrow for it, is cut."""
    cells: list[StyleRun] = []
    room = width
    for run in row:
        if room >= len(run.text):
            cells.append(run)
        elif room:
            cells.append(StyleRun(run.text[:room], run.fg, run.bg))
        room = max(0, room - len(run.text))
    return [*cells, StyleRun(" " * room, EMPTY, EMPTY)] if room else cells


def changed_span(old: list[StyleRun], new: list[StyleRun]) -> tuple[int, int] | None:
    """The columns from the first to after the last in which two rows of one width differ; None if they do not."""
    if old == new:
        return None
    if sum([len(run.text) for run in old]) != sum([len(run.text) for run in new]):
        return 0, max(sum(len(run.text) for run in row) for row in (old, new))
    width = sum([len(run.text) for run in new])
    begin = _in_common(iter(old), iter(new))
    return (begin, width - _in_common(_backwards(old), _backwards(new))) if begin < width else None


def _in_common(old: Iterator[StyleRun], new: Iterator[StyleRun]) -> int:
    """With how many cells that are alike two rows of one width begin, however they are cut into runs."""
    alike = 0
    was, now = next(old, None), next(new, None)
    while was is not None and now is not None and was[1:] == now[1:]:
        room = min(len(was.text), len(now.text))
        if was.text[:room] != now.text[:room]:
            return alike + next(at for at in range(room) if was.text[at] != now.text[at])
        alike += room
        was = StyleRun(was.text[room:], was.fg, was.bg) if len(was.text) > room else next(old, None)
        now = StyleRun(now.text[room:], now.fg, now.bg) if len(now.text) > room else next(new, None)
    return alike


def _backwards(row: list[StyleRun]) -> Iterator[StyleRun]:
    return (StyleRun(run.text[::-1], run.fg, run.bg) for run in reversed(row))
