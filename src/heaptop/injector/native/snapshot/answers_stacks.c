/* answers to STACKS: the sampled blocks of the selection, by the stack that asked for them. */
#include "snapshot/answers.h"

#include "heap/edges.h"
#include "query/grouping.h"
#include "sampler/sample.h"

enum { MOST_ROWS = 10000 };

/* False when there is no memory; so do all that follow. */
static bool add_block(struct grouping *g, uint32_t number, const struct sample_found *found) {
    struct group *group = grouping_of(g, found->stack, number);
    if (group == NULL)
        return false;
    group->count++;
    group->bytes += found->size;
    return true;
}

static bool add_if_sampled(struct grouping *g, uint32_t number, const void *block) {
    struct sample_found found;
    return !sample_may_be(block) || !sample_find(block, &found) || add_block(g, number, &found);
}

static bool add_objects(struct answering *a, struct grouping *g) {
    struct sample_found found;
    progress_begin(a->progress, 0);
    for (uint32_t position = 0; sample_next(&position, &found) && progress_on(a->progress);) {
        uint32_t number = query_object_of_block(&a->heap->graph, &found);
        if (number != CSR_NONE && is_selected(&a->selection, number) && !add_block(g, number, &found))
            return false;
    }
    return true;
}

static bool add_buffers_of(struct answering *a, struct grouping *g, uint32_t number, const struct kind *kind) {
    struct size_block blocks[SIZE_BLOCKS];
    if (kind->edges == EDGES_ARRAY) {
        const struct numpy_array *array = (struct numpy_array *)graph_object(&a->heap->graph, number);
        return !(array->flags & ARRAY_OWNS_DATA) || add_if_sampled(g, number, array->data);
    }
    for (uint32_t i = size_has_more(kind) ? query_blocks(a->heap, number, blocks) : 1; i-- > 1;)
        if (!add_if_sampled(g, number, (const void *)blocks[i].at))
            return false;
    return true;
}

static bool add_buffers(struct answering *a, struct grouping *g) {
    progress_begin(a->progress, a->selection.objects);
    for (uint32_t number = 0; number < a->selection.objects && progress_on(a->progress); number++)
        if (is_selected(&a->selection, number) && !add_buffers_of(a, g, number, graph_kind(&a->heap->graph, number)))
            return false;
    return true;
}

static void pack_rows(struct answering *a, const struct grouping *g) {
    answering_begin(a, "blocks", 2);
    answering_field(a, "rows");
    pack_array(a->out, g->largest.count);
    for (uint32_t i = 0; i < g->largest.count; i++) {
        pack_array(a->out, 3);
        pack_uint(a->out, grouping_at(g, i)->key);
        pack_uint(a->out, grouping_at(g, i)->count);
        pack_uint(a->out, grouping_at(g, i)->bytes);
    }
    answering_field_complete(a, g->largest.count == g->groups.count);
}

const char *answers_stacks(struct answering *a) {
    struct grouping g;
    if (!sample_freeze(true))
        return query_not_sampled;
    uint32_t limit = a->query->limit < MOST_ROWS ? a->query->limit : MOST_ROWS;
    bool done = grouping_begin(&g, GROUPING_BY_BYTES) && add_objects(a, &g) && (!a->query->buffers || add_buffers(a, &g)) &&
                grouping_sort(&g, limit, a->progress);
    sample_thaw(true);
    if (done)
        pack_rows(a, &g);
    grouping_close(&g);
    return done ? NULL : answering_refusal(a);
}
