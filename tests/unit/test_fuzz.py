"""A bounded round of fuzzing, always the same cases: a fifth without --whole. ``make fuzz`` goes on after it."""

from __future__ import annotations

import os
import time
from random import Random

import pytest

from tests.fuzz import running
from tests.fuzz.running import fuzz
from tests.fuzz.targets import TARGETS

pytestmark = pytest.mark.slow

CASES = {"codec": 5_000, "framing": 2_500, "session": 40, "recording": 400, "elf": 350, "proc": 125}


@pytest.mark.parametrize("target", TARGETS)
def test_no_case_crashes_hangs_or_takes_too_much(target: str, is_whole: bool) -> None:
    cases = CASES[target] // (1 if is_whole else 5)
    result = fuzz(target, 0, cases, 280.0)
    assert not result.failure, result.text
    assert result.cases == cases, result.text
    assert 0 < result.refused < result.cases or target == "proc", "nothing is reached, or nothing is wrong"


def raises(random: Random) -> None:
    """Not an error of heaptop's own."""
    if random.random() < 0.2:
        raise KeyError("no such thing")


def hangs(random: Random) -> None:
    """Beyond the limit for a case."""
    if random.random() < 0.2:
        time.sleep(600)


def grows(random: Random) -> None:
    """Beyond the limit for memory."""
    if random.random() < 0.2:
        bytearray(2 * running.CASE_BYTES)


def dies(random: Random) -> None:
    """As by a fault in C."""
    if random.random() < 0.2:
        os.abort()


@pytest.mark.parametrize(
    ("broken", "said"), [(raises, "KeyError"), (hangs, "Hang"), (grows, "MemoryError"), (dies, "ended by itself")]
)
def test_a_finding_is_reported_with_its_seed(broken: object, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TARGETS, "broken", broken)
    monkeypatch.setattr(running, "CASE_SECONDS", 0.5)
    # The first case is tried before limits are set: one that is harmless.
    first = next(seed for seed in range(100) if Random(f"broken:{seed}").random() >= 0.2)
    result = fuzz("broken", first, 1000, 60.0)
    assert said in result.failure
    assert Random(f"broken:{result.seed}").random() < 0.2
    assert f"python -m tests.fuzz --target broken --seed {result.seed}" in result.text
