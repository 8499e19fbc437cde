"""The line to the terminal, as ssh has it: slow, stalled, resized, stopped and lost. In a pty, on the real app."""

from __future__ import annotations

import os
import random
import re
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from heaptop.injector.inspect.process import read_facts
from tests.interpreters import Interpreter
from tests.support.processes import Facts, difference, eventually, running
from tests.support.pty_terminal import PtyTerminal, pty_terminal

HEAPTOP = (sys.executable, "-m", "heaptop")
ROOT = Path(__file__).resolve().parents[2]
PATHS = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
MIB = 1 << 20


@contextmanager
def flooded(told: Path, width: int = 200, height: int = 50, ticks: int = -1) -> Iterator[PtyTerminal]:
    """The app over a source that never rests."""
    command = [sys.executable, "-m", "tests.support.flooding", str(told), str(ticks)]
    with pty_terminal(command, width, height, {"PYTHONPATH": PATHS}) as terminal:
        assert terminal.shows("● live", "Bands by type", "row 1 of"), terminal.text
        yield terminal


def taken(told: Path) -> int:
    return int((told.read_text() if told.exists() else "") or 0)


def rss(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def ended(terminal: PtyTerminal) -> bool:
    return terminal.until(lambda: terminal.process.poll() is not None)


def undisturbed(before: Facts, pid: int) -> bool:
    return eventually(lambda: difference(before, Facts.of(pid)) == [])


def test_a_stalled_terminal_holds_nothing_up_and_shows_what_is_then(tmp_path: Path) -> None:
    told = tmp_path / "told"
    with flooded(told) as terminal:
        terminal.stall()
        for _ in range(40):  # more than the kernel keeps, and Textual's queue of thirty, would take
            terminal.press("]")
            terminal.press("[")
            seen = taken(told)
            assert terminal.until(lambda seen=seen: taken(told) >= seen + 3), "events are taken while nothing is read"
        before = rss(terminal.pid)
        seen = taken(told)
        assert terminal.until(lambda: taken(told) >= seen + 100)
        assert rss(terminal.pid) - before < 16 * MIB
        terminal.press("7")
        kept = taken(told)
        terminal.go_on()
        assert terminal.shows("7 Sizes"), terminal.text
        terminal.press("1")
        assert terminal.until(
            lambda: (found := re.search(r"census ([\d,]+) ", terminal.text)) and int(found[1].replace(",", "")) >= kept
        ), terminal.text
        terminal.press("q")
        assert ended(terminal)


def test_a_terminal_that_is_stalled_for_ever_does_not_keep_the_target(tmp_path: Path) -> None:
    with flooded(tmp_path / "told") as terminal:
        terminal.stall()
        for _ in range(60):
            terminal.press("]")
            seen = taken(tmp_path / "told")
            assert terminal.until(lambda seen=seen: taken(tmp_path / "told") > seen)
        terminal.process.send_signal(signal.SIGTERM)
        seen = -1
        while seen != (now := taken(tmp_path / "told")):  # it listens no more
            seen = now
            time.sleep(0.5)
        terminal.go_on()
        assert ended(terminal)


def test_ten_frames_a_second_at_most(tmp_path: Path) -> None:
    with flooded(tmp_path / "told") as terminal:
        began, first = time.monotonic(), terminal.frames
        for _ in range(100):
            terminal.press("j")
            time.sleep(0.02)
        frames, seconds = terminal.frames - first, time.monotonic() - began
        assert 2 < frames <= 10 * seconds + 3
        terminal.press("q")
        assert ended(terminal)


def test_a_slow_line_takes_keys(tmp_path: Path) -> None:
    with flooded(tmp_path / "told") as terminal:
        terminal.rate = 20_000
        for key, title in (("2", "2 Producers"), ("7", "7 Sizes"), ("8", "8 GC"), ("1", "1 Bands")):
            terminal.press(key)
            assert terminal.shows(title), terminal.text
        terminal.press("q")
        assert ended(terminal)


def test_after_a_storm_of_resizes_the_whole_screen_is_drawn(tmp_path: Path) -> None:
    wild = random.Random(7)
    with flooded(tmp_path / "told", ticks=40) as terminal:
        for round_ in range(3):
            for _ in range(70):
                terminal.resize(wild.randint(20, 300), wild.randint(5, 80))
                time.sleep(0.01)
            width, height = [(80, 24), (300, 80), (120, 30)][round_]
            terminal.resize(width, height)
            drawn = terminal.until(lambda: "● live" in terminal.lines[0] and "q quit" in terminal.lines[-1])
            assert drawn, terminal.text
            assert all(len(line) <= width for line in terminal.lines)
        frames = -1
        while frames != terminal.frames:  # nothing more comes
            frames = terminal.frames
            time.sleep(1.5)
        seen = terminal.text
        terminal.press("\x0c")  # ctrl+l sends everything again
        assert terminal.until(lambda: terminal.frames > frames)
        assert terminal.text == seen
        terminal.press("q")
        assert ended(terminal)
        assert terminal.process.returncode == 0


@pytest.mark.pythons("3.12")
def test_stopped_by_ctrl_z_and_gone_on_with(interpreter: Interpreter) -> None:
    with running(interpreter, "heap_growing") as target:
        before = Facts.of(target.pid)
        shell = ["bash", "--norc", "--noprofile", "-i"]
        with pty_terminal(shell, 100, 30, {"PYTHONPATH": PATHS, "PS1": "shell: "}) as terminal:
            assert terminal.shows("shell:")
            terminal.press(f"{' '.join(HEAPTOP)} attach {target.pid} --interval 0.3\n")
            assert terminal.shows("● live", "Parcel", "q quit"), terminal.text
            terminal.press("\x1a")
            assert terminal.shows("Stopped"), terminal.text
            assert "● live" not in terminal.text, "the screen of the shell is back"
            (heaptop,) = map(int, Path(f"/proc/{terminal.pid}/task/{terminal.pid}/children").read_text().split())
            assert read_facts(heaptop).state == "T"
            terminal.press("echo [$(stty -a | grep -oE -- '-?(icanon|echo)\\b')]\n")
            assert terminal.shows("[icanon echo]"), terminal.text
            assert target.alive
            terminal.press("fg\n")
            assert terminal.shows("● live", "Parcel", "q quit", "heaptop was suspended for"), terminal.text
            terminal.press("q")
            assert terminal.shows("shell:")
            terminal.press("echo code=$?\n")
            assert terminal.shows("code=0"), terminal.text
        assert undisturbed(before, target.pid)
        assert target.alive


def test_ctrl_z_without_a_shell_that_could_go_on(tmp_path: Path) -> None:
    with flooded(tmp_path / "told", ticks=40) as terminal:
        terminal.press("\x1a")
        assert terminal.shows("no shell can resume heaptop"), terminal.text
        terminal.press("q")
        assert ended(terminal)


def test_stopped_and_continued_from_elsewhere(tmp_path: Path) -> None:
    with flooded(tmp_path / "told", ticks=40) as terminal:
        threads = len(list(Path(f"/proc/{terminal.pid}/task").iterdir()))
        for _ in range(3):
            frames = -1
            while frames != terminal.frames:  # nothing more comes that it drew before it stood still
                frames = terminal.frames
                time.sleep(0.5)
            terminal.process.send_signal(signal.SIGSTOP)
            assert terminal.until(lambda: read_facts(terminal.pid).state == "T")
            terminal.process.send_signal(signal.SIGCONT)
            assert terminal.until(lambda frames=frames: terminal.frames > frames)
            assert terminal.shows("● live", "q quit", "was suspended: no census was taken"), terminal.text
        assert len(list(Path(f"/proc/{terminal.pid}/task").iterdir())) == threads
        terminal.press("q")
        assert ended(terminal)
        assert terminal.is_cooked, "the terminal is given back as it was"


@pytest.mark.pythons("3.12")
@pytest.mark.parametrize("ignores", [False, True], ids=["hung up", "nohup"])
def test_a_lost_connection_leaves_nothing_behind(interpreter: Interpreter, ignores: bool) -> None:
    with running(interpreter, "heap_growing") as target:
        before = Facts.of(target.pid)
        command = [*HEAPTOP, "attach", str(target.pid), "--interval", "0.3"]
        shell = ["sh", "-c", 'trap "" HUP; exec "$@"', "-", *command] if ignores else command
        with pty_terminal(shell, 100, 30, {"PYTHONPATH": PATHS}) as terminal:
            assert terminal.shows("● live", "Parcel"), terminal.text
            terminal.hang_up()
            assert ended(terminal), "it does not run on without a terminal"
        assert undisturbed(before, target.pid)
        assert target.alive
        assert target.stderr() == ""
