"""What views with a table have in common: levels of looking into rows, sorting by columns, and how much is shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Generic, TypeVar

from heaptop.analysis.filters.filters import EVERYTHING, Filter
from heaptop.analysis.text.units import format_duration_ns
from heaptop.tui.state.drill import Level, added
from heaptop.tui.state.messages import HeadingClicked
from heaptop.tui.state.snapshot_client import QuerySubject
from heaptop.tui.views.base import View
from heaptop.tui.widgets.cursor import Cursor
from heaptop.tui.widgets.picture import Picture
from heaptop.tui.widgets.virtual_table import VirtualTable

L = TypeVar("L", bound=Level)


class SortedView(View):
    """A view whose rows are sorted by one of some columns."""

    def __init__(self) -> None:
        super().__init__()
        self._sorts: dict[str, tuple[str, bool]] = {}
        self._drawn_of: tuple[object, ...] = ()
        self._where = EVERYTHING
        self._rows: Sequence[Any] = ()  # Those of the table
        self._filtered = ""

    def _is_drawn(self, *of: object) -> bool:
        """Whether what was drawn last was made of the same, so that there is nothing to do."""
        before, self._drawn_of = self._drawn_of, of
        return before == of

    def restyle(self) -> None:
        self._drawn_of = ()
        for widget in (*self.query(Picture), *self.query(VirtualTable)):
            widget.restyle()

    @property
    def list(self) -> VirtualTable:
        """The table."""
        return self.query_one(VirtualTable)

    @property
    def table(self) -> Cursor:
        return self.list

    @property
    def _row(self) -> Any:
        """The row under the cursor; None where there is none."""
        at = self.list.cursor
        return self._rows[at] if at < len(self._rows) else None

    def _place(self, rows: int) -> str:
        """The cursor's place among so many rows, and by how much they are older than the other figures."""
        age_ns = self.age_ns
        old = f"as of {format_duration_ns(age_ns)} ago · " if age_ns else ""
        follow = "following · " if self.list.follow else ""
        return f"{old}{follow}row {self.list.cursor + 1:,} of {rows:,}" if rows else ""

    # -- the filter ------------------------------------------------------------------------------------------

    @property
    def where(self) -> Filter:
        return self._where

    @property
    def filtered(self) -> str:
        return self._filtered

    def set_where(self, where: Filter) -> None:
        self._check_filter(where)
        self._where = where
        self._again()

    def _check_filter(self, where: Filter) -> None:
        """Raises UsageError where the filter means nothing here."""
        raise NotImplementedError

    def back(self) -> bool:
        if not self._where:
            return False
        self._where = EVERYTHING
        self._again()
        return True

    # -- sorting ---------------------------------------------------------------------------------------------

    @property
    def unsortable(self) -> str:
        """Why the rows cannot be sorted; empty where they can."""
        if self.picture:
            return f"{self.picture} has no columns to sort by"
        return "" if self._sortable else "these rows cannot be sorted"

    def on_heading_clicked(self, event: HeadingClicked) -> None:
        self.sort_by(event.column)

    @property
    def _sortable(self) -> Sequence[str]:
        """The columns that can be sorted by, in the order of the screen."""
        raise NotImplementedError

    @property
    def _first_sort(self) -> tuple[str, bool]:
        """The column that is sorted by at first, and whether its largest is at the top."""
        return "bytes", True

    @property
    def _sorted_as(self) -> str:
        """Which of several tables is shown: each keeps its own choice."""
        return ""

    @property
    def _sort(self) -> str:
        return self._chosen[0]

    @property
    def _descending(self) -> bool:
        return self._chosen[1]

    @property
    def _chosen(self) -> tuple[str, bool]:
        first = self._first_sort
        chosen = self._sorts.get(self._sorted_as, first)
        return chosen if chosen[0] in (first[0], *self._sortable) else first

    def sort_by(self, column: str) -> None:
        """Sort by a column, or invert the order if it is sorted by that one."""
        if column not in self._sortable:
            return
        # A name reads downwards; a figure is examined for its largest.
        descending = not self._descending if column == self._sort else column != "name"
        self._sorts[self._sorted_as] = column, descending
        self._again()

    @property
    def sorts(self) -> Mapping[str, str]:
        """The columns that rows can be sorted by and are not, by their headings."""
        names = [*self._sortable]
        return {
            column.key: column.title
            for column in self.list.columns
            if column.key in names and column.title and column.key != self._sort
        }

    def action_sort_column(self, step: int) -> str:
        names = [*self._sortable]
        if names:
            at = names.index(self._sort) if self._sort in names else -1 if step > 0 else 0
            self.sort_by(names[(at + step) % len(names)])
        return self.unsortable

    def action_pin(self) -> str:
        if self.unsortable or self._is_tree:
            return super().action_pin()
        self.list.pin()
        self.moved()
        return ""

    @property
    def _is_tree(self) -> bool:
        """Whether rows are below others."""
        return False

    def action_invert(self) -> str:
        if not self.list.row_count:
            return "no rows here to sort"
        if self._sortable:
            self._sorts[self._sorted_as] = self._sort, not self._descending
            self._again()
        return self.unsortable


