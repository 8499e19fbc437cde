/* answers to PATHS: the selection by the paths along which it is kept. */
#include "paths.h"

enum { FIRST_GROUPS = 1 << 8, MOST_GROUPS = 2000 };

struct path_group {
    uint64_t key, count, bytes, retained;
    uint32_t example;
};

struct grouping {
    struct table groups; /* struct path_group */
    uint32_t *slots;     /* open addressing, at most half full: position + 1 */
    uint64_t slot_count;
};

static bool grouping_open(struct grouping *g) {
    *g = (struct grouping){.slot_count = 4 * FIRST_GROUPS};
    g->slots = pages_map(g->slot_count * sizeof *g->slots);
    return table_open(&g->groups, sizeof(struct path_group), FIRST_GROUPS) && g->slots != NULL;
}

static void grouping_close(struct grouping *g) {
    table_close(&g->groups);
    pages_unmap(g->slots, g->slot_count * sizeof *g->slots);
}

static struct path_group *group_at(const struct grouping *g, uint64_t position) {
    return (struct path_group *)g->groups.items + position;
}

/* The slot of a key: its own, or the one where it would go. */
static uint32_t *slot_of(const struct grouping *g, uint64_t key) {
    for (uint64_t i = key;; i++) {
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

/* NULL when there is no memory. */
static struct path_group *group_of_key(struct grouping *g, uint64_t key, uint32_t example) {
    uint32_t *slot = slot_of(g, key);
    if (*slot != 0)
        return group_at(g, *slot - 1);
    if (2 * (g->groups.count + 1) > g->slot_count) {
        if (!grow_slots(g))
            return NULL;
        slot = slot_of(g, key);
    }
    struct path_group *group = table_add(&g->groups);
    if (group == NULL)
        return NULL;
    group->key = key;
    group->example = example;
    *slot = (uint32_t)g->groups.count;
    return group;
}

/* Whether no other object of its path dominates an object. */
static bool is_top(struct answering *a, const struct paths *p, const uint32_t *above, uint32_t number, uint64_t key) {
    for (uint32_t at = above[number]; at != CSR_NONE; at = above[at])
        if (!heap_is_frame(a->heap, at) && paths_key(p, a, at) == key)
            return false;
    return true;
}

static bool group_all(struct answering *a, struct grouping *g, const struct paths *p, const uint32_t *above, uint64_t *retained) {
    *a->total = a->selection.objects;
    for (uint32_t number = 0; number < a->selection.objects && answers_go_on(a, number); number++) {
        if (!is_selected(&a->selection, number) || p->hashes[number] == 0)
            continue;
        uint64_t key = paths_key(p, a, number), own = a->heap->retain.retained[number];
        struct path_group *group = group_of_key(g, key, number);
        if (group == NULL)
            return false;
        group->count++;
        group->bytes += answers_bytes_of(a, number);
        if (is_top(a, p, above, number, key))
            group->retained += own;
        if (above[number] == CSR_NONE)
            *retained += own;
    }
    return true;
}

/* Largest first. */
static void sort(struct path_group **order, uint64_t count) {
    for (uint64_t gap = count / 2; gap > 0; gap /= 2)
        for (uint64_t i = gap; i < count; i++) {
            struct path_group *one = order[i];
            uint64_t at = i;
            for (; at >= gap && order[at - gap]->retained < one->retained; at -= gap)
                order[at] = order[at - gap];
            order[at] = one;
        }
}

static bool pack_group(struct answering *a, const struct path_group *group) {
    pack_array(a->out, 7);
    pack_uint(a->out, group->key);
    pack_uint(a->out, answers_kind_of(a, group->example));
    pack_uint(a->out, group->count);
    pack_uint(a->out, group->bytes);
    pack_uint(a->out, group->retained);
    pack_uint(a->out, (uint64_t)graph_object(&a->heap->graph, group->example));
    return paths_pack(a, group->example);
}

static bool pack_groups(struct answering *a, struct path_group **order, uint64_t count, uint64_t retained) {
    uint64_t limit = a->query->limit < MOST_GROUPS ? a->query->limit : MOST_GROUPS;
    bool done = true;
    if (limit > count)
        limit = count;
    answers_begin(a, "paths", 6);
    answers_field_uint(a, "count", a->selection.count);
    answers_field_uint(a, "bytes", a->selection.bytes);
    answers_field_uint(a, "retained", retained);
    answers_field(a, "groups");
    pack_array(a->out, (uint32_t)limit);
    for (uint64_t i = 0; i < limit && done; i++)
        done = pack_group(a, order[i]);
    answers_field_uint(a, "other_groups", count - limit);
    answers_field_complete(a, true);
    return done;
}

static bool answer(struct answering *a, struct grouping *g, const struct paths *p, const uint32_t *above) {
    uint64_t retained = 0;
    if (!group_all(a, g, p, above, &retained))
        return false;
    size_t size = (g->groups.count + 1) * sizeof(struct path_group *);
    struct path_group **order = pages_map(size);
    if (order == NULL)
        return false;
    for (uint64_t i = 0; i < g->groups.count; i++)
        order[i] = group_at(g, i);
    sort(order, g->groups.count);
    bool done = pack_groups(a, order, g->groups.count, retained);
    pages_unmap(order, size);
    return done;
}

const char *answers_paths(struct answering *a) {
    struct paths p;
    struct grouping g;
    bool opened = grouping_open(&g) & paths_open(&p, a);
    uint32_t *above = opened ? answers_above(a) : NULL;
    bool done = above != NULL && answer(a, &g, &p, above);
    pages_unmap(above, answers_above_bytes(a));
    grouping_close(&g);
    paths_close(&p);
    return done ? NULL : query_no_memory;
}
