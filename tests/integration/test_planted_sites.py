"""Sites of which it is known how much they hold, sampled by the native core: the truth lies in the interval said."""

from __future__ import annotations

import pytest

from heaptop.analysis.samples.estimate import Sums, weight
from tests.interpreters import NEWEST, OLDEST, Interpreter
from tests.support import native
from tests.support.building import TARGETS


@pytest.mark.sample(2)
@pytest.mark.pythons(OLDEST, "3.12", NEWEST)
def test_the_truth_lies_in_the_interval_in_93_to_97_of_100_runs(interpreter: Interpreter) -> None:
    """The runs are seeded, and nothing else allocates on the sampled thread."""
    interpreter.place(TARGETS / "sampling_agent.py")
    found = native.told(interpreter, "sampling_planted.py", 100, environment={"PYTHONHASHSEED": "0"})
    for site, runs in found["sampled"].items():
        true, estimates = found["true"][site], []
        for sizes in runs:
            sums = Sums()
            for size in sizes:
                sums.add(weight(size, found["interval"]))
            estimates.append(sums.estimate())
        share = 100 * sum(one.low <= true <= one.high for one in estimates) / len(runs)
        mean = sum(one.bytes for one in estimates) / len(runs)
        print(f"{site}: {true / 1e6:.1f} MB, in the interval in {share:.1f} of 100 runs, mean {mean / true:.3f}")
        assert 93 <= share <= 97, site
        # the mean's standard error: one sample stands for 64 KiB
        assert abs(mean - true) < 4 * (true * found["interval"] / len(runs)) ** 0.5, site
