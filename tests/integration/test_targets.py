"""The ground that the other tests stand on: every target does what it says, on every interpreter, undisturbed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.interpreters import NEWEST, OLDEST, SAMPLE, SUPPORTED, Interpreter, since
from tests.support import building, leftovers
from tests.support.processes import (
    EXIT_CODE,
    Facts,
    Target,
    TargetFailed,
    difference,
    eventually,
    running,
    starting,
    this_python,
)
from tests.support.web import serving, under_load

pytestmark = pytest.mark.sample(2)

STEADY = (
    "busy",
    "sleeper",
    "lock",
    "asyncio_idle",
    "asyncio_sleeper",
    "threads8",
    "churn_joined",
    "churn_main",
    "gevent_loop",
    "uvloop_loop",
    "forking",
    "input_blocked",
    "alternating",
    "handlers",
)


@pytest.mark.pythons(*SAMPLE, stress=SUPPORTED)
def test_steady_targets_stay_silent_and_end_with_their_exit_code(interpreter: Interpreter) -> None:
    for name in STEADY:
        with running(interpreter, name) as target:
            time.sleep(0.15)
            assert target.alive, name
            assert target.terminate() == EXIT_CODE, name
            assert target.said() == [], name
            assert target.stderr() == "", name


@pytest.mark.pythons("2.7", "3.6", "3.7", "pypy")
def test_busy_runs_on_what_heaptop_refuses(interpreter: Interpreter) -> None:
    with running(interpreter, "busy", environment={"LC_ALL": "C"}) as target:
        assert target.terminate() == EXIT_CODE


def test_a_long_call_keeps_main_from_its_signals(interpreter: Interpreter) -> None:
    with running(interpreter, "long_call", str(10**6)) as target:
        assert target.terminate() == EXIT_CODE


def test_handlers_say_which_signal_came(interpreter: Interpreter) -> None:
    with running(interpreter, "handlers") as target:
        expected: list[str] = []
        for number in (signal.SIGINT, signal.SIGCHLD, signal.SIGUSR1):
            target.signal(number)
            expected.append(number.name)
            assert eventually(lambda: len(target.said()) >= len(expected))
            assert target.said() == expected


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give up root")
def test_the_dropping_target_changes_its_user_when_it_says(interpreter: Interpreter) -> None:
    with running(interpreter, "dropping", "before") as target:
        assert _uids(target) == ["65534"] * 4
    with running(interpreter, "dropping", "later") as target:
        assert _uids(target) == ["0"] * 4
        target.signal(signal.SIGUSR1)
        assert eventually(lambda: target.said() == ["dropped"])
        assert _uids(target) == ["65534"] * 4
        assert target.terminate() == EXIT_CODE


@pytest.mark.parametrize("mode", ["sleep", "busy"])
def test_the_subinterpreter_target_stays_alive(interpreter: Interpreter, mode: str) -> None:
    with running(interpreter, "subinterpreter", mode) as target:
        time.sleep(0.15)
        assert target.alive
        assert target.stderr() == ""


def test_the_first_thread_is_gone(interpreter: Interpreter) -> None:
    with running(interpreter, "leader_gone") as target:
        assert eventually(lambda: _status(target, "State").startswith("Z"))
        facts = Facts.of(target.pid)
        assert len(facts.threads) == 2
        assert facts.fds
        assert target.terminate() == EXIT_CODE


@pytest.mark.pythons(OLDEST, "3.13", NEWEST)
@pytest.mark.parametrize("call", ["mmap", "socketpair"])
@pytest.mark.parametrize("action", ["errno", "kill"])
def test_seccomp_filter_is_on(interpreter: Interpreter, action: str, call: str) -> None:
    with running(interpreter, "seccomp", action, call) as target:
        assert _status(target, "Seccomp") == "2"
        assert target.terminate() == EXIT_CODE


@pytest.mark.pythons("3.8", "3.13")
@pytest.mark.parametrize(("action", "code"), [("errno", 1), ("kill", -signal.SIGSYS)])
def test_seccomp_filter_bites(interpreter: Interpreter, action: str, code: int, tmp_path: Path) -> None:
    source = (building.TARGETS / "seccomp.py").read_text()
    for call, statement in (
        ("mmap", "mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_EXEC)"),
        ("socketpair", "socket.socketpair()"),
    ):
        script = tmp_path / f"call_{call}.py"
        script.write_text(f"import mmap, socket\n{source[: source.index('ready()')]}{statement}\n")
        command = interpreter.command([script, action, call])
        with starting(command, environment={"PYTHONPATH": str(building.TARGETS)}) as target:
            assert target.process.wait(60) == code, target.stderr()
            if action == "errno":
                assert "Operation not permitted" in target.stderr()


def test_vfork_parent_waits_for_its_child(interpreter: Interpreter) -> None:
    with running(interpreter, "vfork_parent") as target:
        assert eventually(lambda: _status(target, "State").startswith("D"))
        target.write(b".")
        assert eventually(lambda: target.said() == ["released"])
        assert target.terminate() == EXIT_CODE


def test_gil_held_and_finalizing(interpreter: Interpreter) -> None:
    for name in ("gil_held", "finalizing"):
        with running(interpreter, name) as target:
            time.sleep(0.1)
            assert target.alive
            assert target.said() == []


@pytest.mark.pythons("3.8", "3.13")
def test_zombie_child_and_tracer(interpreter: Interpreter) -> None:
    with running(interpreter, "zombie") as target:
        assert "State:\tZ" in Path(f"/proc/{target.detail}/status").read_text()
        with running(this_python(), "tracer", str(target.pid)) as tracer:
            assert Facts.of(target.pid).tracer == tracer.pid
        assert eventually(lambda: Facts.of(target.pid).tracer == 0)
        assert target.terminate() == EXIT_CODE


@pytest.mark.pythons("3.8", "3.11", "3.13")
@pytest.mark.parametrize("mode", ["released", "looping", "held", "finalized"])
def test_the_embedded_target_gets_ready_and_ends_by_sigterm(interpreter: Interpreter, mode: str) -> None:
    home = str(Path(interpreter.path).parent.parent)
    program = building.embedding("embedded.c", interpreter)
    with starting([program, mode], environment={"PYTHONHOME": home}) as target:
        assert eventually(lambda: target.stdout() == "ready\n")
        assert target.terminate() == -signal.SIGTERM
        assert target.stderr() == ""


@pytest.mark.pythons(*since("3.13"))
def test_targets_look_free_threaded(interpreter: Interpreter) -> None:
    with running(interpreter, "lookalike") as target:
        assert target.terminate() == EXIT_CODE


@pytest.mark.pythons(*SAMPLE, stress=SUPPORTED)
def test_gunicorn_serves_under_load(interpreter: Interpreter) -> None:
    with serving(interpreter) as server:
        with under_load(server) as load:
            assert eventually(lambda: load.answered >= 20 or load.failures)
        assert load.failures == []
        assert server.master.terminate() == 0
        assert server.master.stderr() == ""


@pytest.mark.pythons(OLDEST, "3.13", NEWEST)
def test_facts_are_equal_while_nothing_happens_and_differ_when_something_does(interpreter: Interpreter) -> None:
    with running(interpreter, "lock") as target:
        before = Facts.of(target.pid)
        assert len(before.threads) == 1
        assert before.fds[1] == str(target.folder / "stdout")
        assert before.anonymous(executable=False)
        assert difference(before, Facts.of(target.pid), allow_pages=False) == []
        target.signal(signal.SIGSTOP)
    with running(interpreter, "dropping", "before") as other:
        changes = difference(before, Facts.of(other.pid))
        assert any(change.startswith("thread") for change in changes)
        assert any(change.startswith("mapped file") or change.startswith("fd") for change in changes)


def test_a_target_that_fails_to_start_says_why() -> None:
    with pytest.raises(TargetFailed, match="IndexError"), running(this_python(), "dropping"):
        pass


def test_what_is_left_running_is_found_and_killed() -> None:
    """Also when it has left its session and its parent, and when the tests were killed by SIGKILL."""
    daemon = "import os, time; os.fork() and os._exit(0); os.setsid(); time.sleep(600)"
    tests = (
        "import os, subprocess, sys, time; from tests.support import leftovers; leftovers.start_session();"
        f"subprocess.run([sys.executable, '-c', {daemon!r}]);"
        "print(os.environ[leftovers.VARIABLE], flush=True); time.sleep(600)"
    )
    session = subprocess.Popen(
        [sys.executable, "-c", tests], stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]
    )
    with session:
        assert session.stdout is not None
        mark = session.stdout.readline().strip()
        assert eventually(lambda: len(leftovers.live_blocks(mark)) == 1)
        session.kill()
    assert eventually(lambda: not leftovers.live_blocks(mark))


def _status(target: Target, key: str) -> str:
    lines = Path(f"/proc/{target.pid}/status").read_text().splitlines()
    return next(line.partition(":")[2].strip() for line in lines if line.startswith(f"{key}:"))


def _uids(target: Target) -> list[str]:
    return _status(target, "Uid").split()
