"""The IPython extension: ``%load_ext heaptop``, then ``%heap`` in a cell, or ``%%heap`` on its first line."""

from __future__ import annotations

import gc
import html
import re
from collections.abc import Iterator
from typing import Any, Final
from weakref import WeakKeyDictionary

from IPython.core.magic import no_var_expand
from IPython.display import display

from heaptop.analysis.text.units import format_bytes, format_change, format_count
from heaptop.inside.client import Found, Helper, HelperFailed, LeftObjects
from heaptop.protocol.findings import UNREACHED
from heaptop.protocol.text import printable

NAME: Final = "heap"
HEADINGS: Final = ("type", "count", "bytes", "held by", "allocated at")
LEAST: Final = 1 << 10  # Bytes: less is what IPython itself keeps of a cell


_CELL: Final = re.compile(r"<ipython-input-(\d+)-\w+>:(\d+)")

_loaded: WeakKeyDictionary[Any, HeapMagics] = WeakKeyDictionary()  # By shell


def load(shell: Any) -> None:
    """Register the magics with this shell."""
    magics = _loaded[shell] = HeapMagics(shell)

    @no_var_expand
    def heap(line: str, cell: str | None = None) -> None:
        magics.heap(line, cell)

    heap.__doc__ = HeapMagics.heap.__doc__
    shell.register_magic_function(heap, "line_cell", NAME)
    shell.events.register("pre_run_cell", magics.before_cell)
    shell.events.register("post_run_cell", magics.after_cell)


def unload(shell: Any) -> None:
    """Take the magics away, and end the helper process."""
    magics = _loaded.pop(shell)
    shell.events.unregister("pre_run_cell", magics.before_cell)
    shell.events.unregister("post_run_cell", magics.after_cell)
    for kind in ("line", "cell"):
        shell.magics_manager.magics[kind].pop(NAME, None)
    magics.close()


class HeapMagics:
    """Of one shell."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._helper: Helper | None = None  # Attached from the mark on until the table is shown, or the cell has ended
        self._is_within = False
        """Whether a cell runs that a magic was given: the magic shows the table when it has ended."""

    def before_cell(self, info: Any) -> None:
        """Mark the heap before a cell that has ``%heap`` in it; other cells pay nothing."""
        lines = (info.raw_cell or "").splitlines()
        if any(line.split() == [f"%{NAME}"] for line in lines):
            self._mark()

    def after_cell(self, result: Any) -> None:
        """Detach where a cell has ended before its table was shown."""
        if not self._is_within:
            self.close()

    def heap(self, line: str, cell: str | None = None) -> None:
        """Show what a cell left on the heap: type, number, bytes, what holds it, and the line that allocated it.

        ``%heap`` shows what the cell has left before this line, ``%heap STATEMENT`` what the statement leaves, and
        ``%%heap`` on its first line what the whole cell leaves. Values are not read.
        """
        if not line.strip() and cell is None:
            self._show()
            return
        self._mark()
        number = self._shell.execution_count
        self._is_within = True
        try:
            self._shell.run_cell(f"{line or '#'}\n{cell or ''}")  # with a first line, so that lines have their numbers
        finally:
            self._is_within = False
        if self._helper is not None:
            self._show(number)

    def close(self) -> None:
        """Detach, and end the helper process."""
        if self._helper is not None:
            self._helper.close()
            self._helper = None

    def _mark(self) -> None:
        self.close()
        try:
            self._helper = helper = Helper()
            helper.attach()
            helper.begin(names=True)
            gc.collect()
            helper.check()
        except HelperFailed as error:
            self._helper = None
            print(f"heaptop: {error}")

    def _show(self, number: int = 0) -> None:
        """``number``: by which IPython has named the code that a magic ran."""
        if self._helper is None:
            print(f"heaptop: no mark to compare with. Put %{NAME} on a line of its own, or %%{NAME} first in a cell.")
            return
        try:
            gc.collect()
            found = self._helper.check(last=True)
        except HelperFailed as error:
            print(f"heaptop: {error}")
            return
        finally:
            self.close()
        assert found is not None
        display(Left(found, number))  # type: ignore[no-untyped-call]


class Left:
    """A table of what is new, as a terminal and as a notebook shows it."""

    def __init__(self, found: Found, number: int = 0) -> None:
        """``number``: of the cell that is shown, where IPython gave it one that nobody sees."""
        change = f"{format_change(found.count, bytes_=False)} objects, {format_change(found.bytes)}"
        self._head = f"The heap changed by {change}. New, and still there:"
        self._rows = [
            (
                each.type,
                f"{_bound(each)}{format_count(each.count)}",
                f"{_bound(each)}{format_bytes(each.bytes)}",
                each.holder,
                _line(each, number),
            )
            for each in sorted(found.places, key=lambda each: -each.bytes)
            if each.bytes >= LEAST
        ]
        if not self._rows:
            self._head += f" nothing of {format_bytes(LEAST)} or more."
        self._notes = [f"note: {printable(note)}" for note in found.notes]

    def __repr__(self) -> str:
        rows = [tuple(printable(cell) for cell in row) for row in (HEADINGS, *self._rows)]
        widths = [max(len(row[place]) for row in rows) for place in range(len(HEADINGS))]
        lines = [self._head]
        if self._rows:
            lines += ["  ".join(_cells(row, widths)).rstrip() for row in rows]
        return "\n".join([*lines, *self._notes])

    def _repr_html_(self) -> str:
        def line(tag: str, row: tuple[str, ...]) -> str:
            return "".join(f"<{tag}>{html.escape(printable(cell))}</{tag}>" for cell in row)

        body = "".join(f"<tr>{line('td', row)}</tr>" for row in self._rows)
        table = f"<table><thead><tr>{line('th', HEADINGS)}</tr></thead><tbody>{body}</tbody></table>" if body else ""
        notes = "".join(f"<p>{html.escape(note)}</p>" for note in self._notes)
        return f"<p>{html.escape(self._head)}</p>{table}{notes}"


def _bound(place: LeftObjects) -> str:
    return "≈" if place.type == UNREACHED else "≥"


def _line(place: LeftObjects, number: int) -> str:
    """``In [3], line 2`` for a line of a cell; *near* it where what was sampled there is only new with the objects."""
    if not place.site:
        return "unknown"
    line, cell = place.site, _CELL.match(place.site)
    if cell is not None:
        line = f"this cell, line {cell[2]}" if int(cell[1]) == number else f"In [{cell[1]}], line {cell[2]}"
    return line if place.site_is_own else f"near {line}"


def _cells(row: tuple[str, ...], widths: list[int]) -> Iterator[str]:
    """Numbers to the right."""
    for place, (cell, width) in enumerate(zip(row, widths, strict=True)):
        yield cell.rjust(width) if place in (1, 2) else cell.ljust(width)
