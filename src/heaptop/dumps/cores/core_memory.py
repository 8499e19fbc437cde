"""The memory of a core: what its file has, and what the files have that were mapped."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

from heaptop.dumps.cores.backing import HEAD, Backing
from heaptop.dumps.cores.elf_core import CoreFile, MappedFile
from heaptop.injector.entry.memory_copy import ZERO
from heaptop.injector.inspect.memory import LARGEST_READ, Mapping, RemoteFault

NOWHERE: Final = -1  # An address that no core has
WRITE, EXECUTE = 2, 1  # `p_flags`


@dataclass(frozen=True, slots=True)
class Piece:
    """A range of memory, and the open file that has it from ``offset`` on."""

    start: int
    end: int
    fd: int
    offset: int


class CoreMemory:
    """Reads as :class:`~heaptop.injector.inspect.memory.RemoteMemory` does, by address. It does not own ``fd``."""

    def __init__(self, core: CoreFile, fd: int, backing: Backing, zeros: int = -1) -> None:
        """``zeros``: /dev/zero, which is mapped for what a copy has as ZERO."""
        self.core = core
        stored = [
            Piece(each.start, each.start + each.stored, *((zeros, 0) if each.offset == ZERO else (fd, each.offset)))
            for each in core.segments
            if each.stored
        ]
        self._set(stored)
        """At first only what the core itself has, by which files of another build are recognised."""
        starts = {each.path: each.start for each in core.files if each.offset == 0}
        mains = {each.path for each in core.files if each.start <= core.entry < each.end}
        programs = {each.path for each, flags in self._mapped() if (flags or 0) & EXECUTE}
        absent: list[Piece] = []
        ends = [piece.end for piece in stored]
        for each in core.files:
            head = partial(self._head, starts.get(each.path, NOWHERE))
            found = backing.find(each.path, head, is_main=each.path in mains, is_program=each.path in programs)
            if found >= 0:
                absent += _without(each, found, stored, ends)
        self._set(sorted([*stored, *absent], key=lambda piece: piece.start))

    def _set(self, pieces: list[Piece]) -> None:
        self.pieces = pieces  # Ascending, without overlaps
        self._starts = [piece.start for piece in pieces]

    def _head(self, start: int) -> bytes:
        try:
            return self.read(start, HEAD)
        except RemoteFault:
            return b""

    def read(self, address: int, size: int) -> bytes:
        """Raises RemoteFault for what neither the core nor a file has."""
        if not 0 <= size <= LARGEST_READ:
            raise RemoteFault(f"{size} bytes at {address:#x}: implausibly many")
        found = b""
        while len(found) < size:
            at = address + len(found)
            number = bisect_right(self._starts, at) - 1
            piece = self.pieces[number] if number >= 0 else None
            if piece is None or at >= piece.end:
                raise RemoteFault(f"{size} bytes at {address:#x}: not in the core file")
            data = os.pread(piece.fd, min(size - len(found), piece.end - at), piece.offset + at - piece.start)
            if not data:
                raise RemoteFault(f"{size} bytes at {address:#x}: the file ends before")
            found += data
        return found

    def u32(self, address: int) -> int:
        return int.from_bytes(self.read(address, 4), "little")

    def u64(self, address: int) -> int:
        return int.from_bytes(self.read(address, 8), "little")

    def mappings(self) -> list[Mapping]:
        """The mapped files, as ``/proc/PID/maps`` would have them."""
        found = []
        for each, known in self._mapped():
            flags = EXECUTE if known is None else known
            text = "r" + ("w" if flags & WRITE else "-") + ("x" if flags & EXECUTE else "-") + "p"
            found.append(Mapping(each.start, each.end, text, each.offset, "", 0, each.path))
        return found

    def _mapped(self) -> Iterator[tuple[MappedFile, int | None]]:
        """Each, and ``p_flags`` of the segment that it is in; None where it has none: gdb leaves some out."""
        starts = [segment.start for segment in self.core.segments]
        for each in self.core.files:
            number = bisect_right(starts, each.start) - 1
            segment = self.core.segments[number] if number >= 0 else None
            yield each, segment.flags if segment is not None and each.start < segment.end else None


def _without(mapped: MappedFile, fd: int, stored: list[Piece], ends: list[int]) -> Iterator[Piece]:
    """The parts of a mapped file that the core does not have, and the file does."""
    end = min(mapped.end, mapped.start + max(0, os.fstat(fd).st_size + 4095 & ~4095) - mapped.offset)
    at = mapped.start
    for number in range(bisect_right(ends, at), len(stored)):
        piece = stored[number]
        if piece.start >= end:
            break
        if piece.start > at:
            yield Piece(at, piece.start, fd, mapped.offset + at - mapped.start)
        at = max(at, piece.end)
    if at < end:
        yield Piece(at, end, fd, mapped.offset + at - mapped.start)
