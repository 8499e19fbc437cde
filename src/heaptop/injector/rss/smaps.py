"""The mappings of a process with what of each is resident, as ``/proc/PID/smaps`` has them, and what each is for.

This module never reads a process: it takes the file's text (see proc(5)) and gives :class:`Vma` and kinds. What
only the memory itself shows (arenas, chunks, stacks) is :mod:`heaptop.injector.rss.residency`'s.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from heaptop.injector.inspect.proc import TooLarge

HEAD: Final = re.compile(r"([0-9a-f]+)-([0-9a-f]+) (\S{4}) ([0-9a-f]+) \S+ (\d+) *(.*)")
FIELDS: Final = {
    "Rss": "rss",
    "AnonHugePages": "huge",
    "ShmemPmdMapped": "huge",
    "FilePmdMapped": "huge",
    "Private_Hugetlb": "hugetlb",
    "Shared_Hugetlb": "hugetlb",
    "Swap": "swap",
}
"""The lines that count, and what they add to. Pages of hugetlbfs are in no RSS; they are their own figure."""

HEAP_ALIGNMENT: Final = 64 << 20
"""glibc ``malloc/arena.c``: the heaps of threads' arenas begin at multiples of HEAP_MAX_SIZE."""

SPARSE: Final = 64
LARGE: Final = 1 << 30
"""Sanitizers and some runtimes reserve terabytes in one mapping; to go through its page table would take forever."""

SHARED: Final = re.compile(r"/dev/shm/|/memfd:|/dev/zero|/SYSV|/i915|/anon_hugepage|\[anon_shmem")
"""Names of shared mappings that no disk has: POSIX and System V shared memory, memfd, shared anonymous."""

FILE, SHARED_MEMORY, HEAP, STACK, ANONYMOUS, KERNEL = "file", "shared", "heap", "stack", "anonymous", "kernel"
ARENA, CHUNK, OWN = "arena", "chunk", "own"


@dataclass(frozen=True, slots=True)
class Vma:
    """One mapping; all figures in bytes."""

    start: int
    end: int
    permissions: str
    inode: int
    name: str  # A path (with `(deleted)`, if so), `[heap]` and its like, or empty
    rss: int
    huge: int
    hugetlb: int
    swap: int

    @property
    def size(self) -> int:
        return self.end - self.start

    @property
    def writable(self) -> bool:
        return "w" in self.permissions

    @property
    def plain(self) -> bool:
        """Private, writable, and of no file."""
        return not self.inode and self.permissions.startswith("rw") and self.permissions[3] == "p"

    @property
    def searchable(self) -> bool:
        """Plain, and not so sparse that a search in it costs more than it finds."""
        return self.plain and self.rss > 0 and self.size <= max(LARGE, SPARSE * self.rss)


Sort = tuple[Vma, str, str]  # A mapping, its kind and its name


def parse(text: str | Iterable[str], most: int | None = None) -> list[Vma]:
    """The mappings, by address, of the file's text or its lines. Lines of a kernel newer than this module are skipped.

    Raises :class:`~heaptop.injector.inspect.proc.TooLarge` for more than ``most``.
    """
    found = []
    head: re.Match[str] | None = None
    sums = dict.fromkeys(FIELDS.values(), 0)
    for line in text.split("\n") if isinstance(text, str) else text:
        key, colon, value = line.partition(":")
        if colon and key in FIELDS:
            sums[FIELDS[key]] += int(value.split()[0]) << 10
        elif match := HEAD.fullmatch(line):
            if head is not None:
                found.append(_vma(head, sums))
                if len(found) == most:
                    raise TooLarge(f"more than {most} mappings")
            head, sums = match, dict.fromkeys(sums, 0)
    if head is not None:
        found.append(_vma(head, sums))
    return found


def _vma(head: re.Match[str], sums: dict[str, int]) -> Vma:
    start, end, permissions, _, inode, name = head.groups()
    return Vma(int(start, 16), int(end, 16), permissions, int(inode), name, **sums)


def classified(vmas: Sequence[Vma]) -> Iterator[Sort]:
    """Each mapping with its kind and a name for it.

    A program's zero-initialized data has no file to the kernel; it lies right behind the file's writable part.
    """
    file, end = "", 0
    for vma, after in zip(vmas, [*vmas[1:], None], strict=True):
        kind, name = _kind(vma)
        if kind == ANONYMOUS and vma.plain and not name:
            if file and vma.start == end:
                kind, name = FILE, file
            elif _is_thread_heap(vma, after):
                kind, name = HEAP, "threads"
        file, end = (name if kind == FILE and vma.inode and vma.writable else ""), vma.end
        yield vma, kind, name


def _kind(vma: Vma) -> tuple[str, str]:
    name = vma.name
    if name == "[heap]":
        return HEAP, "main"
    if name == "[stack]":
        return STACK, "main thread"
    if vma.permissions[3] == "s" and (not name or SHARED.match(name)):
        return SHARED_MEMORY, name.removesuffix(" (deleted)") or "anonymous"
    if name.startswith("[anon:"):
        return ANONYMOUS, name[6:-1]
    if name.startswith("["):
        return KERNEL, name
    return (FILE, name) if name else (ANONYMOUS, "")


def _is_thread_heap(vma: Vma, after: Vma | None) -> bool:
    """Whether a mapping is the used part of a heap of glibc's, whose unused part, not accessible, follows it."""
    if vma.start % HEAP_ALIGNMENT:
        return False
    if vma.end % HEAP_ALIGNMENT == 0:
        return True
    whole = -(-vma.end // HEAP_ALIGNMENT) * HEAP_ALIGNMENT
    return after is not None and after.start == vma.end and after.end >= whole and after.permissions == "---p"
