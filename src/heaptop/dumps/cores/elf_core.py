"""A core file as ELF: its memory, its notes, and the files that were mapped. Every number in it may be any number.

Structures: System V ABI, chapter 5; ``linux/elfcore.h`` (x86-64), and ``fs/binfmt_elf.c`` for NT_FILE. The kernel
writes memory at page boundaries of the file; gdb's gcore does not.
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from heaptop.errors import DumpDamaged, HeaptopError, ImageLost, NotADump
from heaptop.injector.inspect.elf import ELFCLASS64, EM_X86_64, PT_LOAD, SEGMENT_SIZE, machine_name
from heaptop.protocol.text import printable

ET_CORE: Final = 4
PT_NOTE: Final = 4
NT_PRPSINFO: Final = 3
NT_AUXV: Final = 6
NT_FILE: Final = 0x46494C45
AT_ENTRY: Final = 9
PAGE: Final = 4096
HIGHEST: Final = 1 << 47  # End of the addresses that programs have; the page of system calls above is none of theirs
MANY_SEGMENTS: Final = 0xFFFF  # `e_phnum` where the number is in the first section header instead (PN_XNUM)
MOST_SEGMENTS: Final = 1 << 18  # The kernel allows 65,530 mappings by default (vm.max_map_count)
MOST_NOTES: Final = 64 << 20
"""Bytes of all notes: some 5 KiB a thread, and the names of files (4 MiB at most, fs/binfmt_elf.c)."""
WANTED: Final = frozenset((NT_PRPSINFO, NT_AUXV, NT_FILE))
LARGEST_AUXV: Final = 1 << 12  # Bytes: the kernel writes some 24 pairs of 16
FURTHEST: Final = 1 << 62  # Of an offset in a file
LONGEST_NAME: Final = 1 << 12

_HEADER: Final = struct.Struct("<16sHHIQQQIHHHHHH")
_SEGMENT: Final = struct.Struct("<IIQQQQQQ")
_NOTE: Final = struct.Struct("<III")
_PROCESS: Final = struct.Struct("<24xI28x80s")  # `struct elf_prpsinfo`: the pid, and the arguments
_FILE: Final = struct.Struct("<QQQ")


@dataclass(frozen=True, slots=True)
class CoreSegment:
    """A range of the process's memory, and what the file has of it: the first ``stored`` bytes, from ``offset`` on."""

    start: int
    end: int
    flags: int
    offset: int
    stored: int


@dataclass(frozen=True, slots=True)
class MappedFile:
    """A part of a file that was mapped."""

    start: int
    end: int
    offset: int
    path: str


@dataclass(frozen=True, slots=True)
class CoreFile:
    """What a core file says of itself."""

    path: str
    size: int
    wall: float  # When it was written, in seconds since 1970
    segments: tuple[CoreSegment, ...]  # Ascending, without overlaps
    files: tuple[MappedFile, ...]  # Likewise
    pid: int
    command: str
    entry: int  # Address at which the program began: in its main executable. 0: not known.
    missing: int
    """Bytes that the file should have and does not, because it was cut; of a copy, those that could not be read."""
    is_copy: bool = False  # There is no file: it is the memory of a process that was copied while that stood still

    @property
    def name(self) -> str:
        """What it is called in a sentence."""
        return f"copy of process {self.pid}" if self.is_copy else f"core file {self.path}"

    def damaged(self, how: str) -> HeaptopError:
        """The error where its heap is not one, as far as that can be known."""
        if not self.is_copy:
            return damaged(self.path, how)
        return ImageLost(
            f"The {self.name} cannot be counted: {how}.",
            why="It was stopped while its heap was being changed, or one of its threads in C code changed the heap. "
            "The process continues.",
            fix="Retry: at another moment its heap is consistent.",
        )


