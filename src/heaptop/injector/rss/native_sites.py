"""Where native memory was allocated, read from outside: the table of a program that ``heaptop run --native`` started.

Only what the program has written of it is read: no page of it comes into its memory by that.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from heaptop.injector.inspect.memory import RemoteMemory
from heaptop.injector.preload.malloc_table import MAPPED, SIZE, executable, read_sites
from heaptop.injector.rss.residency import PageTable
from heaptop.injector.rss.smaps import LARGE, Vma
from heaptop.protocol.messages import MallocSites

MOST_SITES = 200


class ResidentRanges:
    """What of a range of addresses is resident: of whole mappings as smaps has it, of their parts by the page table."""

    def __init__(self, pages: PageTable, vmas: Sequence[Vma]) -> None:
        self._pages, self._vmas = pages, vmas
        self._ends = [vma.end for vma in vmas]
        plain = [vma for vma in vmas if vma.searchable]
        self._bit = pages.bit_of_memory([(vma.start, vma.end) for vma in plain], sum(vma.rss for vma in plain))

    def __call__(self, start: int, end: int) -> int:
        found = 0
        for i in range(bisect_right(self._ends, start), len(self._vmas)):
            vma = self._vmas[i]
            if vma.start >= end:
                break
            first, last = max(start, vma.start), min(end, vma.end)
            is_whole = (first, last) == (vma.start, vma.end) or not vma.rss or last - first > LARGE
            found += min(vma.rss, last - first if is_whole else self._pages.rss(first, last, self._bit))
        return found


def read(pid: int, tid: int, vmas: Sequence[Vma]) -> MallocSites | None:
    """Its largest sites, as far as they are resident; None where there is no table. Errors: OSError, RemoteFault,
    TableInvalid."""
    start = next((vma.start for vma in vmas if vma.name.split(" ")[0] == MAPPED and vma.size >= SIZE), None)
    if start is None:
        return None
    pages = PageTable(pid, tid)
    try:
        with RemoteMemory(pid, tid) as memory:
            return read_sites(
                lambda at, size: memory.read(start + at, size) if size else b"",
                executable(pid),
                pid,
                MOST_SITES,
                ResidentRanges(pages, vmas),
            )
    finally:
        pages.close()
