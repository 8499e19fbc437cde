/* index: an open-addressing hash of positions in a table. What a position's key is, and its hash, the owner knows.

     slots   | 0 | 7 | 3 | 0 | …      position + 1; 0 is free. Size a power of two, at most half full.

   Entries are looked for from the place that a hash says, up to a free one:

       for (uint32_t place = index_place(i, hash); i->slots[place] != 0; place = index_next(i, place))            */
#ifndef HEAPTOP_INDEX_H
#define HEAPTOP_INDEX_H

#include "sampler/budget.h"

#include <stdbool.h>

struct index {
    uint32_t *slots;
    uint32_t size, count;
};

static inline uint32_t index_place(const struct index *i, uint32_t hash) { return hash & (i->size - 1); }
static inline uint32_t index_next(const struct index *i, uint32_t place) { return (place + 1) & (i->size - 1); }

static inline bool index_open(struct index *i, struct budget *budget, uint32_t size) {
    *i = (struct index){budget_map(budget, size * sizeof *i->slots), size, 0};
    return i->slots != NULL;
}

static inline void index_close(struct index *i, struct budget *budget) {
    budget_unmap(budget, i->slots, i->size * sizeof *i->slots);
    *i = (struct index){0};
}

/* There is room for it: index_has_room said so. */
static inline void index_add(struct index *i, uint32_t hash, uint32_t position) {
    uint32_t place = index_place(i, hash);
    while (i->slots[place] != 0)
        place = index_next(i, place);
    i->slots[place] = position + 1;
    i->count++;
}

static inline bool index_has_room(const struct index *i) { return 2 * (i->count + 1) <= i->size; }

/* Twice the size. False, and all is as it was, when there is no memory. */
static inline bool index_grow(struct index *i, struct budget *budget, uint32_t (*hash_of)(uint32_t position)) {
    struct index larger;
    if (i->size > UINT32_MAX / 4 || !index_open(&larger, budget, 2 * i->size))
        return false;
    for (uint32_t place = 0; place < i->size; place++)
        if (i->slots[place] != 0)
            index_add(&larger, hash_of(i->slots[place] - 1), i->slots[place] - 1);
    index_close(i, budget);
    *i = larger;
    return true;
}

/* Free a place, and move up what stood behind it only because it was taken. */
static inline void index_remove(struct index *i, uint32_t place, uint32_t (*hash_of)(uint32_t position)) {
    uint32_t mask = i->size - 1, hole = place;
    for (uint32_t next = index_next(i, hole); i->slots[next] != 0; next = index_next(i, next)) {
        uint32_t wanted = index_place(i, hash_of(i->slots[next] - 1));
        if (((next - wanted) & mask) >= ((next - hole) & mask)) {
            i->slots[hole] = i->slots[next];
            hole = next;
        }
    }
    i->slots[hole] = 0;
    i->count--;
}

#endif
