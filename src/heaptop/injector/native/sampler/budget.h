/* budget: pages for tables that grow, up to a limit that they share. Not for several threads at once. */
#ifndef HEAPTOP_BUDGET_H
#define HEAPTOP_BUDGET_H

#include "pages.h"

struct budget {
    uint64_t used, limit; /* bytes */
    bool was_short;       /* a table was refused for the limit */
};

/* Zeros, or NULL: no memory, or the limit. */
static inline void *budget_map(struct budget *b, size_t size) {
    if (b->used + size > b->limit) {
        b->was_short = true;
        return NULL;
    }
    void *pages = pages_map(size);
    b->used += pages == NULL ? 0 : size;
    return pages;
}

static inline void budget_unmap(struct budget *b, void *pages, size_t size) {
    if (pages == NULL)
        return;
    pages_unmap(pages, size);
    b->used -= size;
}

/* As pages_grow: NULL, and the old place is as it was. */
static inline void *budget_grow(struct budget *b, void *pages, size_t size, size_t wanted) {
    if (b->used + wanted - size > b->limit)
        return NULL;
    void *larger = pages_grow(pages, size, wanted);
    b->used += larger == NULL ? 0 : wanted - size;
    return larger;
}

#endif
