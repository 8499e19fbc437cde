/* table: items of one size in pages of their own, more and more of them. Their address changes as it grows. */
#ifndef HEAPTOP_TABLE_H
#define HEAPTOP_TABLE_H

#include "pages.h"

#include <stdbool.h>

struct table {
    void *items;
    uint64_t count, room; /* items */
    size_t size;          /* bytes of one */
};

/* Whether there was memory; table_close is right after either. */
static inline bool table_open(struct table *t, size_t size, uint64_t room) {
    *t = (struct table){pages_map(room * size), 0, room, size};
    return t->items != NULL;
}

static inline void table_close(struct table *t) {
    pages_unmap(t->items, t->room * t->size);
    *t = (struct table){0};
}

/* Place for one item more, which is zeros; NULL when there is no memory. */
static inline void *table_add(struct table *t) {
    if (t->count == t->room) {
        void *larger = pages_grow(t->items, t->room * t->size, 2 * t->room * t->size);
        if (larger == NULL)
            return NULL;
        t->items = larger;
        t->room *= 2;
    }
    return (char *)t->items + t->count++ * t->size;
}

static inline bool table_add_number(struct table *t, uint32_t number) {
    uint32_t *place = table_add(t);
    if (place != NULL)
        *place = number;
    return place != NULL;
}

static inline uint32_t table_number(const struct table *t, uint64_t i) { return ((const uint32_t *)t->items)[i]; }

#endif
