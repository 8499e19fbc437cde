"""What a command shows while it reads a core, or a copy of a process."""

from __future__ import annotations

import time

import pytest

from heaptop.cli.options import progress_of
from heaptop.watching.progress import ProgressReport


class Shown(ProgressReport):
    """Keeps what was shown."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def show(self, text: str) -> None:
        self.lines.append(text)


def test_each_step_of_a_walk_has_its_percentage_and_how_long_it_will_take(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not in its first second, and not where nobody knows how much there is."""
    shown, clock = Shown(), iter([10.0, 10.0, 14.0, 14.0, 20.0, 20.0, 26.0, 26.0])
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    told = progress_of(shown)
    told("walking the heap", 5, 0)
    told("walking the heap", 20, 100)
    told("writing the heap dump", 1, 100)
    told("writing the heap dump", 75, 100)
    assert shown.lines == [
        "walking the heap",
        "walking the heap: 20%, 16 s left",
        "writing the heap dump: 1%",
        "writing the heap dump: 75%, 2 s left",
    ]
