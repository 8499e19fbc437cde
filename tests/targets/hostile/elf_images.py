"""ELF files that were made to exhaust whoever reads their symbols in memory: each says that it is a shared library.

:func:`make` writes them all into a folder, where ``elf_images.c`` maps them. What a header says is packed by hand.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

PAGE: Final = 4096
LARGEST: Final = (1 << 64) - 1
PT_LOAD, PT_DYNAMIC = 1, 2
HASH, STRTAB, SYMTAB, STRSZ, GNU_HASH, VERSYM, VERNEED, VERNEEDNUM = (
    4, 5, 6, 10, 0x6FFFFEF5, 0x6FFFFFF0, 0x6FFFFFFE, 0x6FFFFFFF,
)  # fmt: skip
WANTED: Final = b"PyRun_SimpleString"
"""What heaptop asks every image for."""
Segment = tuple[int, int, int]
"""Kind, address and length."""
Tag = tuple[int, int]


def header(segments: int, size: int = 56, *, table: int = 64, machine: int = 62, elf_class: int = 2) -> bytes:
    ident = b"\x7fELF" + bytes([elf_class, 1, 1]) + bytes(9)
    return ident + struct.pack("<HHIQQQIHHHHHH", 3, machine, 1, 0, table, 0, 0, 64, size, segments, 0, 0, 0)


def image(segments: Sequence[Segment], *parts: tuple[int, bytes]) -> bytes:
    """A header, segments behind it, and parts at their addresses, which are offsets too."""
    packed = b"".join(struct.pack("<IIQQQQQQ", kind, 5, at, at, at, size, size, PAGE) for kind, at, size in segments)
    whole = bytearray(header(len(segments)) + packed)
    for at, content in parts:
        whole.extend(bytes(max(0, at + len(content) - len(whole))))
        whole[at : at + len(content)] = content
    return bytes(whole)


def library(tags: Sequence[Tag], *parts: tuple[int, bytes]) -> bytes:
    """An image of these tags, whose addresses are offsets."""
    dynamic = b"".join(
        struct.pack("<qQ", tag - (1 << 64) if tag >> 63 else tag, value) for tag, value in [*tags, (0, 0)]
    )
    return image([(PT_LOAD, 0, PAGE), (PT_DYNAMIC, PAGE, len(dynamic))], (PAGE, dynamic), *parts)


def gnu_hash(name: bytes) -> int:
    value = 5381
    for byte in name:
        value = (value * 33 + byte) & 0xFFFFFFFF
    return value


def _sysv(nchain: int, chain: Sequence[int]) -> bytes:
    """One bucket that leads to a chain."""
    table = struct.pack("<III", 1, nchain, 1) + struct.pack(f"<{len(chain)}I", *chain)
    symbols = struct.pack("<IBBHQQ", 0, 18, 0, 1, PAGE, 8) * 64
    return library([(HASH, 16 * PAGE), (STRTAB, 2 * PAGE), (SYMTAB, 3 * PAGE)], (3 * PAGE, symbols), (16 * PAGE, table))


def _gnu(entry: int, number: int) -> bytes:
    """One bucket whose chain has this entry again and again."""
    table = struct.pack("<IIIIQI", 1, 1, 1, 6, LARGEST, 1) + struct.pack("<I", entry) * number
    tags = [(GNU_HASH, 16 * PAGE), (STRTAB, 2 * PAGE), (SYMTAB, 3 * PAGE)]
    symbols = struct.pack("<IBBHQQ", 0, 18, 0, 1, PAGE, 8) * 64
    return library(tags, (3 * PAGE, symbols), (16 * PAGE, table))


def _distinct_tags(number: int) -> bytes:
    """As many tags, none like another: a table of them takes seven times the file's size."""
    dynamic = b"".join(struct.pack("<qQ", tag, tag) for tag in range(1, number + 1))
    return image([(PT_LOAD, 0, PAGE), (PT_DYNAMIC, PAGE, len(dynamic))], (PAGE, dynamic))


_STRINGS: Final = (STRTAB, 2 * PAGE), (SYMTAB, 3 * PAGE)
_MAKERS: Final[dict[str, Callable[[], bytes]]] = {
    "distinct tags": lambda: _distinct_tags(1 << 18),
    "one tag": lambda: library([(HASH, 1)] * (1 << 16)),
    "many chains": lambda: _sysv(0xFFFFFFFF, [*range(2, 1 << 16)]),
    "circle": lambda: _sysv(0xFFFFFFFF, [0, 1]),
    "outside": lambda: _sysv(0xFFFFFFFF, [0, 0xFFFFFFF0]),
    "no buckets": lambda: library([(HASH, 16 * PAGE), *_STRINGS], (16 * PAGE, bytes(64))),
    "huge buckets": lambda: library([(HASH, 16 * PAGE), *_STRINGS], (16 * PAGE, b"\xff" * 64)),
    "endless": lambda: _gnu(2, 1 << 16),
    "alike": lambda: _gnu(gnu_hash(WANTED) & ~1, 1 << 16),
    "huge bloom": lambda: library([(GNU_HASH, 16 * PAGE), *_STRINGS], (16 * PAGE, b"\xff" * PAGE)),
    "string size": lambda: library([(STRSZ, 1 << 63), (STRTAB, 1 << 63), (SYMTAB, LARGEST), (GNU_HASH, 1 << 63)]),
    "versions": lambda: library([(VERSYM, PAGE), (VERNEED, PAGE), (VERNEEDNUM, 1 << 40), (HASH, PAGE), *_STRINGS]),
    "loads": lambda: image([(PT_LOAD, 0, 1 << 62)] * 0xFFFE + [(PT_DYNAMIC, PAGE, 1 << 62)]),
    "dynamics": lambda: image([(PT_DYNAMIC, PAGE, 1 << 25)] * 0xFFFF),
    "overlapping": lambda: image([(PT_LOAD, LARGEST - PAGE + 1, LARGEST), (PT_LOAD, 0, 1), (PT_DYNAMIC, 0, 1 << 40)]),
    "no size": lambda: header(0xFFFF, 0) + bytes(PAGE),
    "large entries": lambda: header(0xFFFF, 0xFFFF) + bytes(PAGE),
    "far table": lambda: header(8, table=LARGEST) + bytes(PAGE),
    "header alone": lambda: header(1),
    "other machine": lambda: header(0xFFFF, machine=0xFFFF, elf_class=1) + bytes(PAGE),
}  # fmt: skip
KINDS: Final = tuple(_MAKERS)


def make(folder: Path, *, again: int = 6, headers: int = 2000) -> None:
    """Write one of each kind, that of many tags so often, and so many names of one that is but a header."""
    for kind in KINDS:
        content = _MAKERS[kind]()
        (folder / kind).write_bytes(content + bytes(-len(content) % PAGE))
    for number in range(1, again):
        os.link(folder / "distinct tags", folder / f"distinct tags {number}")
    for number in range(headers):
        os.link(folder / "header alone", folder / f"header {number}")
