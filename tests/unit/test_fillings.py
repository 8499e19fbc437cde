"""Holders that have a bound, or are emptied by somebody: what is said of what collects in them."""

from __future__ import annotations

import pytest

from heaptop.analysis.leaks.fillings import filling_words
from heaptop.analysis.leaks.suspects import TypeSum
from heaptop.analysis.leaks.verdicts import Turnover
from heaptop.protocol.images import Step
from heaptop.protocol.messages import TypeName

QUEUE, JOB = TypeName("queue", "Queue"), TypeName("shop", "Job")


def words(*totals: int, old: int, born: tuple[int, ...], holder: TypeName = QUEUE) -> str:
    """Of jobs in a holder: how many there were at marks ten seconds apart, and how many of each interval are there."""
    step = Step(0, 0, 0, 0, ".jobs")
    course = Turnover((10.0,) * len(born), born, old, totals)
    jobs = TypeSum(JOB, totals[-1], 0, 0, 0)
    return filling_words([step], [holder], jobs, [jobs], course)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (
            words(1000, 1500, 2000, old=200, born=(700, 1100)),
            "backlog: a queue.Queue grows by 50/s, its consumer takes at least 40/s",
        ),
        (
            words(0, 500, 1000, old=0, born=(500, 500)),
            "backlog: a queue.Queue grows by 50/s",
        ),
        (
            words(1000, 1500, 2000, old=980, born=(480, 540)),
            "backlog: a queue.Queue grows by 50/s",
        ),
        (words(-1, -1, 900, old=0, born=(400, 500)), "a queue.Queue holds them: they may be waiting for their turn"),
        (words(0, 500, 1000, old=0, born=(500, 500), holder=TypeName("", "list")), ""),
    ],
)
def test_a_queue_says_how_fast_it_grows_and_is_emptied(said: str, expected: str) -> None:
    assert said == expected
