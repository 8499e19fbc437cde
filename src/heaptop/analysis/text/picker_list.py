"""A list of processes: which belong together, in what order they are shown, and how fast each of them grows."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from heaptop.protocol.source import ProcessRow

WINDOW: Final = 60.0  # Seconds that growth is examined over, once they have passed
SHORTEST: Final = 6.0  # Seconds before which no growth is shown

Key = tuple[int, float]
Value = tuple[bool, float | str]  # What rows are sorted by: unknown ones are distinguished, to be last in any order

SORTS: Final = ("pid", "user", "version", "rss", "growth", "command")
"""What the list can be sorted by, in the order of its columns."""


def key_of(row: ProcessRow) -> Key:
    """The identity of a process: a pid is used again."""
    return row.pid, row.created


class Growths:
    """How fast the resident memory of each process grows, since the list saw it first or over a minute."""

    def __init__(self) -> None:
        self._seen: dict[Key, deque[tuple[float, int]]] = {}

    def feed(self, seconds: float, rows: Iterable[ProcessRow]) -> None:
        """The list as it was read at this moment; who is not on it any more is forgotten."""
        seen: dict[Key, deque[tuple[float, int]]] = {}
        for row in rows:
            points = self._seen.get(key_of(row), deque())
            points.append((seconds, row.rss))
            while len(points) > 2 and points[1][0] <= seconds - WINDOW:
                points.popleft()
            seen[key_of(row)] = points
        self._seen = seen

    def per_minute(self, row: ProcessRow) -> float | None:
        """Bytes; None until it was seen for long enough."""
        points = self._seen.get(key_of(row))
        if not points or points[-1][0] - points[0][0] < SHORTEST:
            return None
        (began, before), (ended, now) = points[0], points[-1]
        return (now - before) * 60 / (ended - began)


@dataclass(frozen=True, slots=True)
class ListedProcess:
    """A process in its place, under the one that started it."""

    row: ProcessRow
    growth: float | None  # Of it alone, in bytes a minute
    depth: int  # 0 for one that no other on the list has started
    last: bool  # No brother of it follows
    members: tuple[ProcessRow, ...]  # It, and all that it has started, those of them too; in their order on the list

    @property
    def rss(self) -> int:
        """Of all members. Pages that they share are counted in each."""
        return sum(member.rss for member in self.members)


def arranged(
    rows: Sequence[ProcessRow], growth: Callable[[ProcessRow], float | None], sort: str, descending: bool
) -> list[ListedProcess]:
    """The rows in order, each group under its first process. A group is where its sum puts it; what can be attached
    to is first. ``sort``: one of :data:`SORTS`."""
    by_pid = {row.pid: row for row in rows}
    children: dict[int, list[ProcessRow]] = {}
    for row in rows:
        if row.parent in by_pid and row.parent != row.pid:
            children.setdefault(row.parent, []).append(row)
    groups: dict[int, tuple[ProcessRow, ...]] = {}
    found: list[ListedProcess] = []

    def members(row: ProcessRow) -> tuple[ProcessRow, ...]:
        if row.pid not in groups:
            groups[row.pid] = (row,)  # also what ends a circle
            below = (member for child in children.get(row.pid, ()) for member in members(child))
            groups[row.pid] = (row, *below)
        return groups[row.pid]

    def value(row: ProcessRow) -> Value:
        if sort == "growth":
            known = [each for each in map(growth, members(row)) if each is not None]
            return bool(known), sum(known)
        if sort == "rss":
            return True, sum(member.rss for member in members(row))
        own = getattr(row, sort)
        return True, own.lower() if isinstance(own, str) else own

    def ordered(some: Iterable[ProcessRow]) -> list[ProcessRow]:
        by_value = sorted(some, key=lambda row: row.pid)
        by_value.sort(key=lambda row: value(row)[1], reverse=descending)
        return sorted(by_value, key=lambda row: (not any(m.attachable for m in members(row)), not value(row)[0]))

    def place(some: Iterable[ProcessRow], depth: int) -> None:
        line = ordered(row for row in some if row.pid not in placed)
        placed.update(row.pid for row in line)
        for number, row in enumerate(line):
            at = len(found)
            found.append(ListedProcess(row, growth(row), depth, number == len(line) - 1, ()))
            place(children.get(row.pid, ()), depth + 1)
            below = tuple(listed.row for listed in found[at:])
            found[at] = ListedProcess(row, growth(row), depth, number == len(line) - 1, below)

    placed: set[int] = set()
    started: Mapping[int, object] = {child.pid: None for some in children.values() for child in some}
    place((row for row in by_pid.values() if row.pid not in started), 0)
    place(by_pid.values(), 0)  # circles, which pids that were given again may make
    return found
