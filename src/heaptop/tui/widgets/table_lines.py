"""Lines of a table: its heading and its rows as strips, and where its columns are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from heaptop.tui.state.sheet import GAP, WIDE, CellText, Column, Sheet
from heaptop.tui.text import clip

LEAST_WIDE: Final = 24  # Columns that names have on a wide screen, also where all of them are short


class Paint(NamedTuple):
    """What all lines of one repaint have in common."""

    width: int
    flexible: int  # Columns of what has no width of its own
    base: Style
    heading: Style
    cursor: Style
    nothing: Style


def flexible_width(columns: Sequence[Column], width: int, widest: int) -> int:
    """What the others leave; on a wide screen no more than the texts need, so that figures are beside them."""
    left = max(4, width - sum(c.width for c in columns) - GAP * (len(columns) - 1))
    return min(left, max(widest, LEAST_WIDE)) if width >= WIDE else left


def column_at(columns: Sequence[Column], x: int, flexible: int) -> str | None:
    """The key of the column at this place of a line."""
    left = 0
    for column in columns:
        right = left + (column.width or flexible) + GAP
        if left <= x < right:
            return column.key
        left = right
    return None


def heading_line(sheet: Sheet[Any], kept: Sequence[int], paint: Paint) -> Strip:
    segments: list[Segment] = []
    for column in (sheet.columns[i] for i in kept):
        mark = ("▼" if sheet.descending else "▲") if column.key == sheet.sort else ""
        title = sheet.look.text(column.title + mark)
        width = column.width or paint.flexible
        style = Style(underline=bool(mark))
        pad = " " * max(0, width - len(title))
        filler, word = Segment(pad), Segment(title[:width], style)
        segments += [filler, word] if column.right else [word, filler]
        segments.append(Segment(" " * GAP))
    return assemble(segments[:-1], paint.heading, paint.width)


def row_line(
    sheet: Sheet[Any], kept: Sequence[int], pieces: Sequence[CellText], shift: int, paint: Paint, style: Style
) -> Strip:
    """A row, as few segments as can be: neighbours that look alike are one."""
    segments: list[Segment] = []
    text, worn = "", style
    end = " " * GAP
    for column, piece in [(sheet.columns[i], pieces[i]) for i in kept]:
        width = column.width or paint.flexible
        own = piece.text
        if len(own) > width:
            if shift and not column.width:
                own = clip(own, width, shift=shift, keep_tail=column.keep_tail)
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


def assemble(segments: list[Segment], style: Style, width: int) -> Strip:
    # Cropped first: a row wider than the screen must not push the next line down.
    return Strip(segments).simplify().apply_style(style).adjust_cell_length(width, style)
