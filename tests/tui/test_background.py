"""Figures that are made in steps: one step at a time, also where what they are of changes in the middle."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from heaptop.analysis.samples.sampling import Sampling
from heaptop.protocol.source import Seek
from heaptop.tui.state import background
from heaptop.tui.state.background import FigureMaker
from heaptop.tui.state.session import Display


def moment(time_ns: int) -> Display:
    return Display(shown=Seek(time_ns, 0, 10, 0, 0.0))


def test_moments_of_a_recording_passed_over_leave_no_work_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "SLICE_SECONDS", 0.0)
    later: list[Callable[[], None]] = []

    def needed(figures: int) -> Iterator[None]:
        for _ in range(10):
            yield

    maker = FigureMaker[int](
        lambda sampling: 1,
        lambda seconds, step: later.append(step),
        lambda figures: False,
        needed,
        lambda: None,
    )
    for time_ns in range(5):
        maker.prepare(moment(time_ns), Sampling())
    due, later[:] = later[:], []
    for step in due:
        step()
    assert len(later) == 1, "a step of the last moment alone"
    while later:
        later.pop()()
    assert maker.figures == 1
