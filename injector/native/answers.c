/* answers: groups, lists of objects, what would go. The drawing is in the header. */
#include "answers.h"

#include "grouping.h"
#include "sample.h"
#include "size.h"

#include <string.h>

enum { MOST_ROWS = 10000, MOST_LOST = 64 };

/* -- in common ------------------------------------------------------------------------------------------------ */

void answers_begin(struct answering *a, const char *kind, uint32_t fields) {
    pack_array(a->out, 2);
    pack_words(a->out, kind);
    pack_map(a->out, fields + 1);
    pack_words(a->out, "id");
    pack_uint(a->out, a->query->id);
}

void answers_field(struct answering *a, const char *name) { pack_words(a->out, name); }

void answers_field_uint(struct answering *a, const char *name, uint64_t value) {
    answers_field(a, name);
    pack_uint(a->out, value);
}

void answers_field_complete(struct answering *a, bool complete) {
    answers_field(a, "complete");
    pack_bool(a->out, complete && !a->stopped);
}

size_t answers_above_bytes(const struct answering *a) { return (a->heap->graph.rows.count + 1ul) * sizeof(uint32_t); }

uint32_t *answers_above(struct answering *a) {
    const struct retain *r = &a->heap->retain;
    uint32_t *above = pages_map(answers_above_bytes(a));
    *a->total = r->reached;
    for (uint32_t i = 0; above != NULL && i < r->reached && answers_go_on(a, i); i++) {
        uint32_t object = r->order[i], dominator = r->dominator[object];
        if (dominator == RETAIN_ROOT || dominator == CSR_NONE)
            above[object] = CSR_NONE;
        else
            above[object] = is_selected(&a->selection, dominator) ? dominator : above[dominator];
    }
    return above;
}

/* -- groups --------------------------------------------------------------------------------------------------- */

static uint64_t by_type_and_kind(void *context, struct answering *a, uint32_t number) {
    (void)context;
    return (uint64_t)types_of(a->types, a->heap, number) * HEAP_KINDS + answers_kind_of(a, number);
}

static void pack_groups(struct answering *a, const struct grouping *g) {
    uint64_t limit = a->query->limit < g->groups.count ? a->query->limit : g->groups.count;
    answers_begin(a, "groups", 2);
    answers_field(a, "rows");
    pack_array(a->out, (uint32_t)limit);
    for (uint64_t i = 0; i < limit; i++) {
        const struct group *group = g->order[i];
        pack_array(a->out, 5);
        pack_uint(a->out, group->key / HEAP_KINDS);
        pack_uint(a->out, group->key % HEAP_KINDS);
        pack_uint(a->out, group->count);
        pack_uint(a->out, group->bytes);
        pack_uint(a->out, group->retained);
    }
    answers_field_complete(a, g->whole && limit == g->groups.count);
}

const char *answers_groups(struct answering *a) {
    struct grouping g;
    bool done = grouping_open(&g, a, by_type_and_kind, NULL, false);
    if (done)
        pack_groups(a, &g);
    grouping_close(&g);
    return done ? NULL : query_no_memory;
}

/* -- objects -------------------------------------------------------------------------------------------------- */

/* The largest by what they retain, as a heap whose smallest is at the top. */
struct largest {
    uint32_t *numbers, count, room;
    const uint64_t *retained;
};

static bool is_smaller(const struct largest *l, uint32_t one, uint32_t other) {
    uint64_t a = l->retained[one], b = l->retained[other];
    return a != b ? a < b : one > other; /* the same every time */
}

static void sink(struct largest *l, uint32_t at, uint32_t count) {
    for (uint32_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && is_smaller(l, l->numbers[child + 1], l->numbers[child]))
            child++;
        if (!is_smaller(l, l->numbers[child], l->numbers[at]))
            return;
        uint32_t swapped = l->numbers[at];
        l->numbers[at] = l->numbers[child];
        l->numbers[child] = swapped;
    }
}

static void offer(struct largest *l, uint32_t number) {
    if (l->count < l->room) {
        l->numbers[l->count++] = number;
        if (l->count == l->room)
            for (uint32_t i = l->room / 2; i-- > 0;)
                sink(l, i, l->count);
    } else if (l->room > 0 && is_smaller(l, l->numbers[0], number)) {
        l->numbers[0] = number;
        sink(l, 0, l->count);
    }
}

/* Largest first. */
static void put_in_order(struct largest *l) {
    if (l->count < l->room)
        for (uint32_t i = l->count / 2; i-- > 0;)
            sink(l, i, l->count);
    for (uint32_t left = l->count; left > 1;) {
        uint32_t smallest = l->numbers[0];
        l->numbers[0] = l->numbers[--left];
        l->numbers[left] = smallest;
        sink(l, 0, left);
    }
}

