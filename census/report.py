"""One census as the JSON document of ``heaptop census --json``.

This module never prints and never serializes: it builds plain dicts, lists, strings and numbers.
"""

from __future__ import annotations

from typing import Any, Final

from heaptop.census.filters import EVERYTHING, Filter
from heaptop.census.history import Snapshot
from heaptop.census.table import TableRow, table
from heaptop.protocol.messages import Census

NS_PER_MS: Final = 1_000_000


def census_rows(snapshot: Snapshot, by: str = "type", where: Filter = EVERYTHING) -> tuple[TableRow, ...]:
    """The rows of one census, largest first, ties by name; ``by`` is a name of ``BAND_KEYS``.

    Raises:
        UsageError: there is no such key.
    """
    return table([snapshot], by, where)


def census_json(
    snapshot: Snapshot,
    *,
    pid: int,
    python: str,
    by: str = "type",
    where: Filter = EVERYTHING,
    top: int | None = None,
) -> dict[str, Any]:
    """The document: rows by bytes, descending, at most ``top`` of them (all for None).

    ``total`` is everything that passes the filter, shown or not; ``shown`` and ``of`` say how many rows there
    are and how many there would be; ``filtered`` is what the filter leaves out; ``sizeof_guessed`` counts the objects
    of a row whose size is their basic one, because their type's ``__sizeof__`` is written in Python; ``hidden_bytes``
    are those that ``sys.getsizeof`` leaves out, None in Python mode, which cannot see them. Times are milliseconds,
    sizes bytes.

    Raises:
        UsageError: there is no band key ``by``.
    """
    rows = census_rows(snapshot, by, where)
    whole = census_rows(snapshot, by) if where else rows
    shown = rows if top is None else rows[: max(top, 0)]
    census = snapshot.census
    return {
        "pid": pid,
        "python": python,
        "mode": census.mode,
        "mode_reason": census.mode_reason,
        "complete": census.complete,
        "cut": census.cut,
        "pause_ms": census.pause_ns / NS_PER_MS,
        "duration_ms": census.duration_ns / NS_PER_MS,
        "cpu_ms": census.cpu_ns / NS_PER_MS,
        "agent_bytes": census.agent_bytes,
        "sizeof_guessed": census.sizeof_guessed,
        "total": {
            "count": sum(row.count or 0 for row in rows),
            "bytes": sum(row.bytes for row in rows),
            "hidden_bytes": known_hidden(census, sum(row.hidden for row in rows)),
        },
        "by": by,
        "where": where.text,
        "filtered": {
            "rows": len(whole) - len(rows),
            "count": sum(row.count or 0 for row in whole) - sum(row.count or 0 for row in rows),
            "bytes": sum(row.bytes for row in whole) - sum(row.bytes for row in rows),
        },
        "shown": len(shown),
        "of": len(rows),
        "rows": [_row(census, row) for row in shown],
    }


def known_hidden(census: Census, hidden: int) -> int | None:
    """A figure of bytes that ``sys.getsizeof`` leaves out; None in Python mode, which cannot see them."""
    return None if census.mode == "python" else hidden


def _row(census: Census, row: TableRow) -> dict[str, Any]:
    return {
        "name": row.name,
        "count": row.count,
        "bytes": row.bytes,
        "hidden_bytes": known_hidden(census, row.hidden),
        "sizeof_guessed": row.guessed,
    }
