"""What a session leaves in a program that has not imported what the agent needs: nothing that is garbage."""

from __future__ import annotations

import signal

from tests.interpreters import Interpreter
from tests.support.attaching import attach_once
from tests.support.processes import eventually, running


def collected(interpreter: Interpreter, sessions: int) -> int:
    """How many objects a full collection finds after so many sessions."""
    with running(interpreter, "collected") as target:
        assert target.detail == "lacks gc"
        for _ in range(sessions):
            attach_once(target.pid, census=True)
        target.signal(signal.SIGUSR1)
        assert eventually(lambda: len(target.said()) == 1)
        return int(target.said()[0])


def test_no_module_of_the_agents_is_left_as_garbage(interpreter: Interpreter) -> None:
    assert collected(interpreter, 3) <= collected(interpreter, 0)
