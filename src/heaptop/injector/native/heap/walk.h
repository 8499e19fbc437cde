/* walk: every object of the heap, once, in two passes.

     1  each list of the collector, of each interpreter under this lock, is chased from both ends at once, so that two cache misses overlap,
        into the marks (marks.h):          head ⇄ o ⇄ o ⇄ o ⇄ … ⇄ o ⇄ o ⇄ head
                                             low ──►         ◄── high
        The list of generation 2, the longest, also from an object that was in its middle when it was walked before:
                                           head ⇄ o ⇄ … ⇄ o ⇄ middle ⇄ … ⇄ o ⇄ head
                                             low ──►  ◄── high  low ──►  ◄── high
        That is a guess: the object may be gone, or in another list. When both pairs meet, it was right, because then
        the two spans are the whole list; else the walk restarts without it.
     2  the marks are swept in address order. An object passes a window: its head is prefetched when it enters, what it
        points to half-way through, and it is counted and expanded when it leaves.
        A referent that has no mark yet gets one, and waits in a ring of 16 while its head is fetched; then it is
        counted, and goes on a stack when it has referents of its own.

     marks ─► window [32] ─► count, expand ──visit──► ring [16] ─► count ──► stack ─┐
                                   ▲─────────────────────────────────────────────────┘                      */
#ifndef HEAPTOP_WALK_H
#define HEAPTOP_WALK_H

#include "heap/kinds.h"
#include "heap/marks.h"
#include "heap/owners.h"
#include "progress.h"

enum walk_status {
    WALK_OK = 0,
    WALK_NO_MEMORY,
    WALK_BROKEN_LIST, /* two cursors did not meet */
    WALK_ASTRAY,      /* ``middle`` was no good guess: walk again, with a new struct walk and without it */
    WALK_TIMED_OUT,   /* ``limit`` was stopped */
};

enum { RING = 16 };

#define WALK_UNFOLLOWED "what objects of C extensions refer to that the collector does not track is not counted"
#define WALK_CHANGING "what is in a list that is being sorted, or in a dict or set that grows, is not counted"

struct walk_part { /* what was counted of a type in one interpreter */
    uint32_t kind; /* kinds_at */
    int64_t interpreter;
    uint64_t count[ROWS], bytes[ROWS], hidden[ROWS], guessed[ROWS];
};

struct walk {
    struct marks marks;
    struct kinds kinds;
    PyObject *ring[RING];
    uint32_t ring_at;
    PyObject **stack; /* of objects counted and not expanded */
    size_t depth, room;
    PyObject **excluded; /* those left out */
    size_t excluded_count, excluded_room;
    bool by_interpreter;     /* set before walk_run: where there may be several, count each alone: */
    struct walk_part *parts; /* in place of the counters of w->kinds. What several refer to counts with the first of */
    size_t part_count, part_room; /* them: the caller's, then the oldest. NULL: there are no others, or no lists of theirs */
    bool failed;
    uint64_t objects, guessed;
    uint64_t changing; /* containers whose items C code had elsewhere: what only they hold is not counted */
    uint64_t opaque, opaque_bytes; /* without code (rules.h): objects that may refer to more than is known, and their bytes */
    uint64_t unfollowed; /* objects that are counted without what they refer to, see settle */
    struct owners_seen seen; /* memory that several objects own */
    uint64_t owned, mapped, at_least; /* bytes elsewhere (owners.h), those of them in mappings, objects that have more */
    struct progress *progress; /* set before walk_run: receives the progress, or NULL; it is not stopped */
    struct progress *limit; /* set before walk_run: asked for each object and each reference, or NULL. It ends the walk */
    gc_head *middle; /* set before walk_run: where the middle of generation 2 may be, or NULL; after it: where it is.
                        What it leads to is followed before it is known to be right: for a snapshot child only */
};

/* 0, or -1 when there is no memory; walk_close is right after either. ``call_methods``: see kinds_open. */
int walk_open(struct walk *w, bool call_methods);
void walk_close(struct walk *w);

/* Leave an object out, and its code when it is a function; nothing is reached through them. Before walk_run. */
void walk_exclude(struct walk *w, PyObject *o);

/* Count every object into w->kinds, or w->parts. The GIL is held, or this is a snapshot child. Returns enum walk_status. */
int walk_run(struct walk *w);

/* Count an object that nothing in the heap may lead to, and what it leads to. After walk_run. WALK_OK or WALK_NO_MEMORY;
   w->objects does not tell of them. */
int walk_add(struct walk *w, PyObject *o);

/* The generation of an object that was in a list. */
static inline int walk_generation(const struct walk *w, const void *o) { return (int)(marks_age(&w->marks, o) ^ 2); }

/* Bytes of memory that the walk uses, by its own books: marks, records and the stack at its largest. */
uint64_t walk_bytes(const struct walk *w);

#endif
