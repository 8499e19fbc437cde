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
    int wraps;             /* the figures are of 32 bits (mallinfo, glibc before 2.33), and may have lost their top */
    const char *foreign;   /* the library that malloc belongs to when it is not glibc's, else NULL; never freed */
    const char *allocator; /* Python's own name for its allocator; NULL when something is hooked in; never freed */
};

/* Fills *out. 0: all of it. -1: malloc is not glibc's, or glibc is not there, and only foreign and allocator are set.
 * Needs no GIL; waits for the lock of each of malloc's arenas in turn, and goes through its free chunks. */
int heap_stats_read(struct heap_stats *out);

/* The module's heap_stats(): {"allocator": str or None, "malloc": (heaps, in_use, free, mapped, mapped_chunks, wraps)
 * or None, "foreign": str or None}. NULL with an exception set when there is no memory. */
PyObject *heap_stats_face(PyObject *module, PyObject *unused);

#endif
