/* address_set: a plain set of addresses, to check the marks against in a debug build. No product code includes it. */
#ifndef HEAPTOP_ADDRESS_SET_H
#define HEAPTOP_ADDRESS_SET_H

#include "pages.h"

#include <stdbool.h>
#include <stdint.h>

struct address_set {
    uint64_t *slots; /* open addressing; 0 is free */
    uint64_t size, count;
};

static inline int address_set_open(struct address_set *s) {
    s->count = 0;
    s->size = 1 << 16;
    s->slots = pages_map(s->size * sizeof *s->slots);
    return s->slots == NULL ? -1 : 0;
}

static inline void address_set_close(struct address_set *s) { pages_unmap(s->slots, s->size * sizeof *s->slots); }

static inline uint64_t *address_set_slot(const struct address_set *s, uint64_t address) {
    uint64_t i = (address >> 3) * 0x9E3779B97F4A7C15u >> 16;
    while (s->slots[i & (s->size - 1)] != 0 && s->slots[i & (s->size - 1)] != address)
        i++;
    return &s->slots[i & (s->size - 1)];
}

static inline bool address_set_has(const struct address_set *s, const void *o) {
    return *address_set_slot(s, (uint64_t)o) != 0;
}

static inline void address_set_add(struct address_set *s, const void *o) {
    if (2 * s->count >= s->size) {
        struct address_set larger = {pages_map(4 * s->size * sizeof *s->slots), 4 * s->size, s->count};
        if (larger.slots == NULL)
            __builtin_trap();
        for (uint64_t i = 0; i < s->size; i++)
            if (s->slots[i] != 0)
                *address_set_slot(&larger, s->slots[i]) = s->slots[i];
        address_set_close(s);
        *s = larger;
    }
    uint64_t *slot = address_set_slot(s, (uint64_t)o);
    s->count += *slot == 0;
    *slot = (uint64_t)o;
}

/* Add, and stop the process when the set does not agree that the address is new. */
static inline void address_set_check(struct address_set *s, const void *o, bool fresh) {
    if (fresh == address_set_has(s, o))
        __builtin_trap();
    address_set_add(s, o);
}

#endif
