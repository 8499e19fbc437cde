"""Where a release of Textual has moved a private name, heaptop draws by public ones: the same picture."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.pty_terminal import PtyTerminal, pty_terminal
from tests.support.recorded import written

ROOT = Path(__file__).resolve().parents[2]
PATHS = os.pathsep.join([str(ROOT / "src"), str(ROOT)])

MOVED = (
    "from heaptop.tui.terminal import contract; "
    "contract.NAMES['textual.app.App'] += ('_moved_in_a_release',); "
    "from heaptop.__main__ import main; import sys; sys.exit(main())"
)
WAYS = {"usual": ("-m", "heaptop"), "plain": ("-c", MOVED)}

SCREENS = {
    "": ("Bands by type", "row 1 of", "q quit"),
    "2": ("2 Producers",),
    "7": ("7 Sizes",),
    "8": ("8 GC", "row 1 of 7"),
    "?": ("what it shows", "Esc closes"),
    "\x1b": ("Uncollectable   ≈Allocated",),
    "1": ("Bands by type",),
    "\x1b[B\x1b[B": ("row 3 of",),
    "/": ("row 3 of",),
}
"""What is pressed, and what tells that it has come."""


@contextmanager
def looking(recording: Path, way: str, width: int, height: int) -> Iterator[PtyTerminal]:
    """The recording's end on a terminal."""
    command = [sys.executable, *WAYS[way], "open", "--no-config", "--times", "utc", str(recording)]
    with pty_terminal(command, width, height, {"PYTHONPATH": PATHS}) as terminal:
        yield terminal


def test_the_picture_is_the_same_without_private_names(tmp_path: Path) -> None:
    recording = written(tmp_path / "night.heaptop")
    with looking(recording, "usual", 100, 30) as usual, looking(recording, "plain", 100, 30) as plain:
        for keys, marks in SCREENS.items():
            for terminal in (usual, plain):
                terminal.press(keys)
            for terminal in (usual, plain):
                assert terminal.shows(*marks), f"{keys!r}\n{terminal.text}"
            assert plain.until(lambda: plain.picture == usual.picture, 20), difference(usual, plain, keys)
        for terminal in (usual, plain):
            terminal.press("\x1b")
            terminal.resize(80, 24)
        same = plain.until(lambda: "Bands" in usual.text and plain.picture == usual.picture, 20)
        assert same, difference(usual, plain)
        assert plain.bytes_read > usual.bytes_read, "or the private names are not worth their price"
        for terminal in (usual, plain):
            terminal.press("q")
            assert terminal.until(lambda terminal=terminal: terminal.process.poll() is not None)
            assert terminal.process.returncode == 0


def difference(usual: PtyTerminal, plain: PtyTerminal, keys: str = "a resize") -> str:
    lines = zip(usual.lines, plain.lines, strict=True)
    return f"after {keys!r}:\n" + "\n".join(f"- {was}\n+ {now}" for was, now in lines if was != now)


def test_it_ends_with_its_terminal_all_the_same(tmp_path: Path) -> None:
    with looking(written(tmp_path / "night.heaptop"), "plain", 100, 30) as terminal:
        assert terminal.shows("Bands by type"), terminal.text
        terminal.hang_up()
        assert terminal.until(lambda: terminal.process.poll() is not None)


@pytest.mark.parametrize("way", WAYS)
def test_what_is_drawn_is_all_there_again_after_a_redraw(way: str, tmp_path: Path) -> None:
    """ctrl+l: somebody else has written to the terminal."""
    with looking(written(tmp_path / "night.heaptop"), way, 100, 30) as terminal:
        assert terminal.shows("Bands by type", "row 1 of", "q quit"), terminal.text
        before = rested(terminal)
        terminal.wipe()
        terminal.press("\x0c")
        assert terminal.until(lambda: terminal.picture == before, 20), terminal.text


def rested(terminal: PtyTerminal) -> object:
    """The picture, when nothing has come for a while."""
    while True:
        seen = terminal.bytes_read
        if not terminal.until(lambda seen=seen: terminal.bytes_read != seen, 1.5):
            return terminal.picture
