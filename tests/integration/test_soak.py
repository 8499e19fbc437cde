"""A minute of the soak (``make soak``). What grows slowly it cannot show: in that time tables still fill."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("aiohttp", reason="the extra heaptop[serve] is not installed")

from tests.interpreters import Interpreter
from tests.support.soak import FIGURES, REPLACE_SECONDS, REPLACED, SERVE, STAYING, lines, soak

SECONDS = 60.0
DESCRIPTORS, THREADS = FIGURES.index("descriptors"), FIGURES.index("threads")


@pytest.mark.timeout(900)
@pytest.mark.pythons("3.12")
def test_censuses_each_second_and_processes_that_end_leave_nothing_behind(
    interpreter: Interpreter, tmp_path: Path
) -> None:
    done = soak(interpreter, SECONDS, tmp_path)
    shown = "\n".join(lines(done))
    assert done.faults == [], shown
    assert done.replaced > SECONDS / REPLACE_SECONDS / 3, shown
    assert done.metrics["heaptop_censuses_total"][""] > STAYING * SECONDS / 3, shown
    rows = {(row.name, row.figure): row for row in done.rows()}
    for name in done.usages.keys() - {SERVE}:
        assert rows[name, "descriptors"].passes, shown
        assert rows[name, "threads"].passes, shown
    last = done.usages[SERVE][-1]
    assert last[THREADS] <= STAYING + REPLACED + 10, shown
    assert last[DESCRIPTORS] <= 3 * (STAYING + REPLACED) + 30, shown
