/* retainers: by whom each object is kept, of all those who may be named for it. Numbers only (csr.h).

   Some objects are candidates, each of a unit: what it goes by, alone or with others (all functions of a module, say).
   The retainers of an object are the units of those candidates from which a path leads to it through no other candidate,
   and those of roots from which one does (Runciman and Röjemo, New dimensions in heap profiling, 1996, §3). Sets of more
   than ``limit`` units are all the same one, many.

   Found by combining requests (there fig. 13): what a set must still get is noted at the object, and the object waits in
   a queue meanwhile; when its turn comes, all that was asked of it in between is done at once, and asked of those that it
   refers to. A candidate passes its own unit on, once; whoever is not passes on what it has itself.

       root, unit ─► wanted[object] ─► queue ─► set[object] ∪= wanted[object] ──► wanted of each it refers to ─► queue …

       set      [count]    by object: the number of a set
       members  [sets]     limit units each, ascending, CSR_NONE behind the last; a set has one number         */
#ifndef HEAPTOP_RETAINERS_H
#define HEAPTOP_RETAINERS_H

#include "graph/csr.h"
#include "progress.h"

#include <stdbool.h>
#include <stddef.h>

enum { RETAINERS_NONE = 0, RETAINERS_MANY = 1, RETAINERS_LIMIT = 16 };

enum retainers_status { RETAINERS_OK = 0, RETAINERS_NO_MEMORY };

struct retainers_root {
    uint32_t object, unit;
};

struct retainers_total {
    uint64_t objects, bytes;
};

enum { UNIONS = 1 << 12 };

struct retainers {
    const struct csr *rows;
    struct progress *progress;     /* set before retainers_find: receives the progress, or NULL */
    const uint32_t *units; /* [count] CSR_NONE: no candidate */
    uint32_t limit;
    uint32_t *set, *wanted, *queue; /* [count] each; a queue that begins again at its beginning */
    uint32_t head, waiting;
    uint32_t *members;              /* [room * limit] */
    uint64_t count, room;           /* of sets, RETAINERS_NONE and RETAINERS_MANY among them */
    struct retainers_total *totals; /* [count] by set; after retainers_find */
    uint32_t *slots;                 /* [slot_count] open addressing, at most half full; 0 is no set here */
    uint64_t slot_count;
    struct retainers_union {
        uint32_t one, other, both;
    } *unions; /* [UNIONS] made lately */
    uint64_t steps; /* references followed */
    bool failed;
};

/* RETAINERS_OK, or RETAINERS_NO_MEMORY; retainers_close is right after either. ``limit``: 1 to RETAINERS_LIMIT. */
int retainers_open(struct retainers *s, const struct csr *rows, const uint32_t *units, uint32_t limit);
void retainers_close(struct retainers *s);

/* The sets of all objects that the roots lead to, and what each set is of. Once. When s->progress was stopped they are not those. */
int retainers_find(struct retainers *s, const struct retainers_root *roots, uint64_t count);

/* The units of a set, ascending; their number. None for RETAINERS_NONE and RETAINERS_MANY. */
uint32_t retainers_members(const struct retainers *s, uint32_t set, const uint32_t **members);

/* Bytes of memory that it took at most. */
uint64_t retainers_bytes(const struct retainers *s);

#endif
