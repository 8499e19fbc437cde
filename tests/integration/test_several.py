"""A prefork server's processes all at once, in a real terminal: seen, added up, and left as they were at the end."""

from __future__ import annotations

import os
import re
import signal
import sys

import pytest

from heaptop.injector.inspect.process import read_facts
from heaptop.injector.inspect.threads import agent_thread
from tests.interpreters import Interpreter
from tests.support.processes import EXIT_CODE, Facts, Target, difference, eventually, running
from tests.support.tmux import Terminal, terminal

HEAPTOP = (sys.executable, "-m", "heaptop")
ATTACH = ("attach", "--interval", "0.3", "--children")


def everyone(target: Target) -> list[int]:
    """The server and its workers."""
    return [target.pid, *map(int, target.detail.split())]


def touched(before: dict[int, Facts]) -> list[str]:
    """What of ours is still in any of them, or different: threads, descriptors, masks."""
    found = []
    for pid, facts in before.items():
        eventually(lambda: difference(facts, Facts.of(pid)) == [])  # noqa: B023  asked at once
        found += [f"{pid}: {line}" for line in difference(facts, Facts.of(pid))]
        found += [f"{pid}: an agent"] if agent_thread(pid) is not None else []
    return found


def sees_all(screen: Terminal, pids: list[int]) -> None:
    screen.shows(f"all {len(pids)}", f"{len(pids)} of {len(pids)} processes", f"sum of {len(pids)} censuses", "Session")
    assert all(eventually(lambda: agent_thread(pid) is not None) for pid in pids)  # noqa: B023


@pytest.mark.pythons("3.12", "3.14")
def test_a_server_and_its_workers(interpreter: Interpreter) -> None:
    with running(interpreter, "prefork") as target:
        pids = everyone(target)
        before = {pid: Facts.of(pid) for pid in pids}
        with terminal([*HEAPTOP, *ATTACH, str(target.pid)], 120, 30) as screen:
            sees_all(screen, pids)
            screen.press("Tab")
            screen.shows(f"pid {target.pid}", "● live")
            screen.press("Tab")
            screen.shows(f"pid {pids[1]}", "● live")

            os.kill(pids[1], signal.SIGKILL)
            screen.shows("○ exited", f"Process {pids[1]} ended at")
            screen.press("BTab", "BTab")
            screen.shows(f"3 of {len(pids)} processes", f"{pids[1]} left at", "sum of 3 censuses")
            del before[pids[1]]

            target.signal(signal.SIGUSR1)
            assert eventually(target.said)
            come = int(target.said()[0])
            screen.shows("a new process", f"│ {come} ○")
            assert agent_thread(come) is None
            facts = Facts.of(come)
            screen.press("BTab")
            screen.shows("started later")
            screen.press("Enter")
            screen.shows(f"pid {come}", "● live", "Session")
            screen.press("Tab")
            screen.shows("4 of 5 processes", f"{come} joined at")
            screen.press("q")
            screen.shows("exit=0", "detached from 4 processes (", "until they exit", f"Process {pids[1]} ended at ")
        assert touched({**before, come: facts}) == []
        assert target.terminate() == EXIT_CODE
        assert target.stderr() == ""


@pytest.mark.pythons("3.12", "3.14")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=lambda number: number.name)
def test_a_heaptop_that_is_ended_leaves_every_worker(interpreter: Interpreter, number: signal.Signals) -> None:
    with running(interpreter, "prefork") as target:
        pids = everyone(target)
        before = {pid: Facts.of(pid) for pid in pids}
        command = ["sh", "-c", 'echo heaptop=$$; exec "$@"', "-", *HEAPTOP, *ATTACH, str(target.pid)]
        with terminal(command, 120, 30) as screen:
            heaptop = re.search(r"heaptop=(\d+)", screen.shows("heaptop="))
            assert heaptop is not None
            sees_all(screen, pids)
            os.kill(int(heaptop[1]), number)
            screen.shows("exit=")
        assert touched(before) == []
        assert target.terminate() == EXIT_CODE
        assert target.stderr() == ""


@pytest.mark.pythons("3.12")
def test_processes_by_their_pids_while_one_stands_still(interpreter: Interpreter) -> None:
    """What cannot be attached to is left out, and says why."""
    with running(interpreter, "prefork") as target:
        pids = everyone(target)
        os.kill(pids[3], signal.SIGSTOP)
        assert eventually(lambda: read_facts(pids[3]).state == "T")
        try:
            with terminal([*HEAPTOP, "attach", *map(str, pids[1:])], 120, 30) as screen:
                screen.shows("all 3", "2 of 3 processes", "sum of 2 censuses", f"│ {pids[3]} ×")
                screen.press("BTab")
                screen.shows("is stopped (state T)", f"kill -CONT {pids[3]}")
                screen.press("q")
                screen.shows("exit=0")
        finally:
            os.kill(pids[3], signal.SIGCONT)
        assert target.terminate() == EXIT_CODE
