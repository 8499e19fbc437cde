/* walk: every object of the heap, once, in two passes.

     1  each list of the collector is chased from both ends at once, so that two cache misses overlap,
        into the marks (marks.h):          head ⇄ o ⇄ o ⇄ o ⇄ … ⇄ o ⇄ o ⇄ head
                                             a ──►             ◄── b
     2  the marks are swept in address order. An object passes a window: its head is prefetched when it enters, what it
        points to half-way through, and it is counted and expanded when it leaves.
        A referent that has no mark yet gets one, and waits in a ring of 16 while its head is fetched; then it is
        counted, and goes on a stack when it has referents of its own.

     marks ─► window [32] ─► count, expand ──visit──► ring [16] ─► count ──► stack ─┐
                                   ▲─────────────────────────────────────────────────┘                      */
#ifndef HEAPTOP_WALK_H
#define HEAPTOP_WALK_H

#include "kinds.h"
#include "marks.h"

enum walk_status {
    WALK_OK = 0,
    WALK_NO_MEMORY,
    WALK_BROKEN_LIST, /* the two cursors did not meet */
};

enum { RING = 16, WINDOW = 32, WINDOW_HALF = 16 };

struct walk {
    struct marks marks;
    struct kinds kinds;
    PyObject *ring[RING];
    uint32_t ring_at;
    PyObject **stack; /* of objects counted and not expanded */
    size_t depth, room;
    bool failed;
    uint64_t objects, guessed;
};

/* 0, or -1 when there is no memory; walk_close is right after either. ``call_methods``: see kinds_open. */
int walk_open(struct walk *w, bool call_methods);
void walk_close(struct walk *w);

/* Leave an object out; nothing is reached through it. Before walk_run. */
void walk_exclude(struct walk *w, PyObject *o);

/* Count every object into w->kinds. The GIL is held, or this is a snapshot child. Returns enum walk_status. */
int walk_run(struct walk *w);

/* Bytes of memory that the walk uses, by its own books: marks, records and the stack at its largest. */
uint64_t walk_bytes(const struct walk *w);

#endif
