"""Where a program's zero-initialized data (.bss) ends: it is anonymous memory, and the kernel joins to it whatever is
mapped right behind it, an arena or a large chunk of malloc's.

    first mapping          data of the file      anonymous
    ├ ELF header … code … ─┤─ .data ─────────────┤─ .bss ──┼─ anything ─┤
                                                  p_vaddr + p_memsz of the last PT_LOAD, up to the next page

This module reads the headers that are mapped (System V ABI, chapter 5), never a file, and never an absent page.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from heaptop.injector.inspect.elf import ELFCLASS64, PT_LOAD
from heaptop.injector.inspect.memory import RemoteFault
from heaptop.injector.rss.residency import PAGE, ResidentMemory
from heaptop.injector.rss.smaps import FILE, Vma

HEADER = struct.Struct("<4sB11xHHIQQQIHHH")  # Elf64_Ehdr up to e_phnum
SEGMENT = struct.Struct("<IIQQQQQQ")
MOST_SEGMENTS = 64


def ends(memory: ResidentMemory, sorts: Sequence[tuple[Vma, str, str]]) -> dict[int, int]:
    """By the start of each anonymous mapping that follows a file's data: where its zeros end; unknown ones left out."""
    found = {}
    base, before = 0, ""
    for vma, kind, name in sorts:
        if kind != FILE:
            continue
        if vma.inode and name != before:
            base, before = vma.start, name
        elif not vma.inode and name == before:
            end = data_end(memory, base)
            if end is not None:
                found[vma.start] = min(max(end, vma.start), vma.end)
    return found


def data_end(memory: ResidentMemory, base: int) -> int | None:
    """The end of the image whose ELF header is at ``base``; None when there is none, or it is not resident."""
    try:
        magic, width, _, _, _, _, table, _, _, _, size, count = HEADER.unpack(memory.read(base, HEADER.size))
        if magic != b"\x7fELF" or width != ELFCLASS64 or size != SEGMENT.size or count > MOST_SEGMENTS:
            return None
        segments = list(SEGMENT.iter_unpack(memory.read(base + table, size * count)))
    except RemoteFault:
        return None
    loaded = [(address, length) for kind, _, _, address, _, _, length, _ in segments if kind == PT_LOAD]
    if not loaded:
        return None
    bias = base - min(address for address, _ in loaded) // PAGE * PAGE
    last: int = bias + max(address + length for address, length in loaded)
    return -(-last // PAGE) * PAGE
