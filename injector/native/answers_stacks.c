/* answers to STACKS: the sampled blocks of the selection, by the stack that asked for them. */
#include "grouping.h"
#include "sample.h"

enum { MOST_ROWS = 10000 };

/* False when there is no memory. */
static bool add_blocks(struct answering *a, struct grouping *g) {
    struct sample_found found;
    for (uint32_t position = 0; sample_next(&position, &found) && answers_go_on(a, position);) {
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
    uint64_t limit = a->query->limit < MOST_ROWS ? a->query->limit : MOST_ROWS;
    if (limit > g->groups.count)
        limit = g->groups.count;
    answers_begin(a, "blocks", 2);
    answers_field(a, "rows");
    pack_array(a->out, (uint32_t)limit);
    for (uint64_t i = 0; i < limit; i++) {
        pack_array(a->out, 3);
        pack_uint(a->out, g->order[i]->key);
        pack_uint(a->out, g->order[i]->count);
        pack_uint(a->out, g->order[i]->bytes);
    }
    answers_field_complete(a, limit == g->groups.count);
}

const char *answers_stacks(struct answering *a) {
    struct grouping g;
    if (!sample_freeze(true))
        return query_not_sampled;
    bool done = grouping_begin(&g) && add_blocks(a, &g) && grouping_sort(&g, true);
    sample_thaw(true);
    if (done)
        pack_rows(a, &g);
    grouping_close(&g);
    return done ? NULL : query_no_memory;
}
