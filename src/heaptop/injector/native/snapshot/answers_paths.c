/* answers to PATHS: the selection by the paths along which it is kept. */
#include "snapshot/answers.h"

#include "query/alike.h"
#include "query/grouping.h"
#include "query/paths.h"

enum { MOST_GROUPS = 2000 };

static uint64_t by_path(void *context, struct answering *a, uint32_t number) {
    return heap_is_frame(a->heap, number) ? 0 : paths_key(context, a, number);
}

static bool pack_group(struct answering *a, const struct group *group, const struct alike *alike) {
    pack_array(a->out, 7);
    pack_uint(a->out, group->key);
    pack_uint(a->out, answering_kind_of(a, group->example));
    pack_uint(a->out, group->count);
    pack_uint(a->out, group->bytes);
    pack_uint(a->out, group->retained);
    pack_uint(a->out, (uint64_t)graph_object(&a->heap->graph, group->example));
    return paths_pack(a, group->example, alike, group->count == 1);
}

/* Which steps of the groups to be told represent several objects. Whether there was memory. */
static bool find_shared_steps(struct answering *a, const struct paths *p, const struct grouping *g, struct alike *alike) {
    for (uint32_t i = 0; i < g->largest.count; i++)
        if (!paths_note(a, grouping_at(g, i)->example, alike))
            return false;
    paths_find_alike(p, a, alike);
    return !a->progress->stopped;
}

static bool pack_groups(struct answering *a, const struct grouping *g, const struct alike *alike) {
    uint32_t shown = g->largest.count;
    bool done = true;
    answering_begin(a, "paths", 6);
    answering_field_uint(a, "count", a->selection.count);
    answering_field_uint(a, "bytes", a->selection.bytes);
    answering_field_uint(a, "retained", g->retained);
    answering_field(a, "groups");
    pack_array(a->out, shown);
    for (uint32_t i = 0; i < shown && done; i++) {
        if (!a->query->beginnings)
            paths_remember(&a->kept->paths, grouping_at(g, i)->key, grouping_at(g, i)->example);
        done = pack_group(a, grouping_at(g, i), alike);
    }
    answering_field_uint(a, "other_groups", g->groups.count - shown);
    answering_field_complete(a, true);
    return done;
}

/* By beginnings: of these only counts and bytes are wanted, so nobody goes down the tree of dominators. */
struct begun {
    struct grouping *grouping;
    struct group *last;
};

/* An example near the root, which comes first, has few steps. */
static bool add_beginning(void *context, struct answering *a, const struct paths *p, uint32_t number) {
    struct begun *b = context;
    uint64_t key = paths_key(p, a, number);
    if (b->last == NULL || b->last->key != key) /* neighbours are alike, mostly */
        b->last = grouping_of(b->grouping, key, number);
    if (b->last == NULL)
        return false;
    b->last->count++;
    b->last->bytes += answering_bytes_of(a, number);
    return true;
}

static bool group_beginnings(struct grouping *g, struct answering *a, struct paths *p, uint32_t limit) {
    struct begun begun = {g, NULL};
    return grouping_begin(g, GROUPING_BY_BYTES) && paths_open_beginnings(p, a, add_beginning, &begun) &&
           !a->progress->stopped && grouping_sort(g, limit, a->progress);
}

static bool group_paths(struct grouping *g, struct answering *a, struct paths *p, uint32_t limit) {
    return paths_open(p, a) && !a->progress->stopped && grouping_open(g, a, by_path, p, GROUPING_BY_RETAINED, limit);
}

const char *answers_paths(struct answering *a) {
    struct paths p = {.hashes = NULL};
    struct grouping g = {.slots = NULL};
    struct alike alike = {.slots = NULL};
    uint32_t limit = a->query->limit < MOST_GROUPS ? a->query->limit : MOST_GROUPS;
    bool beginnings = a->query->beginnings;
    bool done = (beginnings ? group_beginnings : group_paths)(&g, a, &p, limit) &&
                alike_open(&alike, p.hashes, (uint64_t)g.largest.count * PATH_STEPS) &&
                (beginnings || find_shared_steps(a, &p, &g, &alike)) && pack_groups(a, &g, &alike);
    alike_close(&alike);
    grouping_close(&g);
    paths_close(&p);
    return done ? NULL : answering_refusal(a);
}
