"""Where in a TOML document each value is written: ``tomllib`` tells what a document says, and not on which line.

This module never judges a document: it is given what ``tomllib`` has already read without an error.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

Path = tuple["str | int", ...]
"""Names of tables and keys from the outside in; of an array, and of an array of tables, the number of the item."""

_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")
_BLANK: Final = re.compile(r"[ \t]*")
_BETWEEN: Final = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_STRINGS: Final = (
    re.compile(r'"{3}(?:[^"\\]|\\.|"{1,2}(?!"))*"{3,5}', re.DOTALL),
    re.compile(r"'{3}(?:[^']|'{1,2}(?!'))*'{3,5}"),
    re.compile(r'"(?:[^"\\\n]|\\.)*"'),
    re.compile(r"'[^'\n]*'"),
)
_WORD: Final = re.compile(r"[^\s,\]}#]+(?: \d[^\s,\]}#]*)?")
"""A number, a truth value, or a time; a date and its time of day may have a blank between them."""


class Place(NamedTuple):
    """From 1."""

    line: int
    column: int


def places(text: str) -> dict[Path, Place]:
    """Where each key of a valid document stands, and each item of an array; of a table, its first heading or key."""
    return _Scan(text.replace("\r\n", "\n")).document()


class _Scan:
    """One walk through the text: ``at`` is where it has come to."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.found: dict[Path, int] = {}
        self.tables: dict[Path, int] = {}
        """Of each array of tables, how many were begun."""

    def document(self) -> dict[Path, Place]:
        table: Path = ()
        while self._skip(_BETWEEN) < len(self.text):
            if self.text[self.at] == "[":
                table = self._heading()
            else:
                self._pair(table)
        return {path: self._place(at) for path, at in self.found.items()}

    def _place(self, at: int) -> Place:
        return Place(self.text.count("\n", 0, at) + 1, at - self.text.rfind("\n", 0, at))

    def _skip(self, what: re.Pattern[str]) -> int:
        found = what.match(self.text, self.at)
        self.at = found.end() if found else self.at
        return self.at

    def _note(self, path: Path, at: int) -> None:
        for length in range(1, len(path) + 1):
            self.found.setdefault(path[:length], at)

    def _heading(self) -> Path:
        begin, array = self.at, self.text.startswith("[[", self.at)
        self.at += 2 if array else 1
        path: Path = ()
        names = self._names()
        for name in names[:-1]:
            path = self._last_of((*path, name))
        path = (*path, names[-1])
        if array:
            self.tables[path] = self.tables.get(path, 0) + 1
            path = self._last_of(path)
        self.at += 2 if array else 1
        self._note(path, begin)
        return path

    def _last_of(self, path: Path) -> Path:
        """A name in a heading means the table of an array that was begun last."""
        return (*path, self.tables[path] - 1) if path in self.tables else path

    def _names(self) -> list[str]:
        """A key with its dots; ``at`` is behind it, and behind the blanks there."""
        names = []
        while True:
            self._skip(_BLANK)
            begin = self.at
            if self.text[begin] in "\"'":
                self._string()
                names.append(_unquoted(self.text[begin : self.at]))
            else:
                self._skip(_BARE)
                names.append(self.text[begin : self.at])
            self._skip(_BLANK)
            if not self.text.startswith(".", self.at):
                return names
            self.at += 1

    def _pair(self, table: Path) -> None:
        begin = self.at
        path = (*table, *self._names())
        self._note(path, begin)
        self.at += 1  # the sign
        self._skip(_BLANK)
        self._value(path)

    def _value(self, path: Path) -> None:
        first = self.text[self.at]
        if first == "[":
            self._items(path)
        elif first == "{":
            self._inline(path)
        elif first in "\"'":
            self._string()
        else:
            self._skip(_WORD)

    def _items(self, path: Path) -> None:
        self.at += 1
        number = 0
        while self.text[self._skip(_BETWEEN)] != "]":
            if self.text[self.at] == ",":
                self.at += 1
                continue
            self._note((*path, number), self.at)
            self._value((*path, number))
            number += 1
        self.at += 1

    def _inline(self, path: Path) -> None:
        self.at += 1
        while self.text[self._skip(_BETWEEN)] != "}":
            if self.text[self.at] == ",":
                self.at += 1
            else:
                self._pair(path)
        self.at += 1

    def _string(self) -> None:
        for kind in _STRINGS:
            found = kind.match(self.text, self.at)
            if found is not None:
                self.at = found.end()
                return


_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)")
_SHORT: Final = {"b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r", "e": "\x1b"}


def _unquoted(name: str) -> str:
    """What a quoted name stands for."""
    if name[0] == "'":
        return name[1:-1]

    def meant(escape: re.Match[str]) -> str:
        code = escape[1]
        return chr(int(code[1:], 16)) if code[0] in "uU" else _SHORT.get(code, code)

    return _ESCAPE.sub(meant, name[1:-1])
