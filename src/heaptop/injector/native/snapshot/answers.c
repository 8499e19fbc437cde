/* answers: groups, lists of objects, what would go. The drawing is in the header. */
#include "snapshot/answers.h"

#include "heap/size.h"
#include "query/grouping.h"
#include "query/largest.h"
#include "sampler/sample.h"
#include "snapshot/fill.h"

#include <string.h>

enum { MOST_ROWS = 10000, MOST_LOST = 64 };

/* -- groups --------------------------------------------------------------------------------------------------- */

static uint64_t by_type_and_kind(void *context, struct answering *a, uint32_t number) {
    (void)context;
    return (uint64_t)types_of(a->types, a->heap, number) * HEAP_KINDS + answering_kind_of(a, number);
}

static void pack_groups(struct answering *a, const struct grouping *g) {
    answering_begin(a, "groups", 2);
    answering_field(a, "rows");
    pack_array(a->out, g->largest.count);
    for (uint32_t i = 0; i < g->largest.count; i++) {
        const struct group *group = grouping_at(g, i);
        pack_array(a->out, 5);
        pack_uint(a->out, group->key / HEAP_KINDS);
        pack_uint(a->out, group->key % HEAP_KINDS);
        pack_uint(a->out, group->count);
        pack_uint(a->out, group->bytes);
        pack_uint(a->out, group->retained);
    }
    answering_field_complete(a, g->largest.count == g->groups.count);
}

const char *answers_groups(struct answering *a) {
    struct grouping g;
    bool done = grouping_open(&g, a, by_type_and_kind, NULL, GROUPING_BY_RETAINED, a->query->limit);
    if (done)
        pack_groups(a, &g);
    grouping_close(&g);
    return done ? NULL : answering_refusal(a);
}

/* -- objects -------------------------------------------------------------------------------------------------- */

static bool retains_more(const void *context, uint32_t one, uint32_t other) {
    const uint64_t *retained = context;
    return retained[one] != retained[other] ? retained[one] > retained[other] : one < other; /* the same every time */
}

int64_t answers_length_of(struct answering *a, uint32_t number) {
    if (a->heap->stored != NULL) {
        uint32_t length = table_number(&a->heap->stored->lengths, number);
        return length == LENGTH_NONE ? FILL_UNKNOWN : (int64_t)length;
    }
    return fill_length(graph_object(&a->heap->graph, number), graph_kind(&a->heap->graph, number));
}

/* The value of a note; ``none`` where there is none. */
static int64_t noted(struct answering *a, uint32_t number, enum stored_what what, int64_t none) {
    const struct stored_note *note = stored_note(a->heap->stored, number, what, NULL);
    return note == NULL ? none : (int64_t)note->value;
}

/* The node of the stack that allocated an object; 0 where it was not sampled. */
static uint32_t stack_of(struct answering *a, uint32_t number) {
    if (a->heap->stored != NULL)
        return (uint32_t)noted(a, number, NOTE_SAMPLE, 0);
    PyObject *o = graph_object(&a->heap->graph, number);
    struct sample_found found;
    if (!sample_freeze(true))
        return 0;
    bool is_sampled = sample_find((char *)o - size_before(Py_TYPE(o)), &found);
    sample_thaw(true);
    return is_sampled ? found.stack : 0;
}

static int64_t bound_of(struct answering *a, uint32_t number) {
    if (a->heap->stored != NULL)
        return noted(a, number, NOTE_BOUND, FILL_UNKNOWN);
    return fill_bound(graph_object(&a->heap->graph, number), graph_kind(&a->heap->graph, number));
}

static int64_t changes_of(struct answering *a, uint32_t number) {
    if (a->heap->stored != NULL)
        return noted(a, number, NOTE_CHANGES, FILL_UNKNOWN);
    return fill_changes(graph_object(&a->heap->graph, number), graph_kind(&a->heap->graph, number));
}

void answers_pack_row(struct answering *a, uint32_t number) {
    pack_array(a->out, 10);
    pack_uint(a->out, (uint64_t)graph_object(&a->heap->graph, number));
    pack_uint(a->out, types_of(a->types, a->heap, number));
    pack_uint(a->out, answering_bytes_of(a, number));
    pack_uint(a->out, a->heap->retain.retained[number]);
    pack_int(a->out, heap_generation(a->heap, number));
    pack_uint(a->out, answering_kind_of(a, number));
    pack_int(a->out, answers_length_of(a, number));
    pack_uint(a->out, stack_of(a, number));
    pack_int(a->out, bound_of(a, number));
    pack_int(a->out, changes_of(a, number));
}

