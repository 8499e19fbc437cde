"""What malloc keeps free, by its name, and what returns that to the kernel, where the figures show that it helps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from heaptop.analysis.text.units import format_bytes
from heaptop.protocol.messages import MALLOCS, Malloc, Memory

PAGE: Final = 4096
WORTH: Final = 8 << 20  # Bytes, and a part of RSS (WORTH_PART), from which free memory is worth advice
WORTH_PART: Final = 20


def malloc_name(memory: Memory) -> str:
    """``malloc`` for glibc's, and for what is not known."""
    return memory.malloc_name if memory.malloc_name in MALLOCS else "malloc"


def kept_words(memory: Memory) -> str:
    """What its free memory consists of; empty where it does not report that."""
    other = memory.other_malloc
    if other is None:
        return ""
    blocks, pages = format_bytes(other.free_blocks), format_bytes(other.free_pages)
    return f"kept by {malloc_name(memory)}: {blocks} in caches and partly used pages, {pages} in unused pages"


def advice(memory: Memory, free: int, rss: int) -> Iterator[str]:
    """Sentences on what makes malloc keep less, where the figures show that it would: of ``free`` resident bytes."""
    least = max(WORTH, rss // WORTH_PART)
    if memory.malloc is not None:
        yield from _of_glibc(memory, memory.malloc, free, least)
    elif memory.other_malloc is not None:
        pages = min(memory.other_malloc.free_pages, free)
        if pages >= least:
            yield from _of_pages(malloc_name(memory), format_bytes(pages))


def _of_pages(name: str, pages: str) -> Iterator[str]:
    if name == "jemalloc":
        yield (
            f"jemalloc keeps {pages} of unused pages: with MALLOC_CONF=background_thread:true,dirty_decay_ms:1000 in "
            "the environment it returns them within seconds."
        )
    if name == "tcmalloc":
        yield (
            f"tcmalloc keeps {pages} of unused pages: MallocExtension_ReleaseFreeMemory() returns them (for example "
            "through ctypes)."
        )


def _of_glibc(memory: Memory, malloc: Malloc, free: int, least: int) -> Iterator[str]:
    """By lower bounds: in one arena there is at least what the others have no room for."""
    regions = memory.outside.regions if memory.outside is not None else ()
    main, threads = (
        sum(region.rss for region in regions if region.kind == "heap" and (region.name == "threads") is of_threads)
        for of_threads in (False, True)
    )
    # The ends of threads' heaps are not trimmed, and each piece keeps the pages that it begins and ends in.
    trimmed = free - threads - 2 * PAGE * malloc.free_chunks
    if malloc.free_chunks and trimmed >= least:
        yield f"malloc_trim(0) returns at least {format_bytes(trimmed)} (for example through ctypes)."
    if free - main >= least:
        yield (
            f"At least {format_bytes(free - main)} are free in the heaps of threads' arenas: MALLOC_ARENA_MAX=2 in the "
            "environment makes fewer of them, unless it is set."
        )
