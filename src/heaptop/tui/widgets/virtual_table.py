"""A table of any length that draws only the lines on the screen, and repaints only those that changed.

This module knows nothing of heaps: rows are opaque, and whoever shows them says how one is drawn.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any, ClassVar, Final, Generic, NamedTuple, TypeVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from heaptop.tui.charts.look import Look
from heaptop.tui.state.messages import HeadingClicked, RowChosen
from heaptop.tui.terminal.bare import Bare
from heaptop.tui.terminal.repaint import dirty_region

R = TypeVar("R")
GAP = 2


@dataclass(frozen=True, slots=True)
class Column:
    """One column. ``width`` 0 takes what is left; one column has it. On a narrow screen some go: :func:`kept`."""

    key: str
    title: str
    width: int
    right: bool = True
    keep_tail: bool = False
    """Of a text that is too long, show the end: the class of a dotted name."""
    rank: int = 1
    """Where there is no room for all, columns of low rank go first, and of the same rank those on the right."""
    least: int | None = None
    """With ``width`` 0: so much room it must have, or others go. 0: it says nothing. None: of names :func:`fair_share`,
    else :data:`LEAST`."""

    def needs(self, width: int) -> int:
        """Room that it must have in a table of this width."""
        if self.width or self.least is not None:
            return self.width or self.least or 0
        return fair_share(width) if self.key == "name" else LEAST


ALWAYS: Final = 9
"""The rank of a column without which nobody knows what a row is."""
LEAST: Final = 12


BEGUN: Final = 6
"""Columns in which the beginning of a text says something."""


def fair_share(width: int) -> int:
    """What names have of a table of this width before there is room for all figures."""
    return max(16, width // 4)


def kept(columns: Sequence[Column], width: int, sort: str = "") -> tuple[int, ...]:
    """Which columns a table of this width shows, by their numbers: all where there is room.

    The column that takes what is left, the one that is sorted by, and what says what a row is are never dropped.
    """
    left = [*range(len(columns))]

    def fits() -> bool:
        needed: list[int] = [room for i in left if (room := columns[i].needs(width))]
        return sum(needed) + GAP * (len(needed) - 1) <= width

    def may_go(i: int) -> bool:
        column = columns[i]
        return bool(column.width) and column.rank < ALWAYS and column.key not in ("name", sort)

    going = sorted((i for i in left if may_go(i)), key=lambda i: (columns[i].rank, -i))
    for i in going:
        if fits():
            break
        left.remove(i)
    return tuple(left)


class Piece(NamedTuple):
    """What stands in one cell of one row."""

    text: str
    style: Style = Style.null()
    shorter: tuple[str, ...] = ()
    """What says less where there is no room for all, longest first; of the last so much as fits. Of one that goes on
    after the next one, so much more as there is room for."""
    indent: int = 0
    """Columns at the left that stay when what is behind them is cut, and keeps its end."""

    def fit(self, width: int, *, keep_tail: bool) -> str:
        """Of a text that is too long, what is shown."""
        longer = ""
        for text in (self.text, *self.shorter):
            if len(text) <= width:
                begun = longer.startswith(text) and width - len(text) >= BEGUN
                return clip(longer, width) if begun else text
            longer = text
        if not 0 < 2 * self.indent < width:
            return clip(longer, width, keep_tail=keep_tail)
        return longer[: self.indent] + clip(longer[self.indent :], width - self.indent, keep_tail=True)


@dataclass(frozen=True)
class Sheet(Generic[R]):
    """Everything a table shows at one moment."""

    columns: tuple[Column, ...]
    rows: Sequence[R]
    key: Callable[[R], str]
    """What tells a row from the others, from one moment to the next."""
    draw: Callable[[R], Sequence[Piece]]
    """A piece a column."""
    look: Look
    sort: str = ""
    """The column sorted by; empty for none."""
    descending: bool = True
    nothing: str = "Nothing to show."
    """Said where there are no rows."""
    exact: Sequence[tuple[str, Callable[[R], str | int]]] = ()
    """What a saved table has of a row beside what is shown, by heading: full names and places, figures as numbers."""


class _Paint(NamedTuple):
    """What all lines of one repaint have in common."""

    width: int
    flexible: int
    """Columns of what has no width of its own."""
    base: Style
    heading: Style
    cursor: Style
    nothing: Style


def clip(text: str, width: int, *, shift: int = 0, keep_tail: bool = False) -> str:
    """The part of ``text`` that fits in ``width`` columns, an ellipsis where something is cut.

    Without ``shift`` it is the beginning, or with ``keep_tail`` the end: of several words also the first, which says of
    what sort it is (``module …app .cache``), and of a path what :func:`elide` leaves. ``shift`` moves the part to the
    right.
    """
    over = len(text) - width
    if over <= 0:
        return text
    if width < 2:
        return text[: max(width, 0)]
    if keep_tail and not shift:
        if _PATH.match(text):
            return elide(text, width)
        kind, blank, rest = text.partition(" ")
        if kind and blank and 2 * len(kind) < width:  # what it is, or where, stands first
            return f"{kind} …{rest[len(rest) - (width - len(kind) - 2) :]}"
    start = min(max((over if keep_tail else 0) + shift, 0), over)
    part = text[start : start + width]
    if start > 0:
        part = "…" + part[1:]
    if start < over:
        part = part[:-1] + "…"
    return part


_PATH: Final = re.compile(r"([^\s/]*/)((?:[^\s/]*/)*)(\S+)(.*)", re.DOTALL)
"""Its first folder, the others, its name (and line), and what stands behind it."""


def elide(text: str, width: int) -> str:
    """A path in ``width`` columns, with folders left out of its middle: ``shop/…/views.py:88 create_session``.

    What is kept longest is the file's name with its line, then what stands behind it, then the first folder.
    """
    found = _PATH.fullmatch(text)
    if found is None or len(text) <= width:
        return clip(text, width)
    first, others, name, rest = found.groups()
    folders = others.split("/")[:-1]
    while folders:
        folders = folders[1:]
        shorter = f"{first}…/{''.join(f'{folder}/' for folder in folders)}{name}{rest}"
        if len(shorter) <= width:
            return shorter
    if len(name) + 3 <= width:
        return clip(f"…/{name}{rest}", width)
    if len(name) == width:
        return name
    return clip(name, width, shift=len(name)) if len(name) > width else clip(f"{name}{rest}", width)


class VirtualTable(Bare, ScrollView, can_focus=True):
    """Heading, cursor, sort mark, follow. The owner moves the cursor; the table scrolls after it."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"table--heading", "table--cursor", "table--nothing"}
    DEFAULT_CSS = """
    VirtualTable { height: 1fr; scrollbar-size: 0 0; overflow: hidden hidden; background: $background; }
    VirtualTable > .table--heading { color: $secondary; text-style: bold; }
    VirtualTable > .table--cursor { background: $panel; text-style: bold; }
    VirtualTable > .table--nothing { color: $secondary; }
    VirtualTable:ansi > .table--cursor { text-style: reverse; }
    """

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._sheet: Sheet[Any] | None = None
        self._cursor = 0
        self._cursor_key: str | None = None
        self._shift = 0
        self._lines: list[Strip] = []
        self._kept: tuple[int, ...] = ()
        """The columns that there is room for, by their numbers."""
        self._alike: object = None
        """What all lines that were drawn last have in common."""
        self._drawn: dict[tuple[Sequence[Piece], Style], Strip] = {}
        """Those of rows: most are drawn again as they are."""
        self.follow = False
        """The cursor stays on its row when rows change places; else on its line."""

    # -- what is shown ---------------------------------------------------------------------------------------

    @property
    def sheet(self) -> Sheet[Any] | None:
        """What is shown; None before there was anything."""
        return self._sheet

    def show(self, sheet: Sheet[Any]) -> None:
        self._sheet = sheet
        self._kept = kept(sheet.columns, self.size.width, sheet.sort)
        rows = sheet.rows
        if self.follow and self._cursor_key is not None:
            wanted = self._cursor_key
            found = next((i for i, row in enumerate(rows) if sheet.key(row) == wanted), None)
            self._cursor = self._cursor if found is None else found
        self._cursor = min(max(self._cursor, 0), max(len(rows) - 1, 0))
        if not (self.follow and self._cursor_key is not None):
            self._remember()
        self._resize_virtual()
        self._scroll_to_cursor()
        self._repaint()

    @property
    def columns(self) -> Sequence[Column]:
        """What is shown of each row."""
        return self._sheet.columns if self._sheet is not None else ()

    @property
    def row_key(self) -> str | None:
        """The key of the row under the cursor; None where there are no rows."""
        if self._sheet is None or not self._sheet.rows:
            return None
        return self._sheet.key(self._sheet.rows[self._cursor])

    @property
    def cursor(self) -> int:
        """The line of the cursor, from 0."""
        return self._cursor

    @property
    def row_count(self) -> int:
        return len(self._sheet.rows) if self._sheet is not None else 0

    @property
    def place(self) -> object:
        return self._cursor, self._shift

    @property
    def page_rows(self) -> int:
        """Rows that fit on the screen at once."""
        return max(1, self.size.height - 1)

    # -- moving ----------------------------------------------------------------------------------------------

    def move_to(self, row: int) -> None:
        """Put the cursor on a row; beyond the ends it stops at them."""
        self._cursor = min(max(row, 0), max(self.row_count - 1, 0))
        self._remember()
        self._scroll_to_cursor()
        self._repaint()

    def move(self, rows: int) -> None:
        self.move_to(self._cursor + rows)

    def page(self, pages: int) -> None:
        self.move_to(self._cursor + pages * max(1, self.page_rows - 1))

    def shift(self, columns: int) -> None:
        """Move the part that is seen of long texts, no further than the longest on the screen allows."""
        if self._sheet is None:
            return
        at = next((i for i, column in enumerate(self._sheet.columns) if not column.width), None)
        if at is None:
            return
        width = self._flexible_width(self.size.width)
        shown = self._sheet.rows[int(self.scroll_y) :][: self.page_rows]
        over = max((len(self._sheet.draw(row)[at].text) - width for row in shown), default=0)
        low, high = (-over, 0) if self._sheet.columns[at].keep_tail else (0, over)
        self._shift = min(max(self._shift + columns, min(low, 0)), max(high, 0))
        self._repaint()

    def _remember(self) -> None:
        self._cursor_key = self.row_key

    def _scroll_to_cursor(self) -> None:
        top = int(self.scroll_y)
        if self._cursor < top:
            top = self._cursor
        elif self._cursor >= top + self.page_rows:
            top = self._cursor - self.page_rows + 1
        top = min(top, max(0, self.row_count - self.page_rows))
        self.scroll_to(y=top, animate=False, force=True)

    def _resize_virtual(self) -> None:
        size = Size(self.size.width, self.row_count + 1)
        # Nothing else has another place for it, and no scroll bar is there: assigned to, it has all laid out anew.
        self.set_reactive(VirtualTable.virtual_size, size)

    # -- painting --------------------------------------------------------------------------------------------

    def _repaint(self) -> None:
        """Mark the lines that differ from what is on the screen."""
        before = self._lines
        paint = self._paint()
        sheet = self._sheet
        alike = paint, self._shift, self._kept, *((sheet.columns, sheet.look) if sheet is not None else ())
        known = self._drawn if alike == self._alike else {}
        self._alike, self._drawn = alike, {}
        self._lines = [self._line(y, paint, known) for y in range(self.size.height)]
        if len(before) != len(self._lines):
            self.refresh()
            return
        pairs = zip(before, self._lines, strict=True)
        dirty = [region for y, pair in enumerate(pairs) if (region := dirty_region(y, *pair)) is not None]
        if dirty:
            self.refresh(*dirty)

    def on_resize(self, event: events.Resize) -> None:
        self._lines = []
        if self._sheet is not None:
            self._kept = kept(self._sheet.columns, self.size.width, self._sheet.sort)
        self._resize_virtual()
        self._scroll_to_cursor()
        self._repaint()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self._repaint()

    def restyle(self) -> None:
        """Forget what is on the screen: the colours changed under it."""
        self._lines = []

    def lines(self, size: Size) -> Sequence[Strip]:
        if len(self._lines) >= size.height:
            return self._lines
        paint = self._paint()
        return [*self._lines, *[self._line(y, paint, {}) for y in range(len(self._lines), size.height)]]

    def _flexible_width(self, width: int) -> int:
        assert self._sheet is not None
        columns = [self._sheet.columns[i] for i in self._kept]
        return max(4, width - sum(c.width for c in columns) - GAP * (len(columns) - 1))

    def _paint(self) -> _Paint:
        """Asked for once a repaint: each style is a walk through the style sheets, and each size through the layout."""
        base = self.rich_style
        width = self.size.width
        return _Paint(
            width,
            self._flexible_width(width) if self._sheet is not None else 0,
            base,
            *(
                base + self.get_component_rich_style(f"table--{name}", partial=True)
                for name in ("heading", "cursor", "nothing")
            ),
        )

    def _line(self, y: int, paint: _Paint, known: Mapping[tuple[Sequence[Piece], Style], Strip]) -> Strip:
        sheet, width = self._sheet, paint.width
        if sheet is None or width < 1:
            return Strip.blank(width, paint.base)
        if y == 0:
            return _assemble(self._heading(sheet, paint), paint.heading, width)
        row = y - 1 + int(self.scroll_y)
        if row < len(sheet.rows):
            style = paint.cursor if row == self._cursor else paint.base
            key = tuple(sheet.draw(sheet.rows[row])), style
            strip = known.get(key)
            if strip is None:
                strip = self._row(sheet, key[0], paint, style)
            self._drawn[key] = strip
            return strip
        said = wrap(sheet.look.text(sheet.nothing), width) if not sheet.rows else []
        if y <= len(said):
            return _assemble([Segment(said[y - 1])], paint.nothing, width)
        return Strip.blank(width, paint.base)

    def _heading(self, sheet: Sheet[Any], paint: _Paint) -> list[Segment]:
        segments: list[Segment] = []
        for column in (sheet.columns[i] for i in self._kept):
            mark = ("▼" if sheet.descending else "▲") if column.key == sheet.sort else ""
            title = sheet.look.text(column.title + mark)
            width = column.width or paint.flexible
            style = Style(underline=bool(mark))
            pad = " " * max(0, width - len(title))
            filler, word = Segment(pad), Segment(title[:width], style)
            segments += [filler, word] if column.right else [word, filler]
            segments.append(Segment(" " * GAP))
        return segments[:-1]

    def _row(self, sheet: Sheet[Any], pieces: Sequence[Piece], paint: _Paint, style: Style) -> Strip:
        """A row, as few segments as can be: neighbours that look alike are one."""
        segments: list[Segment] = []
        text, worn = "", style
        end = " " * GAP
        for column, piece in [(sheet.columns[i], pieces[i]) for i in self._kept]:
            width = column.width or paint.flexible
            own = piece.text
            if len(own) > width:
                if self._shift and not column.width:
                    own = clip(own, width, shift=self._shift, keep_tail=column.keep_tail)
                else:
                    own = piece.fit(width, keep_tail=column.keep_tail)
            own = sheet.look.text(own)
            own = own.rjust(width) if column.right else own.ljust(width)
            wears = style + piece.style if piece.style else style
            if wears is not worn and wears != worn:
                segments.append(Segment(text, worn))
                text, worn = "", wears
            text += own
            if piece.style.bgcolor is None:
                text += end  # the gap goes along with a text that has no ground of its own: fewer colour codes
            else:
                segments.append(Segment(text, worn))
                text, worn = end, style
        segments.append(Segment(text[:-GAP], worn))
        return Strip([segment for segment in segments if segment.text]).adjust_cell_length(paint.width, style)

    # -- the mouse -------------------------------------------------------------------------------------------

    def on_click(self, event: events.Click) -> None:
        event.stop()
        if event.y == 0:
            self._click_heading(event.x)
            return
        row = event.y - 1 + int(self.scroll_y)
        if self._sheet is None or row >= self.row_count:
            return
        if row == self._cursor and event.chain > 1:
            self.post_message(RowChosen(self._sheet.key(self._sheet.rows[row])))
        self.move_to(row)

    def _click_heading(self, x: int) -> None:
        if self._sheet is None:
            return
        left = 0
        for column in (self._sheet.columns[i] for i in self._kept):
            right = left + (column.width or self._flexible_width(self.size.width)) + GAP
            if left <= x < right:
                self.post_message(HeadingClicked(column.key))
                return
            left = right

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.move(3)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.move(-3)


def _assemble(segments: list[Segment], style: Style, width: int) -> Strip:
    # Cropped first: a row wider than the screen must not push the next line down.
    return Strip(segments).simplify().apply_style(style).adjust_cell_length(width, style)
