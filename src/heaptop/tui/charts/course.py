"""The whole of a recording on a line, as pure functions: which column a time is in, and how large the heap was."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence


def column_of(time_ns: int, first_ns: int, last_ns: int, width: int) -> int:
    """The column of ``width`` that a time is in."""
    if last_ns <= first_ns:
        return 0
    return min(max((time_ns - first_ns) * width // (last_ns - first_ns), 0), width - 1)


def time_of(column: int, first_ns: int, last_ns: int, width: int) -> int:
    """The last time that is in this column."""
    return first_ns + (last_ns - first_ns) * (min(max(column, 0), width - 1) + 1) // width


def heights(points: Sequence[tuple[int, int]], first_ns: int, last_ns: int, width: int) -> list[int]:
    """Of (time, size), ascending: the last size by the end of each column, from the first column that has one."""
    times = [time for time, _ in points]
    places = [bisect_right(times, time_of(column, first_ns, last_ns, width)) for column in range(width)]
    return [points[place - 1][1] for place in places if place]
