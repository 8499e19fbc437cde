"""Snapshot children of living programs: the program does not see them, and they do not outlive what they are of."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
from pathlib import Path

import pytest

from heaptop.injector import processes
from tests.interpreters import Interpreter
from tests.support import building, snapshots
from tests.support.building import TARGETS
from tests.support.processes import EXIT_CODE, PATIENCE, Target, eventually, running
from tests.support.web import serving, under_load

pytestmark = pytest.mark.timeout(900)

FEW = ("3.8", "3.11-debian", "3.13", "3.14")
NO_CHILD = "ECHILD"


def is_gone(pid: int) -> bool:
    """Ended; whether somebody has reaped it is another matter."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def last_line(target: Target) -> str:
    """What it says when it is over."""

    def is_over() -> bool:
        return "".join(target.said()[-1:]).startswith("over") or not target.alive

    assert eventually(is_over, 4 * PATIENCE), target.said()
    assert target.alive, target.stderr()
    return target.said()[-1]


@pytest.mark.pythons(*FEW)
def test_a_program_sees_its_own_children_only(interpreter: Interpreter, cycles: int) -> None:
    number = 5 * cycles
    with running(interpreter, "snapshot_apart", snapshots.library_path(), str(number)) as target:
        assert last_line(target) == f"over {2 * number}"
        assert target.said() == [f"over {2 * number}"]
        assert target.stderr() == ""  # of faulthandler, for one
        assert target.terminate() == EXIT_CODE


@pytest.mark.pythons(*FEW)
def test_snapshots_are_of_one_moment_and_none_hangs(interpreter: Interpreter, cycles: int) -> None:
    """One arena: most of the time some thread holds malloc's lock, which then nobody will ever release in the child."""
    number = 5 * cycles
    libraries = building.library("churn.c"), snapshots.library_path()
    with running(
        interpreter, "snapshot_churn", *libraries, str(number), environment={"MALLOC_ARENA_MAX": "1"}
    ) as target:
        assert last_line(target) == f"over {number} 0 0"
        assert target.said() == [f"over {number} 0 0"]
        assert target.terminate() == EXIT_CODE


@pytest.mark.pythons("3.11-debian", "3.13")
def test_a_gunicorn_master_and_its_workers_go_on(
    interpreter: Interpreter, cycles: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SNAPSHOTS", interpreter.place(snapshots.library_path()))
    monkeypatch.setenv("GUNICORN_CMD_ARGS", f"--config={interpreter.place(TARGETS / 'gunicorn_snapshots.py')}")
    with serving(interpreter) as server, under_load(server) as load:
        pids = (server.master.pid, *server.workers)
        assert eventually(lambda: all(times(server.master, pid) >= cycles for pid in pids)), server.master.stdout()
        # A worker that ends is missed, and another one takes its place.
        os.kill(server.workers[0], signal.SIGTERM)
        assert eventually(lambda: len(workers(server.master) - set(server.workers)) == 1)
        (fresh,) = workers(server.master) - set(server.workers)
        assert eventually(lambda: times(server.master, fresh) >= cycles)
        assert set(pids) - {server.workers[0]} <= {server.master.pid} | workers(server.master)
        answered = load.answered
        assert eventually(lambda: load.answered > answered + 10)
        assert load.failures == []
        assert "ODD" not in server.master.stdout()
        assert server.master.stderr() == ""
    # It got SIGKILL, as its group did; what it had for children ended with it.


def times(server: Target, pid: int) -> int:
    return server.stdout().split("\n").count(f"snapshots {pid}")


def workers(server: Target) -> set[int]:
    """The master's children, without snapshots."""
    children = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()
    return set(map(int, children))


def held(target: Target) -> int:
    """The pid of the snapshot child that the target holds, once it has left the target's table of descriptors: that is
    its first act, and until then it takes part in the target's locks."""
    child = int(target.detail)
    assert eventually(lambda: not os.listdir(f"/proc/{child}/fd"))
    return child


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    return tmp_path / "lock"


def is_locked(path: Path) -> bool:
    with path.open("r+") as stream:
        try:
            fcntl.lockf(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
    return False


@pytest.mark.pythons("3.8", "3.13")
def test_an_exec_finds_no_child_and_keeps_its_locks(interpreter: Interpreter, lock: Path) -> None:
    with running(interpreter, "snapshot_held", snapshots.library_path(), str(lock)) as target:
        child = held(target)
        assert not is_gone(child)
        assert is_locked(lock)
        target.signal(signal.SIGUSR1)
        assert eventually(lambda: target.said()[-1:] == [NO_CHILD]), target.said()
        assert eventually(lambda: is_gone(child))
        assert is_locked(lock)
        assert target.terminate() == EXIT_CODE


@pytest.mark.pythons("3.8", "3.13")
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_it_ends_with_the_program(interpreter: Interpreter, lock: Path, how: signal.Signals) -> None:
    with running(interpreter, "snapshot_held", snapshots.library_path(), str(lock)) as target:
        child = held(target)
        target.signal(how)
        assert target.process.wait(PATIENCE) == (EXIT_CODE if how == signal.SIGTERM else -how)
        assert not is_locked(lock)
        assert eventually(lambda: is_gone(child))


@pytest.mark.pythons("3.13")
def test_it_is_not_listed_and_makes_no_name_ambiguous(interpreter: Interpreter, lock: Path) -> None:
    with running(interpreter, "snapshot_held", snapshots.library_path(), str(lock)) as target:
        child = int(target.detail)
        assert eventually(lambda: Path(f"/proc/{child}/comm").read_text() == "heaptop census\n")
        listed = {process.pid for process in processes.python_processes()}
        assert target.pid in listed
        assert child not in listed
        assert processes.resolve(str(lock)) == target.pid


@pytest.mark.pythons("3.8", "3.13")
def test_a_fork_of_the_program_has_no_part_in_it(interpreter: Interpreter, lock: Path) -> None:
    with running(interpreter, "snapshot_held", snapshots.library_path(), str(lock)) as target:
        child = int(target.detail)
        target.signal(signal.SIGUSR2)
        assert eventually(lambda: "forked" in target.said())
        assert target.said() == ["mapped False status 1 open False", "forked"]
        assert not is_gone(child)
        assert target.terminate() == EXIT_CODE
        assert eventually(lambda: is_gone(child))


def test_no_symbol_is_newer_than_glibc_2_17() -> None:
    """It must load in a target on an older distribution than the one it was built on."""
    shown = subprocess.run(
        ["objdump", "-T", str(snapshots.library_path())], check=True, capture_output=True, text=True
    ).stdout
    versions = {word.strip("()") for line in shown.splitlines() for word in line.split() if "GLIBC_" in word}
    assert versions
    assert {v for v in versions if tuple(map(int, v[len("GLIBC_") :].split("."))) > (2, 17)} == set()
