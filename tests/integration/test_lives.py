"""A program that ends its Python (Py_Finalize) in the middle of a session and begins with a new one: the agent's thread
must not wake up in the second."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from heaptop.errors import AgentLost
from heaptop.injector.inspect.threads import agent_thread, thread_ids
from heaptop.protocol.messages import Core
from tests.interpreters import Interpreter
from tests.support import building
from tests.support.attaching import attached
from tests.support.processes import EXIT_CODE, Target, eventually, starting

ROUNDS = 3


@contextlib.contextmanager
def embedding(interpreter: Interpreter) -> Iterator[Target]:
    home = str(Path(interpreter.path).resolve().parent.parent)
    with starting([building.embedding("embedded_again.c", interpreter)], environment={"PYTHONHOME": home}) as target:
        assert eventually(lambda: "ready" in target.stdout())
        yield target


def sleeping(pid: int) -> bool:
    """Whether its threads are its own, and such as ended in glibc without libgcc_s, which pthread_exit needs."""
    names = [Path(f"/proc/{pid}/task/{tid}/comm").read_text() for tid in thread_ids(pid) if tid != pid]
    return set(names) <= {"heaptop ended\n"}


def begin_again(target: Target) -> None:
    times = target.stdout().count("again")
    target.signal(signal.SIGUSR1)
    assert eventually(lambda: target.stdout().count("again") > times or not target.alive)
    assert target.alive, target.stderr()


@pytest.mark.parametrize("mode", ["clone", "stop"])
@pytest.mark.pythons("3.8", "3.12", "3.13")
def test_the_agent_does_not_wake_up_in_the_next_life_of_python(interpreter: Interpreter, mode: str) -> None:
    with embedding(interpreter) as target:
        for _ in range(ROUNDS):
            with attached(target.pid, mode=mode, interval=0.2, sample_interval=4096) as attachment:
                assert attachment.message(Core).loaded
                assert attachment.census().rows
                begin_again(target)
                assert isinstance(attachment.error(), AgentLost)
            assert eventually(lambda: agent_thread(target.pid) is None)
            assert eventually(lambda: sleeping(target.pid))
        with attached(target.pid, mode=mode) as attachment:
            assert attachment.census().rows
        assert target.terminate() == EXIT_CODE
        assert target.stderr() == ""
