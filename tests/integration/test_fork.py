"""Targets that fork, change their user and handle signals do so as always while an agent is in them."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from heaptop.injector.inspect.threads import agent_thread
from tests.interpreters import MUSL, NEWEST, SAMPLE, SUPPORTED, Interpreter
from tests.support import building
from tests.support.attaching import attach_once, attached, is_whole, resting
from tests.support.processes import EXIT_CODE, FORK_WARNING, Facts, difference, eventually, running


@pytest.mark.pythons(*SAMPLE, *MUSL, stress=(*SUPPORTED, *MUSL))
def test_children_are_as_without_an_agent(interpreter: Interpreter, cycles: int) -> None:
    """Where main itself starts the native thread and forks before that has got the GIL, no filter of ours can be in
    place, and Python 3.12 and later warn (once: the place of a warning is remembered). Nothing else may be said."""
    with running(interpreter, "forking") as target:
        for _ in range(cycles):
            attach_once(target.pid, census=True)
        with attached(target.pid) as attachment:
            for _ in range(3):
                assert is_whole(attachment.census())
        assert target.terminate() == EXIT_CODE
        assert target.said() == []
        lines = target.stderr().splitlines()
        assert len(lines) <= (2 if interpreter.version >= (3, 12) else 0), lines
        assert all(FORK_WARNING in line for line in lines[:1])


@pytest.mark.pythons("3.8", "3.12", "3.13", NEWEST)
def test_what_the_handler_of_a_signal_raises_during_a_fork_arrives(interpreter: Interpreter) -> None:
    """From 3.12 on a fork asks the warnings filters, while a signal may wait."""
    with running(interpreter, "interrupted_forks") as target:
        with attached(target.pid):
            for number in range(1, 31):
                target.signal(signal.SIGUSR1)
                assert eventually(lambda number=number: target.said().count("CAUGHT") == number)  # type: ignore[misc]
        assert target.terminate() == EXIT_CODE


@pytest.mark.sample(2, least=3)
@pytest.mark.pythons("3.8", "3.9", "3.10", "3.11", "3.11-debian", "3.12", "3.13")
@pytest.mark.parametrize("lives", ["0", "20"], ids=["running", "blocked"])
def test_no_child_waits_for_a_lock_of_the_agents_thread(interpreter: Interpreter, lives: str) -> None:
    """A thread that Python did not start makes its thread state before it has the GIL, under a lock that children have
    for ever up to 3.11, if they were forked meanwhile: their first act is to take it. Here that takes the thread 60 ms.
    A main thread that waits 20 ms for each child starts the agent itself; one that runs does so at a pending call."""
    slow = {"LD_PRELOAD": str(building.library("slow_locks.c"))}
    with running(interpreter, "forking", lives, environment=slow) as target:
        for _ in range(3):
            attach_once(target.pid, census=True)
            before = children(target.pid)
            try:
                assert eventually(lambda before=before: children(target.pid) != before, 10), "a child waits for ever"
            finally:
                target.signal(signal.SIGSTOP)  # no new ones while the one that hangs is ended
                for child in children(target.pid) & before:
                    os.kill(child, signal.SIGKILL)
                target.signal(signal.SIGCONT)
        assert target.terminate() == EXIT_CODE
        assert target.said() == []


def children(pid: int) -> set[int]:
    return {int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()}


@pytest.mark.pythons(*SAMPLE, stress=SUPPORTED)
def test_a_pool_of_children_has_no_agent_and_not_its_socket(interpreter: Interpreter) -> None:
    with running(interpreter, "preforking") as target:
        before = Facts.of(target.pid)
        with attached(target.pid) as attachment:
            attachment.census()
            target.signal(signal.SIGUSR1)
            assert eventually(lambda: len(target.said()) == 3)
            for line in target.said():
                child = int(line)
                assert agent_thread(child) is None
                assert len(Facts.of(child).threads) == 1
                # Its copy of the agent's socket would keep the session open.
                assert is_whole(attachment.census())
                attach_once(child, census=True)
            assert attachment.close() is None
        assert difference(before, resting(target.pid)) == []
        for line in target.said():
            attach_once(int(line))
        assert target.terminate() == EXIT_CODE
        assert target.stderr() == ""


@pytest.mark.pythons("3.8", "3.11", "3.12", "3.14", *MUSL)
def test_the_socket_of_a_dead_heaptop_closes_although_children_have_it(interpreter: Interpreter) -> None:
    with running(interpreter, "preforking") as target:
        with attached(target.pid) as attachment:
            target.signal(signal.SIGUSR1)
            assert eventually(lambda: len(target.said()) == 3)
            assert attachment.close() is None
        assert eventually(lambda: agent_thread(target.pid) is None)
        with attached(target.pid):
            pass
        assert target.terminate() == EXIT_CODE
        assert target.stderr() == ""


@pytest.mark.pythons("3.8", "3.11", "3.13", "3.14")
def test_a_child_forked_in_a_census_keeps_nothing_of_it(interpreter: Interpreter) -> None:
    """The census's lists hold every object; in the child nobody would ever release them. (A box or two may stay in
    the variables of the vanished thread's frames.)"""
    with running(interpreter, "forking_in_census") as target:
        for number in range(1, 4):
            with attached(target.pid):  # and the first census begins
                target.signal(signal.SIGUSR1)
                assert eventually(lambda: len(target.said()) == number)  # noqa: B023  asked at once
        live_blocks = [int(line.split()[1]) for line in target.said()]
        assert max(live_blocks) <= 2, live_blocks
        assert target.terminate() == EXIT_CODE


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give up root")
def test_giving_up_root_while_attached(interpreter: Interpreter) -> None:
    with running(interpreter, "dropping", "later") as target:
        with attached(target.pid) as attachment:
            target.signal(signal.SIGUSR1)
            assert eventually(lambda: target.said() == ["dropped"])
            assert is_whole(attachment.census())
            assert attachment.close() is None
        attach_once(target.pid, census=True)
        assert target.terminate() == EXIT_CODE
        assert target.stderr() == ""


def test_signals_reach_the_main_thread_while_attached(interpreter: Interpreter) -> None:
    with running(interpreter, "handlers") as target, attached(target.pid) as attachment:
        expected = []
        for number in (signal.SIGINT, signal.SIGCHLD, signal.SIGUSR1) * 2:
            target.signal(number)
            expected.append(number.name)
            assert eventually(lambda: len(target.said()) >= len(expected))
            assert is_whole(attachment.census())
        assert target.said() == expected
        assert attachment.close() is None
        assert target.terminate() == EXIT_CODE
        assert target.stderr() == ""
