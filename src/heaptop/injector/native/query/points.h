/* points: where a selection accumulates in the tree of dominators: Eclipse MAT's accumulation points, for what is new rather
   than for all that is retained. Numbers only.

       root ──► 100 ──► 98 ─┬─► 60 ─► │ many of 1 each │    a point: none below it has most
                            ├─► 35 ─► │ many of 1 each │    another one: 60 and 35 together are most of 98
                            └─►  3                          too little: a tenth of 98 is more

   Figures are bytes selected of what is below, an object's own not among them. From an object one goes on to what it dominates
   directly: to the one that has most (a share in per cent) of its figure, and to all that are not selected and have a tenth
   of it, and half a per cent of the whole; where these have not most of it together, it is a point. What is selected and many
   is what accumulates, and what is not is what it accumulates in. The virtual root's children are begun from: those that are
   selected need a tenth of the whole, for several hold them, and they may be many, too.

   A chain is not gone down, each link of which has most of the one before it: three selected, or CHAIN_LEAST, of one type
   on one way along which the figure shrinks to less than most. What is before the first link is the point, or the last link that
   still has all of its figure. */
#ifndef HEAPTOP_POINTS_H
#define HEAPTOP_POINTS_H

#include "graph/table.h"
#include "graph/tree.h"

struct points_selection {
    const uint64_t *bits; /* a bit for each object selected */
    uint32_t objects;     /* that there are bits for */
    uint32_t count;       /* how many are selected */
    uint32_t (*type_of)(void *context, uint32_t number); /* below ``types``, or anything */
    void *context;
    uint32_t types, percent; /* percent: above 50 */
};

struct points {
    const struct retain *retain;
    const struct points_selection *selection;
    struct progress *progress;
    struct tree tree;
    uint64_t *wanted;   /* [rows] a bit for what is selected, or dominates something that is; NULL: most of all are */
    uint64_t *below;    /* [rows + 1] bytes selected that it dominates, the virtual root being the last */
    uint32_t *count;    /* [rows + 1] how many objects these are */
    struct table found; /* uint32_t: the points, none of them below another one; in no order */
    struct table todo, run, of_type; /* private */
};

/* Whether there was memory, and it was not stopped; points_close is right after either. */
bool points_open(struct points *p, const struct retain *r, const struct points_selection *selection, struct progress *progress);
void points_close(struct points *p);

static inline bool points_is_selected(const struct points *p, uint32_t number) {
    return number < p->selection->objects && p->selection->bits[number / 64] >> (number % 64) & 1;
}

static inline uint32_t points_at(const struct points *p, uint64_t i) { return ((const uint32_t *)p->found.items)[i]; }

#endif
