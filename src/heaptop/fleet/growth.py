"""Which processes grow steadily, by what their censuses counted: a cheap watch that decides where a leak hunt is worth
what it costs. Pure. It names no leak: a cache that fills grows as steadily.
"""

from __future__ import annotations

from collections import deque
from itertools import pairwise
from typing import Final

from heaptop.choices import MIN_GROWTH
from heaptop.fleet.figures import Rows

READINGS: Final = 6  # Censuses that growth is judged by: of fewer, none is
LEAST_RISES: Final = 4  # Of the five steps between them, in so many the type grew
LEAST_RATE: Final = 10e6 / 3600  # Bytes a second: 10 MB an hour
WATCHED: Final = 200  # Types of a census, the largest ones: a type beyond them does not fill a machine


class GrowthWatch:
    """The largest types at the last censuses of one process."""

    def __init__(self) -> None:
        self._readings: deque[tuple[float, dict[str, int]]] = deque(maxlen=READINGS)

    def add(self, seconds: float, types: Rows) -> None:
        """Take a census; times ascend. The first figure of each type is its bytes."""
        watched = sorted(types, key=lambda name: (-types[name][0], name))[:WATCHED]
        self._readings.append((seconds, {name: types[name][0] for name in watched}))

    def clear(self) -> None:
        """Forget all censuses: what comes next is not comparable with them."""
        self._readings.clear()

    @property
    def growth(self) -> dict[str, float]:
        """Bytes a second of each type that grows steadily."""
        if len(self._readings) < READINGS:
            return {}
        (first, before), (last, now) = self._readings[0], self._readings[-1]
        found = {}
        for name in now:
            course = [types[name] for _, types in self._readings if name in types]
            if len(course) == READINGS and _is_steady(course):
                found[name] = (now[name] - before[name]) / max(last - first, 1e-3)
        return {name: rate for name, rate in found.items() if rate >= LEAST_RATE}


def _is_steady(course: list[int]) -> bool:
    """Whether it rises nearly all the time, and what it falls by in between is soon made up for."""
    third = len(course) // 3
    rises = sum(after > before for before, after in pairwise(course))
    is_higher = min(course[-third:]) > max(course[:third])
    return is_higher and rises >= LEAST_RISES and course[-1] - course[0] >= MIN_GROWTH
