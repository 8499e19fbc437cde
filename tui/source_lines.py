"""Lines of source code, as the target sees its files; nothing where they cannot be read.

This module never reads a value of the heap, and no file that is not a regular one of moderate size. Files are read
through the target's own root, for in a container the same name is another file here.
"""

from __future__ import annotations

import os
import stat
import tokenize
from functools import lru_cache
from pathlib import Path
from typing import Final

LARGEST: Final = 4 << 20
"""Bytes of a file; what is larger is not source that someone reads."""


class SourceLines:
    """Remembers the last files that were read."""

    def __init__(self, root: Path) -> None:
        """``root``: where the target's file system begins: ``/proc/PID/root``."""
        self._root = root
        self._lines = lru_cache(maxsize=64)(self._read)

    def line(self, file: str, number: int) -> str:
        """One line without its indentation, with nothing in it that a terminal would obey; empty where it cannot be
        read, and for names that are relative, as where they start from is not known."""
        if number < 1 or not file.startswith("/"):
            return ""
        lines = self._lines(file)
        return printable(lines[number - 1].strip()) if number <= len(lines) else ""

    def _read(self, file: str) -> tuple[str, ...]:
        path = self._root / file.lstrip("/")
        try:
            # Not blocking: a name may be a pipe's, which is seen only once it is open.
            number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
            with open(number, "rb") as source:
                about = os.fstat(number)
                if not stat.S_ISREG(about.st_mode) or about.st_size > LARGEST:
                    return ()
                encoding, _ = tokenize.detect_encoding(source.readline)
                source.seek(0)
                return tuple(source.read(LARGEST).decode(encoding, "replace").splitlines())
        except (OSError, SyntaxError, ValueError, LookupError):
            return ()


def printable(text: str) -> str:
    """The text with each character that is none to be seen replaced, and tabs by blanks."""
    return "".join(char if char.isprintable() else "�" for char in text.expandtabs(4))
