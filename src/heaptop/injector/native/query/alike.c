/* alike: a table of hashes. The drawing is in the header. */
#include "query/alike.h"

static size_t slots_bytes(const struct alike *s) { return s->slot_count * sizeof *s->slots; }

bool alike_open(struct alike *s, const uint64_t *hashes, uint64_t most_steps) {
    *s = (struct alike){hashes, NULL, 64};
    while (s->slot_count < 2 * most_steps)
        s->slot_count *= 2;
    s->slots = pages_map(slots_bytes(s));
    return s->slots != NULL;
}

void alike_close(struct alike *s) {
    pages_unmap(s->slots, slots_bytes(s));
    *s = (struct alike){0};
}

/* The slot of a hash: its own, or the one where it would go. */
static struct alike_slot *slot_of(const struct alike *s, uint64_t hash) {
    for (uint64_t i = hash >> 20;; i++) {
        struct alike_slot *slot = &s->slots[i & (s->slot_count - 1)];
        if (slot->object == 0 || slot->hash == hash)
            return slot;
    }
}

void alike_note(struct alike *s, uint32_t object) {
    uint64_t hash = s->hashes[object];
    struct alike_slot *slot = slot_of(s, hash);
    if (slot->object == 0)
        *slot = (struct alike_slot){hash, object + 1, false};
    else if (slot->object != object + 1)
        slot->several = true;
}

bool alike_has(const struct alike *s, uint32_t object) { return slot_of(s, s->hashes[object])->object != 0; }

void alike_compare(struct alike *s, uint32_t object, const uint32_t *parents) {
    struct alike_slot *slot = slot_of(s, s->hashes[object]);
    /* What is the contents of another one (a cell's) is its step, and has its hash. */
    if (slot->object != 0 && slot->object != object + 1 && parents[slot->object - 1] != object)
        slot->several = true;
}

bool alike_is_one(const struct alike *s, uint32_t object) {
    const struct alike_slot *slot = slot_of(s, s->hashes[object]);
    return slot->object == object + 1 && !slot->several;
}
