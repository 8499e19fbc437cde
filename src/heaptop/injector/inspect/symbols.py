"""Names of functions by their place in a library's file: from its symbol tables, whole or that of the linker.

A hostile target names the file, and the file may hold anything: a child process reads it, for a limited time. Sizes
are bounded, and what does not fit is no name. Debug information is not read.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import BinaryIO, Final

from heaptop.errors import HeaptopError
from heaptop.injector.inspect import proc, target_files

HEADER: Final = struct.Struct("<16x2HI3QI6H")
SECTION: Final = struct.Struct("<2I4Q2I2Q")
SYMBOL: Final = struct.Struct("<IBBHQQ")
SYMTAB, DYNSYM, FUNCTIONS = 2, 11, (2, 10)
"""Types of sections, and of symbols: functions, and those that the linker chooses among (IFUNC)."""
MOST_SECTIONS: Final = 1 << 12
LARGEST: Final = 16 << 20  # Bytes of one table
LONGEST_NAME: Final = 4096
PATIENCE: Final = 2.0  # Seconds for one file


def names(pid: int, path: str, addresses: Iterable[int]) -> Mapping[int, str]:
    """The functions of a file that have these addresses, as far as they are known.

    ``pid``: the process that knows the file by this path, with its root and its user's rights; 0 for heaptop itself.
    """
    try:
        return _read(pid, path, tuple(sorted(set(addresses)))) if path.startswith("/") else {}
    except (OSError, HeaptopError):
        return {}  # not kept: the next reading may find it


@lru_cache(64)
def _read(pid: int, path: str, addresses: tuple[int, ...]) -> Mapping[int, str]:
    return proc.within(PATIENCE, lambda: _read_here(pid, path, addresses), ("symbols", pid))


def _read_here(pid: int, path: str, addresses: tuple[int, ...]) -> Mapping[int, str]:
    """None of what is no ELF file of 64 bits. Raises OSError and HeaptopError where it cannot be read."""
    found: dict[int, str] = {}
    with target_files.opened_as_known(pid, path) if pid else target_files.opened(path) as file:
        try:
            for symbols, texts in _tables(file):
                found.update(_named(symbols, texts, addresses))
        except (ValueError, IndexError, OverflowError, struct.error):
            pass  # what was found before is as good
    return found


def _tables(file: BinaryIO) -> Iterator[tuple[bytes, bytes]]:
    """The linker's symbols, then all of them, each with the bytes of their names."""
    head = HEADER.unpack(_bytes(file, 0, HEADER.size))
    at, size, number = head[5], head[10], head[11]
    if size != SECTION.size or number > MOST_SECTIONS:
        raise ValueError
    sections = list(SECTION.iter_unpack(_bytes(file, at, size * number)))
    for kind in (DYNSYM, SYMTAB):
        section = next((each for each in sections if each[1] == kind), None)  # the format allows one
        if section is not None:
            texts = sections[section[6]]
            yield _bytes(file, section[4], section[5]), _bytes(file, texts[4], texts[5])


def _named(symbols: bytes, texts: bytes, addresses: Sequence[int]) -> Iterator[tuple[int, str]]:
    before = [(-1, 0, 0)] * len(addresses)
    """Start, size and name of the last function that begins at each or before it, but behind the address before it."""
    for name, info, _, section, start, size in SYMBOL.iter_unpack(symbols[: len(symbols) // SYMBOL.size * SYMBOL.size]):
        if info & 15 in FUNCTIONS and section and size:
            at = bisect_left(addresses, start)
            if at < len(addresses) and start >= before[at][0]:
                before[at] = (start, size, name)
    for address, (start, size, name) in zip(addresses, accumulate(before, max), strict=True):
        end = texts.find(b"\0", name, name + LONGEST_NAME)
        if start <= address < start + size and end >= 0:
            yield address, texts[name:end].decode("utf-8", "replace")


def _bytes(file: BinaryIO, at: int, size: int) -> bytes:
    if size > LARGEST:
        raise ValueError
    file.seek(at)
    return file.read(size)
