/* grouping: a table by key. The drawing is in the header. */
#include "query/grouping.h"

#include "graph/tree.h"

enum { FIRST_GROUPS = 1 << 8 };

static struct group *group_at(const struct grouping *g, uint64_t position) {
    return (struct group *)g->groups.items + position;
}

/* The slot of a key: its own, or the one where it would go. */
static uint32_t *slot_of(const struct grouping *g, uint64_t key) {
    uint64_t hash = key * 0x9E3779B97F4A7C15u;
    for (uint64_t i = hash ^ hash >> 32;; i++) { /* the high bits are of all of the key */
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
    struct tree tree;
    uint64_t *wanted; /* [rows] a bit for what is selected, or dominates something that is */
    uint32_t *group; /* [rows + 1] its position, of what is entered and not left */
    uint32_t open;   /* selected ones that are entered and not left */
};

static size_t group_bytes(const struct answering *a) { return (a->heap->graph.rows.count + 1ul) * sizeof(uint32_t); }

/* False when there was no memory, or when it was stopped. */
static bool making_open(struct making *m) {
    struct answering *a = m->answering;
    m->group = pages_map(group_bytes(a));
    m->wanted = pages_map(query_bits_bytes(a->heap->graph.rows.count));
    if (m->group == NULL || m->wanted == NULL)
        return false;
    const struct selection *s = &a->selection;
    bool few = s->count < s->objects / 2;
    return (!few || tree_want(&a->heap->retain, s->bits, s->objects, m->wanted, a->progress)) &&
           tree_open(&m->tree, &a->heap->retain, few ? m->wanted : NULL, a->progress);
}

static void making_close(struct making *m) {
    tree_close(&m->tree);
    pages_unmap(m->group, group_bytes(m->answering));
    pages_unmap(m->wanted, query_bits_bytes(m->answering->heap->graph.rows.count));
}

/* False when there is no memory. */
static bool enter(struct making *m, uint32_t number) {
    struct answering *a = m->answering;
    if (!is_selected(&a->selection, number))
        return true;
    uint64_t retained = a->heap->retain.retained[number];
    struct group *group = grouping_of(m->grouping, m->key(m->context, a, number), number);
    if (group == NULL)
        return false;
    m->group[number] = (uint32_t)(group - (struct group *)m->grouping->groups.items);
    group->count++;
    group->bytes += answering_bytes_of(a, number);
    if (group->open++ == 0)
        group->retained += retained;
    if (m->open++ == 0)
        m->grouping->retained += retained;
    return true;
}

static void leave(struct making *m, uint32_t number) {
    if (!is_selected(&m->answering->selection, number))
        return;
    group_at(m->grouping, m->group[number])->open--;
    m->open--;
}

/* Down the tree of dominators, so that what is entered and not left is what dominates an object. */
static bool add_all(struct making *m) {
    struct answering *a = m->answering;
    const struct retain *r = &a->heap->retain;
    uint32_t root = m->tree.rows, at = tree_child(&m->tree, root);
    progress_begin(a->progress, r->reached);
    while (at != CSR_NONE && progress_on(a->progress)) {
        uint32_t number = at;
        if (!enter(m, number))
            return false;
        at = tree_child(&m->tree, number);
        while (at == CSR_NONE && number != root) {
            leave(m, number);
            at = tree_sibling(&m->tree, number);
            number = tree_above(r, number);
        }
    }
    return true;
}

static bool is_before(const void *context, uint32_t one, uint32_t other) {
    const struct grouping *g = context;
    const struct group *a = group_at(g, one), *b = group_at(g, other);
    uint64_t first = g->order == GROUPING_BY_BYTES ? a->bytes : a->retained;
    uint64_t second = g->order == GROUPING_BY_BYTES ? b->bytes : b->retained;
    return first != second ? first > second : a->key < b->key;
}

bool grouping_begin(struct grouping *g, enum grouping_order order) {
    *g = (struct grouping){.slot_count = 4 * FIRST_GROUPS, .order = order};
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
    struct making m = {.grouping = g, .answering = a, .key = key, .context = context};
    bool done = grouping_begin(g, order) && making_open(&m) && add_all(&m) && grouping_sort(g, limit, a->progress);
    making_close(&m);
    return done;
}

void grouping_close(struct grouping *g) {
    table_close(&g->groups);
    pages_unmap(g->slots, g->slot_count * sizeof *g->slots);
    largest_close(&g->largest);
    *g = (struct grouping){.slots = NULL};
}