/* Items of a container or a text; -1 where there are none. */
static int64_t length_of(struct answering *a, uint32_t number) {
    PyObject *o = graph_object(&a->heap->graph, number);
    const struct kind *kind = graph_kind(&a->heap->graph, number);
    switch (kind->size) {
    case SIZE_STR:
        return int64_at(o, layout.str_length);
    case SIZE_LIST:
        return size_field(o);
    case SIZE_DICT:
        return int64_at(o, 16); /* ma_used */
    case SIZE_SET:
        return int64_at(o, 24); /* used, behind fill */
    default:
        return Py_TYPE(o) == &PyTuple_Type || Py_TYPE(o) == &PyBytes_Type || Py_TYPE(o) == &PyByteArray_Type ? size_field(o)
                                                                                                              : -1;
    }
}

/* The node of the stack that allocated an object; 0 where it was not sampled. */
static uint32_t stack_of(struct answering *a, uint32_t number) {
    PyObject *o = graph_object(&a->heap->graph, number);
    struct sample_found found;
    if (!sample_freeze(true))
        return 0;
    bool is_sampled = sample_find((char *)o - size_before(Py_TYPE(o)), &found);
    sample_thaw(true);
    return is_sampled ? found.stack : 0;
}

void answers_pack_row(struct answering *a, uint32_t number) {
    pack_array(a->out, 8);
    pack_uint(a->out, (uint64_t)graph_object(&a->heap->graph, number));
    pack_uint(a->out, types_of(a->types, a->heap, number));
    pack_uint(a->out, answers_bytes_of(a, number));
    pack_uint(a->out, a->heap->retain.retained[number]);
    pack_int(a->out, heap_generation(a->heap, number));
    pack_uint(a->out, answers_kind_of(a, number));
    pack_int(a->out, length_of(a, number));
    pack_uint(a->out, stack_of(a, number));
}

const char *answers_objects(struct answering *a) {
    const struct query *q = a->query;
    uint32_t limit = q->limit < MOST_ROWS ? q->limit : MOST_ROWS;
    uint64_t room = (uint64_t)q->offset + limit;
    if (room > a->selection.count)
        room = a->selection.count;
    struct largest l = {pages_map((room + 1) * sizeof(uint32_t)), 0, (uint32_t)room, a->heap->retain.retained};
    if (l.numbers == NULL)
        return query_no_memory;
    *a->total = a->selection.objects;
    for (uint32_t number = 0; number < a->selection.objects && answers_go_on(a, number); number++)
        if (is_selected(&a->selection, number))
            offer(&l, number);
    put_in_order(&l);
    uint32_t begin = q->offset < l.count ? q->offset : l.count;
    answers_begin(a, "objects", 3);
    answers_field_uint(a, "total", a->selection.count);
    answers_field(a, "rows");
    pack_array(a->out, l.count - begin);
    for (uint32_t i = begin; i < l.count; i++)
        answers_pack_row(a, l.numbers[i]);
    answers_field_complete(a, true);
    pages_unmap(l.numbers, (room + 1) * sizeof(uint32_t));
    return NULL;
}

/* -- what would go -------------------------------------------------------------------------------------------- */

static const char *pack_lost_alone(struct answering *a, uint32_t number) {
    struct retain_lost lost;
    int status = retain_lose(&a->heap->retain, &number, 1, &lost);
    if (status == RETAIN_OK) {
        pack_array(a->out, 3);
        pack_uint(a->out, (uint64_t)graph_object(&a->heap->graph, number));
        pack_uint(a->out, lost.objects);
        pack_uint(a->out, lost.bytes);
    }
    retain_lost_close(&a->heap->retain, &lost);
    return status == RETAIN_OK ? NULL : query_no_memory;
}

const char *answers_lose(struct answering *a) {
    struct retain_lost lost;
    uint32_t *numbers = pages_map((a->selection.count + 1ul) * sizeof *numbers), count = 0;
    if (numbers == NULL)
        return query_no_memory;
    for (uint32_t number = 0; number < a->selection.objects; number++)
        if (is_selected(&a->selection, number))
            numbers[count++] = number;
    const char *refusal = retain_lose(&a->heap->retain, numbers, count, &lost) == RETAIN_OK ? NULL : query_no_memory;
    uint64_t objects = lost.objects, bytes = lost.bytes;
    retain_lost_close(&a->heap->retain, &lost);
    uint32_t shown = count < MOST_LOST ? count : MOST_LOST;
    if (refusal == NULL) {
        answers_begin(a, "losses", 4);
        answers_field_uint(a, "objects", objects);
        answers_field_uint(a, "bytes", bytes);
        answers_field(a, "alone");
        pack_array(a->out, shown);
        for (uint32_t i = 0; refusal == NULL && i < shown; i++)
            refusal = pack_lost_alone(a, numbers[i]);
        answers_field_complete(a, shown == count);
    }
    pages_unmap(numbers, (a->selection.count + 1ul) * sizeof *numbers);
    return refusal;
}
