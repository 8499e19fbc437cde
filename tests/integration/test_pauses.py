"""What heaptop says of the target's pauses, against a clock in the target that knows when it did not run."""

from __future__ import annotations

import json
from typing import Final

import pytest

from heaptop.protocol.messages import Census
from heaptop.protocol.source import Attached
from tests.interpreters import SAMPLE, SUPPORTED, Interpreter
from tests.support.attaching import attached, opened
from tests.support.processes import Target, eventually, running

OBJECTS: Final = "400000"
"""So many that to count them takes longer than a loaded machine lets a program wait."""
TRIES: Final = 5


def gaps(target: Target) -> list[tuple[int, int]]:
    """(length, what remains of it without the machine's load) of the clock's gaps since the last question."""
    before = len(target.said())
    target.write(b"\n")
    assert eventually(lambda: len(target.said()) > before)
    return [(length, length - waited) for _, length, waited in json.loads(target.said()[-1])]


def counted(target: Target, mode: str) -> list[tuple[Census, int, int]]:
    """Some censuses, each with the longest gap around it, as the clock has it and without the machine's load."""
    found = []
    with attached(target.pid, mode=mode) as attachment:
        attachment.message(Census)
        for _ in range(TRIES):
            gaps(target)
            census = attachment.census()
            felt = gaps(target)
            found.append((census, max(gap for gap, _ in felt), max(net for _, net in felt)))
    return found


@pytest.mark.sample(3)
@pytest.mark.pythons(*SAMPLE, stress=SUPPORTED)
@pytest.mark.parametrize("thread", ["main", "thread"])
def test_a_stop_is_as_long_as_it_is_felt(thread: str, interpreter: Interpreter) -> None:
    with running(interpreter, "spinning_clock", OBJECTS, thread) as target:
        found = counted(target, "stop")
        if found[0][0].mode != "stop":
            pytest.skip(f"no native core there: {found[0][0].mode_reason}")
        for census, gap, _ in found:
            assert census.pauses is not None
            assert census.pauses.stopped_ns <= gap, "longer than the program was kept from running"
            assert census.pauses.stopped_ns <= census.pause_ns
        assert min(net / census.pause_ns for census, _, net in found) <= 1.5, "much of what is felt is not said"
        assert target.alive


def test_the_attach_says_what_it_took(interpreter: Interpreter) -> None:
    with running(interpreter, "spinning_clock") as target, opened(target.pid) as attachment:
        stopped = attachment.event(Attached).stopped_ns
        census = attachment.message(Census)
        assert census.pauses is not None
        assert census.pauses.compile_ns > 0
        assert census.pauses.start_ns > 0
        assert (census.pauses.core_ns > 0) == (not census.mode_reason.startswith("no native core"))
        assert 0 < stopped + census.pauses.start_ns < 10**10


WAITED_NS: Final = 48 * 250_000
"""For how long a pending call keeps the GIL, at the least, where the agent's thread gets no thread state without it."""


@pytest.mark.sample(2)
@pytest.mark.pythons("3.8", "3.9", "3.10", "3.11")
def test_a_pending_call_that_keeps_the_gil_is_part_of_the_pause(interpreter: Interpreter) -> None:
    """tracemalloc's hook needs the GIL where a thread state is allocated, and the pending call holds it meanwhile."""
    environment = {"PYTHONTRACEMALLOC": "1"}
    with running(interpreter, "spinning_clock", environment=environment) as target:
        for _ in range(TRIES):  # on a loaded machine the rest of the way in may take as long
            gaps(target)
            with opened(target.pid) as attachment:
                stopped = attachment.event(Attached).stopped_ns
                felt = max(gap for gap, _ in gaps(target))
            assert felt >= WAITED_NS, "the program did not wait, so this test shows nothing"
            assert WAITED_NS <= stopped <= 10**10


@pytest.mark.pythons(*SAMPLE, stress=SUPPORTED)
def test_a_clone_is_part_of_the_pause_that_is_said(interpreter: Interpreter) -> None:
    with running(interpreter, "spinning_clock", OBJECTS) as target:
        for census, gap, _ in counted(target, "clone"):
            if census.mode != "clone":
                pytest.skip(f"no clone there: {census.mode_reason}")
            assert census.pauses is not None
            assert 0 < census.pauses.stopped_cpu_ns <= census.pauses.stopped_ns <= census.pause_ns
            assert census.pauses.stopped_ns <= gap
