/* grouping: the objects of a selection by something that they share, the largest group first.

       selection ─► key(object) ─► groups { key, count, bytes, retained, example } ─► order [count]

   What a group retains: the retained sizes of those of its objects that no other one of it dominates, for what that retains
   has theirs in it. */
#ifndef HEAPTOP_GROUPING_H
#define HEAPTOP_GROUPING_H

#include "answers.h"

struct group {
    uint64_t key, count, bytes, retained;
    uint32_t example; /* one of its objects */
};

typedef uint64_t (*group_key)(void *context, struct answering *a, uint32_t number);

struct grouping {
    struct table groups;  /* struct group */
    uint32_t *slots;      /* open addressing, at most half full: position + 1 */
    uint64_t slot_count;
    struct group **order; /* [groups.count] */
    uint64_t order_room;
    uint64_t retained;    /* by all of the selection together */
    bool whole;           /* no figure is too low */
};

/* -- step by step: no figures of what is retained --------------------------------------------------------------- */

/* Whether there was memory; grouping_close is right after either. */
bool grouping_begin(struct grouping *g);

/* The group of a key, which begins with zeros. Its address changes as others come. NULL when there is no memory. */
struct group *grouping_of(struct grouping *g, uint64_t key, uint32_t example);

/* Put them in order. Whether there was memory. */
bool grouping_sort(struct grouping *g, bool by_bytes);

/* -- all of it -------------------------------------------------------------------------------------------------- */

/* Whether there was memory; grouping_close is right after either. Of one that was stopped, what had been done. ``by_bytes``: in
   the order of their own bytes, else of what they retain. */
bool grouping_open(struct grouping *g, struct answering *a, group_key key, void *context, bool by_bytes);
void grouping_close(struct grouping *g);

#endif
