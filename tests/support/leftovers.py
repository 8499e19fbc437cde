"""Finds, and ends, every process that a test session left behind, however it was started.

The session puts a mark of its own into its environment; whatever it starts inherits it, also through setsid,
daemonization and a change of user. A watcher, started first and without the mark, waits for the session's end
(the end of a pipe, so that ``kill -9`` counts) and kills what still carries it.

Run as a program, this module is that watcher: it needs nothing but the standard library.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Final

VARIABLE: Final = "HEAPTOP_TEST_SESSION"


def start_session() -> subprocess.Popen[bytes]:
    """Mark this process's environment, and start the watcher; closing the returned one's stdin ends it."""
    os.environ.pop(VARIABLE, None)
    mark = uuid.uuid4().hex
    watcher = subprocess.Popen(
        [sys.executable, "-I", str(Path(__file__).resolve()), mark], stdin=subprocess.PIPE, start_new_session=True
    )
    os.environ[VARIABLE] = mark
    return watcher


def outliving(mark: str, patience: float = 5.0) -> dict[int, str]:
    """What `living` finds still after so many seconds: a process that was killed just now takes a moment to end."""
    deadline = time.monotonic() + patience
    while (left := live_blocks(mark)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left


def live_blocks(mark: str) -> dict[int, str]:
    """Processes other than this one that carry the mark, zombies left out: pid to command line."""
    found = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal() and int(folder.name) != os.getpid() and _carries(folder, mark):
            with contextlib.suppress(OSError):
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                found[int(folder.name)] = command.strip()
    return found


def _carries(folder: Path, mark: str) -> bool:
    # The environment of a zombie reads as empty, that of another user's process not at all.
    try:
        return f"{VARIABLE}={mark}".encode() in (folder / "environ").read_bytes().split(b"\0")
    except OSError:
        return False


def kill(mark: str) -> None:
    """Kill everything that carries the mark, until nothing does."""
    while pids := live_blocks(mark):
        for pid in pids:
            with contextlib.suppress(OSError):
                _kill_if_carrying(pid, mark)


def _kill_if_carrying(pid: int, mark: str) -> None:
    # The pidfd is opened before the second look, so a pid that was given to another process meanwhile is safe.
    process = os.pidfd_open(pid)
    try:
        if _carries(Path("/proc", str(pid)), mark):
            signal.pidfd_send_signal(process, signal.SIGKILL)
    finally:
        os.close(process)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.stdin.read()
    kill(sys.argv[1])
