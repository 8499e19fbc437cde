/* answers to PATHS: the selection by the paths along which it is kept. */
#include "query/alike.h"
#include "query/grouping.h"

enum { MOST_GROUPS = 2000 };

static uint64_t by_path(void *context, struct answering *a, uint32_t number) {
    return heap_is_frame(a->heap, number) ? 0 : paths_key(context, a, number);
}

static bool pack_group(struct answering *a, const struct group *group, const struct alike *alike) {
    pack_array(a->out, 7);
    pack_uint(a->out, group->key);
    pack_uint(a->out, answers_kind_of(a, group->example));
    pack_uint(a->out, group->count);
    pack_uint(a->out, group->bytes);
    pack_uint(a->out, group->retained);
    pack_uint(a->out, (uint64_t)graph_object(&a->heap->graph, group->example));
    return paths_pack(a, group->example, alike, group->count == 1);
}

/* Which steps of the groups to be told stand for several objects. Whether there was memory. */
static bool tell_apart(struct answering *a, const struct grouping *g, struct alike *alike) {
    for (uint32_t i = 0; i < g->largest.count; i++)
        if (!paths_note(a, grouping_at(g, i)->example, alike))
            return false;
    alike_find(alike, a);
    return !a->progress->stopped;
}

static bool pack_groups(struct answering *a, const struct grouping *g, const struct alike *alike) {
    uint32_t shown = g->largest.count;
    bool done = true;
    answers_begin(a, "paths", 6);
    answers_field_uint(a, "count", a->selection.count);
    answers_field_uint(a, "bytes", a->selection.bytes);
    answers_field_uint(a, "retained", g->retained);
    answers_field(a, "groups");
    pack_array(a->out, shown);
    for (uint32_t i = 0; i < shown && done; i++)
        done = pack_group(a, grouping_at(g, i), alike);
    answers_field_uint(a, "other_groups", g->groups.count - shown);
    answers_field_complete(a, true);
    return done;
}

const char *answers_paths(struct answering *a) {
    struct paths p;
    struct grouping g = {.slots = NULL};
    struct alike alike = {.slots = NULL};
    uint32_t limit = a->query->limit < MOST_GROUPS ? a->query->limit : MOST_GROUPS;
    bool done = paths_open(&p, a) && !a->progress->stopped && grouping_open(&g, a, by_path, &p, GROUPING_BY_RETAINED, limit) &&
                alike_open(&alike, &p, g.largest.count) && tell_apart(a, &g, &alike) && pack_groups(a, &g, &alike);
    alike_close(&alike);
    grouping_close(&g);
    paths_close(&p);
    return done ? NULL : answers_refusal(a);
}
