"""How far a snapshot is, in words: the step it is at, how much of that is done, and how long the rest takes."""

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
_LEAST_SECONDS: Final = 1.0
"""A forecast that is made sooner is mostly one of the machine's other work."""


def seconds_left(progress: Progress, age: float) -> float | None:
    """Of a build that began ``age`` seconds ago; None where it is not known: too early, or no step of a build."""
    if progress.phase not in _SHARES or not progress.total or age < _LEAST_SECONDS:
        return None
    phases = list(_SHARES)
    done = sum(_SHARES[phase] for phase in phases[: phases.index(progress.phase)])
    done += _SHARES[progress.phase] * min(1.0, progress.done / progress.total)
    return age * max(0.0, 1 - done) / done if done else None


def progress_words(progress: Progress, age: float) -> str:
    """``finding dominators, 43 %, about 5 s left``"""
    part = f", {100 * progress.done / progress.total:.0f} %" if progress.total else ""
    left = seconds_left(progress, age)
    rest = f", about {format_duration_ns(max(1, round(left)) * 1_000_000_000)} left" if left is not None else ""
    return progress.phase + part + rest
