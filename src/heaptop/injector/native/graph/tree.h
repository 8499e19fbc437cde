/* tree: the tree of dominators (retain.h) from above. Numbers only.

       child    [rows + 1]   of an object the first one that it dominates directly; the last is the virtual root's   ┐ number + 1;
       sibling  [rows + 1]   of an object the next one with the same dominator                                       ┘ 0: none   */
#ifndef HEAPTOP_TREE_H
#define HEAPTOP_TREE_H

#include "graph/retain.h"

struct tree {
    uint32_t *child, *sibling;
    uint32_t rows; /* the number of the virtual root here */
};

/* Set a bit for each row that has one of ``bits``, which there are ``count`` of, and for all that dominate one. False when it
   was stopped. */
bool tree_want(const struct retain *r, const uint64_t *bits, uint32_t count, uint64_t *wanted, struct progress *progress);

/* ``wanted``: a bit for each row that is to be in it, and for all that dominate one; NULL: all of them. False when there was no
   memory, or when it was stopped; tree_close is right after either. */
bool tree_open(struct tree *t, const struct retain *r, const uint64_t *wanted, struct progress *progress);
void tree_close(struct tree *t);

/* The dominator, or the virtual root. */
static inline uint32_t tree_above(const struct retain *r, uint32_t number) {
    uint32_t dominator = r->dominator[number];
    return dominator < r->rows->count ? dominator : r->rows->count;
}

/* The first child, and the next after one; CSR_NONE behind the last. */
static inline uint32_t tree_child(const struct tree *t, uint32_t number) { return t->child[number] - 1; }
static inline uint32_t tree_sibling(const struct tree *t, uint32_t number) { return t->sibling[number] - 1; }

#endif
