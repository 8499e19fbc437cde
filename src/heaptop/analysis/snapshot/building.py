"""How far a snapshot or its answer is: the step it is at, how much of that is done, and how long the rest takes."""

from __future__ import annotations

from typing import Final

from heaptop.analysis.text.units import format_duration_ns
from heaptop.protocol.images import Progress

_SHARES: Final = {
    "walking the heap": 0.26,
    "recording references": 0.24,
    "finding roots": 0.01,
    "searching": 0.15,
    "finding dominators": 0.34,
}
"""Of the time of a build, in their order (``bench/graph.py``, fresh and aged heaps)."""
_MARK_SHARE: Final = 0.4
_CHECK_SHARE: Final = 0.75
"""What the queries of a first mark and of a check take, as a part of the build (``bench/scale.py``)."""
_LEAST_SECONDS: Final = 1.0  # A forecast that is made sooner is mostly one of the machine's other work
_LEAST_STEP_SECONDS: Final = 0.4  # The same of a step of an answer, whose progress comes four times a second


def seconds_left(progress: Progress, age: float, objects: int = 0) -> float | None:
    """Of a build that began ``age`` seconds ago; None where it is not known: too early, or no step of a build.
    ``objects``: of the last census, for the walk does not know how many it will meet."""
    phases = list(_SHARES)
    total = progress.total or (objects if progress.phase == phases[0] else 0)
    if progress.phase not in _SHARES or not total or age < _LEAST_SECONDS:
        return None
    done = sum(_SHARES[phase] for phase in phases[: phases.index(progress.phase)])
    done += _SHARES[progress.phase] * min(1.0, progress.done / total)
    return age * max(0.0, 1 - done) / done if done else None


class StepPace:
    """How fast the present step of an answer is. An answer takes several, and none knows how many follow."""

    def __init__(self) -> None:
        self.left: float | None = None
        """Seconds that the step takes, by what was done since its first message; None where that is too little yet."""
        self._first: tuple[float, Progress] | None = None
        self._latest: Progress | None = None

    def take(self, progress: Progress, now: float) -> None:
        latest, self._latest = self._latest, progress
        is_same = latest is not None and (latest.id, latest.total) == (progress.id, progress.total)
        if self._first is None or latest is None or not is_same or progress.done < latest.done:
            self._first = now, progress
        began, first = self._first
        done = progress.done - first.done
        tells = progress.phase not in _SHARES and progress.total and done and now - began >= _LEAST_STEP_SECONDS
        self.left = (now - began) * max(0, progress.total - progress.done) / done if tells else None


def hunt_seconds_left(build: float, age: float, is_first: bool) -> float:
    """Of a mark or check whose snapshot took ``build`` seconds and was requested ``age`` seconds ago."""
    return build * (1 + (_MARK_SHARE if is_first else _CHECK_SHARE)) - age


def progress_words(progress: Progress, age: float, step_left: float | None = None, objects: int = 0) -> str:
    """``finding dominators, 43 %, about 5 s left``; ``answering, 43 %, at least 5 s left`` by ``step_left``."""
    part = f", {100 * progress.done / progress.total:.0f} %" if progress.total else ""
    left, how = seconds_left(progress, age, objects), "about"
    if left is None and step_left is not None and step_left >= 1:
        left, how = int(step_left), "at least"
    rest = f", {how} {format_duration_ns(max(1, round(left)) * 1_000_000_000)} left" if left is not None else ""
    return progress.phase + part + rest
