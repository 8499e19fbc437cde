/* alike: a table of hashes. The drawing is in the header. */
#include "query/alike.h"

static size_t slots_bytes(const struct alike *s) { return s->slot_count * sizeof *s->slots; }

bool alike_open(struct alike *s, const struct paths *paths, uint64_t most_paths) {
    *s = (struct alike){paths, NULL, 64};
    while (s->slot_count < 2 * most_paths * PATH_STEPS)
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
    uint64_t hash = s->paths->hashes[object];
    struct alike_slot *slot = slot_of(s, hash);
    if (slot->object == 0)
        *slot = (struct alike_slot){hash, object + 1, false};
    else if (slot->object != object + 1)
        slot->several = true;
}

void alike_find(struct alike *s, struct answering *a) {
    const struct paths *p = s->paths;
    const uint32_t *parent = a->heap->retain.parent;
    progress_begin(a->progress, p->rows);
    for (uint32_t number = 0; number < p->rows && progress_on(a->progress); number++) {
        if (p->depths[number] == 0 || p->shown[number] != number)
            continue;
        struct alike_slot *slot = slot_of(s, p->hashes[number]);
        /* What is the contents of another one (a cell's) is its step, and has its hash. */
        if (slot->object != 0 && slot->object != number + 1 && parent[slot->object - 1] != number)
            slot->several = true;
    }
}

bool alike_is_one(const struct alike *s, uint32_t object) {
    const struct alike_slot *slot = slot_of(s, s->paths->hashes[object]);
    return slot->object == object + 1 && !slot->several;
}
