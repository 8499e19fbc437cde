"""``heaptop ps`` and names, on live processes; and how the command behaves on a terminal and in a pipe."""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import pty
import shutil
import struct
import subprocess
import sys
import termios
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from heaptop.errors import AmbiguousName, ProcessNotFound
from heaptop.injector import processes
from heaptop.injector.processes import _Delays, python_processes, resolve
from tests.support.processes import eventually

HEAPTOP = [sys.executable, "-m", "heaptop"]
SLEEPER = "import sys, time\nprint('up', flush=True)\nsys.stdin.read()\n"

Start = Callable[..., int]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a program that says ``up`` and waits for the end of its input; it ends with the test. Gives its pid."""
    with ExitStack() as stack:

        def start_one(*argv: str, **options: Any) -> int:
            process = stack.enter_context(
                subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **options)
            )
            stack.callback(process.kill)
            assert process.stdout is not None
            assert process.stdout.readline() == b"up\n"
            return process.pid

        yield start_one


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """A program whose name no other process on this machine has."""
    path = tmp_path / f"target_{uuid.uuid4().hex}.py"
    path.write_text(SLEEPER)
    return path


def listed() -> dict[int, dict[str, Any]]:
    done = subprocess.run([*HEAPTOP, "ps", "--json"], capture_output=True, text=True, check=True)
    return {row["pid"]: row for row in json.loads(done.stdout)["processes"]}


def test_ps_tells_what_there_is_to_know(start: Start, script: Path) -> None:
    pid = start(sys.executable, str(script), "an argument")
    row = listed()[pid]
    assert row["python"] == f"{sys.version_info.major}.{sys.version_info.minor}"
    assert row["command"] == f"{sys.executable} {script} an argument"
    assert row["rss"] > 1_000_000
    assert row["user"]
    assert row["attachable"] == (row["error"] is None)
    assert bool(row["why"]) != row["attachable"]


def test_ps_says_why_not(start: Start, script: Path) -> None:
    pid = start(sys.executable, str(script))
    os.kill(pid, 19)
    os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOWAIT)
    rows = []

    def is_checked() -> bool:
        """On a busy machine the processes of other tests may have taken the time that there is for all."""
        rows.append(listed()[pid])
        return bool(rows[-1]["error"] == "StoppedTarget")

    assert eventually(is_checked)
    assert not rows[-1]["attachable"]

    def is_in_the_table() -> bool:
        ps = subprocess.run([*HEAPTOP, "ps"], capture_output=True, text=True, check=True)
        table = ps.stdout.splitlines()
        at = next(number for number, line in enumerate(table) if line.split()[0] == str(pid))
        return (table[at].split()[5], table[at + 1].strip()) == ("no", rows[-1]["why"])

    assert eventually(is_in_the_table)


def test_a_busy_machine_is_no_process_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    def left_after_a_hundred_looks(load: float) -> float:
        monkeypatch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0))
        now = itertools.count(0.0, 0.08)
        monkeypatch.setattr(time, "monotonic", lambda: next(now))
        delays = _Delays()
        for _ in range(100):
            with delays.of(0):
                pass
        return delays.left(0)

    assert left_after_a_hundred_looks(0.5) < 0
    assert left_after_a_hundred_looks(8.0 * (os.cpu_count() or 1)) == 3.0


def test_only_pythons_are_listed_and_never_heaptop(start: Start, script: Path, tmp_path: Path) -> None:
    python = start(sys.executable, str(script))
    shell = start("/bin/sh", "-c", f"echo up; read line # {script.name}")
    named_heaptop = tmp_path / "heaptop"
    named_heaptop.write_text(SLEEPER)
    other_heaptop = start(sys.executable, str(named_heaptop), "attach", script.name)
    pids = {process.pid for process in python_processes()}
    assert python in pids
    assert not {shell, other_heaptop, os.getpid()} & pids
    assert resolve(script.name) == python


@pytest.mark.parametrize("name", ["heaptop census", "heaptop fd=7"])
def test_nobody_hides_by_the_name_of_a_clone(start: Start, script: Path, name: str) -> None:
    named = script.with_name("named.py")
    named.write_text(f"import ctypes\nctypes.CDLL(None).prctl(15, {name.encode()!r}, 0, 0, 0)\n" + script.read_text())
    pid = start(sys.executable, str(named))
    assert pid in [process.pid for process in python_processes()]


def test_an_interpreter_by_another_name_is_found_by_what_it_maps(start: Start, script: Path) -> None:
    # The dynamic linker as the executable: nothing but the mapped files says Python.
    linker = next(Path("/lib64").glob("ld-linux-*.so.*"), None)
    if linker is None:
        pytest.skip("no dynamic linker by its usual name")
    script.write_text("import _decimal\n" + SLEEPER)  # an extension module, as any real program has
    pid = start(str(linker), os.path.realpath(sys.executable), str(script))
    assert os.path.basename(os.readlink(f"/proc/{pid}/exe")) != "python"
    if not any(word in Path(f"/proc/{pid}/maps").read_text() for word in ("libpython", ".cpython-3")):
        pytest.skip("this Python is one file with everything in it")
    found = {process.pid: process for process in python_processes()}
    assert found[pid].python == f"{sys.version_info.major}.{sys.version_info.minor}"


def test_a_name_that_two_processes_have(start: Start, script: Path) -> None:
    first, second = start(sys.executable, str(script), "a"), start(sys.executable, str(script), "b")
    with pytest.raises(AmbiguousName) as caught:
        resolve(script.stem)
    assert all(str(pid) in caught.value.message for pid in (first, second))
    assert resolve(f"{script.name} b") == second
    with pytest.raises(ProcessNotFound):
        resolve(f"{script.name} c")


def test_a_process_that_vanishes_is_skipped(start: Start, script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pid = start(sys.executable, str(script))
    with subprocess.Popen(["true"]) as gone:
        pass
    monkeypatch.setattr("psutil.pids", lambda: [gone.pid, pid])
    assert [process.pid for process in python_processes()] == [pid]


def test_a_process_that_ends_while_it_is_read_is_skipped(
    start: Start, script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start(sys.executable, str(script))
    version = processes._python_version

    def version_and_end(pid: int, argv: tuple[str, ...]) -> str | None:
        found = version(pid, argv)
        if str(script) in argv:
            os.kill(pid, 9)
            os.waitid(os.P_PID, pid, os.WEXITED)
        return found

    monkeypatch.setattr(processes, "_python_version", version_and_end)
    assert not [process for process in python_processes() if str(script) in process.argv]


def test_a_reader_that_has_enough_is_no_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as broken:
        done = subprocess.run([*HEAPTOP, "ps", "--json"], stdout=broken, stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def test_an_error_is_wrapped_for_the_terminal() -> None:
    master, slave = pty.openpty()
    try:
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 40, 0, 0))
        done = subprocess.run([*HEAPTOP, "detach", "no process is called so"], stderr=slave, check=False)
        said = os.read(master, 65536).decode()
    finally:
        os.close(master)
        os.close(slave)
    assert done.returncode == ProcessNotFound.exit_code
    lines = said.splitlines()
    assert len(lines) > 5
    assert all(len(line) <= 40 for line in lines)


def test_a_terminal_that_lacks_the_letters(start: Start, tmp_path: Path) -> None:
    odd = tmp_path / f"größe_{uuid.uuid4().hex}.py"
    odd.write_text(SLEEPER)
    start(sys.executable, str(odd))
    done = subprocess.run(
        [*HEAPTOP, "ps"], capture_output=True, env={**os.environ, "PYTHONIOENCODING": "ascii"}, check=False
    )
    assert done.returncode == 0
    assert odd.name.replace("ö", "?").replace("ß", "?").encode() in done.stdout


def test_the_command_is_installed_or_runs_as_a_module() -> None:
    done = subprocess.run([*HEAPTOP, "--version"], capture_output=True, text=True, check=True)
    command = shutil.which("heaptop", path=os.path.dirname(sys.executable))
    if command is not None:
        assert subprocess.run([command, "--version"], capture_output=True, text=True, check=True).stdout == done.stdout
    assert done.stdout.startswith("heaptop ")
