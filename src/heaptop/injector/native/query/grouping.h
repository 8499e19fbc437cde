/* grouping: the objects of a selection by something that they share, and the largest groups in order.

       selection ─► key(object) ─► groups { key, count, bytes, retained, example } ─► largest (largest.h): their positions

   What a group retains: the retained sizes of those of its objects that no other one of it dominates, for what that retains
   has theirs in it. So the selection is examined down the tree of dominators. */
#ifndef HEAPTOP_GROUPING_H
#define HEAPTOP_GROUPING_H

#include "query/answering.h"
#include "query/largest.h"

struct group {
    uint64_t key, count, bytes, retained;
    uint32_t example; /* one of its objects */
    uint32_t open;    /* while it is made */
};

enum grouping_order { GROUPING_BY_RETAINED, GROUPING_BY_BYTES };

struct grouping {
    struct table groups; /* struct group */
    uint32_t *slots;     /* open addressing, at most half full: position + 1 */
    uint64_t slot_count;
    struct largest largest;
    enum grouping_order order;
    uint64_t retained; /* by all of the selection together */
};

typedef uint64_t (*group_key)(void *context, struct answering *a, uint32_t number);

/* Group the selection, and put ``limit`` groups in order. False when there was no memory, or when it was stopped so that nothing
   of it is right; grouping_close is right after either. Stopped later, it is of the objects up to there. */
bool grouping_open(struct grouping *g, struct answering *a, group_key key, void *context, enum grouping_order order,
                   uint32_t limit);
void grouping_close(struct grouping *g);

/* The i-th largest, below g->largest.count. */
static inline const struct group *grouping_at(const struct grouping *g, uint32_t i) {
    return (const struct group *)g->groups.items + g->largest.numbers[i];
}

/* -- the same one by one, without figures of what is retained -------------------------------------------------- */

/* Whether there was memory; grouping_close is right after either. */
bool grouping_begin(struct grouping *g, enum grouping_order order);

/* The group of a key, which begins with zeros. Its address changes as others come. NULL when there is no memory. */
struct group *grouping_of(struct grouping *g, uint64_t key, uint32_t example);

/* Put them in order. False when there was no memory, or when it was stopped. */
bool grouping_sort(struct grouping *g, uint32_t limit, struct progress *progress);

#endif