static void pack_objects(struct answering *a, const struct largest *l) {
    uint32_t begin = a->query->offset < l->count ? a->query->offset : l->count;
    answering_begin(a, "objects", 3);
    answering_field_uint(a, "total", a->selection.count);
    answering_field(a, "rows");
    pack_array(a->out, l->count - begin);
    for (uint32_t i = begin; i < l->count; i++)
        answers_pack_row(a, l->numbers[i]);
    answering_field_complete(a, true);
}

const char *answers_objects(struct answering *a) {
    const struct query *q = a->query;
    uint64_t room = (uint64_t)q->offset + (q->limit < MOST_ROWS ? q->limit : MOST_ROWS);
    if (room > a->selection.count)
        room = a->selection.count;
    struct largest l;
    bool done = largest_open(&l, (uint32_t)room, retains_more, a->heap->retain.retained);
    progress_begin(a->progress, a->selection.objects);
    for (uint32_t number = selection_next(&a->selection, 0); done && number < a->selection.objects && progress_on(a->progress);
         number = selection_next(&a->selection, number + 1))
        largest_offer(&l, number);
    done = done && largest_sort(&l, a->progress);
    if (done)
        pack_objects(a, &l);
    largest_close(&l);
    return done ? NULL : answering_refusal(a);
}

/* -- what would go -------------------------------------------------------------------------------------------- */

/* The objects selected, by number; how many. */
static uint32_t list_selected(struct answering *a, uint32_t *numbers) {
    uint32_t count = 0;
    const struct selection *s = &a->selection;
    for (uint32_t i = selection_next(s, 0); i < s->objects && progress_on(a->progress); i = selection_next(s, i + 1))
        numbers[count++] = i;
    return count;
}

/* By object, how many it dominates. NULL when there is no memory. */
static uint32_t *count_dominated(struct answering *a) {
    const struct retain *r = &a->heap->retain;
    uint32_t *counts = pages_map((r->rows->count + 1ul) * sizeof *counts);
    progress_begin(a->progress, r->reached);
    for (uint32_t i = r->reached; counts != NULL && i-- > 0 && progress_on(a->progress);) {
        uint32_t dominator = r->dominator[r->order[i]];
        if (dominator < r->rows->count)
            counts[dominator] += 1 + counts[r->order[i]];
    }
    return counts;
}

static void pack_lost(struct answering *a, const struct retain_lost *lost, const uint32_t *numbers, const uint32_t *dominated) {
    uint32_t shown = a->selection.count < MOST_LOST ? a->selection.count : MOST_LOST;
    answering_begin(a, "losses", 4);
    answering_field_uint(a, "objects", lost->objects);
    answering_field_uint(a, "bytes", lost->bytes);
    answering_field(a, "alone");
    pack_array(a->out, shown);
    for (uint32_t i = 0; i < shown; i++) {
        pack_array(a->out, 3);
        pack_uint(a->out, (uint64_t)graph_object(&a->heap->graph, numbers[i]));
        pack_uint(a->out, 1ull + dominated[numbers[i]]);
        pack_uint(a->out, a->heap->retain.retained[numbers[i]]);
    }
    answering_field_complete(a, shown == a->selection.count);
}

const char *answers_lose(struct answering *a) {
    struct retain *r = &a->heap->retain;
    struct retain_lost lost = {.gone = NULL};
    size_t room = (a->selection.count + 1ul) * sizeof(uint32_t);
    uint32_t *numbers = pages_map(room), *dominated = count_dominated(a);
    r->progress = a->progress;
    bool done = numbers != NULL && dominated != NULL &&
                retain_lose(r, numbers, list_selected(a, numbers), &lost) == RETAIN_OK && !a->progress->stopped;
    if (done)
        pack_lost(a, &lost, numbers, dominated);
    retain_lost_close(r, &lost);
    pages_unmap(numbers, room);
    pages_unmap(dominated, (r->rows->count + 1ul) * sizeof *dominated);
    return done ? NULL : answering_refusal(a);
}
