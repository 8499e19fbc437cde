"""The rows of view 4: which of them pass the filter, and by which figures they are sorted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from heaptop.analysis.bands.census_growth import CountedGrowth, growth_since
from heaptop.analysis.bands.series import SeriesCache
from heaptop.analysis.filters.filters import EVERYTHING, Filter
from heaptop.analysis.heap.history import CensusRecord
from heaptop.protocol.findings import Findings, GrownRow, MarkFacts, Suspect
from heaptop.tui.state.snapshot_client import QuerySubject

SUSPECT_FIGURES: Final[dict[str, Callable[[tuple[int, Suspect]], Any]]] = {
    "rank": lambda row: row[0],
    "name": lambda row: row[1].type,
    "count": lambda row: row[1].held,
    "bytes": lambda row: row[1].bytes,
    "rate": lambda row: row[1].rate,
}
GROWN_FIGURES: Final[dict[str, Callable[[GrownRow], Any]]] = {
    "name": lambda row: row.name,
    "count": lambda row: row.count,
    "bytes": lambda row: row.bytes,
    "now": lambda row: row.now,
    "born": lambda row: row.born or 0,
    "died": lambda row: row.died or 0,
}
COUNTED_FIGURES: Final[dict[str, Callable[[CountedGrowth], Any]]] = {
    "name": lambda row: row.name,
    "count": lambda row: row.count,
    "bytes": lambda row: row.bytes,
    "rate": lambda row: row.count_rate,
    "now": lambda row: row.now,
}


def suspect_rows(findings: Findings, where: Filter) -> tuple[list[tuple[int, Suspect]], int]:
    """Those that pass the filter, with their ranks; and how many there are without one."""
    ranked = enumerate(findings.suspects, 1)
    return [row for row in ranked if _passes(where, _suspect_names(row[1]))], len(findings.suspects)


def grown_rows(findings: Findings, key: str, where: Filter) -> tuple[list[GrownRow], int]:
    """Likewise, what grew by a key."""
    rows: Sequence[GrownRow] = next((growth.rows for growth in findings.growths if growth.key == key), ())
    return [row for row in rows if _passes(where, _row_names(key, row))], len(rows)


class CountedRows:
    """What grew by the counts of censuses, computed once for a census."""

    def __init__(self) -> None:
        self._memo = SeriesCache()
        self._known: tuple[object, tuple[Sequence[CountedGrowth], int]] | None = None

    def rows(
        self, records: Sequence[CensusRecord], marks: Sequence[MarkFacts], since: int, where: Filter
    ) -> tuple[Sequence[CountedGrowth], int]:
        """Those since a mark that pass the filter; and how many there are without one."""
        if not marks or not records:
            return (), 0
        time_ns = marks[min(since, len(marks) - 1)].time_ns
        of = (records[-1], len(records), time_ns, where)
        if self._known is None or self._known[0] != of:
            made = growth_since(records, time_ns, "type", where, self._memo)
            whole = growth_since(records, time_ns, "type", EVERYTHING, self._memo) if where else made
            self._known = of, (made.rows, len(whole.rows))
        return self._known[1]


def grown_subject(name: str, key: str, records: Sequence[CensusRecord], *, new: bool) -> QuerySubject | None:
    """The objects of a row by type or module."""
    if key == "type":
        return QuerySubject(name, types=(name,), new=new)
    cells = records[-1].cells if records else ()
    types = tuple(sorted({cell.type.full for cell in cells if cell.type.module == name}))
    return QuerySubject(name, types=types, new=new) if types else None


def _passes(where: Filter, names: Mapping[str, tuple[str, ...]]) -> bool:
    """Whether something goes through that is called so, by attribute."""
    return where.given(names.__getitem__) is True


def _suspect_names(suspect: Suspect) -> dict[str, tuple[str, ...]]:
    return {
        **_type_names(suspect.type),
        "site": _site_names(suspect.site),
        "retainer": (suspect.retainer,),
    }


def _row_names(key: str, row: GrownRow) -> dict[str, tuple[str, ...]]:
    if key == "type":
        return _type_names(row.name)
    return {key: _site_names(row.name) if key == "site" else (row.name,)}


def _type_names(full: str) -> dict[str, tuple[str, ...]]:
    short = full.rpartition(".")[2]
    return {"type": (full, short), "module": (full.removesuffix(f".{short}") if "." in full else "builtins",)}


def _site_names(site: str) -> tuple[str, ...]:
    return site, site.partition(":")[0], site.rpartition(" ")[2]
