"""What a view shows as plain text: one row for the clipboard, all rows for a file.

A file has beside what the screen shows what that is short of: full paths, and figures as numbers. What cannot be
written is said in few words: the name is beside them, to be changed. This module never asks for more than is known
of the rows that are shown: what the screen hides, as values of objects, is in no copy and no file. A file is never
written over, and only its owner may read it: names from a heap may be somebody's secrets.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from heaptop import files
from heaptop.errors import SaveFailed, UsageError, os_reason
from heaptop.protocol.text import printable
from heaptop.tui.state.sheet import Sheet

TABLES: Final = (".tsv", ".csv", ".json")  # Endings of files that hold the table in full
SCREENS: Final = (".txt", ".svg")  # Endings of files that hold the screen as it is seen
_DRAWN: Final = frozenset({"", "band", "bar", "growth", "trend", "curve"})
"""Columns that are pictures of figures: as text they say nothing."""
MOST_COPIED: Final = 56_000  # Bytes that every terminal with a clipboard takes at once: 74,994 in base64 (xterm)


@dataclass(frozen=True, slots=True)
class SavedTable:
    """A table in full."""

    columns: tuple[tuple[str, str], ...]  # Keys and headings
    rows: Sequence[tuple[str | int, ...]]
    missing: int = 0  # Rows that were not asked for yet


def file_name(pid: int, view: str, now: float, ending: str = ".tsv") -> str:
    """``heaptop-4711-producers-20261122-101500.tsv``: of what was shown so many seconds after 1970."""
    return f"heaptop-{pid}-{view}-{datetime.fromtimestamp(now):%Y%m%d-%H%M%S}{ending}"


def cells(sheet: Sheet[Any], row: Any) -> tuple[str, ...]:
    """What is in a row, uncut, without what is only drawn; nothing in it that a terminal would obey."""
    drawn = zip(sheet.columns, sheet.draw(row), strict=True)
    return tuple(printable(piece.text).rstrip() for column, piece in drawn if column.key not in _DRAWN)


def row_text(sheet: Sheet[Any], row: Any) -> str:
    """A row, its cells separated by tabs."""
    return "\t".join(cell.strip() for cell in cells(sheet, row)).rstrip()


def exact_cells(sheet: Sheet[Any], row: Any) -> tuple[str | int, ...]:
    """What a file has of a row beside that."""
    values = (value(row) for _, value in sheet.exact)
    return tuple(printable(value) if isinstance(value, str) else value for value in values)


def page(sheet: Sheet[Any]) -> SavedTable:
    """All rows that pass the filter, also those that are not on the screen."""
    columns = tuple((column.key, column.title) for column in sheet.columns if column.key not in _DRAWN)
    columns += tuple((heading, heading) for heading, _ in sheet.exact)
    known = [row for row in sheet.rows if row is not None]
    rows = [(*cells(sheet, row), *exact_cells(sheet, row)) for row in known]
    return SavedTable(columns, rows, len(sheet.rows) - len(known))


def ending_of(name: str) -> str:
    """How a file is to be written.

    Raises:
        UsageError: the name does not show it.
    """
    ending = Path(name).suffix.lower()
    if ending not in (*TABLES, *SCREENS):
        raise UsageError(f"End the name in {' '.join((*TABLES, *SCREENS))}", fix="")
    return ending


def table_text(page: SavedTable, about: Sequence[tuple[str, str]], ending: str) -> str:
    """The table as a file with this ending holds it; ``about``: what must be known of it, in lines above it."""
    about = [(name, printable(text)) for name, text in about]
    if ending == ".json":
        keys = [key for key, _ in page.columns]
        content = {
            **dict(about),
            "columns": dict(page.columns),
            "rows": [dict(zip(keys, row, strict=True)) for row in page.rows],
        }
        return json.dumps(content, ensure_ascii=False, indent=1) + "\n"
    head = "".join(f"# {name}: {text}\n" for name, text in about)
    rows: list[Sequence[str | int]] = [[title or key for key, title in page.columns], *page.rows]
    if ending == ".tsv":
        return head + "".join("\t".join(map(str, row)) + "\n" for row in rows)
    written = io.StringIO()
    csv.writer(written, lineterminator="\n").writerows(rows)
    return head + written.getvalue()


def write(name: str, text: str) -> None:
    """
    Raises:
        UsageError: the file is there already.
        SaveFailed: it cannot be written, and is not there.
    """
    try:
        files.write(name, text.encode("utf-8", "backslashreplace"))
    except FileExistsError:
        raise UsageError("That file exists already.", fix="Choose another name.") from None
    except (OSError, ValueError) as error:
        raise SaveFailed(f"Not saved: {os_reason(error).lower()}.") from error
