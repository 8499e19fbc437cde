"""Names of functions by their place in a library's file: from its symbol tables, whole or that of the linker.

The file may hold anything, so sizes are bounded, and what does not fit is no name. Debug information is not read.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import BinaryIO, Final

from heaptop.injector.inspect.target_files import opened

HEADER: Final = struct.Struct("<16x2HI3QI6H")
SECTION: Final = struct.Struct("<2I4Q2I2Q")
SYMBOL: Final = struct.Struct("<IBBHQQ")
SYMTAB, DYNSYM, FUNCTIONS = 2, 11, (2, 10)
"""Types of sections, and of symbols: functions, and those that the linker chooses among (IFUNC)."""
MOST_SECTIONS: Final = 1 << 12
LARGEST: Final = 64 << 20
"""Bytes of one table."""


@dataclass(frozen=True, slots=True)
class Symbols:
    """The functions of a file, by address."""

    starts: tuple[int, ...]
    functions: tuple[tuple[int, str], ...]
    """Size and name of each."""

    @classmethod
    def of(cls, path: str) -> Symbols:
        """None of a file that cannot be read, or is no ELF file of 64 bits."""
        return _read(path)

    def name(self, address: int) -> str:
        """The function that has this address; empty when it is not known."""
        at = bisect_right(self.starts, address) - 1
        if at < 0:
            return ""
        size, name = self.functions[at]
        return name if address < self.starts[at] + size else ""


@cache
def _read(path: str) -> Symbols:
    try:
        with opened(path) as file:
            found = dict(_functions(file))
    except (OSError, ValueError, struct.error):
        found = {}
    starts = tuple(sorted(found))
    return Symbols(starts, tuple(found[start] for start in starts))


def _functions(file: BinaryIO) -> Iterator[tuple[int, tuple[int, str]]]:
    head = HEADER.unpack(_bytes(file, 0, HEADER.size))
    at, size, number = head[5], head[10], head[11]
    if size != SECTION.size or number > MOST_SECTIONS:
        raise ValueError
    sections = list(SECTION.iter_unpack(_bytes(file, at, size * number)))
    for kind in (DYNSYM, SYMTAB):  # the names of the latter replace those of the former
        for section in sections:
            if section[1] == kind and section[6] < number:
                texts = sections[section[6]]
                yield from _named(_bytes(file, section[4], section[5]), _bytes(file, texts[4], texts[5]))


def _named(symbols: bytes, texts: bytes) -> Iterator[tuple[int, tuple[int, str]]]:
    for name, info, _, section, value, size in SYMBOL.iter_unpack(symbols[: len(symbols) // SYMBOL.size * SYMBOL.size]):
        if info & 15 in FUNCTIONS and section and size:
            end = texts.find(b"\0", name)
            yield value, (size, texts[name:end].decode("utf-8", "replace"))


def _bytes(file: BinaryIO, at: int, size: int) -> bytes:
    if size > LARGEST:
        raise ValueError
    file.seek(at)
    return file.read(size)
