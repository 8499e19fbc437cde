"""A terminal of one's own: a program in a pty that is read, stalled, throttled, resized and hung up at will.

Where tmux reads whatever comes, this says when, and how much: :class:`Screen` draws what was read, as far as the
sequences go that heaptop writes. This module asserts nothing; it is used by tests and by bench/frontend.py.
"""

from __future__ import annotations

import codecs
import contextlib
import errno
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from rich.cells import cell_len

SYNC_START: Final = b"\x1b[?2026h"
"""What a frame begins with, for a terminal that says it knows it."""
_SYNC_QUERY: Final = b"\x1b[?2026$p"
_SYNC_ANSWER: Final = b"\x1b[?2026;2$y"
_ESCAPE: Final = re.compile(
    r"\x1b(?:\[([<>?=]*)([0-9;:]*)([ -/]*)([@-~])|[()][0-9A-Za-z]|[=>78]|\][^\x07\x1b]*(?:\x07|\x1b\\))"
)
_BEGUN: Final = re.compile(r"\x1b(?:\[[<>?=]*[0-9;:]*[ -/]*|[()]?|\][^\x07\x1b]*\x1b?)\Z")
"""A sequence of which the rest has still to come."""


class Screen:
    """The characters on a terminal and their colours, drawn from what was written to it."""

    def __init__(self, width: int, height: int) -> None:
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._rest = ""
        self.resize(width, height)

    def resize(self, width: int, height: int) -> None:
        """Another size; what stood there is gone, as nobody may count on how a terminal reflows it."""
        self.width, self.height = width, height
        self._clear()
        self._x = self._y = 0
        self._colours = {"attributes": "", "front": "", "back": ""}

    def _clear(self) -> None:
        self._cells = [[" "] * self.width for _ in range(self.height)]
        self.checks: list[list[tuple[str, ...]]] = [[("", "", "")] * self.width for _ in range(self.height)]
        """Of each cell: attributes, its colour and the one behind, as parameters of SGR."""

    @property
    def lines(self) -> list[str]:
        return ["".join(line).rstrip() for line in self._cells]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    def feed(self, data: bytes) -> None:
        text, at = self._rest + self._decode(data), 0
        begun = _BEGUN.search(text)
        self._rest = begun[0] if begun else ""
        end = len(text) - len(self._rest)
        while at < end:
            found = _ESCAPE.match(text, at)
            if found:
                self._control(found[1] or "", found[2] or "", found[4] or "")
                at = found.end()
            else:
                self._put(text[at])
                at += 1

    def _control(self, private: str, numbers: str, final: str) -> None:
        if final == "H" and not private:
            row, _, column = numbers.partition(";")
            self._y, self._x = int(row or 1) - 1, int(column or 1) - 1
        elif (final == "J" and not private) or (final in "hl" and private == "?" and numbers == "1049"):
            self._clear()
        elif final == "C":
            self._x += int(numbers or 1)
        elif final == "m" and not private:
            self._paint(numbers.split(";"))

    def _paint(self, codes: list[str]) -> None:
        now, left = self._colours, iter(codes)
        for code in left:
            if code in ("", "0"):
                now.update(attributes="", front="", back="")
            elif code in ("38", "48"):
                kind = next(left)
                colour = ";".join([code, kind, *(next(left) for _ in range(3 if kind == "2" else 1))])
                now["front" if code == "38" else "back"] = colour
            elif code in ("39", "49"):
                now["front" if code == "39" else "back"] = ""
            elif len(code) > 1 and code[0] in "39":
                now["front"] = code
            elif len(code) > 1:
                now["back"] = code
            else:
                now["attributes"] = ";".join(sorted({*filter(None, now["attributes"].split(";")), code}))

    def _put(self, char: str) -> None:
        if char == "\n":
            self._y = min(self._y + 1, self.height - 1)
        elif char == "\r":
            self._x = 0
        elif char >= " ":
            width = cell_len(char)
            if 0 <= self._y < self.height and 0 <= self._x < self.width and width:
                self._cells[self._y][self._x] = char
                self.checks[self._y][self._x] = tuple(self._colours.values())
                if width == 2 and self._x + 1 < self.width:
                    self._cells[self._y][self._x + 1] = ""
                    self.checks[self._y][self._x + 1] = tuple(self._colours.values())
            self._x += width


