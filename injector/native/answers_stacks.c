/* answers to STACKS: the sampled blocks of the selection, by the stack that asked for them. */
#include "grouping.h"
#include "sample.h"

enum { MOST_ROWS = 10000 };

/* False when there is no memory. */
static bool add_blocks(struct answering *a, struct grouping *g) {
    struct sample_found found;
    progress_begin(a->progress, 0);
    for (uint32_t position = 0; sample_next(&position, &found) && progress_on(a->progress);) {
        uint32_t number = query_object_of_block(&a->heap->graph, &found);
        if (number == CSR_NONE || !is_selected(&a->selection, number))
            continue;
        struct group *group = grouping_of(g, found.stack, number);
        if (group == NULL)
            return false;
        group->count++;
        group->bytes += found.size;
    }
    return true;
}

static void pack_rows(struct answering *a, const struct grouping *g) {
    answers_begin(a, "blocks", 2);
    answers_field(a, "rows");
    pack_array(a->out, g->largest.count);
    for (uint32_t i = 0; i < g->largest.count; i++) {
        pack_array(a->out, 3);
        pack_uint(a->out, grouping_at(g, i)->key);
        pack_uint(a->out, grouping_at(g, i)->count);
        pack_uint(a->out, grouping_at(g, i)->bytes);
    }
    answers_field_complete(a, g->largest.count == g->groups.count);
}

const char *answers_stacks(struct answering *a) {
    struct grouping g;
    if (!sample_freeze(true))
        return query_not_sampled;
    uint32_t limit = a->query->limit < MOST_ROWS ? a->query->limit : MOST_ROWS;
    bool done = grouping_begin(&g, GROUPING_BY_BYTES) && add_blocks(a, &g) && grouping_sort(&g, limit, a->progress);
    sample_thaw(true);
    if (done)
        pack_rows(a, &g);
    grouping_close(&g);
    return done ? NULL : answers_refusal(a);
}
