"""A table of any length that draws only the lines on the screen, and repaints only those that changed.

This module knows nothing of heaps: rows are opaque, and whoever shows them says how one is drawn.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from textwrap import wrap
from typing import Any, ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from heaptop.tui.state.messages import HeadingClicked, RowChosen
from heaptop.tui.state.sheet import WIDE, CellText, Column, Sheet, kept
from heaptop.tui.terminal.bare import Bare
from heaptop.tui.terminal.repaint import dirty_region
from heaptop.tui.widgets.pinned_rows import PinnedRows, pinned
from heaptop.tui.widgets.table_lines import Paint, assemble, column_at, flexible_width, heading_line, row_line


class VirtualTable(Bare, ScrollView, can_focus=True):
    """Heading, cursor, sort mark, follow, pins. The owner moves the cursor; the table scrolls after it.

    A row is known to others by its number in the sheet. Its line is another one where rows are pinned: those are first.
    """

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
        self._kept: tuple[int, ...] = ()  # The columns that there is room for, by their numbers
        self._cells: dict[int, tuple[CellText, ...]] = {}  # Of the rows on the screen, by their numbers
        self._widest: tuple[object, int] = None, 0
        """In the column without a width of its own: of which columns of which table width, and the longest text."""
        self._alike: object = None  # What all lines that were drawn last have in common
        self._drawn: dict[tuple[Sequence[CellText], Style], Strip] = {}
        """Those of rows: most are drawn again as they are."""
        self.follow = False  # The cursor stays on its row when rows change places; else on its line
        self._pins = PinnedRows()

    # -- what is shown ---------------------------------------------------------------------------------------

    @property
    def sheet(self) -> Sheet[Any] | None:
        """What is shown; None before there was anything."""
        return self._sheet

    def show(self, sheet: Sheet[Any]) -> None:
        self._sheet = sheet
        self._kept = kept(sheet.columns, self.size.width, sheet.sort)
        rows = sheet.rows
        self._pins.arrange(sheet)
        if self.follow and self._cursor_key is not None:
            wanted = self._cursor_key
            found = next((i for i, row in enumerate(rows) if sheet.key(row) == wanted), None)
            self._cursor = self._cursor if found is None else self._pins.line_of(found)
        self._cursor = min(max(self._cursor, 0), max(len(rows) - 1, 0))
        if not (self.follow and self._cursor_key is not None):
            self._cursor_key = self.row_key
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
        return self._sheet.key(self._sheet.rows[self.cursor])

    @property
    def cursor(self) -> int:
        """The number of the row under the cursor, from 0."""
        return self._pins.row_in(self._cursor)

    def pin(self) -> None:
        """Have the row under the cursor stay at the top, or no longer; the cursor stays on it."""
        key, row = self.row_key, self.cursor
        if key is None or self._sheet is None:
            return
        self._pins.toggle(self._sheet, key)
        self.move_to(row)

    def move_to_key(self, key: str | None) -> None:
        """Put the cursor on the row with this key, where it is there."""
        if key is not None:
            self.move_among({key}, 1)

    def move_among(self, keys: Collection[str] | None, step: int) -> bool:
        """Go to the next row, or the one before, of those with these keys, or of all; from the end to the beginning.
        False where there is none."""
        count = self.row_count
        for line in ((self._cursor + step * place) % count for place in range(1, count + 1)):
            if self._sheet is not None and (keys is None or self._sheet.key(self._row_in(line)) in keys):
                self.move_to(self._pins.row_in(line))
                return True
        return False

    def _row_in(self, line: int) -> Any:
        assert self._sheet is not None
        return self._sheet.rows[self._pins.row_in(line)]

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
        """Put the cursor on a row; beyond the ends it stops at the first and the last line."""
        self._go(self._pins.line_of(row) if 0 <= row < self.row_count else row)

    def _go(self, line: int) -> None:
        self._cursor = min(max(line, 0), max(self.row_count - 1, 0))
        self._cursor_key = self.row_key
        self._scroll_to_cursor()
        self._repaint()

    def move(self, rows: int) -> None:
        self._go(self._cursor + rows)

    def page(self, pages: int) -> None:
        self._go(self._cursor + pages * max(1, self.page_rows - 1))

    def shift(self, columns: int) -> None:
        """Move the part that is seen of long texts, no further than the longest on the screen allows."""
        if self._sheet is None:
            return
        at = next((i for i, column in enumerate(self._sheet.columns) if not column.width), None)
        if at is None:
            return
        width = self._flexible_width(self.size.width)
        shown = [self._row_in(line) for line in self._shown_lines]
        over = max((len(self._sheet.draw(row)[at].text) - width for row in shown), default=0)
        low, high = (-over, 0) if self._sheet.columns[at].keep_tail else (0, over)
        self._shift = min(max(self._shift + columns, min(low, 0)), max(high, 0))
        self._repaint()

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
        self._draw_cells()
        self._measure()
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
        return flexible_width(self._kept_columns, width, self._widest[1])

    @property
    def _kept_columns(self) -> list[Column]:
        return [self.columns[i] for i in self._kept]

    def _draw_cells(self) -> None:
        """Draw the rows on the screen, once for all that needs them: a row of bands takes a third of a millisecond."""
        self._cells.clear()
        if self._sheet is not None:
            for line in self._shown_lines:
                self._cells[line] = self._drawn_row(self._sheet, line)

    def _drawn_row(self, sheet: Sheet[Any], line: int) -> tuple[CellText, ...]:
        row = self._row_in(line)
        pieces = tuple(sheet.draw(row))
        return pinned(pieces, sheet.columns) if self._pins.has(sheet, row) else pieces

    @property
    def _shown_lines(self) -> range:
        """The lines of rows that are on the screen."""
        top = int(self.scroll_y)
        return range(top, min(top + self.page_rows, self.row_count))

    def _measure(self) -> None:
        """Note the longest text on the screen. What was longer before keeps its room, so that nothing moves back."""
        sheet, width = self._sheet, self.size.width
        if sheet is None or width < WIDE:
            return
        at = next((i for i in self._kept if not sheet.columns[i].width), None)
        if at is None:
            return
        of, widest = (sheet.columns, width), len(sheet.columns[at].title) + 1
        if self._widest[0] == of:
            widest = self._widest[1]
        self._widest = of, max([widest, *(len(pieces[at].text) for pieces in self._cells.values())])

    def _paint(self) -> Paint:
        """Asked for once a repaint: each style is a walk through the style sheets, and each size through the layout."""
        base = self.rich_style
        width = self.size.width
        return Paint(
            width,
            self._flexible_width(width) if self._sheet is not None else 0,
            base,
            *(
                base + self.get_component_rich_style(f"table--{name}", partial=True)
                for name in ("heading", "cursor", "nothing")
            ),
        )

    def _line(self, y: int, paint: Paint, known: Mapping[tuple[Sequence[CellText], Style], Strip]) -> Strip:
        sheet, width = self._sheet, paint.width
        if sheet is None or width < 1:
            return Strip.blank(width, paint.base)
        if y == 0:
            return heading_line(sheet, self._kept, paint)
        line = y - 1 + int(self.scroll_y)
        if line < len(sheet.rows):
            style = paint.cursor if line == self._cursor else paint.base
            key = self._cells.get(line) or self._drawn_row(sheet, line), style
            strip = known.get(key)
            if strip is None:
                strip = row_line(sheet, self._kept, key[0], self._shift, paint, style)
            self._drawn[key] = strip
            return strip
        said = wrap(sheet.look.text(sheet.nothing), width) if not sheet.rows else []
        if y <= len(said):
            return assemble([Segment(said[y - 1])], paint.nothing, width)
        return Strip.blank(width, paint.base)

    # -- the mouse -------------------------------------------------------------------------------------------

    def on_click(self, event: events.Click) -> None:
        event.stop()
        if event.y == 0:
            key = column_at(self._kept_columns, event.x, self._flexible_width(self.size.width))
            if key is not None:
                self.post_message(HeadingClicked(key))
            return
        line = event.y - 1 + int(self.scroll_y)
        if self._sheet is None or line >= self.row_count:
            return
        if line == self._cursor and event.chain > 1:
            self.post_message(RowChosen(self._sheet.key(self._row_in(line))))
        self._go(line)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.move(3)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.move(-3)
