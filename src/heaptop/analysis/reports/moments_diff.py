"""What changed between two moments of one recording, or of two: by type, by module, by producer.

It makes rows, and the document of ``heaptop diff --json``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from heaptop.analysis.filters.attributes import band_key
from heaptop.analysis.reports.recorded import Recorded
from heaptop.analysis.samples.estimate import joint_error
from heaptop.analysis.samples.producers import producers
from heaptop.analysis.text.recorded_times import utc
from heaptop.errors import UsageError

if TYPE_CHECKING:
    from heaptop.documents import ChangedJson, DiffJson, MomentJson


@dataclass(frozen=True, slots=True)
class MomentSizes:
    """What one row holds at one moment."""

    count: int = 0
    bytes: int = 0
    error: int = 0  # Of `bytes`, as Estimate.error is; 0 of what was counted


@dataclass(frozen=True, slots=True)
class Changed:
    """One row at both moments."""

    name: str
    before: MomentSizes
    after: MomentSizes

    @property
    def count(self) -> int:
        """Objects, or blocks, more than before."""
        return self.after.count - self.before.count

    @property
    def bytes(self) -> int:
        return self.after.bytes - self.before.bytes

    @property
    def error(self) -> int:
        """Of :attr:`bytes`, at most: what lives at both is in both errors."""
        return joint_error((self.before.error, self.after.error))


def sizes_by_name(rows: Iterable[tuple[str, int, int]]) -> dict[str, MomentSizes]:
    """Sums of (name, objects, bytes)."""
    found: dict[str, MomentSizes] = {}
    for name, count, size in rows:
        had = found.get(name, MomentSizes())
        found[name] = MomentSizes(had.count + count, had.bytes + size)
    return found


def changes(before: Mapping[str, MomentSizes], after: Mapping[str, MomentSizes]) -> list[Changed]:
    """What grew most comes first, what shrank most last; what did not change is there too."""
    names = {**before, **after}
    rows = [Changed(name, before.get(name, MomentSizes()), after.get(name, MomentSizes())) for name in names]
    return sorted(rows, key=lambda row: (-row.bytes, -row.count, row.name))


def _counted(key: str, recorded: Recorded) -> dict[str, MomentSizes]:
    label, latest = band_key(key).label, recorded.history.latest
    return sizes_by_name((label(cell), cell.count, cell.bytes) for cell in (latest.cells if latest is not None else ()))


def _by_producer(recorded: Recorded) -> dict[str, MomentSizes]:
    sampling = recorded.sampling
    rows = producers(sampling.samples, sampling.sites, "site")
    return {row.name: MomentSizes(row.live.count, row.live.bytes, row.live.error) for row in rows}


DIFFS: Final[dict[str, Callable[[Recorded], dict[str, MomentSizes]]]] = {
    "type": partial(_counted, "type"),
    "module": partial(_counted, "module"),
    "producer": _by_producer,
}
"""What a row may represent."""


def changed_rows(before: Recorded, after: Recorded, by: str) -> list[Changed]:
    """As :func:`changes`.

    Raises:
        UsageError: there is no such attribute.
    """
    if by not in DIFFS:
        raise UsageError(f"Recordings cannot be compared by {by!r}.", fix=f"Choose one of: {', '.join(DIFFS)}.")
    return changes(DIFFS[by](before), DIFFS[by](after))


def grown(before: Recorded, after: Recorded, by: str, top: int | None) -> list[Changed]:
    """What grew most, at most ``top`` rows (all for None). By producer only what grew by more than it may be wrong."""
    return [row for row in changed_rows(before, after, by) if row.bytes > row.error][:top]


def most_changed(rows: Sequence[Changed], top: int | None) -> list[Changed]:
    """Those that grew or shrank most, at most ``top`` (all for None), in the order of ``rows``, which is by growth.
    Half of them have grown, if as many have."""
    if top is None:
        return list(rows)
    kept = {place for place, row in enumerate(rows[: top // 2]) if row.bytes > 0}
    others = sorted(set(range(len(rows))) - kept, key=lambda place: -abs(rows[place].bytes))
    kept.update(others[: top - len(kept)])
    return [row for place, row in enumerate(rows) if place in kept]


def total(rows: Iterable[Changed]) -> Changed:
    """All of them as one row."""
    listed = list(rows)
    return Changed("total", _sum(row.before for row in listed), _sum(row.after for row in listed))


def _sum(parts: Iterable[MomentSizes]) -> MomentSizes:
    listed = list(parts)
    error = joint_error(part.error for part in listed)
    return MomentSizes(sum(part.count for part in listed), sum(part.bytes for part in listed), error)


def changed_json(row: Changed) -> ChangedJson:
    """One row: what it holds at both moments, and how sure the change of its bytes is."""
    return {
        "name": row.name,
        "count": row.count,
        "bytes": row.bytes,
        "error_bytes": row.error,
        "before": {"count": row.before.count, "bytes": row.before.bytes},
        "after": {"count": row.after.count, "bytes": row.after.bytes},
    }


def moment_json(recorded: Recorded) -> MomentJson:
    """Which moment it is, and what was the last census by then."""
    latest, shown = recorded.history.latest, recorded.shown
    document: MomentJson = {
        "file": recorded.name,
        "pid": recorded.target.pid if recorded.target else None,
        "rss": recorded.rss,
        "total": {"count": latest.total.count, "bytes": latest.total.bytes} if latest is not None else None,
        "complete": latest.census.complete if latest is not None else None,
    }
    if shown is not None:
        document["time"] = utc(shown.wall)
        document["seconds"] = (shown.time_ns - shown.first_ns) / 1e9
    return document


def diff_json(before: Recorded, after: Recorded, by: str, top: int | None) -> DiffJson:
    """The document, with at most ``top`` rows (all for None). Bytes of producers are estimates."""
    rows = [row for row in changed_rows(before, after, by) if row.bytes or row.count]
    shown = most_changed(rows, top)
    grown = total(rows)
    return {
        "schema": "heaptop.diff",
        "version": 1,
        "before": moment_json(before),
        "after": moment_json(after),
        "by": by,
        "grown": {"count": grown.count, "bytes": grown.bytes},
        "shown": len(shown),
        "of": len(rows),
        "rows": [changed_json(row) for row in shown],
    }
