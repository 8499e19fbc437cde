"""Rows of a table that stay at its top, whatever the table is sorted by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from heaptop.tui.state.sheet import CellText, Column, Sheet

PINNED: Final = "■ "  # In front of the name of a row that stays at the top


class PinnedRows:
    """The keys of pinned rows, and the order of lines: the pinned rows are first."""

    def __init__(self) -> None:
        self._keys: dict[str, set[str]] = {}  # By the heading of names: a table shows types now and modules later
        self._order: list[int] = []  # The numbers of all rows, in the order of lines; empty where that is the sheet's

    def arrange(self, sheet: Sheet[Any]) -> None:
        """Order the lines of a sheet."""
        pins, rows = self._of(sheet), sheet.rows
        self._order = sorted(range(len(rows)), key=lambda row: sheet.key(rows[row]) not in pins) if pins else []

    def toggle(self, sheet: Sheet[Any], key: str) -> None:
        """Pin the row with this key, or unpin it."""
        self._keys.setdefault(_heading(sheet.columns), set()).symmetric_difference_update({key})
        self.arrange(sheet)

    def has(self, sheet: Sheet[Any], row: Any) -> bool:
        pins = self._of(sheet)
        return bool(pins) and sheet.key(row) in pins

    def _of(self, sheet: Sheet[Any]) -> set[str]:
        return self._keys.get(_heading(sheet.columns)) or set()

    def row_in(self, line: int) -> int:
        """The number of the row in this line."""
        return self._order[line] if line < len(self._order) else line

    def line_of(self, row: int) -> int:
        return self._order.index(row) if self._order else row


def pinned(cells: Sequence[CellText], columns: Sequence[Column]) -> tuple[CellText, ...]:
    """The cells of a pinned row: its name is marked."""
    at = _names(columns)
    name = cells[at]
    shorter = tuple(PINNED + text for text in name.shorter)
    return (*cells[:at], name._replace(text=PINNED + name.text, shorter=shorter), *cells[at + 1 :])


def _heading(columns: Sequence[Column]) -> str:
    return columns[_names(columns)].title if columns else ""


def _names(columns: Sequence[Column]) -> int:
    """The column that names a row: the one of that name, or else the one without a width of its own."""
    named = (place for place, column in enumerate(columns) if column.key == "name")
    return next(named, next((place for place, column in enumerate(columns) if not column.width), 0))
