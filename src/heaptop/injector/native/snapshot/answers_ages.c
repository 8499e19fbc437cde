/* answers to AGES: the selection by type, and by how many of the marks told each object has seen. */
#include "snapshot/answers.h"

#include "query/grouping.h"

enum { MOST_ROWS = 50000, AGES = UINT8_MAX + 1 };

static uint64_t key_of(const struct answering *a, uint32_t number) {
    return (uint64_t)types_of(a->types, a->heap, number) * AGES + marks_seen_by(a->seen_marks, number);
}

/* False when there is no memory. */
static bool add_all(struct answering *a, struct grouping *g) {
    progress_begin(a->progress, a->selection.objects);
    const struct selection *s = &a->selection;
    struct group *group = NULL;
    for (uint32_t number = selection_next(s, 0); number < s->objects && progress_on(a->progress);
         number = selection_next(s, number + 1)) {
        uint64_t key = key_of(a, number);
        if (group == NULL || group->key != key)
            group = grouping_of(g, key, number);
        if (group == NULL)
            return false;
        group->count++;
        group->bytes += answering_bytes_of(a, number);
    }
    return true;
}

static void pack_rows(struct answering *a, const struct grouping *g) {
    answering_begin(a, "ages", 2);
    answering_field(a, "rows");
    pack_array(a->out, g->largest.count);
    for (uint32_t i = 0; i < g->largest.count; i++) {
        const struct group *group = grouping_at(g, i);
        pack_array(a->out, 4);
        pack_uint(a->out, group->key / AGES);
        pack_uint(a->out, group->key % AGES);
        pack_uint(a->out, group->count);
        pack_uint(a->out, group->bytes);
    }
    answering_field_complete(a, g->largest.count == g->groups.count);
}

const char *answers_ages(struct answering *a) {
    struct grouping g;
    uint32_t limit = a->query->limit < MOST_ROWS ? a->query->limit : MOST_ROWS;
    bool done = grouping_begin(&g, GROUPING_BY_BYTES) && add_all(a, &g) && grouping_sort(&g, limit, a->progress);
    if (done)
        pack_rows(a, &g);
    grouping_close(&g);
    return done ? NULL : answering_refusal(a);
}
