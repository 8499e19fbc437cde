/* grouping: a table by key. The drawing is in the header. */
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
        if (++hops == MOST_HOPS || !progress_on(m->answering->progress)) {
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
    progress_begin(a->progress, a->selection.objects);
    for (uint32_t number = 0; number < a->selection.objects && progress_on(a->progress); number++)
        if (is_selected(&a->selection, number) && !add(m, number))
            return false;
    return true;
}

static size_t above_bytes(const struct answering *a) { return (a->heap->graph.rows.count + 1ul) * sizeof(uint32_t); }

/* By object, the nearest selected one that dominates it, or CSR_NONE. NULL when there is no memory. */
static uint32_t *find_above(struct answering *a) {
    const struct retain *r = &a->heap->retain;
    uint32_t *above = pages_map(above_bytes(a));
    progress_begin(a->progress, r->reached);
    for (uint32_t i = 0; above != NULL && i < r->reached && progress_on(a->progress); i++) {
        uint32_t object = r->order[i], dominator = r->dominator[object];
        if (dominator == RETAIN_ROOT || dominator == CSR_NONE)
            above[object] = CSR_NONE;
        else
            above[object] = is_selected(&a->selection, dominator) ? dominator : above[dominator];
    }
    return above;
}

static bool is_before(const void *context, uint32_t one, uint32_t other) {
    const struct grouping *g = context;
    const struct group *a = group_at(g, one), *b = group_at(g, other);
    uint64_t first = g->order == GROUPING_BY_BYTES ? a->bytes : a->retained;
    uint64_t second = g->order == GROUPING_BY_BYTES ? b->bytes : b->retained;
    return first != second ? first > second : a->key < b->key;
}

bool grouping_begin(struct grouping *g, enum grouping_order order) {
    *g = (struct grouping){.slot_count = 4 * FIRST_GROUPS, .order = order, .whole = true};
    g->slots = pages_map(g->slot_count * sizeof *g->slots);
    return table_open(&g->groups, sizeof(struct group), FIRST_GROUPS) && g->slots != NULL;
}

bool grouping_sort(struct grouping *g, uint32_t limit, struct progress *progress) {
    uint32_t count = (uint32_t)g->groups.count;
    if (!largest_open(&g->largest, limit < count ? limit : count, is_before, g))
        return false;
    progress_begin(progress, count);
    for (uint32_t i = 0; i < count; i++, progress_on(progress))
        largest_offer(&g->largest, i);
    return largest_sort(&g->largest, progress);
}

bool grouping_open(struct grouping *g, struct answering *a, group_key key, void *context, enum grouping_order order,
                   uint32_t limit) {
    bool opened = grouping_begin(g, order);
    uint32_t *above = opened ? find_above(a) : NULL;
    struct making m = {g, a, key, context, above};
    bool done = above != NULL && !a->progress->stopped && add_all(&m) && grouping_sort(g, limit, a->progress);
    pages_unmap(above, above_bytes(a));
    return done;
}

void grouping_close(struct grouping *g) {
    table_close(&g->groups);
    pages_unmap(g->slots, g->slot_count * sizeof *g->slots);
    largest_close(&g->largest);
    *g = (struct grouping){.slots = NULL};
}