def begins_as_core(path: str) -> bool:
    """Whether a regular file of that name is there, and is an ELF core."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return False
        with open(path, "rb") as file:
            head = file.read(18)
    except (OSError, ValueError):
        return False
    return head[:4] == b"\x7fELF" and len(head) == 18 and head[16] == ET_CORE and head[17] == 0


def read_core(fd: int, path: str) -> CoreFile:
    """What the open file is. Errors: NotADump, DumpDamaged."""
    status = os.fstat(fd)
    header = os.pread(fd, _HEADER.size, 0)
    if len(header) < _HEADER.size or header[:4] != b"\x7fELF":
        raise NotADump(f"{path} is not a core file.", why="It does not begin as a core file does.", fix=None)
    ident, kind, machine, _, _, table, sections, _, _, size, count, _, _, _ = _HEADER.unpack(header)
    if kind != ET_CORE or ident[4] != ELFCLASS64 or ident[5] != 1 or machine != EM_X86_64:
        raise NotADump(
            f"{path} is not a core file of a 64-bit x86-64 process.",
            why=f"It is an ELF file of type {kind} for {machine_name(machine)}.",
            fix="Read it on a machine of that kind with a debugger.",
        )
    if count == MANY_SEGMENTS:
        first = os.pread(fd, 4, sections + 44) if sections < FURTHEST else b""
        count = int.from_bytes(first, "little")  # sh_info of the first section header
    if size != SEGMENT_SIZE or not 0 < count <= MOST_SEGMENTS:
        raise damaged(path, f"it claims {count:,} segments")
    raw = os.pread(fd, count * size, table) if table < FURTHEST else b""
    if len(raw) < count * size:
        raise damaged(path, "it is cut before its table of memory ends")
    segments, notes, missing = _segments(path, raw, status.st_size)
    said = _notes(fd, path, notes)
    pid, command = _process(said.get(NT_PRPSINFO, b""))
    return CoreFile(
        path=path,
        size=status.st_size,
        wall=max(status.st_mtime, 0.0),
        segments=segments,
        files=_files(path, said.get(NT_FILE, b"")),
        pid=pid,
        command=command,
        entry=entry_in(said.get(NT_AUXV, b"")),
        missing=missing,
    )


def damaged(path: str, how: str) -> DumpDamaged:
    return DumpDamaged(
        f"The core file {path} is damaged: {how}.",
        why="It was cut or changed: a full disk and `ulimit -c` cut core files.",
        fix="Write another: `gcore -o core PID`.",
    )


def entry_in(note: bytes) -> int:
    """Where the program began, by its auxiliary vector; 0 where that does not say."""
    size = min(len(note), LARGEST_AUXV) // 16 * 16
    said: dict[int, int] = dict(struct.iter_unpack("<QQ", note[:size]))
    return said.get(AT_ENTRY, 0)


def _segments(path: str, raw: bytes, size: int) -> tuple[tuple[CoreSegment, ...], list[tuple[int, int]], int]:
    """Of memory, those of notes as (offset, size), and how many bytes are not there."""
    found: list[CoreSegment] = []
    notes: list[tuple[int, int]] = []
    missing = 0
    for kind, flags, offset, start, _, stored, length, _ in _SEGMENT.iter_unpack(raw):
        if kind == PT_NOTE:
            notes.append((offset, stored))
        if kind != PT_LOAD or start >= HIGHEST or not length:
            continue
        end = start + length
        if start % PAGE or length % PAGE or stored > length or stored % PAGE or end > HIGHEST:
            raise damaged(path, f"its memory at {start:#x} cannot be what it says")
        there = min(stored, max(0, size - offset)) // PAGE * PAGE
        missing += stored - there
        found.append(CoreSegment(start, end, flags, offset, there))
    found.sort(key=lambda segment: segment.start)
    for before, segment in pairwise(found):
        if before.end > segment.start:
            raise damaged(path, f"its memory at {segment.start:#x} is there twice")
    return tuple(found), notes, missing


def _notes(fd: int, path: str, places: list[tuple[int, int]]) -> dict[int, bytes]:
    """The first note of each wanted kind of the kernel's."""
    found: dict[int, bytes] = {}
    total = sum(size for _, size in places)
    if total > MOST_NOTES or any(offset >= FURTHEST for offset, _ in places):
        raise damaged(path, f"it claims {total:,} bytes of notes")
    for offset, size in places:
        data = os.pread(fd, size, offset)
        at = 0
        while at + _NOTE.size <= len(data):
            name_size, length, kind = _NOTE.unpack_from(data, at)
            name_at = at + _NOTE.size
            content = name_at + (name_size + 3 & ~3)
            is_kernels = data[name_at : name_at + name_size].rstrip(b"\0") == b"CORE"
            if kind in WANTED and is_kernels and content + length <= len(data):
                found.setdefault(kind, data[content : content + length])
            at = content + (length + 3 & ~3)
    return found


def _process(note: bytes) -> tuple[int, str]:
    """The pid and the command; 0 and nothing where they are not told."""
    if len(note) < _PROCESS.size:
        return 0, ""
    pid, arguments = _PROCESS.unpack_from(note)
    words = arguments.split(b"\0")[0].decode("utf-8", "replace").strip()
    return (pid if pid < 1 << 31 else 0), printable(words, 80)


def _files(path: str, note: bytes) -> tuple[MappedFile, ...]:
    found = sorted(_each_file(path, note), key=lambda each: each.start)
    for before, each in pairwise(found):
        if before.end > each.start:
            raise damaged(path, f"two files are mapped at {each.start:#x}")
    return tuple(found)


def _each_file(path: str, note: bytes) -> Iterator[MappedFile]:
    if len(note) < 16:
        return
    count, unit = struct.unpack_from("<QQ", note)
    names_at = 16 + count * _FILE.size
    if count > MOST_SEGMENTS or names_at > len(note) or unit not in (1, PAGE):
        raise damaged(path, f"it claims {count:,} mapped files")
    names = note[names_at:].split(b"\0", count)
    for number in range(count):
        start, end, offset = _FILE.unpack_from(note, 16 + number * _FILE.size)
        is_whole = number < len(names) and len(names[number]) < LONGEST_NAME
        if start % PAGE or end % PAGE or not start < end <= HIGHEST or offset > FURTHEST // unit or not is_whole:
            raise damaged(path, f"its file mapped at {start:#x} cannot be what it says")
        yield MappedFile(start, end, offset * unit, os.fsdecode(names[number]))
