/* kinds: the records (kind.h) of all types met, each made once.

       slots  [2^n]   { type, record }     open addressing by the type's address, at most half full
       chunks [..]  ─► records [64]        never moved, so that a record may be held while others are made      */
#ifndef HEAPTOP_KINDS_H
#define HEAPTOP_KINDS_H

#include "heap/kind.h"

enum { KINDS_PER_CHUNK = 64, KIND_CHUNKS = 1 << 14 };

struct kinds {
    struct kind_slot {
        PyTypeObject *type;
        struct kind *kind;
    } *slots;
    uint32_t size, count;
    struct kind **chunks;
    bool call_methods; /* whether C methods that are not CPython's own may be called */
    bool failed;       /* memory ran out: ``nobody`` represents the types that have no record */
    struct kind nobody;
};

/* 0, or -1 when there is no memory; kinds_close is right after either. */
int kinds_open(struct kinds *k, bool call_methods);
void kinds_close(struct kinds *k);

/* The record of a type of which nothing is to be read: its address alone, and kinds_get does not find it. NULL when there is no
   memory. */
struct kind *kinds_add_unread(struct kinds *k, PyTypeObject *type);

/* Make the record of a type. Never NULL. */
struct kind *kinds_add(struct kinds *k, PyTypeObject *type);

static inline uint32_t kinds_hash(const PyTypeObject *type) { return (uint32_t)((uint64_t)type * 0x9E3779B97F4A7C15u >> 36); }

static inline struct kind *kinds_get(struct kinds *k, PyTypeObject *type) {
    for (uint32_t i = kinds_hash(type);; i++) {
        struct kind_slot *slot = &k->slots[i & (k->size - 1)];
        if (__builtin_expect(slot->type == type, 1))
            return slot->kind;
        if (slot->type == NULL)
            return kinds_add(k, type);
    }
}

static inline struct kind *kinds_at(const struct kinds *k, uint32_t i) {
    return &k->chunks[i / KINDS_PER_CHUNK][i % KINDS_PER_CHUNK];
}

#endif
