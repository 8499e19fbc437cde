"""A terminal for tests: tmux with a server of its own, keys in, text out."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.processes import eventually


class NotShown(Exception):
    """What was waited for did not appear on the screen."""


@dataclass(frozen=True, slots=True)
class Terminal:
    """One pane. Ends with its ``with`` block."""

    socket: Path

    def _tmux(self, *arguments: str) -> str:
        command = ["tmux", "-S", str(self.socket), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def screen(self) -> str:
        """The text on the screen now."""
        return self._tmux("capture-pane", "-p")

    def press(self, *keys: str) -> None:
        """Keys as tmux names them: ``q``, ``Enter``, ``C-c``."""
        self._tmux("send-keys", *keys)

    def resize(self, width: int, height: int) -> None:
        self._tmux("resize-window", "-x", str(width), "-y", str(height))

    def close(self) -> None:
        """As a lost connection does: the pane's terminal hangs up."""
        self._tmux("kill-server")

    def shows(self, *texts: str) -> str:
        """The screen once it shows all of ``texts``. Raises :class:`NotShown` with what it shows."""

        def look() -> str:
            screen = self.screen()
            return screen if all(text in screen for text in texts) else ""

        if not (screen := eventually(look)):
            raise NotShown(f"{texts} not in:\n{self.screen()}")
        return screen

    def hides(self, text: str) -> None:
        """Wait until ``text`` is gone. After Escape always: with a key right behind it, it would mean Alt."""
        if not eventually(lambda: text not in self.screen()):
            raise NotShown(f"{text} still in:\n{self.screen()}")


@contextlib.contextmanager
def terminal(command: Sequence[str], width: int, height: int) -> Iterator[Terminal]:
    """Run ``command`` in a terminal of that size; then its exit code is shown as ``exit=N``."""
    if shutil.which("tmux") is None:
        if os.environ.get("CI"):
            pytest.fail("no tmux here")
        pytest.skip("no tmux here")
    with tempfile.TemporaryDirectory(prefix="heaptop-tmux-") as folder:
        pane = Terminal(Path(folder, "socket"))
        shell = f"{shlex.join(command)}; echo exit=$?; cat"
        environment = {**os.environ, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
        size = ["-x", str(width), "-y", str(height)]
        subprocess.run(
            ["tmux", "-S", str(pane.socket), "-f", "/dev/null", "new-session", "-d", *size, "sh", "-c", shell],
            check=True,
            env=environment,
        )
        try:
            yield pane
        finally:
            with contextlib.suppress(subprocess.CalledProcessError):
                pane.close()
