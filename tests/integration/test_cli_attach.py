"""The commands on real targets, as a person or a script would type them, on a terminal and without."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from heaptop.errors import InterpreterBusy, NoAgent, OutOfResources, StoppedTarget
from tests.support.pty_terminal import pty_terminal

HEAPTOP = [sys.executable, "-m", "heaptop"]
PATIENCE = 60.0

IDLE = """
import sys
class Widget: pass
kept = [Widget() for _ in range(1234)]
print('up', flush=True)
sys.stdin.read()
"""
BUSY_WHEN_TOLD = """
import signal, sys
signal.signal(signal.SIGUSR1, lambda *_: sum(range(10**12)))
print('up', flush=True)
while True: signal.pause()
"""
BUSY = "print('up', flush=True)\nwhile True: sum(range(3 * 10**9))\n"


@contextmanager
def target(code: str) -> Iterator[subprocess.Popen[bytes]]:
    """A program that said ``up``; it must still live at the end of the block, unless the test ended it."""
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"up\n"
            yield process
            assert process.poll() is None
        finally:
            process.kill()


def heaptop(*argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*HEAPTOP, *argv], capture_output=True, text=True, timeout=PATIENCE, check=False)


class Screen:
    """heaptop on a terminal of 100 by 30; :meth:`wait_for` reads what it draws."""

    def __init__(self, *argv: str) -> None:
        self.drawn = ""
        master, slave = pty.openpty()
        environ = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", "LINES": "30"}
        self.process = subprocess.Popen(
            [*HEAPTOP, *argv], stdin=slave, stdout=slave, stderr=slave, env=environ, start_new_session=True
        )
        os.close(slave)
        self._master = master

    def __enter__(self) -> Screen:
        return self

    def __exit__(self, *exception: object) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._master)

    def wait_for(self, pattern: str) -> re.Match[str]:
        """Read until ``pattern`` was drawn; styles and cursor movements are left out."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            found = re.search(pattern, re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", self.drawn))
            if found:
                return found
            self._read()
        pytest.fail(f"{pattern!r} was never drawn, but: {self.drawn[-2000:]!r}")

    def type(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def leave(self) -> int:
        """Wait for the end, reading on so that it can write; the exit code."""
        end = time.monotonic() + PATIENCE
        while self.process.poll() is None and time.monotonic() < end:
            self._read()
        while select.select([self._master], [], [], 0)[0] and self._read():
            pass
        return self.process.wait(timeout=1)

    def _read(self) -> bool:
        if not select.select([self._master], [], [], 0.1)[0]:
            return True
        with suppress(OSError):  # EIO: the other end is closed
            data = os.read(self._master, 65536).decode(errors="replace")
            self.drawn += data
            return bool(data)
        return False


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


def goes_within_patience(pid: int) -> bool:
    end = time.monotonic() + PATIENCE
    while not is_gone(pid) and time.monotonic() < end:
        time.sleep(0.05)
    return is_gone(pid)


def test_census_counts_a_real_heap() -> None:
    with target(IDLE) as process:
        done = heaptop("census", str(process.pid), "--json", "--where", "type:Widget")
        assert (done.returncode, done.stderr) == (0, "")
        document = json.loads(done.stdout)
        assert document["pid"] == process.pid
        assert document["complete"]
        counts = {row["name"]: row["count"] for row in document["rows"]}
        assert counts["__main__.Widget"] == 1234


def test_doctor_and_detach_on_a_target_without_an_agent() -> None:
    with target(IDLE) as process:
        done = heaptop("doctor", str(process.pid), "--json")
        assert done.returncode == 0
        assert json.loads(done.stdout)["attachable"] is True
        assert heaptop("detach", str(process.pid)).returncode == NoAgent.exit_code


@pytest.mark.parametrize("command", [["doctor"], ["census"], ["census", "--json"]], ids=" ".join)
def test_a_refusal_is_an_exit_code(command: Sequence[str]) -> None:
    with target(IDLE) as process:
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
        done = heaptop(command[0], str(process.pid), *command[1:])
        assert done.returncode == StoppedTarget.exit_code
        assert "kill -CONT" in (done.stdout if command[0] == "doctor" else done.stderr)
        assert command[0] == "doctor" or done.stdout == ""


def test_a_busy_interpreter_is_waited_for_as_long_as_was_said() -> None:
    with target(BUSY) as process:
        done = heaptop("census", str(process.pid), "--wait", "0.5", "--json")
        assert done.returncode == InterpreterBusy.exit_code
        assert done.stdout == ""


def test_ctrl_c_takes_back_an_attach_that_waits() -> None:
    with target(BUSY) as process, Screen("census", str(process.pid), "--wait", "600") as screen:
        screen.wait_for(r"waiting for the interpreter \d")
        screen.process.send_signal(signal.SIGINT)
        assert screen.leave() == 130
        assert "Traceback" not in screen.drawn


def test_attach_shows_the_heap_and_q_leaves() -> None:
    with target(IDLE) as process, Screen("attach", str(process.pid)) as screen:
        screen.wait_for(r"mode (clone|python)")
        screen.type("q")
        assert screen.leave() == 0
        screen.wait_for(rf"detached from {process.pid} after [^:]+: hooks and descriptors are removed")
        assert heaptop("detach", str(process.pid)).returncode == NoAgent.exit_code


def test_a_detach_that_nobody_has_seen_is_not_claimed() -> None:
    """The interpreter has no time for the agent: it leaves later, and nobody knows when."""
    with target(BUSY_WHEN_TOLD) as process, Screen("attach", str(process.pid)) as screen:
        screen.wait_for(r"mode (clone|python)")
        process.send_signal(signal.SIGUSR1)
        screen.wait_for(r"no answer for \d")
        screen.type("q")
        assert screen.leave() == 0
        screen.wait_for(rf"no answer from {process.pid}: it is unknown whether everything was removed")
        assert "detached from" not in screen.drawn


def test_run_ends_with_the_programs_exit_code(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("import sys, time\nprint('from inside', flush=True)\ntime.sleep(2)\nsys.exit(7)\n")
    output = tmp_path / "output.log"
    with Screen("run", "--output", str(output), "--", str(program)) as screen:
        screen.wait_for("exited with code 7")
        screen.type("q")
        assert screen.leave() == 7
        assert str(output) in re.sub(r"\s", "", screen.drawn)
    assert output.read_text() == "from inside\n"


@pytest.mark.parametrize("limit", ["-n 10", "-n 12", f"-v {80 << 10}", f"-v {140 << 10}", f"-v {200 << 10}"])
def test_run_starts_nothing_where_heaptop_has_too_little_room(limit: str, tmp_path: Path) -> None:
    """Without a check, 10 descriptors and 80 MiB were internal errors, 140 MiB hung, 200 MiB was a SIGSEGV."""
    program, began, output = (tmp_path / name for name in ("program.py", "began", "output.log"))
    program.write_text(f"open({str(began)!r}, 'w').close()\n")
    arguments = [*HEAPTOP, "run", "--output", str(output), "--", str(program)]
    with pty_terminal(["sh", "-c", f'ulimit {limit}; exec "$@"', "-", *arguments], 80, 24) as terminal:
        assert terminal.process.wait(PATIENCE) == OutOfResources.exit_code
        assert terminal.shows("heaptop: ", f"`ulimit {limit[:2]} "), terminal.text
        assert "Traceback" not in terminal.text
    assert not began.exists()
    assert not output.exists()


def test_run_leaves_the_program_running(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("import time\ntime.sleep(600)\n")
    with Screen("run", "--output", str(tmp_path / "output.log"), str(program)) as screen:
        screen.wait_for("mode (clone|python)")
        screen.type("q")
        assert screen.leave() == 0
        pid = int(screen.wait_for(r"continues as pid (\d+)")[1])
        screen.wait_for(rf"detached from {pid} \(program\) after")
    try:
        assert not is_gone(pid)
    finally:
        os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("end", ["q", "kill"])
def test_the_demo_ends_with_heaptop(end: str) -> None:
    with Screen("demo") as screen:
        pid = int(screen.wait_for(r"pid (\d+)")[1])
        screen.wait_for("mode (clone|python)")
        assert not is_gone(pid)
        if end == "q":
            screen.type("q")
            assert screen.leave() == 0
            screen.wait_for(rf"detached from {pid} \(webshop\) after .*; the demo\s+exits with heaptop")
        else:
            screen.process.kill()
        assert goes_within_patience(pid)