class LevelView(SortedView, Generic[L]):
    """One whose rows can be looked into, level by level."""

    def __init__(self, first: L) -> None:
        super().__init__()
        self._levels = [first]

    @property
    def _level(self) -> L:
        """What is looked into now."""
        return self._levels[-1]

    @property
    def where(self) -> Filter:
        return self._level.where

    @property
    def by(self) -> str:
        return self._level.key

    def set_where(self, where: Filter) -> None:
        self._check_filter(where)
        self._levels[-1] = replace(self._level, where=where)
        self._again()

    @property
    def depth(self) -> int:
        """How many levels were looked into."""
        return len(self._levels)

    @property
    def crumbs(self) -> tuple[str, ...]:
        found: list[str] = []
        outset = self._outset
        for place, level in enumerate(self._levels):
            if place and place >= outset:
                found.append(self._crumb(self._levels[place - 1], level))
            if level.where != level.given and place >= outset:
                found.append(added(level.given, level.where))
        return tuple(found)

    @property
    def _outset(self) -> int:
        """The first level that what is shown lies in."""
        return 0

    def _crumb(self, outer: L, level: L) -> str:
        """What a level is called that was looked into."""
        return added(outer.where, level.given)

    def _enter(self, inner: L, *, keep_cursor: bool = True) -> None:
        """Look into something. :meth:`back` will put the cursor where it is now, or was kept before."""
        if keep_cursor:
            self._levels[-1] = replace(self._level, cursor=self.list.cursor)
        self._levels.append(replace(inner, given=inner.where))
        self._again()
        self.list.move_to(0)

    def back(self) -> bool:
        level = self._level
        if level.where == level.given and len(self._levels) == 1:
            return False
        if level.where != level.given:
            self._levels[-1] = replace(level, where=level.given)
            self._again()
            return True
        self._levels.pop()
        self._again()
        self.list.move_to(self._level.cursor)
        self.moved()
        return True


class ExploringView(LevelView[L]):
    """The one that other views lead into, to look around what one of their rows is made of."""

    def __init__(self, first: L) -> None:
        super().__init__(first)
        self.led_in = 0
        """At how many levels another view has led here: Esc goes back there before it comes to those; 0 for none."""

    @property
    def _outset(self) -> int:
        return self.led_in

    def ask_about(self, subject: QuerySubject, image: int, *, from_here: bool) -> None:
        """Show what keeps these objects alive in the snapshot of this number, 0 before it has one. It may be another
        one than was examined here last. ``from_here``: they are of what is shown here; else what was asked from
        elsewhere before gives way to it."""
        raise NotImplementedError
