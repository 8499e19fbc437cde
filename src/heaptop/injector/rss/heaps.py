"""Whether what looks like a heap of one of malloc's arenas is one: other allocators reserve aligned memory too.

glibc ``malloc/arena.c``: each heap begins with its arena's address, the heap before it, and its size. The arena lies in
the first of its heaps, behind these words.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Final

from heaptop.injector.inspect.memory import RemoteFault
from heaptop.injector.rss.residency import PAGE, ResidentMemory
from heaptop.injector.rss.smaps import ANONYMOUS, HEAP, HEAP_ALIGNMENT, Sort

HEAP_INFO: Final = struct.Struct("<QQQQ")


def proven(memory: ResidentMemory, sorts: Sequence[Sort]) -> Iterator[Sort]:
    """The mappings; those that only look like a thread's heap as anonymous memory. Where the beginning is not resident,
    nothing tells, and it stays a heap."""
    for vma, kind, name in sorts:
        looks_so = kind == HEAP and name == "threads"
        if looks_so and not all(_is_heap(memory, start) for start in range(vma.start, vma.end, HEAP_ALIGNMENT)):
            yield vma, ANONYMOUS, ""
        else:
            yield vma, kind, name


def _is_heap(memory: ResidentMemory, start: int) -> bool:
    """The kernel joins heaps that adjoin: each begins at a multiple of their alignment."""
    try:
        arena, before, size, accessible = HEAP_INFO.unpack(memory.read(start, HEAP_INFO.size))
    except RemoteFault:
        return True
    # The program runs on: it may have grown since smaps was read, but not beyond its place.
    sizes = all(0 < each <= HEAP_ALIGNMENT and each % PAGE == 0 for each in (size, accessible))
    return bool(sizes and arena >= HEAP_ALIGNMENT and 0 < arena % HEAP_ALIGNMENT < PAGE and not before % HEAP_ALIGNMENT)
