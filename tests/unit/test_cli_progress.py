"""What a command shows while it works."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import sys
import termios
import time

import pytest

from heaptop.cli.options import progress_of
from heaptop.cli.terminal import ProgressLine
from heaptop.watching.progress import ProgressReport


class Shown(ProgressReport):
    """Keeps what was shown."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def show(self, text: str) -> None:
        self.lines.append(text)


def test_each_step_of_a_walk_has_its_percentage_and_how_long_it_will_take(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not in its first second, and not where nobody knows how much there is."""
    shown, clock = Shown(), iter([10.0, 10.0, 14.0, 14.0, 20.0, 20.0, 26.0, 26.0])
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    told = progress_of(shown)
    told("walking the heap", 5, 0)
    told("walking the heap", 20, 100)
    told("writing the heap dump", 1, 100)
    told("writing the heap dump", 75, 100)
    assert shown.lines == [
        "walking the heap",
        "walking the heap: 20%, 16 s left",
        "writing the heap dump: 1%",
        "writing the heap dump: 75%, 2 s left",
    ]


def test_progress_stays_on_one_line_of_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line that wraps is not replaced by the next one: a recording at 80 columns filled the screen."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 40, 0, 0))
    with os.fdopen(ours, "rb", buffering=0) as screen, os.fdopen(theirs, "w") as stderr:
        monkeypatch.setattr(sys, "stderr", stderr)
        ProgressLine().show("recorded 25.6 s, 60.6 KiB: RSS 25.8 MiB, live 1.73 MiB")
        assert screen.read(200) == b"\r\x1b[Krecorded 25.6 s, 60.6 KiB: RSS 25.8 MiB"
