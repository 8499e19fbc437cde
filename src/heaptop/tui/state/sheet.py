"""A table as data: its columns, rows and cells; :mod:`heaptop.tui.widgets.virtual_table` draws it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final, Generic, NamedTuple, TypeVar

from rich.style import Style

from heaptop.tui.charts.chart_style import ChartStyle
from heaptop.tui.text import clip

WIDE: Final = 120  # Columns from which on there is room for everything
R = TypeVar("R")
GAP = 2


@dataclass(frozen=True, slots=True)
class Column:
    """One column. ``width`` 0 takes what is left; one column has it. On a narrow screen some go: :func:`kept`."""

    key: str
    title: str
    width: int
    right: bool = True
    keep_tail: bool = False  # Of a text that is too long, show the end: the class of a dotted name
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


ALWAYS: Final = 9  # The rank of a column that names rows
LEAST: Final = 12


BEGUN: Final = 6  # Columns that the beginning of a text needs to be of use


def fair_share(width: int) -> int:
    """What names have of a table of this width before there is room for all figures."""
    return max(16, width // 4)


def kept(columns: Sequence[Column], width: int, sort: str = "") -> tuple[int, ...]:
    """Which columns a table of this width shows, by their numbers: all where there is room.

    The column that takes what is left, the one that is sorted by, and the one that names a row are never dropped.
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


def change_title(elapsed_ns: int, before: str = "Change ") -> str:
    """The heading of a change over so long: ``Change 1.1s``, ``Change 90s``, ``Change 20m``, ``Change 12h``; without a
    time where there is only one moment (0)."""
    if elapsed_ns <= 0:
        return before.rstrip(" ≤")
    seconds = elapsed_ns / 1e9
    if seconds < 0.05:  # a sum is made anew as soon as a process has left it
        return f"{before}<0.1s"
    for size, unit in ((3600, "h"), (60, "m")):
        if seconds >= 10 * size:
            return f"{before}{seconds / size:.0f}{unit}"
    return f"{before}{round(seconds, 1 if seconds < 9.95 else None):g}s"


class CellText(NamedTuple):
    """What is in one cell of one row."""

    text: str
    style: Style = Style.null()
    shorter: tuple[str, ...] = ()
    """What says less where there is no room for all, longest first; of the last so much as fits. Of one that continues
    after the next one, so much more as there is room for."""
    indent: int = 0  # Columns at the left that stay when what is behind them is cut, and keeps its end

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
    key: Callable[[R], str]  # The identity of a row, from one moment to the next
    draw: Callable[[R], Sequence[CellText]]  # A piece a column
    look: ChartStyle
    sort: str = ""  # The column sorted by; empty for none
    descending: bool = True
    nothing: str = "Nothing to show."  # Said where there are no rows
    exact: Sequence[tuple[str, Callable[[R], str | int]]] = ()
    """What a saved table has of a row beside what is shown, by heading: full names and places, figures as numbers."""

    def without(self, keys: Collection[str]) -> Sheet[R]:
        """The same, less the columns of these keys."""
        kept = [place for place, column in enumerate(self.columns) if column.key not in keys]

        def draw(row: R) -> list[CellText]:
            cells = self.draw(row)
            return [cells[place] for place in kept]

        return replace(self, columns=tuple(self.columns[place] for place in kept), draw=draw)
