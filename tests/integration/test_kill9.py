"""kill -9 of heaptop at any moment, during attach, census and detach, harms no target.

The helper process does all that changes a target, and outlives heaptop for as long as that takes.
"""

from __future__ import annotations

import contextlib
import random
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from heaptop.injector.inspect.threads import agent_thread
from tests.interpreters import MUSL, Interpreter
from tests.support.attaching import attach_once, is_held, resting
from tests.support.processes import EXIT_CODE, Facts, difference, eventually, running, starting

pytestmark = pytest.mark.timeout(3600)

SOURCES: Final = str(Path(__file__).parents[2] / "src")
ROOT: Final = str(Path(__file__).parents[2])
TARGETS: Final = ("busy", "sleeper", "lock", "threads8")
STRESS, SHARE = 20, 2
"""Deaths for each target on each of four interpreters, under --stress (320 in all) and else (32)."""

CYCLES: Final = """\
import sys
sys.path.insert(0, sys.argv[2])
from tests.support.attaching import attach_once
print("ready", flush=True)
while True:
    attach_once(int(sys.argv[1]), census=True, mode=sys.argv[3])
    print("cycle", flush=True)
"""
"""Attaches, counts and detaches for ever: a death at any time meets it in one of the three."""


def helpers() -> Mapping[int, str]:
    """The helper processes that run now."""
    found = {}
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if folder.name.isdecimal() and b"heaptop.injector.entry.helper" in (folder / "cmdline").read_bytes():
                found[int(folder.name)] = (folder / "stat").read_text().split()[3]
    return found


def helpers_of(pid: int) -> list[int]:
    return [helper for helper, parent in helpers().items() if parent == str(pid)]


def cycle_length(pid: int) -> float:
    """Seconds that an attach, a census and a detach take here and now, as far as a second one."""
    attach_once(pid, census=True)
    began = time.monotonic()
    attach_once(pid, census=True)
    return time.monotonic() - began


def die(pid: int, delay: float, mode: str = "clone") -> None:
    """Start a heaptop on the target, kill it ``delay`` seconds into its cycles, and wait until its helper is gone."""
    command = [sys.executable, "-c", CYCLES, str(pid), ROOT, mode]
    with starting(command, environment={"PYTHONPATH": SOURCES}) as heaptop:
        assert eventually(lambda: "ready" in heaptop.stdout() or not heaptop.alive)
        time.sleep(delay)
        assert heaptop.alive, heaptop.stderr()
        ours = helpers_of(heaptop.pid)
        heaptop.signal(signal.SIGKILL)
        heaptop.process.wait()
        assert eventually(lambda: not helpers().keys() & set(ours))


@pytest.mark.sample(3, least=3)
@pytest.mark.pythons("3.8", "3.11", "3.13", "3.14", *MUSL)
@pytest.mark.parametrize("name", TARGETS)
def test_a_killed_heaptop_harms_no_target(interpreter: Interpreter, name: str, request: pytest.FixtureRequest) -> None:
    deaths = STRESS if request.config.getoption("--stress") else SHARE
    moments = random.Random(f"{interpreter} {name}")
    with running(interpreter, name) as target:
        length = cycle_length(target.pid)
        before = resting(target.pid)
        for number in range(deaths):
            # One in each stretch of the cycle, at a random place in it.
            die(target.pid, length * (number + moments.random()) / deaths)
            assert target.alive, number
            assert eventually(lambda: not is_held(target.pid)), number
            assert eventually(lambda: agent_thread(target.pid) is None), number
            # The native thread may have been started by the helper's last act, and not have its name yet.
            assert eventually(lambda: difference(before, resting(target.pid)) == []), (number, Facts.of(target.pid))
            attach_once(target.pid)
        assert target.terminate() == EXIT_CODE, target.stderr()
        assert target.said() == []
        assert target.stderr() == ""
