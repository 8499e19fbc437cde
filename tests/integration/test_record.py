"""``heaptop record`` over a real attach: however it ends, the file can be read and the program goes on."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import signal
import subprocess
import termios
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from heaptop.protocol.findings import Findings
from heaptop.recordings.reader import Recording
from tests.support.leaking import ENVIRONMENT, HEAPTOP, is_as_it_was, leaking_sessions
from tests.support.processes import PATIENCE, Target, eventually
from tests.unit.recording_cases import played


@pytest.fixture
def target() -> Iterator[Target]:
    with leaking_sessions() as started:
        yield started


class Recorder:
    """``heaptop record``, running."""

    def __init__(self, target: Target, path: Path, *options: str) -> None:
        self.path = path
        command = [*HEAPTOP, "record", str(target.pid), "-o", str(path), "--interval", "0.5", *options]
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=ENVIRONMENT,
            stdin=subprocess.DEVNULL,
        )

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *error: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()

    @property
    def moments(self) -> int:
        """In the file, as anybody can read it meanwhile."""
        try:
            with Recording.open(self.path) as recording:
                return len(recording.moments)
        except Exception:  # not yet
            return 0

    def end(self, number: int) -> tuple[str, str]:
        self.process.send_signal(number)
        return self.process.communicate(timeout=PATIENCE)


def test_what_is_killed_can_be_read(target: Target, tmp_path: Path) -> None:
    with Recorder(target, tmp_path / "a.heaptop", "--marks", "0") as recorder:
        assert eventually(lambda: recorder.moments >= 3)
        recorder.end(signal.SIGKILL)
    with Recording.open(recorder.path) as recording:
        assert len(recording.moments) >= 3
        told = played(recording)
        assert told.target is not None
        assert told.target.pid == target.pid
        assert told.history.records
        assert told.sampling.samples.live_block_count
    assert eventually(lambda: is_as_it_was(target))
    assert target.alive


def test_a_night_is_told_in_the_morning(target: Target, tmp_path: Path) -> None:
    path = tmp_path / "night.heaptop"
    with Recorder(target, path, "--for", "12", "--marks", "3", "--json") as recorder:
        out, err = recorder.process.communicate(timeout=PATIENCE)
    assert recorder.process.returncode == 0, err
    told: dict[str, Any] = json.loads(out)
    assert (told["file"], told["pid"], told["bytes"]) == (str(path), target.pid, path.stat().st_size)
    assert told["leaks"]["suspects"][0]["type"] == "__main__.Session"
    with Recording.open(path) as recording:
        assert not recording.damage
        assert [type(note) for note in recording.findings] == [Findings] * 2
        suspect = recording.findings[-1].suspects[0]
    assert suspect.sentence in err
    assert suspect.site.endswith("create_session")
    assert eventually(lambda: is_as_it_was(target))
    assert target.alive


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_a_signal_ends_it_well(target: Target, tmp_path: Path, number: signal.Signals) -> None:
    with Recorder(target, tmp_path / "a.heaptop", "--marks", "0") as recorder:
        assert eventually(lambda: recorder.moments >= 2)
        out, err = recorder.end(number)
    assert recorder.process.returncode == 0, err
    assert out.startswith(f"{recorder.path}\n")
    assert "you stopped it" in out
    with Recording.open(recorder.path) as recording:
        assert not recording.damage
    assert eventually(lambda: is_as_it_was(target))
    assert target.alive


def test_a_terminal_that_closes_ends_it_well(target: Target, tmp_path: Path) -> None:
    """As an ssh does that breaks off: nothing can be said any more, and a last look is taken."""
    ours, theirs = pty.openpty()
    path = tmp_path / "a.heaptop"
    with subprocess.Popen(
        [*HEAPTOP, "record", str(target.pid), "-o", str(path), "--interval", "0.5"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=ENVIRONMENT,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - it is alone in the child
    ) as recording:
        os.close(theirs)
        try:
            shown = b""
            while b"next check" not in shown:
                shown += os.read(ours, 4096)
            os.close(ours)
            assert recording.wait(PATIENCE) == 0
        finally:
            recording.kill()
    with Recording.open(path) as made:
        assert not made.damage
        assert len(made.findings) == 1
    assert eventually(lambda: is_as_it_was(target))


def test_the_end_of_the_process_ends_it(target: Target, tmp_path: Path) -> None:
    with Recorder(target, tmp_path / "a.heaptop", "--marks", "0") as recorder:
        assert eventually(lambda: recorder.moments >= 2)
        os.kill(target.pid, signal.SIGKILL)
        out, err = recorder.process.communicate(timeout=PATIENCE)
    assert recorder.process.returncode == 0, err
    assert "ended" in out
    with Recording.open(recorder.path) as recording:
        assert not recording.damage
        assert len(recording.moments) >= 2
