/* grouping: a table by key, and an order. The drawing is in the header. */
#include "grouping.h"

enum { FIRST_GROUPS = 1 << 8, MOST_HOPS = 1000 };

static struct group *group_at(const struct grouping *g, uint64_t position) {
    return (struct group *)g->groups.items + position;
}

/* The slot of a key: its own, or the one where it would go. */
static uint32_t *slot_of(const struct grouping *g, uint64_t key) {
    for (uint64_t i = key * 0x9E3779B97F4A7C15u >> 20;; i++) {
        uint32_t *slot = &g->slots[i & (g->slot_count - 1)];
        if (*slot == 0 || group_at(g, *slot - 1)->key == key)
            return slot;
    }
}

static bool grow_slots(struct grouping *g) {
    uint32_t *larger = pages_map(2 * g->slot_count * sizeof *larger);
    if (larger == NULL)
        return false;
    pages_unmap(g->slots, g->slot_count * sizeof *g->slots);
    g->slots = larger;
    g->slot_count *= 2;
    for (uint32_t i = 0; i < g->groups.count; i++)
        *slot_of(g, group_at(g, i)->key) = i + 1;
    return true;
}

struct group *grouping_of(struct grouping *g, uint64_t key, uint32_t example) {
    uint32_t *slot = slot_of(g, key);
    if (*slot != 0)
        return group_at(g, *slot - 1);
    if (2 * (g->groups.count + 1) > g->slot_count) {
        if (!grow_slots(g))
            return NULL;
        slot = slot_of(g, key);
    }
    struct group *group = table_add(&g->groups);
    if (group == NULL)
        return NULL;
    group->key = key;
    group->example = example;
    *slot = (uint32_t)g->groups.count;
    return group;
}

struct making {
    struct grouping *grouping;
    struct answering *answering;
    group_key key;
    void *context;
    const uint32_t *above;
};

/* Whether no other object of its group dominates an object. Of a long chain of others only the beginning is looked at. */
static bool is_top(struct making *m, uint32_t number, uint64_t key) {
    int hops = 0;
    for (uint32_t at = m->above[number]; at != CSR_NONE; at = m->above[at]) {
        if (m->key(m->context, m->answering, at) == key)
            return false;
        if (++hops == MOST_HOPS) {
            m->grouping->whole = false;
            return false;
        }
    }
    return true;
}

static bool add(struct making *m, uint32_t number) {
    struct answering *a = m->answering;
    uint64_t key = m->key(m->context, a, number), retained = a->heap->retain.retained[number];
    struct group *group = grouping_of(m->grouping, key, number);
    if (group == NULL)
        return false;
    group->count++;
    group->bytes += answers_bytes_of(a, number);
    if (is_top(m, number, key))
        group->retained += retained;
    if (m->above[number] == CSR_NONE)
        m->grouping->retained += retained;
    return true;
}

static bool add_all(struct making *m) {
    struct answering *a = m->answering;
    *a->total = a->selection.objects;
    for (uint32_t number = 0; number < a->selection.objects && answers_go_on(a, number); number++)
        if (is_selected(&a->selection, number) && !add(m, number))
            return false;
    return true;
}

static bool is_before(const struct group *one, const struct group *other, bool by_bytes) {
    uint64_t first = by_bytes ? one->bytes : one->retained, second = by_bytes ? other->bytes : other->retained;
    return first != second ? first > second : one->key < other->key;
}

/* Shell's sort: nothing to call, nothing to allocate. */
static void sort(struct group **order, uint64_t count, bool by_bytes) {
    for (uint64_t gap = count / 2; gap > 0; gap /= 2)
        for (uint64_t i = gap; i < count; i++) {
            struct group *one = order[i];
            uint64_t at = i;
            for (; at >= gap && is_before(one, order[at - gap], by_bytes); at -= gap)
                order[at] = order[at - gap];
            order[at] = one;
        }
}

bool grouping_sort(struct grouping *g, bool by_bytes) {
    g->order_room = g->groups.count + 1;
    g->order = pages_map(g->order_room * sizeof *g->order);
    for (uint64_t i = 0; g->order != NULL && i < g->groups.count; i++)
        g->order[i] = group_at(g, i);
    if (g->order != NULL)
        sort(g->order, g->groups.count, by_bytes);
    return g->order != NULL;
}

bool grouping_begin(struct grouping *g) {
    *g = (struct grouping){.slot_count = 4 * FIRST_GROUPS, .whole = true};
    g->slots = pages_map(g->slot_count * sizeof *g->slots);
    return table_open(&g->groups, sizeof(struct group), FIRST_GROUPS) && g->slots != NULL;
}

bool grouping_open(struct grouping *g, struct answering *a, group_key key, void *context, bool by_bytes) {
    bool opened = grouping_begin(g);
    uint32_t *above = opened ? answers_above(a) : NULL;
    struct making m = {g, a, key, context, above};
    bool done = above != NULL && add_all(&m) && grouping_sort(g, by_bytes);
    pages_unmap(above, answers_above_bytes(a));
    return done;
}

void grouping_close(struct grouping *g) {
    table_close(&g->groups);
    pages_unmap(g->slots, g->slot_count * sizeof *g->slots);
    pages_unmap(g->order, g->order_room * sizeof *g->order);
    *g = (struct grouping){.slots = NULL};
}
