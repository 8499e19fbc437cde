"""Attaching and detaching again and again leaves every kind of target as it was, on every interpreter.

What stays, and only that: the pages of the injection (the first attach maps them, later ones reuse them) and the
stack of one ended thread, which glibc keeps for the next (nptl/allocatestack.c), with that thread's malloc arena,
which the next thread takes over (malloc/arena.c). So everything that is mapped comes with the first cycles, and
from the third on nothing may be added.
"""

from __future__ import annotations

import json
import signal
from typing import Any, Final

import pytest

from heaptop.protocol.messages import Core
from tests.interpreters import MUSL, SAMPLE, SUPPORTED, Interpreter
from tests.support.attaching import attach_once, attached, resting
from tests.support.processes import EXIT_CODE, Facts, Target, difference, eventually, running

pytestmark = pytest.mark.timeout(3600)

SETTLED: Final = 3
"""After so many cycles all that stays has come."""

CENSUS_EVERY: Final = 4

STILL: Final = frozenset({"sleeper", "lock", "asyncio_idle", "asyncio_sleeper", "input_blocked", "alternating"})
"""Targets that map no memory of their own while they run: what comes and goes in their maps is the agent's."""

ARENA: Final = 1 << 20
"""Bytes of one arena of pymalloc (256 KiB up to 3.9): a census may open one, and another may stay open for a few
objects in it. What one attach leaks on the heap shows to the block, in the test of the interpreter below."""

SWING: Final = 2 << 20
"""Bytes by which their heaps may differ between two moments. 700 cycles of ``sleeper`` on 3.8 ended below their
beginning, on 3.12 at it."""

SLACK: Final = 8 << 20
"""Bytes that the heaps of the other targets may swing by: arenas of pymalloc (256 KiB, 1 MiB from 3.10 on) and of
malloc that come and go with what the target itself allocates."""


def cycle(target: Target, cycles: int) -> list[Facts]:
    """Attach and detach so many times, every few times with a census; the target's facts after each."""
    facts = []
    for number in range(cycles):
        attach_once(target.pid, census=number % CENSUS_EVERY == 0)
        assert target.alive
        facts.append(resting(target.pid))
    return facts


def sizes(facts: list[Facts]) -> tuple[list[int], list[int]]:
    """Anonymous regions, and bytes in them, at each moment."""
    data = [each.anonymous(executable=False) for each in facts]
    return [len(each) for each in data], [sum(region.end - region.start for region in each) for each in data]


def rising(name: str, facts: list[Facts]) -> list[list[int]]:
    """Figures of which the least of the later ones exceeds the greatest of the earlier ones, as a leak makes it."""
    half = len(facts) // 2
    regions, data = sizes(facts)
    found = []
    if min(regions[half:]) > max(regions[:half]) and max(regions) - min(regions) > 2:
        found.append(regions)
    if min(data[half:]) > max(data[:half]) + (ARENA if name in STILL else SLACK):
        found.append(data)
    return found


def check_flat(name: str, facts: list[Facts]) -> None:
    assert rising(name, facts) == []
    if name in STILL:
        _, data = sizes(facts)
        assert max(data) - min(data) <= SWING, data
        rest = difference(facts[0], facts[-1], allow_pages=False)
        assert [each for each in rest if not each.startswith("anonymous regions")] == []


def check_cycles(interpreter: Interpreter, name: str, cycles: int) -> None:
    with running(interpreter, name) as target:
        before = Facts.of(target.pid)
        after = cycle(target, cycles)
        # What a working target maps itself swings: of a few moments all later ones may lie above the earlier ones.
        while name not in STILL and rising(name, after[SETTLED - 1 :]) and len(after) < 5 * cycles:
            after += cycle(target, cycles)
        assert difference(before, after[-1]) == []
        check_flat(name, after[SETTLED - 1 :])
        assert target.terminate() == EXIT_CODE
        assert target.said() == []
        assert target.stderr() == ""


@pytest.mark.sample(2, least=3)
@pytest.mark.pythons(*SAMPLE, *MUSL, stress=(*SUPPORTED, *MUSL))
@pytest.mark.parametrize("name", ["sleeper", "lock", "asyncio_idle"])
def test_cycles_leave_a_resting_target_as_it_was(interpreter: Interpreter, name: str, cycles: int) -> None:
    check_cycles(interpreter, name, cycles)


@pytest.mark.sample(3, least=3)
@pytest.mark.pythons("3.8", "3.11-debian", "3.12", "3.14", *MUSL, stress=(*SUPPORTED, *MUSL))
@pytest.mark.parametrize("name", ["busy", "threads8", "churn_joined", "churn_main"])
def test_cycles_leave_a_working_target_as_it_was(interpreter: Interpreter, name: str, cycles: int) -> None:
    check_cycles(interpreter, name, cycles)


@pytest.mark.sample(2, least=3)
@pytest.mark.pythons("3.8", "3.11", "3.13", "3.14")
@pytest.mark.parametrize("name", ["gevent_loop", "uvloop_loop", "asyncio_sleeper", "alternating", "input_blocked"])
def test_cycles_leave_a_loop_as_it_was(interpreter: Interpreter, name: str, cycles: int) -> None:
    check_cycles(interpreter, name, cycles)


def tell(target: Target) -> tuple[dict[str, Any], int]:
    """What ``telling`` says of its interpreter, and how many blocks its allocator has given out."""
    count = len(target.said())
    target.signal(signal.SIGUSR1)
    assert eventually(lambda: len(target.said()) > count)
    text, blocks = json.loads(target.said()[-1])
    return json.loads(text), blocks


@pytest.mark.pythons(*SAMPLE, *MUSL, stress=(*SUPPORTED, *MUSL))
def test_cycles_leave_the_interpreter_as_it_was(interpreter: Interpreter, cycles: int) -> None:
    with running(interpreter, "telling") as target:
        before, _ = tell(target)
        blocks = []
        for number in range(cycles):
            attach_once(target.pid, census=number % CENSUS_EVERY == 0)
            after, count = tell(target)
            assert after == before
            blocks.append(count)
        # To the block: what one attach would leak on the heap shows at the next.
        assert len(set(blocks[SETTLED - 1 :])) == 1, blocks
        assert target.terminate() == EXIT_CODE
        assert target.stderr() == ""


def test_hooks_are_there_while_attached_and_gone_after(interpreter: Interpreter) -> None:
    with running(interpreter, "telling") as target:
        before, _ = tell(target)
        with attached(target.pid) as attachment:
            attachment.message(Core)  # with it comes the callback
            during, _ = tell(target)
        resting(target.pid)
        after, _ = tell(target)
        assert len(during["callbacks"]) == len(before["callbacks"]) + 1
        assert len(during["filters"]) == len(before["filters"]) + 2 * (interpreter.version >= (3, 12))
        assert {**during, "callbacks": 0, "filters": 0} == {**before, "callbacks": 0, "filters": 0}
        assert after == before
