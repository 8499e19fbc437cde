"""A widget around any pure raster: it asks for rows of its own size, and repaints what changed in them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import chain, repeat
from operator import ne, or_

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Region
from textual.strip import Strip

from heaptop.tui.look import Look
from heaptop.tui.raster import EMPTY, Run
from heaptop.tui.widgets.bare import Bare

Draw = Callable[[int, int], Sequence[list[Run]]]
"""From width and height to that many rows; missing ones are blank, what is wider is cut."""


class Picture(Bare):
    """:meth:`show` gives it a function; a resize calls it again."""

    DEFAULT_CSS = """
    Picture { width: 1fr; height: 1fr; background: $background; }
    """

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._shown: tuple[Draw, Look] | None = None
        self._key: tuple[Hashable, Look] | None = None
        self._rows: list[list[Run]] = []
        self._strips: list[Strip] = []
        self._inked: tuple[Style, Look, int] | None = None
        """What the strips were made with."""

    def show(self, draw: Draw, look: Look, *, key: Hashable = None) -> None:
        """Draw; nothing is done where ``key`` says that it would be the picture which is shown already."""
        if key is not None and self._rows and (key, look) == self._key:
            return
        self._shown, self._key = (draw, look), (key, look)
        self._draw(repaint_all=False)

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
        self._strips = [
            known.get(tuple(row))
            or Strip([Segment(run.text, base + look.style(run.fg, run.bg)) for run in row], width)
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

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        if y < len(self._strips) and self._strips[y].cell_length == width:
            return self._strips[y]
        return Strip.blank(width, self.rich_style)


def _filled(row: list[Run], width: int) -> list[Run]:
    """A row of exactly this width: what a figure takes more, on a screen too narrow for it, is cut."""
    cells: list[Run] = []
    room = width
    for run in row:
        if room >= len(run.text):
            cells.append(run)
        elif room:
            cells.append(Run(run.text[:room], run.fg, run.bg))
        room = max(0, room - len(run.text))
    return [*cells, Run(" " * room, EMPTY, EMPTY)] if room else cells


def changed_span(old: list[Run], new: list[Run]) -> tuple[int, int] | None:
    """The columns from the first to after the last in which two rows of one width differ; None if they do not."""
    if old == new:
        return None
    if sum([len(run.text) for run in old]) != sum([len(run.text) for run in new]):
        return 0, max(sum(len(run.text) for run in row) for row in (old, new))
    begin = skipped = 0
    while begin < min(len(old), len(new)) and old[begin] == new[begin]:
        skipped += len(old[begin].text)
        begin += 1
    left = min(len(old), len(new)) - begin
    end = next((place for place in range(left) if old[-1 - place] != new[-1 - place]), left)
    before, after = old[begin : len(old) - end], new[begin : len(new) - end]
    differs = [*map(ne, _characters(before), _characters(after))]
    restyled = [*map(ne, _styles(before), _styles(after))]
    changed = [*map(or_, differs, restyled)]
    if True not in changed:
        return None
    return skipped + changed.index(True), skipped + len(changed) - changed[::-1].index(True)


def _characters(row: list[Run]) -> str:
    return "".join([run.text for run in row])


def _styles(row: list[Run]) -> Iterator[tuple[int, int]]:
    """One a character."""
    return chain.from_iterable([repeat((run.fg, run.bg), len(run.text)) for run in row])
