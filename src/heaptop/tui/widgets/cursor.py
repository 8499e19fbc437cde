"""What the cursor keys move: the rows of a table, or the boxes of a picture."""

from __future__ import annotations

from typing import Protocol


class Cursor(Protocol):
    """A widget with a place that is examined."""

    follow: bool  # The cursor stays on what it is on when that changes its place; else on its line

    @property
    def place(self) -> object:
        """What is examined, and which part of it: the same as before where a key has moved nothing."""

    @property
    def row_count(self) -> int:
        """How many rows there are."""

    def move(self, rows: int) -> None:
        """So many rows down."""

    def move_to(self, row: int) -> None:
        """To a row; beyond the ends it stops at the first and the last line."""

    def page(self, pages: int) -> None:
        """So many screens down."""

    def shift(self, columns: int) -> None:
        """To the right."""
