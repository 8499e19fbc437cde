"""What the commands print for a person: sentences and progress on stderr, tables for stdout.

This module never draws a screen; the front end does.
"""

from __future__ import annotations

import argparse
import errno
import gc
import mmap
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from textwrap import fill
from typing import TextIO

from heaptop.errors import HeaptopError, OutOfResources, UsageError
from heaptop.protocol.text import printable
from heaptop.watching.progress import ProgressReport

WIDEST = 100  # Columns beyond which a paragraph is hard to read
DESCRIPTORS = 20  # That a session on a screen needs: ten while it continues, more for moments
ADDRESS_SPACE = 256 << 20  # Bytes of it: four threads, and what malloc sets aside for each


def notice(text: str) -> None:
    """One remark on stderr, named as heaptop's."""
    print(_wrapped(f"heaptop: {clean(text)}", _columns(sys.stderr)), file=sys.stderr, flush=True)


def clean(text: str) -> str:
    """Lines that may quote what others chose, each of them printable: a file's name comes from a shell's ``*``."""
    return "\n".join(map(printable, text.split("\n")))


def complain(error: HeaptopError) -> None:
    """What happened, why, and what to type, on stderr."""
    notice(error.help_text)


def may_replace(path: Path, *, force: bool) -> bool:
    """Whether a file that is to be written may replace the one that is there: by ``force``, or because a person at the
    terminal says so. Where nobody can be asked it may not, and who writes it refuses."""
    if force or not path.is_file() or path.is_symlink() or not _is_in_front():
        return force
    print(f"heaptop: the file {printable(str(path))} exists already. Overwrite it? [y/N] ", end="", file=sys.stderr)
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def keep_apart(written: str, other: str) -> None:
    """Raise UsageError where a file that is to be written, with ``--force`` say, is another one of the command."""
    same = False
    with suppress(OSError, ValueError):  # not there, or no name of a file: who opens it reports that
        same = os.path.realpath(written) == os.path.realpath(other) or os.path.samefile(written, other)
    if same:
        raise UsageError(f"The command would overwrite {other} itself.", fix="Choose another file.")


def _is_in_front() -> bool:
    """Whether a person sees a question and can answer it here: a job in the background would be stopped."""
    with suppress(OSError, ValueError):
        if sys.stdin.isatty() and sys.stderr.isatty():
            return os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    return False


def require_terminal(
    args: argparse.Namespace,
    check: Callable[[], object] | None = None,
    instead: str = "take one census: `heaptop census PID --json`",
) -> None:
    """Raise UsageError where the live front end could not run; stdout may go anywhere, it is not used.

    What is wrong with the arguments is said before: ``check`` raises that, but for what all screens have. Where there
    is a terminal they are not looked at here: all of it would be loaded before the first frame. Nor is garbage
    collected until that is there: all that is imported for it stays."""
    if has_terminal():
        require_room()
        gc.disable()
        return
    _check_screen(args)
    if check is not None:
        check()
    raise UsageError(
        "The live screen needs a terminal, but stdin or stderr is not one.",
        fix=f"In a script or a pipe, {instead}.",
    )


def require_room() -> None:
    """Raise OutOfResources where a screen and a session could not continue to their end.

    Beyond this check memory may be refused anywhere, in Textual's and in Python's own code too: neither a hang nor a
    SIGSEGV could be ruled out there. What is asked for is what a session has at most, and some room.
    """
    opened: list[int] = []
    try:
        for _ in range(DESCRIPTORS):
            opened.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
        mmap.mmap(-1, ADDRESS_SPACE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=0).close()
    except OSError as error:
        if error.errno == errno.ENOMEM:
            raise OutOfResources(
                f"heaptop needs {ADDRESS_SPACE >> 20} MiB of address space, more than it may use.",
                why="The limit is `ulimit -v` (in KiB). Nothing was started.",
                fix="Raise it (`ulimit -v unlimited`) and run the command again.",
            ) from None
        raise OutOfResources(
            f"heaptop cannot open the {DESCRIPTORS} files that it needs: {error.strerror}.",
            why="The limit is `ulimit -n`. Nothing was started.",
            fix="Raise it (`ulimit -n 1024`) and run the command again.",
        ) from None
    finally:
        for number in opened:
            os.close(number)


def _check_screen(args: argparse.Namespace) -> None:
    """Raise what is wrong with the options that screens share, and cannot be found from their text alone."""
    from heaptop.recordings.writer import create
    from heaptop.tui.charts.palette import choose

    choose(args.theme, os.environ)
    if getattr(args, "record", None):
        create(args.record, force=args.force).give_up()


def has_terminal() -> bool:
    """Whether keys can be read and a screen be drawn: Textual reads stdin and draws on stderr, or a page does."""
    return is_served() or (sys.stdin.isatty() and sys.stderr.isatty())


def is_served() -> bool:
    """Whether this process draws for a page: textual-serve sets the driver."""
    return os.environ.get("TEXTUAL_DRIVER", "").startswith("textual.drivers.web_driver:")


def table(header: Sequence[str], rows: Sequence[Sequence[str]], *, left: frozenset[int]) -> list[str]:
    """Aligned lines, two blanks between columns; those in ``left`` are flush left, figures flush right."""
    widths = [max(len(line[column]) for line in (header, *rows)) for column in range(len(header))]
    return ["  ".join(_cells(line, widths, left)).rstrip() for line in (header, *rows)]


def stdout_columns() -> int | None:
    """The terminal's width when data goes to one; None for a pipe or a file, where nothing is cut."""
    return _columns(sys.stdout)


class ProgressLine(ProgressReport):
    """One line on stderr that is written over; nothing at all when stderr is not a terminal."""

    def __init__(self) -> None:
        self._shown = sys.stderr.isatty()

    def show(self, text: str) -> None:
        """Replace the line. What does not fit is cut: a carriage return would not reach the start of a wrapped line."""
        columns = _columns(sys.stderr)
        self._write(f"\r\x1b[K{text if columns is None else text[: columns - 1]}")

    def clear(self) -> None:
        """Leave the line empty, for what comes next."""
        self._write("\r\x1b[K")

    def notice(self, text: str) -> None:
        """One remark, as :func:`notice` prints it, on a line of its own."""
        self.clear()
        notice(text)

    def _write(self, text: str) -> None:
        if self._shown:
            with suppress(OSError):  # the terminal was closed, which a signal reports too
                print(text, end="", file=sys.stderr, flush=True)


def _cells(line: Sequence[str], widths: Sequence[int], left: frozenset[int]) -> list[str]:
    return [
        cell.ljust(width) if column in left else cell.rjust(width)
        for column, (cell, width) in enumerate(zip(line, widths, strict=True))
    ]


def _columns(stream: TextIO) -> int | None:
    try:
        return os.get_terminal_size(stream.fileno()).columns or None
    except OSError:
        return None


def _wrapped(text: str, columns: int | None) -> str:
    """Every line wrapped; as it is where nobody looks (a log is searched line by line)."""
    if columns is None:
        return text
    return "\n".join(_wrapped_line(line, min(columns, WIDEST)) for line in text.split("\n"))


def _wrapped_line(line: str, width: int) -> str:
    if line.startswith(" "):
        return line  # a table or a pointer at a word: wrapping would spoil it
    return fill(line, width, break_long_words=False, break_on_hyphens=False)
