"""Lines of source code, as the target sees its files; nothing where they cannot be read.

This module opens no file: whoever makes it gives it the function that reads one of the target's.
"""

from __future__ import annotations

import io
import tokenize
from collections.abc import Callable
from functools import lru_cache

from heaptop.protocol.text import printable


class SourceLines:
    """Remembers the last files that were read."""

    def __init__(self, read: Callable[[str], bytes]) -> None:
        """``read`` gives a file's content by its absolute path, empty where it cannot be read."""
        self._content = read
        self._lines = lru_cache(maxsize=64)(self._read)

    def line(self, file: str, number: int) -> str:
        """One line without its indentation, with nothing in it that a terminal would obey; empty where it cannot be
        read, and for names that are relative, as where they start from is not known."""
        if number < 1 or not file.startswith("/"):
            return ""
        lines = self._lines(file)
        return printable(lines[number - 1].strip().expandtabs(4)) if number <= len(lines) else ""

    def _read(self, file: str) -> tuple[str, ...]:
        content = self._content(file)
        try:
            encoding, _ = tokenize.detect_encoding(io.BytesIO(content).readline)
            return tuple(content.decode(encoding, "replace").splitlines())
        except (SyntaxError, ValueError, LookupError):
            return ()