class PtyTerminal:
    """A program in a pty, and a thread that reads what it writes, when it may. Ends with its ``with`` block."""

    def __init__(self, process: subprocess.Popen[bytes], master: int, width: int, height: int) -> None:
        self.process = process
        self._master = master
        self._lock = threading.Lock()
        self._screen = Screen(width, height)
        self._reading = threading.Event()
        self._reading.set()
        self._over = threading.Event()
        self.bytes_read = 0
        self.frames = 0
        self.began = time.monotonic()
        self.first_frame: float | None = None
        """When the first frame had begun to come, by time.monotonic()."""
        self.rate: float = float("inf")
        """Bytes a second that are read at most: a slow line."""
        self.drawn: bytearray | None = None
        """All that came, as it came, from when a test puts an empty one here."""
        self._tail = b""
        self._thread = threading.Thread(target=self._run, name="terminal", daemon=True)
        self._thread.start()

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def text(self) -> str:
        """What stands on the screen, without blanks at the ends of lines."""
        with self._lock:
            return self._screen.text

    @property
    def picture(self) -> tuple[list[str], list[list[tuple[str, ...]]]]:
        """Its characters, and the colours and attributes of each."""
        with self._lock:
            return self._screen.lines, [[*checks] for checks in self._screen.checks]

    def wipe(self) -> None:
        """Forget what stands there, and say so to nobody."""
        with self._lock:
            self._screen.resize(self._screen.width, self._screen.height)

    @property
    def lines(self) -> list[str]:
        return self.text.split("\n")

    @property
    def is_cooked(self) -> bool:
        """Whether lines are edited and typed characters shown, as a shell has it."""
        return not ~termios.tcgetattr(self._master)[3] & (termios.ICANON | termios.ECHO)

    def shows(self, *texts: str, patience: float = 60.0) -> bool:
        """Whether all of ``texts`` come to stand on the screen."""
        return self.until(lambda: all(text in self.text for text in texts), patience)

    def until(self, holds: Callable[[], object], patience: float = 60.0) -> bool:
        end = time.monotonic() + patience
        while not holds():
            if time.monotonic() > end:
                return False
            time.sleep(0.01)
        return True

    def press(self, keys: str) -> None:
        """Keys as a terminal sends them."""
        os.write(self._master, keys.encode())

    def stall(self) -> None:
        """Read nothing from now on."""
        self._reading.clear()

    def go_on(self) -> None:
        self._reading.set()

    def resize(self, width: int, height: int) -> None:
        with self._lock:
            self._screen.resize(width, height)
            fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    def hang_up(self) -> None:
        """As a lost connection does."""
        self._over.set()
        self._reading.set()
        self._thread.join()
        with contextlib.suppress(OSError):
            os.close(self._master)

    def _run(self) -> None:
        while not self._over.is_set():
            if not self._reading.wait(0.05):
                continue
            try:
                if not select.select([self._master], [], [], 0.05)[0]:
                    continue
                data = os.read(self._master, 1 << 16 if self.rate == float("inf") else max(int(self.rate / 20), 1))
            except OSError as error:
                if error.errno not in (errno.EIO, errno.EBADF):
                    raise
                return
            self._take(data)
            if self.rate != float("inf"):
                time.sleep(len(data) / self.rate)

    def _take(self, data: bytes) -> None:
        seen = self._tail + data
        with self._lock:
            self.bytes_read += len(data)
            if self.drawn is not None:
                self.drawn += data
            frames = seen.count(SYNC_START)
            self.frames += frames
            if frames and self.first_frame is None:
                self.first_frame = time.monotonic()
            self._screen.feed(data)
        if _SYNC_QUERY in seen:
            os.write(self._master, _SYNC_ANSWER)
        keep = max(seen.rfind(SYNC_START[:1]), len(seen) - len(_SYNC_QUERY) + 1, 0)
        last = seen[keep:]
        self._tail = last if not (SYNC_START in last or _SYNC_QUERY in last) else b""


@contextlib.contextmanager
def pty_terminal(
    command: Sequence[str], width: int, height: int, environment: Mapping[str, str] | None = None
) -> Iterator[PtyTerminal]:
    """Run ``command`` in a pty of that size, as the leader of a session whose terminal it is."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
    known = {"TERM": "xterm-256color", "COLORTERM": "truecolor", "LC_ALL": "C.UTF-8"}
    opened = 'exec 0<>"$1" 1>&0 2>&0; shift; exec "$@"'  # what a session's leader opens is its terminal
    process = subprocess.Popen(
        ["sh", "-c", opened, "-", os.ttyname(slave), *command],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env={**os.environ, **known, **(environment or {})},
        start_new_session=True,
    )
    os.close(slave)
    terminal = PtyTerminal(process, master, width, height)
    try:
        yield terminal
    finally:
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        terminal.hang_up()
        process.wait(60)
