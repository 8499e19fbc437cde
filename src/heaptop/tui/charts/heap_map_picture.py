"""The heap map as rows of a raster: cells as half-blocks in colours, or as letters where there are none."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Final, NamedTuple

from heaptop.tui.charts.chart_style import ChartStyle, letter_of
from heaptop.tui.charts.palette import REST_SLOT
from heaptop.tui.charts.raster import AXIS, EMPTY, GRID, INK, LETTER_EVERY, Glyph, Ink, StyleRun, runs
from heaptop.tui.text import clip

FREE: Final = -1  # No object is there; or nothing is known of it yet
GAP: Final = -2  # Addresses that are left out
FAINT: Final = -3  # Objects that the filter leaves out. Marks from 0 on are slots.

GUTTER: Final = 14  # Columns of the address of a row, and of the mark of the cursor's row
LEAST_GUTTERED: Final = 60  # On a narrower screen addresses have no room


LEAST_LETTERED: Final = 5  # Characters of one colour side by side that have its letter among them


def plot_size(width: int, height: int, ink: Ink) -> tuple[int, int]:
    """How many places a row has, and how many rows: with half-blocks two to a line."""
    wide = width - GUTTER if width >= LEAST_GUTTERED else width
    return max(wide, 1), max(height, 1) * (2 if ink is Ink.COLOUR else 1)


def place_at(x: int, y: int, width: int, ink: Ink) -> int | None:
    """The place, counted from the first on the screen, that is at a column of a line; None beside the map. Of the two
    in a character it is the upper one."""
    left = GUTTER if width >= LEAST_GUTTERED else 0
    wide, rows = plot_size(width, 1, ink)
    return y * rows * wide + x - left if x >= left else None


def paint(
    marks: Sequence[int], addresses: Sequence[int], cursor: int, width: int, height: int, look: ChartStyle
) -> list[list[StyleRun]]:
    """``height`` lines of runs.

    Args:
        marks: of the places on the screen; there may be fewer than there is room for.
        addresses: of the first place of each line.
        cursor: its place, counted from the first on the screen.
    """
    wide, rows = plot_size(width, height, look.ink)
    halves = rows // height
    lines = []
    for line, address in enumerate(addresses[:height]):
        begin = line * halves * wide
        here = cursor - begin if begin <= cursor < begin + halves * wide else None
        if look.ink is Ink.COLOUR:
            cells = _half_blocks(marks[begin : begin + wide], marks[begin + wide : begin + 2 * wide], here, wide)
        else:
            cells = _letters(marks[begin : begin + wide], here, look.ascii_only)
        gutter = (
            []
            if width < LEAST_GUTTERED
            else [StyleRun(look.text(f"{address:>12x}{'›' if here is not None else ' '} "), AXIS, EMPTY)]
        )
        lines.append([*gutter, *runs(cells)])
    return lines


def _half_blocks(upper: Sequence[int], lower: Sequence[int], cursor: int | None, wide: int) -> list[Glyph]:
    below = [*lower, *[FREE] * (len(upper) - len(lower))]
    cells = _lettered([_character(above, under) for above, under in zip(upper, below, strict=True)])
    if cursor is not None:
        half, column = divmod(cursor, wide)
        other = (below, upper)[half][column]
        cells[column] = Glyph("▀▄"[half], EMPTY, other if other >= 0 else EMPTY)
    return cells


def _character(upper: int, lower: int) -> Glyph:
    """Two places, one over the other. A gap is drawn over what it shares the character with."""
    if upper >= 0 and lower >= 0:
        return Glyph("█", upper, upper) if upper == lower else Glyph("▀", upper, lower)
    slot = max(upper, lower)
    if GAP in (upper, lower):
        return Glyph("│", INK, slot) if slot >= 0 else Glyph("│", AXIS, EMPTY)
    if slot >= 0:
        return Glyph("▀" if upper >= 0 else "▄", slot, EMPTY)
    return Glyph("·", GRID, EMPTY) if FAINT in (upper, lower) else Glyph(" ", EMPTY, EMPTY)


def _lettered(cells: list[Glyph]) -> list[Glyph]:
    """With its letter in the middle of each interval of one colour that has room for it: colour alone is not enough."""
    begin = 0
    for _, group in groupby(list(cells)):
        length = len([*group])
        slot = cells[begin].bg
        if length >= LEAST_LETTERED and slot >= 0 and cells[begin].fg == slot:
            first = length % LETTER_EVERY // 2 if length >= LETTER_EVERY else length // 2
            for at in range(begin + first, begin + length, LETTER_EVERY):
                cells[at] = Glyph(letter_of(slot), INK, slot)
        begin += length
    return cells


def _letters(marks: Sequence[int], cursor: int | None, ascii_only: bool) -> list[Glyph]:
    others = {FREE: " ", GAP: "|" if ascii_only else "│", FAINT: "." if ascii_only else "·"}
    cells = [Glyph(letter_of(mark), mark, EMPTY) if mark >= 0 else Glyph(others[mark], AXIS, EMPTY) for mark in marks]
    if cursor is not None:
        cells[cursor] = Glyph(cells[cursor].glyph, INK, marks[cursor] if marks[cursor] >= 0 else REST_SLOT)
    return cells


# -- beside it -----------------------------------------------------------------------------------------------


class MarkEntry(NamedTuple):
    """What a mark represents."""

    slot: int
    name: str
    short: str  # What is left of the name where there is little room
    figure: str
    """How much of it is in what is shown."""
    share: float | None
    """0 to 1; None where it is no part of what is shown."""
    drawn: bool = True
    """Some cell has this mark: not where its bytes are elsewhere (mmap), or where others have more in each cell."""

    @property
    def note(self) -> str:
        return "" if self.drawn else " (no cell)"


def legend(entries: Sequence[MarkEntry], title: str, width: int, height: int, look: ChartStyle) -> list[list[StyleRun]]:
    """A line each under a title; the first that fit, where there is one line. ``entries``: largest first."""
    if height < 3:
        return [_short_legend(entries, width, look)]
    room = width - 22
    lines = [[StyleRun(look.text(clip(title, width)), AXIS, EMPTY)]]
    for entry in entries[: height - 1]:
        name = f"{clip(entry.name, room - len(entry.note), keep_tail=True)}{entry.note}".ljust(room)
        figure = f"{entry.figure:>9}  " + (f"{entry.share:>5.1%}" if entry.share is not None else " " * 5)
        lines.append([StyleRun(f" {letter_of(entry.slot)} ", INK, entry.slot), _text(f" {name} {figure}", look)])
    return lines


def _short_legend(entries: Sequence[MarkEntry], width: int, look: ChartStyle) -> list[StyleRun]:
    line: list[StyleRun] = []
    left = width
    for entry in entries:
        size = f"{entry.share:.0%}" if entry.share is not None else entry.figure
        words = f" {entry.short}{entry.note} {size}  "
        if left < len(words) + 3:
            break
        line += [StyleRun(f" {letter_of(entry.slot)} ", INK, entry.slot), _text(words, look)]
        left -= len(words) + 3
    return line


def card(lines: Sequence[tuple[str, str]], width: int, height: int, look: ChartStyle) -> list[list[StyleRun]]:
    """Labels and texts; a text that is too long loses its end."""
    drawn: list[list[StyleRun]] = []
    for label, text in lines[:height]:
        head = f" {label:<10}"
        room = max(width - len(head), 1)
        drawn.append([StyleRun(head, AXIS, EMPTY), _text(clip(text, room), look)])
    return drawn


def _text(text: str, look: ChartStyle) -> StyleRun:
    return StyleRun(look.text(text), EMPTY, EMPTY)
