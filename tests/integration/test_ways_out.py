"""However a session ends, the target is as it was, the next attach works at once, and two never share a target."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from heaptop.errors import AlreadyAttached, TargetExited
from heaptop.injector.inspect.threads import agent_thread
from heaptop.protocol.messages import Census
from tests.interpreters import MUSL, SAMPLE, SUPPORTED, Interpreter
from tests.support.attaching import attach_once, attached, is_held, is_whole, opened, resting
from tests.support.processes import EXIT_CODE, PATIENCE, Facts, difference, eventually, running, starting

WAYS_OUT: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL)
SCREEN: Final = [sys.executable, "-m", "heaptop", "attach"]
TAKE_TERMINAL: Final = (
    "import fcntl, os, signal, sys, termios; signal.signal(signal.SIGHUP, signal.SIG_DFL); "
    "fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
)
"""Makes stdin the controlling terminal, so that its closing sends SIGHUP (which whoever runs the tests may ignore),
and becomes the command."""
SOURCES: Final = str(Path(__file__).parents[2] / "src")


@contextmanager
def on_a_terminal(pid: int) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """``heaptop attach PID`` on a terminal of its own; yields the process and the terminal's other side."""
    master, slave = pty.openpty()
    environment = {**os.environ, "PYTHONPATH": SOURCES, "TERM": "xterm-256color", "COLUMNS": "80", "LINES": "24"}
    command = [sys.executable, "-c", TAKE_TERMINAL, *SCREEN, str(pid)]
    process = subprocess.Popen(
        command, stdin=slave, stdout=slave, stderr=slave, env=environment, start_new_session=True
    )
    os.close(slave)
    try:
        yield process, master
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def drain(master: int) -> None:
    """Read what the screen wrote, so that it never waits for the terminal."""
    os.set_blocking(master, False)
    try:
        while os.read(master, 1 << 16):
            pass
    except (BlockingIOError, OSError):
        pass


def wait_for_agent(pid: int, master: int) -> None:
    def has_come() -> bool:
        drain(master)
        return agent_thread(pid) is not None

    assert eventually(has_come)


def wait_for_end(process: subprocess.Popen[bytes], master: int | None) -> None:
    def has_ended() -> bool:
        if master is not None:
            drain(master)
        return process.poll() is not None

    assert eventually(has_ended)


@pytest.mark.sample(2, least=3)
@pytest.mark.pythons("3.8", "3.12", "3.14")
@pytest.mark.parametrize("way", [*WAYS_OUT, "q", "closed"], ids=str)
def test_the_screen_ends_and_the_target_is_as_it_was(interpreter: Interpreter, way: signal.Signals | str) -> None:
    with running(interpreter, "sleeper") as target:
        before = Facts.of(target.pid)
        with on_a_terminal(target.pid) as (process, master):
            try:
                wait_for_agent(target.pid, master)
                if isinstance(way, signal.Signals):
                    process.send_signal(way)
                elif way == "q":
                    os.write(master, b"q")
                if way == "closed":
                    os.close(master)
                wait_for_end(process, None if way == "closed" else master)
            finally:
                if way != "closed":
                    os.close(master)
        assert eventually(lambda: agent_thread(target.pid) is None)
        assert difference(before, resting(target.pid)) == []
        attach_once(target.pid)
        assert target.terminate() == EXIT_CODE
        assert (target.said(), target.stderr()) == ([], "")


@pytest.mark.sample(2, least=3)
@pytest.mark.pythons(*SAMPLE, *MUSL, stress=(*SUPPORTED, *MUSL))
@pytest.mark.parametrize("name", ["busy", "lock"])
def test_closing_and_attaching_again_at_once(interpreter: Interpreter, name: str) -> None:
    with running(interpreter, name) as target:
        before = Facts.of(target.pid)
        for _ in range(2):
            with attached(target.pid) as first:
                assert first.close() is None
            with attached(target.pid) as second:
                assert is_whole(second.message(Census))
        assert difference(before, resting(target.pid)) == []
        assert target.terminate() == EXIT_CODE
        assert (target.said(), target.stderr()) == ([], "")


# -- the target ends first ----------------------------------------------------------------------------------

ENDS: Final = {
    "sys.exit": ("sys.exit(7)", 7),
    "os._exit": ("os._exit(8)", 8),
    "return": ("pass", 0),
    "exception": ("raise RuntimeError('as planned')", 1),
    "abort": ("os.abort()", -signal.SIGABRT),
    "SIGTERM": ("signal.signal(signal.SIGTERM, signal.SIG_DFL); os.kill(os.getpid(), signal.SIGTERM)", -signal.SIGTERM),
    "SIGKILL": ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
    "exec": ("os.execv(sys.executable, [sys.executable, '-c', 'raise SystemExit(9)'])", 9),
}
"""Ways for a program to end, each with the exit code its parent sees."""


@pytest.mark.pythons(*SAMPLE, *MUSL, stress=(*SUPPORTED, *MUSL))
@pytest.mark.parametrize("how", ENDS)
def test_the_exit_code_is_kept_with_an_agent_in_it(interpreter: Interpreter, how: str) -> None:
    statement, expected = ENDS[how]
    with running(interpreter, "ending", statement) as target:
        with attached(target.pid) as attachment:
            target.signal(signal.SIGUSR1)
            assert target.process.wait(PATIENCE) == expected
            error = attachment.error()
        if how != "exec":
            assert isinstance(error, TargetExited)
        lines = target.stderr().splitlines()
        assert lines[-1:] == (["RuntimeError: as planned"] if how == "exception" else [])


# -- two of them --------------------------------------------------------------------------------------------


@pytest.mark.pythons(*SAMPLE)
@pytest.mark.parametrize("name", ["busy", "sleeper", "asyncio_idle"])
def test_the_second_is_told_who_is_there(interpreter: Interpreter, name: str) -> None:
    with running(interpreter, name) as target, attached(target.pid) as first:
        with opened(target.pid) as second:
            error = second.error()
        assert isinstance(error, AlreadyAttached)
        assert str(os.getpid()) in error.message
        assert is_whole(first.census())


@pytest.mark.sample(2, least=3)
@pytest.mark.pythons("3.8", "3.12", "3.14")
@pytest.mark.parametrize("name", ["busy", "sleeper"])
def test_of_two_at_once_one_gets_in(interpreter: Interpreter, name: str, cycles: int) -> None:
    with running(interpreter, name) as target:
        before = Facts.of(target.pid)
        for _ in range(cycles):
            with opened(target.pid) as one, opened(target.pid) as other:
                outcomes = []
                for each in (one, other):
                    try:
                        each.message(Census)
                        outcomes.append("in")
                    except AlreadyAttached:
                        outcomes.append("out")
                assert sorted(outcomes) == ["in", "out"]
        assert difference(before, resting(target.pid)) == []
        assert target.terminate() == EXIT_CODE
        assert (target.said(), target.stderr()) == ([], "")


@pytest.mark.pythons("3.11")
def test_the_second_gets_in_when_the_first_was_killed(interpreter: Interpreter) -> None:
    with running(interpreter, "sleeper") as target:
        command = [sys.executable, "-m", "heaptop", "census", str(target.pid), "--json"]
        with starting(command, environment={"PYTHONPATH": SOURCES}) as first:
            eventually(lambda: agent_thread(target.pid) is not None or not first.alive)
            first.signal(signal.SIGKILL)
            eventually(lambda: not is_held(target.pid))  # its helper may have been in the last of its work
            attach_once(target.pid, census=True)
        assert target.terminate() == EXIT_CODE
        assert (target.said(), target.stderr()) == ([], "")
