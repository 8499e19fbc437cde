"""One census as the JSON document of ``heaptop census --json``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from heaptop.analysis.bands.table import TableRow, table
from heaptop.analysis.filters.filters import EVERYTHING, Filter
from heaptop.analysis.heap.history import CensusRecord, known_hidden
from heaptop.errors import UsageError
from heaptop.protocol.messages import NO_INTERPRETER, Census, Pauses

if TYPE_CHECKING:
    from heaptop.documents import CensusJson, CensusRowJson, PauseCausesJson

NS_PER_MS: Final = 1_000_000


def census_rows(record: CensusRecord, by: str = "type", where: Filter = EVERYTHING) -> tuple[TableRow, ...]:
    """The rows of one census, largest first, ties by name; ``by`` is a name of ``BAND_KEYS``.

    Raises:
        UsageError: there is no such key, or interpreters are asked for that were not distinguished.
    """
    if "interpreter" in where.attributes and NO_INTERPRETER in {cell.interpreter for cell in record.cells}:
        raise UsageError(
            "This census does not distinguish interpreters.",
            why="Python mode, and Python 3.8, count those of a process together.",
            fix="Leave interpreter out of the filter.",
        )
    return table([record], by, where)


def census_json(
    record: CensusRecord,
    *,
    pid: int,
    python: str,
    by: str = "type",
    where: Filter = EVERYTHING,
    top: int | None = None,
    stopped_ns: int = 0,
) -> CensusJson:
    """The document: rows by bytes, descending, at most ``top`` of them (all for None). The attach has stopped the
    target for ``stopped_ns``.

    Raises:
        UsageError: there is no band key ``by``.
    """
    rows = census_rows(record, by, where)
    whole = census_rows(record, by) if where else rows
    shown = rows if top is None else rows[: max(top, 0)]
    census = record.census
    return {
        "schema": "heaptop.census",
        "version": 1,
        "pid": pid,
        "python": python,
        "mode": census.mode,
        "mode_reason": census.mode_reason,
        "complete": census.complete,
        "cut": census.cut,
        "pause_ms": longest_pause_ns(census, stopped_ns) / NS_PER_MS,
        "pause_by_cause": pause_by_cause(census, stopped_ns),
        "duration_ms": census.duration_ns / NS_PER_MS,
        "cpu_ms": census.cpu_ns / NS_PER_MS,
        "agent_bytes": census.agent_bytes,
        "sizeof_guessed": census.sizeof_guessed,
        "owned_bytes": known_hidden(census, census.owned),
        "mapped_bytes": known_hidden(census, census.mapped),
        "at_least": known_hidden(census, census.at_least),
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


def attach_pause_ns(census: Census, stopped_ns: int) -> int:
    """The longest pause of the attach. The agent starts where the stop ends: those two are felt as one."""
    found = census.pauses or Pauses()
    return max(stopped_ns + found.start_ns, found.compile_ns, found.core_ns)


def longest_pause_ns(census: Census, stopped_ns: int) -> int:
    """The longest pause of a census and of the attach before it."""
    return max(attach_pause_ns(census, stopped_ns), census.pause_ns)


def pause_by_cause(census: Census, stopped_ns: int) -> PauseCausesJson:
    """The longest pauses by cause, nanoseconds."""
    pauses = census.pauses

    def stopped(mode: str) -> int | None:
        return None if pauses is None else pauses.stopped_ns if census.mode == mode else 0

    return {
        "attach_stop_ns": stopped_ns,
        "start_ns": pauses.start_ns if pauses else None,
        "compile_ns": pauses.compile_ns if pauses else None,
        "core_ns": pauses.core_ns if pauses else None,
        "gil_ns": pauses.gil_ns if pauses else None,
        "clone_ns": stopped("clone"),
        "count_ns": stopped("stop"),
    }


def _row(census: Census, row: TableRow) -> CensusRowJson:
    return {
        "name": row.name,
        "count": row.count or 0,
        "bytes": row.bytes,
        "hidden_bytes": known_hidden(census, row.hidden),
        "sizeof_guessed": row.guessed,
    }
