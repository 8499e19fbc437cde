/* What the target's malloc says of itself, and which allocator its Python uses.
 *
 * Never for a snapshot child: malloc's figures take the lock of each of its arenas, and there another thread may hold
 * one for ever. pymalloc's arenas are not here: heaptop reads their tables from outside (injector/rss/arenas.py says why).
 *
 *     malloc's memory   ┌─ heaps: the brk heap, and 64 MiB heaps of threads ──┐   ┌─ mapped: large chunks ─┐
 *                       │ in use (given out, or in a thread's cache) │  free  │   │ each a mapping alone   │
 *                       └─────────────────────────────────────────────────────┘   └────────────────────────┘
 */
#ifndef HEAPTOP_HEAP_STATS_H
#define HEAPTOP_HEAP_STATS_H

#include <Python.h>
#include <stdint.h>

struct heap_stats {
    uint64_t heaps, in_use, free, mapped, mapped_chunks; /* bytes, but for the last, which is a number */
    uint64_t free_chunks; /* how many: each may keep up to two pages that malloc_trim cannot return */
    int wraps;            /* the figures are of 32 bits (mallinfo, glibc before 2.33), and may have lost their top */
    const char *foreign;   /* the library that malloc belongs to when it is not glibc's, else NULL; never freed */
    const char *allocator; /* Python's own name for its allocator; NULL when something is hooked in; never freed */
    const char *name;      /* jemalloc, tcmalloc or mimalloc; else NULL */
    int has_other;         /* the four that follow are known */
    uint64_t other_in_use, other_blocks, other_pages, other_metadata; /* OtherMalloc of protocol/messages.py */
};

/* Fills *out. 0: all of glibc's. -1: malloc is not glibc's, or glibc is not there; then what its own functions report is
 * in the fields below foreign, as far as it has such functions.
 *
 * Needs no GIL; waits for the locks of the allocator's arenas in turn, as malloc does. */
int heap_stats_read(struct heap_stats *out);

/* The module's heap_stats(): {"allocator": str or None, "malloc": (heaps, in_use, free, mapped, mapped_chunks, wraps,
 * free_chunks) or None, "foreign": str or None, "name": str or None, "other": (in_use, free_blocks, free_pages, metadata)
 * or None}. NULL with an exception set when there is no memory. */
PyObject *heap_stats_face(PyObject *module, PyObject *unused);

#endif
